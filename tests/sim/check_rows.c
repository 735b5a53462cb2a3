/* The rows say what the core does, and restoring them gives its durable part. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "tests/sim/check.h"
#include "tests/sim/coordinator.h"

/* A job's reported progress is consistent: no version is newer than the step. */
static void check_reported_step(struct world *world, const struct job *job, const char *what)
{
    const int64_t newest =
        job->version > job->neighbor_version ? job->version : job->neighbor_version;
    if (newest > job->progress.step) {
        check_fail(world, "%s tells of version %" PRId64 " of %s at step %" PRId64, what, newest,
                   job->spec.name, job->progress.step);
    }
}

static bool plan_active(const struct plan *plan)
{
    return plan && (plan->state == PLAN_PREPARING || plan->state == PLAN_RUNNING ||
                    plan->state == PLAN_STOPPING);
}

/* A device works in one plan at most, and its row says in which. */
static void check_work(struct world *world, const struct core *core, const struct device *device)
{
    int works = 0;
    for (size_t j = 0; j < core_job_count(core); j++) {
        const struct job *job = core_job_at(core, j);
        const struct plan *plan = core_job_plan(core, job->id.text);
        for (size_t s = 0; plan_active(plan) && s < plan->stage_count; s++) {
            /* One whose units are all in the center may have left. */
            const bool left = plan->state == PLAN_STOPPING && plan->last_version > 0 &&
                              !id_equal(device->job.text, job->id.text);
            works += !left && id_equal(plan->stage[s].device.text, device->id.text);
        }
    }
    if (works != (device->job.text[0] != '\0')) {
        check_fail(world, "%s works in %d plans, its row says '%s'", device->name, works,
                   device->job.text);
    }
}

/* A link has the codec that the job wants or one that less is needed for, and no job that had one
 * is exact. */
static void check_codecs(struct world *world, const struct job *job, const struct plan *plan)
{
    for (size_t s = 0; plan && s < plan->stage_count; s++) {
        const enum codec codec = (enum codec)plan->stage[s].codec;
        const bool is_auto = job->spec.compression == COMPRESSION_AUTO;
        const bool wanted = is_auto
                                ? codec == CODEC_Q8 || codec == CODEC_Q4
                                : codec == (enum codec)job->spec.compression ||
                                      codec == codec_info((enum codec)job->spec.compression)->plain;
        if (codec != CODEC_NONE && (!wanted || job->exact || s + 1 == plan->stage_count)) {
            check_fail(world, "stage %zu of %s has the codec %s", s, job->spec.name,
                       codec_info(codec)->name);
        }
    }
}

static void compare_job(struct world *world, const struct core *core, const struct job *row)
{
    const struct job *live = core_job(core, row->id.text);
    if (job_state_ended(row->state)) {
        if (live) {
            check_fail(world, "%s has ended and lives", row->spec.name);
        }
        return;
    }
    if (!live || row->state != live->state || row->generation != live->generation ||
        row->version != live->version || row->exact != live->exact ||
        row->neighbor_version != live->neighbor_version ||
        row->cooldown_until_ms != live->cooldown_until_ms || row->has_trial != live->has_trial ||
        row->has_rejected != live->has_rejected || row->corrected != live->corrected ||
        row->line_count != live->line_count || strcmp(row->state_reason, live->state_reason) != 0) {
        check_fail(world,
                   "the row of %s differs from the live state: %s generation %" PRId64
                   " version %" PRId64,
                   row->spec.name, job_state_names[row->state], row->generation, row->version);
        return;
    }
    check_reported_step(world, row, "the row");
    check_reported_step(world, live, "the core");
    const struct plan *plan = core_job_plan(core, row->id.text);
    const struct plan *stored = rows_plan(&world->coordinator->rows, row->id.text);
    const bool same = plan ? stored && plan->generation == stored->generation &&
                                 plan->state == stored->state &&
                                 plan->resume_version == stored->resume_version &&
                                 plan->last_version == stored->last_version &&
                                 plan->stage_count == stored->stage_count
                           : !stored;
    if (!same) {
        check_fail(world, "the plan row of %s differs from the live state", row->spec.name);
    }
    check_codecs(world, row, stored);
}

/* ---- drained devices ---- */

static bool plan_has(const struct plan *plan, const struct device *device)
{
    bool has = false;
    for (size_t s = 0; plan_active(plan) && s < plan->stage_count; s++) {
        has |= id_equal(plan->stage[s].device.text, device->id.text);
    }
    return has;
}

/* The newest version that devices keep for the job is whole without it. */
static void check_copies(struct world *world, const struct device *device, size_t agent,
                         const struct job *job)
{
    const int64_t version = job->neighbor_version;
    if (version > job->version && !check_lost_any(world, job) &&
        check_is_whole(world, job, version, SIZE_MAX) &&
        !check_is_whole(world, job, version, agent)) {
        check_fail(world, "%s is drained and has the only copy of a unit of %s at %" PRId64,
                   device->name, job->spec.name, version);
    }
}

