#include "tests/sim/check.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "tests/sim/check_gossip.h"
#include "tests/sim/check_held_out.h"
#include "tests/sim/check_rounds.h"
#include "tests/sim/coordinator.h"
#include "tests/sim/faults.h"
#include "tests/sim/trace.h"
#include "tests/sim/users.h"

#define RESTORE_EVERY 300 /* commits: a core is large */

int check_new(struct world *world, struct err *err)
{
    world->check = calloc(1, sizeof(*world->check));
    int rc = world->check ? check_gossip_new(&world->check->gossip, err)
                          : err_set(err, ERR_MEMORY, "check");
    rc = rc ? rc : check_held_out_new(&world->check->held_out, err);
    rc = rc ? rc : check_rounds_new(&world->check->rounds, err);
    if (rc == 0) {
        world->check->replicas = malloc(sizeof(*world->check->replicas));
        rc = world->check->replicas ? 0 : err_set(err, ERR_MEMORY, "check");
    }
    return rc;
}

void check_free(struct world *world)
{
    for (size_t i = 0; world->check && i < world->check->known_count; i++) {
        reference_free(&world->check->known[i].reference);
        course_free(&world->check->known[i].course);
        free(world->check->known[i].part);
    }
    if (world->check) {
        check_gossip_free(&world->check->gossip);
        check_held_out_free(&world->check->held_out);
        check_rounds_free(&world->check->rounds);
        free(world->check->replicas);
    }
    free(world->check);
    world->check = NULL;
}

void check_fail(struct world *world, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    TRACE(world, ACTOR_NONE, "VIOLATION: %s", text);
    if (world->check->failure[0] == '\0') {
        memcpy(world->check->failure, text, sizeof(text));
    }
}

/* ---- jobs by id ---- */

size_t check_known(const struct check *check, const char *id)
{
    size_t at = 0;
    while (at < check->known_count && !id_equal(check->known[at].id.text, id)) {
        at++;
    }
    return at;
}

const struct reference *check_reference(const struct world *world, const char *id)
{
    const size_t at = check_known(world->check, id);
    if (at == world->check->known_count) {
        return NULL;
    }
    return world->check->known[at].part ? world->check->known[at].reference
                                        : world->users->job[world->check->known[at].job].reference;
}

struct course *check_course(const struct world *world, const char *id)
{
    const size_t at = check_known(world->check, id);
    if (at == world->check->known_count) {
        return NULL;
    }
    return world->check->known[at].part ? world->check->known[at].course
                                        : world->users->job[world->check->known[at].job].course;
}

static void learn_plan(struct world *world, const struct plan *plan)
{
    struct course *course = check_course(world, plan->job.text);
    struct err err = {0};
    if (course && course_add(course, plan, &err) != 0) {
        check_fail(world, "%s", err.text);
    }
}

/* A part of a parent must come to what its own spec says. */
static void learn_part(struct world *world, const struct job *job)
{
    struct check *check = world->check;
    const size_t at = check->known_count++;
    struct err err = {0};
    ASSERT(at < CHECK_IDS_MAX);
    check->known[at].id = job->id;
    check->known[at].part = malloc(sizeof(*job));
    ASSERT(check->known[at].part);
    *check->known[at].part = *job;
    job = check->known[at].part;
    if (check_is_group(job)) {
        return; /* what it comes to is in a log */
    }
    if (users_reference(coordinator_model(world, &job->spec), &job->spec, &job->data,
                        &check->known[at].reference, &check->known[at].course, &err) != 0) {
        check_fail(world, "%s", err.text);
    }
}

static void learn(struct world *world, const struct job *job)
{
    struct check *check = world->check;
    if (check_known(check, job->id.text) < check->known_count) {
        return;
    }
    if (job->part != JOB_WHOLE) {
        learn_part(world, job);
        return;
    }
    ASSERT(check->known_count < CHECK_IDS_MAX);
    for (size_t i = 0; i < world->users->job_count; i++) {
        if (strcmp(world->users->job[i].spec.name, job->spec.name) == 0) {
            check->known[check->known_count].id = job->id;
            check->known[check->known_count++].job = i;
        }
    }
}

/* ---- states ---- */

