#include "cli/groups.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/answer.h"
#include "cli/job_read.h"
#include "schema/groups_view.h"
#include "schema/limits.h"

#define LINE_MAX_BYTES 1024
#define CLASSES_MAX_BYTES 200 /* text of the classes of a group */

/* Describe the progress of a part, or how it ended. */
static int describe_part(struct api *api, const struct part_view *part, char *out, size_t size,
                         struct err *err)
{
    AUTO(job_release) struct job job = {0};
    struct progress_shares shares = {0};
    int rc = job_read(api, part->job.text, -1, 0, &job, err);
    if (rc == 0 && job_state_ended(job.state)) {
        progress_end(&job, out, size);
        return 0;
    }
    if (rc == 0 && job.generation > 0) {
        rc = job_read_shares(api, &job, &shares, err);
    }
    if (rc == 0) {
        progress_line(&job, &shares, 0, out, size);
    }
    return rc;
}

/* "group 1  classes 3-5  width 0.250  running  step 12/40  units kitchen 5/5" */
static int write_part(struct api *api, const char *name, const char *classes,
                      const struct part_view *part, FILE *out, struct err *err)
{
    char line[LINE_MAX_BYTES];
    int rc = 0;
    (void)snprintf(line, sizeof(line), "%s", part_state_names[part->state]);
    if (part->job.text[0] != '\0') {
        rc = describe_part(api, part, line, sizeof(line), err);
    }
    if (rc == 0) {
        fprintf(out, "%-8s%s  %s\n", name, classes, line);
    }
    return rc;
}

int groups_read(struct api *api, const char *job, struct groups_view *out, struct err *err)
{
    char path[64 + ID_SIZE];
    (void)snprintf(path, sizeof(path), "/v1/jobs/%s/groups", job);
    memset(out, 0, sizeof(*out));
    int rc = api_call(api, "GET", path, NULL, 0, 0, err);
    return rc ? rc : api_read(api, &groups_view_record, out, err);
}

static int write_group(struct api *api, const struct group_view *group, FILE *out, struct err *err)
{
    char name[32], classes[CLASSES_MAX_BYTES], item[CLASSES_MAX_BYTES + 40];
    progress_numbers(group->class_of, group->class_count, classes, sizeof(classes));
    (void)snprintf(name, sizeof(name), "group %" PRId64, group->group);
    (void)snprintf(item, sizeof(item), "  classes %s  width %.3f", classes, group->width);
    if (group->has_mixes) {
        progress_mixes(&group->mixes, item, sizeof(item));
    }
    return write_part(api, name, item, &group->part, out, err);
}

static void write_average(const struct average_view *average, FILE *out)
{
    fprintf(out, "%-8s  checkpoint %s  step %" PRId64, "average", average->checkpoint.text,
            average->step);
    if (average->has_accuracy) {
        fprintf(out, "  accuracy %.4f", average->accuracy);
    }
    fprintf(out, "\n");
}

static int write_groups(struct api *api, const struct groups_view *view, FILE *out, struct err *err)
{
    char missing[CLASSES_MAX_BYTES];
    const bool divides =
        view->phase != PARENT_MIXING && (view->group_count == 0 || !view->group[0].has_mixes);
    fprintf(out, "phase %s\n", parent_phase_names[view->phase]);
    int rc = divides ? write_part(api, "stem", "", &view->stem, out, err) : 0;
    for (size_t g = 0; rc == 0 && g < view->group_count; g++) {
        rc = write_group(api, &view->group[g], out, err);
    }
    if (rc == 0 && view->harvest.text[0] != '\0') {
        fprintf(out, "%-8s  checkpoint %s\n", "harvest", view->harvest.text);
    }
    rc = rc || !divides ? rc : write_part(api, "joint", "", &view->joint, out, err);
    for (size_t i = 0; rc == 0 && i < view->average_count; i++) {
        write_average(&view->average[i], out);
    }
    if (rc == 0 && view->missing_count > 0) {
        progress_numbers(view->missing, view->missing_count, missing, sizeof(missing));
        fprintf(out, "missing classes %s\n", missing);
    }
    return rc;
}

int groups_show(struct session *session, struct err *err)
{
    struct api *api = &session->api;
    if (session->format == FORMAT_JSON) {
        return answer_request(session, err);
    }
    struct groups_view *view = calloc(1, sizeof(*view)); /* too large for a stack */
    if (!view) {
        return err_set(err, ERR_MEMORY, "groups: out of memory");
    }
    int rc = session_request(session, err);
    rc = rc ? rc : api_read(api, &groups_view_record, view, err);
    rc = rc ? rc : write_groups(api, view, session->out, err);
    free(view);
    return rc;
}
