/* Rows as the core takes them at a start, and rows of an earlier time that are put back. */
#include "base/assert.h"
#include "base/pages.h"
#include "tests/sim/check.h"
#include "tests/sim/coordinator.h"
#include "tests/sim/trace.h"

void coordinator_restored(const struct world *world, const struct rows *rows,
                          struct restored_rows *out)
{
    out->plan_count = out->job_count = 0;
    for (size_t i = 0; i < rows->job_count; i++) {
        const struct job *job = &rows->job[i];
        if (job_state_ended(job->state)) {
            continue;
        }
        out->job[out->job_count++] =
            (struct restored_job){.job = *job, .model = coordinator_model(world, &job->spec)};
        const struct plan *plan = rows_plan(rows, job->id.text);
        if (plan) {
            out->plan[out->plan_count++] = *plan;
        }
    }
    out->event = (struct event){
        .type = EVENT_RESTORED,
        .restored = {.seed = world->coordinator->lives,
                     .device = rows->device,
                     .device_count = rows->device_count,
                     .job = out->job,
                     .job_count = out->job_count,
                     .parent = rows->parent,
                     .parent_count = rows->parent_count,
                     .plan = out->plan,
                     .plan_count = out->plan_count,
                     .dataset = rows->dataset,
                     .dataset_count = rows->dataset_count,
                     .checkpoint = rows->checkpoint,
                     .checkpoint_count = 1, /* the uploaded one; then those of jobs */
                     .incident = rows->incident,
                     .incident_count = rows->incident_count,
                     .center_unit = rows->unit,
                     .center_unit_count = rows->unit_count,
                     .capacities = {.device = rows->capacity,
                                    .device_count = rows->capacity_count,
                                    .unit = rows->unit_time,
                                    .unit_count = rows->unit_time_count,
                                    .link = rows->link_time,
                                    .link_count = rows->link_time_count}}};
}

/* ---- backups ---- */

void coordinator_backup(struct world *world)
{
    struct coordinator *coordinator = world->coordinator;
    if (!coordinator->backup) {
        coordinator->backup = pages_new(1, sizeof(*coordinator->backup));
        ASSERT(coordinator->backup);
    }
    coordinator->backup->rows = coordinator->rows;
    coordinator->backup->blobs = coordinator->blobs;
}

void coordinator_restore_backup(struct world *world)
{
    struct coordinator *coordinator = world->coordinator;
    ASSERT(!world->actor[ACTOR_COORDINATOR].up);
    if (coordinator->backup) {
        TRACE(world, ACTOR_COORDINATOR, "is given its backup");
        coordinator->rows = coordinator->backup->rows;
        coordinator->blobs = coordinator->backup->blobs;
        check_backup(world);
    }
}