void check_event(struct world *world, const struct action *action)
{
    check_group_started(world, action);
    static const char *const accusations[] = {"device_lost", "device_disconnected", "device_shared",
                                              "incident_opened", "generation_failed"};
    const char *harmless = world->faults->outages  ? "only the coordinator was away"
                           : world->faults->drifts ? "only speeds changed"
                                                   : NULL;
    for (size_t i = 0; harmless && i < sizeof(accusations) / sizeof(accusations[0]); i++) {
        if (strcmp(action->event, accusations[i]) == 0) {
            check_fail(world, "%s, and %s: %.200s", harmless, action->event, action->text);
        }
    }
}

/* ---- devices ---- */

void check_agent(struct world *world, const struct agent *agent)
{
    size_t computing = 0;
    for (const struct run *run = agent->run; run; run = run->previous) {
        const bool younger = run->previous != NULL;
        computing += run->computing || (run->state == RUN_TRAINS && !run->cancelled);
        if (younger && run->state != RUN_WAITS) {
            check_fail(world, "%s works on a generation before the one before it has ended",
                       agent->name);
        }
    }
    if (computing > 1) {
        check_fail(world, "%zu generations act on %s at once", computing, agent->name);
    }
}

/* ---- the center ---- */

void check_delete_blob(struct world *world, const char *sha256)
{
    const struct rows *rows = &world->coordinator->rows;
    for (size_t i = 0; i < rows->unit_count; i++) {
        const struct job *job = rows_job(rows, rows->unit[i].job.text);
        if (strcmp(rows->unit[i].sha256, sha256) == 0 && job && !job_state_ended(job->state)) {
            check_fail(world,
                       "the blob of unit %" PRId64 " of %s at %" PRId64
                       " is deleted while its row exists",
                       rows->unit[i].unit, job->spec.name, rows->unit[i].version);
        }
    }
    for (size_t i = 0; i < rows->checkpoint_count; i++) {
        if (strcmp(rows->checkpoint[i].sha256, sha256) == 0) {
            check_fail(world, "the blob of a checkpoint is deleted");
        }
    }
}

/* The promise of job.version: each unit of it has a row and a blob. */
static void check_version(struct world *world, const struct job *job)
{
    const struct coordinator *coordinator = world->coordinator;
    const struct rows *rows = &coordinator->rows;
    const size_t units = coordinator_model(world, &job->spec)->unit_count;
    size_t found = 0;
    for (size_t i = 0; i < rows->unit_count; i++) {
        const struct center_unit *unit = &rows->unit[i];
        if (unit->version != job->version || !id_equal(unit->job.text, job->id.text)) {
            continue;
        }
        found += blobs_have(&coordinator->blobs, unit->sha256);
        if (!check_is_right(world, job->id.text, unit->version, (size_t)unit->unit,
                            digest_of_text(unit->sha256))) {
            check_fail(world, "the center has a wrong state of unit %" PRId64 " of %s", unit->unit,
                       job->spec.name);
        }
    }
    if (job->version > 0 && found != units) {
        check_fail(world, "version %" PRId64 " of %s has %zu of %zu units in the center",
                   job->version, job->spec.name, found, units);
    }
}

/* Every export equals the result of training without failures at its step. */
static void check_checkpoints(struct world *world)
{
    const struct rows *rows = &world->coordinator->rows;
    for (size_t i = 0; i < rows->checkpoint_count; i++) {
        const struct checkpoint *checkpoint = &rows->checkpoint[i];
        const struct reference *reference = check_reference(world, checkpoint->job.text);
        char right[SHA256_SIZE];
        if (!reference) {
            continue; /* an upload */
        }
        digest_text(reference_model(reference, checkpoint->version), right);
        const struct course *course = check_course(world, checkpoint->job.text);
        if (course ? !course_has_model(course, checkpoint->version, checkpoint->sha256)
                   : strcmp(checkpoint->sha256, right) != 0) {
            check_fail(world,
                       "the model of %s at step %" PRId64 " is another than without failures",
                       trace_name(world, checkpoint->job.text), checkpoint->version);
        } else if (!blobs_have(&world->coordinator->blobs, checkpoint->sha256)) {
            check_fail(world, "the model of %s at step %" PRId64 " is not in the center",
                       trace_name(world, checkpoint->job.text), checkpoint->version);
        }
    }
}

