#include "coordinator/content/tuned.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/content/catalog.h"
#include "coordinator/content/work.h"
#include "coordinator/coordinator.h"

struct tuned {
    struct work_job job; /* first */
    struct coordinator *coordinator;
    struct job_id id;
};

static int derive(struct coordinator *coordinator, const char *job_id, const char *kernels,
                  const struct catalog_entry **out, struct err *err)
{
    const struct job *job = core_job(coordinator->core, job_id);
    const struct catalog_entry *entry = NULL;
    int rc = catalog_find(coordinator->catalog, job->spec.model.sha256, &entry, err);
    return rc ? rc
              : catalog_derive(coordinator->catalog, entry,
                               &(struct catalog_change){.measured = kernels}, out, err);
}

static void answer(struct coordinator *coordinator, const struct job_id *id)
{
    const struct catalog_entry *entry = NULL;
    struct event event = {.type = EVENT_TUNED, .tuned = {.job = *id}};
    const char *kernels = core_job_kernels(coordinator->core, id->text, &event.tuned.generation);
    struct err err = {0};
    if (!kernels) {
        return;
    }
    if (derive(coordinator, id->text, kernels, &entry, &err)) {
        snprintf(event.tuned.message, sizeof(event.tuned.message), "%.*s", MESSAGE_SIZE - 1,
                 err.text);
        turn_event(coordinator->turn, &event, NULL, NULL);
        return;
    }
    struct turn_extra extra = {.description = entry->text.data,
                               .description_size = entry->text.size};
    memcpy(extra.description_sha256, entry->sha256, SHA256_SIZE);
    memcpy(event.tuned.sha256, entry->sha256, SHA256_SIZE);
    event.tuned.model = entry->model;
    turn_event(coordinator->turn, &event, NULL, &extra);
}

static void tuned_done(struct work_job *job)
{
    struct tuned *tuned = (struct tuned *)job;
    if (!tuned->coordinator->stopping) {
        answer(tuned->coordinator, &tuned->id);
    }
    free(tuned);
}

int tuned_start(struct coordinator *coordinator, const char *job_id, struct err *err)
{
    struct tuned *tuned = calloc(1, sizeof(*tuned));
    if (!tuned) {
        return err_set(err, ERR_MEMORY, "kernels of '%s': out of memory", job_id);
    }
    tuned->job.done = tuned_done;
    tuned->coordinator = coordinator;
    memcpy(tuned->id.text, job_id, sizeof(tuned->id.text));
    work_post(coordinator->work, &tuned->job);
    return 0;
}
