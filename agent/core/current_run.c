#include "agent/core/current_run.h"

#include <string.h>

#include "agent/core/call_timer.h"

void current_run_end(struct current_run *run, struct session_actions *actions)
{
    if (run->active) {
        run->active = false;
        run->has_error = false;
        run->serial++;
        (void)session_actions_add(actions, SESSION_DO_DISCARD);
    }
}

/* Move towards the assigned phase as far as the device is ready. */
static void follow(struct current_run *run, struct session_actions *actions)
{
    if (!run->active || run->has_error) {
        return;
    }
    if (run->phase == PHASE_READY && run->target >= PHASE_RUN) {
        run->phase = PHASE_RUN;
        (void)session_actions_add(actions, SESSION_DO_RUN);
    }
    if (run->phase == PHASE_RUN && run->target >= PHASE_STOPPING) {
        run->phase = PHASE_STOPPING;
        (void)session_actions_add(actions, SESSION_DO_STOP);
    }
    if (run->phase != PHASE_STOPPED || run->target != PHASE_FINISHED || run->uploading) {
        return;
    }
    if (run->target_version != run->stopped_version) {
        run->has_error = true;
        run->error = (struct device_error){
            .code = "internal",
            .message = "the assignment finishes another version than the one it stopped at"};
        return;
    }
    run->uploading = true;
    session_actions_add(actions, SESSION_DO_UPLOAD)->version = run->stopped_version;
}

static bool is_of_job(const struct current_run *run, const struct assignment_run *assigned)
{
    return id_equal(run->job.text, assigned->job.text);
}

bool current_run_outdates(const struct current_run *run, const struct assignment_run *assigned)
{
    return is_of_job(run, assigned) && assigned->generation < run->generation;
}

bool current_run_is(const struct current_run *run, const struct assignment_run *assigned)
{
    return run->active && is_of_job(run, assigned) && assigned->generation == run->generation &&
           id_equal(assigned->plan.text, run->plan.text);
}

int64_t current_run_beat_ms(const struct current_run *run, const struct assignment *assignment)
{
    const bool orders = assignment->has_run && current_run_is(run, &assignment->run) &&
                        run->mixes && run->target == assignment->run.phase &&
                        assignment->drop_count == 0;
    return orders ? MIX_WAIT_MS : 0;
}

void current_run_prepare(struct current_run *run, const struct assignment_run *assigned,
                         struct session_actions *actions)
{
    *run = (struct current_run){.active = true,
                                .serial = run->serial + 1,
                                .job = assigned->job,
                                .generation = assigned->generation,
                                .plan = assigned->plan,
                                .phase = PHASE_PREPARE,
                                .mixes = assigned->has_mix,
                                .autonomy_ms = assigned->job_spec.autonomy_seconds * 1000};
    session_actions_add(actions, SESSION_DO_PREPARE)->serial = run->serial;
}

void current_run_assign(struct current_run *run, const struct assignment_run *assigned,
                        struct session_actions *actions)
{
    run->target = assigned->phase;
    run->target_version = assigned->resume_version;
    follow(run, actions);
    if (run->assigned && run->mixes && assigned->has_mix) {
        (void)session_actions_add(actions, SESSION_DO_MIX);
    }
    run->assigned = true;
}

bool current_run_take_event(struct current_run *run, const struct session_event *event,
                            struct session_actions *actions)
{
    if (!run->active || event->serial != run->serial) {
        return false;
    }
    if (event->type == SESSION_PREPARED && run->phase == PHASE_PREPARE) {
        run->phase = PHASE_READY;
    } else if (event->type == SESSION_STOPPED &&
               (run->phase == PHASE_RUN || run->phase == PHASE_STOPPING)) {
        run->phase = PHASE_STOPPED;
        run->stopped_version = event->version;
    } else if (event->type == SESSION_UPLOADED && run->uploading) {
        run->phase = PHASE_FINISHED;
    } else if (event->type == SESSION_FAILED) {
        run->has_error = true;
        run->error = event->error;
    }
    follow(run, actions);
    return true;
}

void current_run_report(const struct current_run *run, int phase, struct current_run_report *out)
{
    *out = (struct current_run_report){
        .job = run->job, .highest_generation = run->generation, .phase = phase};
    if (run->active) {
        const bool stopped = phase == PHASE_STOPPED || phase == PHASE_FINISHED;
        out->generation = run->generation;
        out->plan = run->plan;
        out->stopped_version = stopped ? run->stopped_version : 0;
        out->has_error = run->has_error;
        out->error = run->error;
    }
}

/* ---- without the coordinator ---- */

int64_t current_run_hold_deadline_ms(const struct current_run *run, int64_t contact_ms,
                                     int64_t interval_ms)
{
    if (!run->active || run->phase != PHASE_RUN || run->held) {
        return NEVER;
    }
    const int64_t least_ms = 3 * interval_ms;
    return contact_ms + (run->autonomy_ms > least_ms ? run->autonomy_ms : least_ms);
}

void current_run_hold(struct current_run *run, bool held, struct session_actions *actions)
{
    if (run->active && run->held != held) {
        run->held = held;
        (void)session_actions_add(actions, held ? SESSION_DO_HOLD : SESSION_DO_RELEASE);
    }
}

/* ---- rounds ---- */

static void take_rounds(struct current_run *run, const struct heartbeat_reply *reply,
                        struct session_actions *actions)
{
    const struct round *stated[REPLICA_KINDS] = {
        [REPLICA_NEIGHBOR] = &reply->neighbor, [REPLICA_CENTER] = &reply->center};
    bool news = false;
    for (int kind = 0; kind < REPLICA_KINDS; kind++) {
        struct round *known = &run->round[kind];
        news =
            news || stated[kind]->version != known->version || stated[kind]->state != known->state;
        *known = *stated[kind];
    }
    if (news) {
        memcpy(session_actions_add(actions, SESSION_DO_ROUNDS)->round, run->round,
               sizeof(run->round));
    }
}

void current_run_take_reply(struct current_run *run, int64_t beat_serial,
                            const struct heartbeat_reply *reply, int64_t revision,
                            struct session_actions *actions)
{
    /* Records name their match and group, so it does not matter which run has reported them. But
     * the coordinator ignores records of a job that the device no longer has. */
    if (run->active && run->mixes && reply->revision == revision) {
        (void)session_actions_add(actions, SESSION_DO_MIXES_STORED);
    }
    /* The reply may be about an earlier run. */
    if (run->active && beat_serial == run->serial) {
        take_rounds(run, reply, actions);
    }
}