/* A succeeded job has a model of its last step, and its weights if it keeps them. */
static void check_end(struct world *world, const struct job *job)
{
    const struct rows *rows = &world->coordinator->rows;
    const bool succeeded = job->state == JOB_SUCCEEDED;
    if (!check_reference(world, job->id.text)) {
        return; /* check_parents */
    }
    for (size_t i = 0; i < rows->checkpoint_count; i++) {
        const struct checkpoint *checkpoint = &rows->checkpoint[i];
        if (id_equal(checkpoint->id.text, job->checkpoint.text)) {
            if (checkpoint->version !=
                (succeeded ? check_last_step(world, job) : job->progress.step)) {
                check_fail(world, "%s has ended with the model of step %" PRId64, job->spec.name,
                           checkpoint->version);
            }
            return;
        }
    }
    if ((succeeded || job->checkpoint.text[0] != '\0') &&
        !check_deleted(world, job->checkpoint.text)) {
        check_fail(world, "%s has ended without a model", job->spec.name);
    }
}

static void check_job_change(struct world *world, const struct job *job)
{
    struct check *check = world->check;
    const size_t at = check_known(check, job->id.text);
    if (job->version < check->known[at].version || job->generation < check->known[at].generation) {
        check_fail(world,
                   "%s goes back from version %" PRId64 " and generation %" PRId64 " to %" PRId64
                   " and %" PRId64,
                   job->spec.name, check->known[at].version, check->known[at].generation,
                   job->version, job->generation);
    }
    check->known[at].version = job->version;
    check->known[at].generation = job->generation;
}

void check_commit(struct world *world, const struct transaction *transaction)
{
    for (size_t i = 0; i < transaction->count; i++) {
        const struct change *change = &transaction->item[i];
        if (change->kind == OBJECT_JOB && !change->forget) {
            learn(world, change->row);
            check_own_change(world, change->row);
            check_job_change(world, change->row);
        } else if (change->kind == OBJECT_PLAN && !change->forget) {
            learn_plan(world, change->row);
            check_plan(world, change->row);
        } else if (change->kind == OBJECT_CHECKPOINT && change->forget) {
            check_delete_checkpoint(world, transaction, change->id);
        }
    }
    check_mix_rows(world, transaction);
    check_curves(world, transaction);
}

void check_backup(struct world *world)
{
    struct check *check = world->check;
    const struct rows *rows = &world->coordinator->rows;
    check->backups++;
    check_mix_backup(world);
    for (size_t i = 0; i < check->known_count; i++) {
        const struct job *job = rows_job(rows, check->known[i].id.text);
        struct course *course = check_course(world, check->known[i].id.text);
        if (course) {
            course_forget(course, rows_plan(rows, check->known[i].id.text));
        }
        check->known[i].version = job ? job->version : 0;
        check->known[i].neighbor_version = job ? job->neighbor_version : 0;
        check->known[i].forgotten = true;
        check->known[i].state = job ? job->state : JOB_QUEUED;
        check->known[i].cool_until_ms = job ? job->cooldown_until_ms : 0;
        check->known[i].corrected = job && job->corrected;
        check->known[i].generation = job ? job->generation : 0;
        check->known[i].plan_generation = 0;
        check->known[i].applied_plan = (struct plan_id){{0}}; /* it may be at work still */
        check->known[i].failed = 0;
        check_kernels_put_back(world, i, job);
        check->known[i].put_back = (int)world->agent_count + 1;
    }
}

/* ---- what two devices hold ---- */

void check_heartbeat(struct world *world, const struct call *call)
{
    uint64_t *heard = &world->check->heard[call->from - ACTOR_DEVICE];
    *heard = call->losses > *heard ? call->losses : *heard;
}

static bool is_held(const struct world *world, const char *job, int64_t version, int64_t unit,
                    size_t except)
{
    for (size_t i = 0; i < world->agent_count; i++) {
        if (i != except && agent_snapshot(world->agent[i], job, version, unit)) {
            return true;
        }
    }
    return false;
}

bool check_is_whole(const struct world *world, const struct job *job, int64_t version,
                    size_t except)
{
    const int64_t units = (int64_t)coordinator_model(world, &job->spec)->unit_count;
    for (int64_t unit = 0; unit < units; unit++) {
        if (!is_held(world, job->id.text, version, unit, except)) {
            return false;
        }
    }
    return true;
}

