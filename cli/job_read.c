#include "cli/job_read.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "schema/device.h"

void job_release(struct job *job)
{
    record_done(&job_record, job);
}

/* Find the name of a device. Its id replaces a missing name, so that a line of progress cannot
 * fail. */
static void name_of(struct api *api, const char *id, char out[NAME_SIZE])
{
    char path[API_PATH_SIZE];
    struct device device = {0};
    struct err err = {0};
    (void)snprintf(path, sizeof(path), "/v1/devices/%s", id);
    bool known = api_call(api, "GET", path, NULL, 0, 0, &err) == 0 &&
                 api_read(api, &device_record, &device, &err) == 0;
    (void)snprintf(out, NAME_SIZE, "%s", known && device.name[0] != '\0' ? device.name : id);
}

int job_read_shares(struct api *api, const struct job *job, struct progress_shares *out,
                    struct err *err)
{
    char path[API_PATH_SIZE];
    struct plan plan = {0};
    (void)snprintf(path, sizeof(path), "/v1/jobs/%s/plans/%" PRId64, job->id.text, job->generation);
    int rc = api_call(api, "GET", path, NULL, 0, 0, err);
    if (!rc) {
        rc = api_read(api, &plan_record, &plan, err);
    }
    if (rc) {
        return rc;
    }
    *out = (struct progress_shares){.generation = job->generation, .count = plan.stage_count};
    for (size_t i = 0; i < plan.stage_count; i++) {
        const struct plan_stage *stage = &plan.stage[i];
        name_of(api, stage->device.text, out->device[i].name);
        out->device[i].units = stage->end - stage->first;
        out->device[i].first = stage->first;
        out->device[i].micro_batches = stage->share_end - stage->share_first;
        out->device[i].first_micro_batch = stage->share_first;
        out->device[i].busy = stage->predicted_busy;
    }
    return 0;
}

int job_read(struct api *api, const char *id, int64_t after, int wait_seconds, struct job *out,
             struct err *err)
{
    char path[API_PATH_SIZE];
    (void)snprintf(path, sizeof(path), "/v1/jobs/%s", id);
    if (after >= 0) {
        size_t used = strlen(path);
        (void)snprintf(path + used, sizeof(path) - used, "?after=%" PRId64 "&wait=%d", after,
                       wait_seconds);
    }
    int rc = api_call(api, "GET", path, NULL, 0, after >= 0 ? wait_seconds : 0, err);
    return rc ? rc : api_read(api, &job_record, out, err);
}