void check_drained(struct world *world)
{
    const struct rows *rows = &world->coordinator->rows;
    for (size_t i = 0; i < rows->device_count; i++) {
        const struct device *device = &rows->device[i];
        size_t agent = 0;
        while (strcmp(world->agent[agent]->name, device->name) != 0) {
            agent++;
        }
        const bool since = device->drained && !world->check->drained[agent];
        world->check->drained[agent] = device->drained;
        for (size_t j = 0; device->drained && j < rows->job_count; j++) {
            const struct job *job = &rows->job[j];
            if (plan_has(rows_plan(rows, job->id.text), device)) {
                check_fail(world, "%s is drained and works for %s", device->name, job->spec.name);
            }
            if (since && !job_state_ended(job->state)) {
                check_copies(world, device, agent, job);
            }
        }
    }
}

/* ---- all rows ---- */

void check_alive(struct world *world)
{
    const struct core *core = world->coordinator->core;
    const struct rows *rows = &world->coordinator->rows;
    if (rows->device_count != core_device_count(core)) {
        check_fail(world, "%zu device rows, %zu alive", rows->device_count,
                   core_device_count(core));
        return;
    }
    for (size_t i = 0; i < rows->device_count; i++) {
        const struct device *row = &rows->device[i], *live = core_device(core, row->id.text);
        if (!live || row->state != live->state || row->cordoned != live->cordoned ||
            row->draining != live->draining || row->leaving != live->leaving ||
            row->drained != live->drained || !id_equal(row->job.text, live->job.text) ||
            strcmp(row->boot, live->boot) != 0) {
            check_fail(world, "the row of %s differs from the live state", row->name);
            return;
        }
        check_work(world, core, live);
    }
    for (size_t i = 0; i < rows->job_count; i++) {
        compare_job(world, core, &rows->job[i]);
    }
}

/* Groups that wait for devices, or for a place among the jobs, may begin with the first step. */
static bool begins_groups(const struct rows *rows)
{
    for (size_t i = 0; i < rows->parent_count; i++) {
        const struct parent *parent = &rows->parent[i];
        bool begins = parent->gossip.member_count == 0;
        for (size_t g = 0; g < parent->gossip.member_count; g++) {
            begins = begins || parent->part[g].state == PART_WAITING;
        }
        if (begins && parent->phase == PARENT_MIXING) {
            return true;
        }
    }
    return false;
}

static bool has_other_data(const struct core *core, const struct local_train *local)
{
    const struct device *device = core_device(core, local->device.text);
    const struct offer *offer =
        device ? offer_find(device->offer, device->offer_count, local->name) : NULL;
    return local->name[0] != '\0' && offer && !offer_has(offer, local->sha256);
}

/* A group whose device has other data now, or that would begin again from version 0 with an older
 * average than the newest one: the first step ends its job, and the next one begins another. */
static bool is_replaced(const struct rows *rows, const struct core *core, const struct job *row)
{
    const struct parent *parent =
        row->part == JOB_GROUP ? core_parent(core, row->parent.text) : NULL;
    if (!parent || parent->phase != PARENT_MIXING || plan_active(rows_plan(rows, row->id.text))) {
        return false;
    }
    const struct gossip_state *state = &parent->gossip;
    const struct gossip_member *member = &state->member[row->group];
    const bool outdated = member->incarnation > 0 && state->average_count > 0 &&
                          !mix_xid_is(member->origin, state->average[state->average_count - 1].xid);
    return parent->part[row->group].state == PART_WAITING &&
           (outdated || has_other_data(core, &row->spec.train_local));
}

void check_restore(struct world *world)
{
    struct coordinator *coordinator = world->coordinator;
    const struct rows *rows = &coordinator->rows;
    struct core *core = NULL;
    struct err err = {0};
    const int rc = core_new(&coordinator->config, &core, &err);
    struct restored_rows *restored = malloc(sizeof(*restored));
    struct actions actions = {.item = calloc(ACTIONS_MAX, sizeof(actions.item[0]))};
    ASSERT(rc == 0 && restored && actions.item);
    coordinator_restored(world, rows, restored);
    restored->event.now_ms = world_now_ms(world, ACTOR_COORDINATOR);
    restored->event.wall_ms = world_wall_ms(world, ACTOR_COORDINATOR);
    core_step(core, &restored->event, &actions);
    size_t replaced = 0;
    for (size_t i = 0; i < restored->job_count; i++) {
        const struct job *row = &restored->job[i].job, *live = core_job(core, row->id.text);
        if (!live && is_replaced(rows, core, row)) {
            replaced++;
        } else if (!live || live->version != row->version || live->generation < row->generation ||
                   live->neighbor_version != row->neighbor_version ||
                   job_state_ended(live->state)) {
            check_fail(world, "restoring the rows does not give %s back", row->spec.name);
        }
    }
    if (core_device_count(core) != rows->device_count ||
        core_job_count(core) + replaced < restored->job_count ||
        (core_job_count(core) > restored->job_count && !begins_groups(rows))) {
        check_fail(world, "restoring the rows gives %zu devices and %zu jobs of %zu",
                   core_device_count(core), core_job_count(core), restored->job_count);
    }
    check_restored_parents(world, core);
    free(actions.item);
    free(restored);
    core_free(&core);
}