bool check_lost_any(const struct world *world, const struct job *job)
{
    const size_t at = check_known(world->check, job->id.text);
    bool lost = false;
    for (size_t i = 0; i < world->agent_count; i++) {
        lost |= world->agent[i]->losses != world->check->known[at].losses[i];
    }
    return lost || world->check->known[at].forgotten;
}

/* A version that is committed survives the loss of any single device's memory. */
static void check_neighbor_version(struct world *world, const struct job *job)
{
    const size_t at = check_known(world->check, job->id.text);
    size_t lost = 0;
    if (world->check->known[at].neighbor_version != job->neighbor_version) {
        world->check->known[at].neighbor_version = job->neighbor_version;
        world->check->known[at].forgotten = false;
        for (size_t i = 0; i < world->agent_count; i++) {
            world->check->known[at].losses[i] = world->check->heard[i];
        }
    }
    for (size_t i = 0; i < world->agent_count; i++) {
        lost += world->agent[i]->losses != world->check->known[at].losses[i];
    }
    if (lost > 1 || world->check->known[at].forgotten || job->neighbor_version <= job->version) {
        return; /* more than was promised; or the center has something newer */
    }
    /* Or of a newer one that the job went on from since. */
    const struct plan *plan = rows_plan(&world->coordinator->rows, job->id.text);
    const bool newer = plan && plan->resume_version > job->neighbor_version &&
                       check_is_whole(world, job, plan->resume_version, SIZE_MAX);
    if (!newer && !check_is_whole(world, job, job->neighbor_version, SIZE_MAX)) {
        check_fail(world,
                   "version %" PRId64 " of %s was committed, but no consistent cut of it is left",
                   job->neighbor_version, job->spec.name);
    }
}

/* A loss costs the steps since the version that is left. */
static void check_losses(struct world *world, const struct job *job)
{
    struct replicas *replicas = world->check->replicas;
    const bool live = core_replicas(world->coordinator->core, job->id.text, replicas);
    for (size_t i = 0; live && i < replicas->single_count; i++) {
        const struct replica_loss *loss = &replicas->single[i];
        if (replicas->step - loss->resume_version != loss->steps_lost || loss->steps_lost < 0) {
            check_fail(world,
                       "a loss of %s at step %" PRId64 " costs %" PRId64 " steps since %" PRId64,
                       job->spec.name, replicas->step, loss->steps_lost, loss->resume_version);
        }
    }
}

/* Another job is to take over the part that this one had. */
static bool is_replaced(const struct rows *rows, const struct job *job)
{
    const struct parent *parent = job->part == JOB_GROUP && job_state_ended(job->state)
                                      ? rows_parent(rows, job->parent.text)
                                      : NULL;
    return parent && parent->gossip.member_count > 0 && parent->phase != PARENT_ENDED &&
           parent->part[job->group].state == PART_WAITING;
}

/* A job has one open incident at most, and none once it has ended, but for one that is handed over
 * to the next job. */
static void check_incidents(struct world *world, const struct job *job)
{
    const struct rows *rows = &world->coordinator->rows;
    size_t open = 0;
    for (size_t i = 0; i < rows->incident_count; i++) {
        open += id_equal(rows->incident[i].job.text, job->id.text);
    }
    if (open > (job_state_ended(job->state) && !is_replaced(rows, job) ? 0 : 1)) {
        check_fail(world, "%s has %zu open incidents", job->spec.name, open);
    }
}

/* ---- all of it ---- */

void check_rows(struct world *world)
{
    const struct rows *rows = &world->coordinator->rows;
    check_alive(world);
    check_drained(world);
    check_parents(world);
    for (size_t i = 0; i < rows->job_count; i++) {
        const struct job *job = &rows->job[i];
        check_stop(world, job);
        if (job_state_ended(job->state)) {
            check_end(world, job);
        } else {
            check_version(world, job);
            check_neighbor_version(world, job);
            check_losses(world, job);
        }
        check_incidents(world, job);
    }
    check_checkpoints(world);
    if (++world->check->restored >= RESTORE_EVERY) {
        world->check->restored = 0;
        check_restore(world);
    }
}
