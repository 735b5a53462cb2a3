/* Failures of jobs as people see them: from the first suspicion to resumed training. */
#include "coordinator/core/failures/incidents.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "coordinator/core/state/act.h"
#include "coordinator/core/state/ids.h"
#include "coordinator/core/state/mark.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/state/states.h"
#include "coordinator/core/state/text.h"

/* Characters of an incident's message for the failure; the rest is for the text of its wait. */
#define WAITING_AFTER 130
#define WAITING "; waits for step " /* the beginning of that text */

static const int causes[] = {
    [FAILURE_NONE] = INCIDENT_ERROR,
    [FAILURE_DEVICE_LOST] = INCIDENT_DEVICE_LOST,
    [FAILURE_RESTARTED] = INCIDENT_DEVICE_RESTARTED,
    [FAILURE_ERROR] = INCIDENT_ERROR,
    [FAILURE_DEADLINE] = INCIDENT_DEADLINE,
    [FAILURE_LINK] = INCIDENT_LINK,
    [FAILURE_STALLED] = INCIDENT_STALLED,
};

const struct incident *core_job_incident(const struct core *core, const char *job_id)
{
    const struct job_slot *job = slots_job(core, job_id);
    return job && job->incidents.open ? &job->incidents.row : NULL;
}

static void changed(struct core *core, struct job_slot *job)
{
    job->mark.incident = true;
    mark_job(core, job);
}

/* Convert a time of the core's clock to a time of day. */
static int64_t wall_of(const struct core *core, int64_t ms)
{
    return core->wall_ms - (core->now_ms - ms);
}

static double seconds_between(int64_t from_ms, int64_t to_ms)
{
    return to_ms > from_ms ? (double)(to_ms - from_ms) / 1000 : 0;
}

static void add_devices(struct incident *incident, const struct failure *failure)
{
    for (size_t i = 0; i < failure->device_count; i++) {
        size_t at = 0;
        while (at < incident->device_count &&
               !id_equal(incident->device[at].id.text, failure->device[i].id.text)) {
            at++;
        }
        if (at == incident->device_count && at < INCIDENT_DEVICES_MAX) {
            incident->device[incident->device_count++] = failure->device[i];
        }
    }
}

static void open_incident(struct core *core, struct job_slot *job, const struct failure *failure)
{
    struct incident *incident = &job->incidents.row;
    int64_t since_ms = failure->since_ms < core->now_ms ? failure->since_ms : core->now_ms;
    memset(incident, 0, sizeof(*incident));
    job->incidents.message_end = 0;
    ids_new(core, incident->id.text, "inc_");
    incident->job = job->job.id;
    incident->of = job_part_of(&job->job);
    incident->state = INCIDENT_OPEN;
    incident->cause = causes[failure->cause];
    memcpy(incident->message, failure->text, MESSAGE_SIZE);
    incident->generation_before = job->plan.generation;
    job->incidents.times =
        (struct incident_times){.suspected_ms = since_ms, .detected_ms = core->now_ms};
    incident->suspected_ms = wall_of(core, since_ms);
    incident->detected_ms = core->wall_ms;
    incident->detect_seconds = seconds_between(since_ms, core->now_ms);
    job->incidents.open = true;
    act_publish_job(core, "incident_opened", &job->job, incident->id.text, "'%.60s': %.180s",
                    job->job.spec.name, failure->text);
}

void incidents_failed(struct core *core, struct job_slot *job, const struct failure *failure)
{
    if (!job->incidents.open) {
        open_incident(core, job, failure);
    }
    struct incident *incident = &job->incidents.row;
    incident->failures++;
    incident->step_reached = job->progress.reached_step > incident->step_reached
                                 ? job->progress.reached_step
                                 : incident->step_reached;
    add_devices(incident, failure);
    changed(core, job);
}

static void count_redone(struct incident *incident)
{
    incident->steps_redone = incident->step_reached > incident->resume_version
                                 ? incident->step_reached - incident->resume_version
                                 : 0;
}

void incidents_heard(struct core *core, struct job_slot *job, const struct heartbeat *heartbeat)
{
    struct incident *incident = &job->incidents.row;
    bool over = heartbeat->generation >= incident->generation_before &&
                (heartbeat->generation < job->plan.generation || !states_plan_active(job));
    if (!job->incidents.open || !over || heartbeat->step <= incident->step_reached ||
        heartbeat->step > job->total_steps) {
        return;
    }
    incident->step_reached = heartbeat->step;
    if (incident->decided_ms != 0) {
        count_redone(incident);
    }
    changed(core, job);
}

void incidents_decided(struct core *core, struct job_slot *job)
{
    struct incident *incident = &job->incidents.row;
    if (!job->incidents.open) {
        return;
    }
    job->incidents.times.decided_ms = core->now_ms;
    job->incidents.times.ready_ms = 0;
    incident->decided_ms = core->wall_ms;
    incident->decide_seconds = seconds_between(job->incidents.times.detected_ms, core->now_ms);
    incident->fetched_ms = incident->ready_ms = 0;
    incident->resume_version = job->plan.resume_version;
    count_redone(incident);
    incident->bytes_moved += job->sources.moving_bytes;
    changed(core, job);
}

void incidents_weighed(struct core *core, struct job_slot *job, const struct weighing *weighing,
                       bool waits)
{
    char before[MESSAGE_SIZE];
    char *message = job->incidents.row.message;
    if (!job->incidents.open || (waits && job->incidents.message_end > 0)) {
        return; /* the message already has this text */
    }
    memcpy(before, message, sizeof(before));
    if (job->incidents.message_end > 0) {
        before[job->incidents.message_end] = '\0';
    }
    if (waits) {
        job->incidents.message_end = strnlen(before, WAITING_AFTER);
        text_set(message, MESSAGE_SIZE,
                 "%.*s" WAITING "%" PRId64 ": retraining from step %" PRId64 " would take %.1f s",
                 WAITING_AFTER, before, weighing->newer, weighing->older,
                 (double)weighing->retrain_ms / 1000);
    } else {
        job->incidents.message_end = 0;
        text_set(message, MESSAGE_SIZE,
                 "%.110s; step %" PRId64 " could not be %s for %.1f s: resumes from step %" PRId64
                 ", %.1f s to retrain",
                 before, weighing->newer, weighing->by_link ? "fetched" : "loaded",
                 (double)weighing->waited_ms / 1000, weighing->older,
                 (double)weighing->retrain_ms / 1000);
    }
    changed(core, job);
}

/* Every stage is ready. The time of fetching is that of the slowest stage. */
void incidents_ready(struct core *core, struct job_slot *job)
{
    struct incident *incident = &job->incidents.row;
    double fetch = 0, all = seconds_between(job->incidents.times.decided_ms, core->now_ms);
    if (!job->incidents.open) {
        return;
    }
    for (size_t s = 0; s < job->plan.stage_count; s++) {
        fetch = fmax(fetch, job->report[s].fetch_seconds);
    }
    fetch = fmin(fetch, all);
    job->incidents.times.ready_ms = core->now_ms;
    incident->fetch_seconds = fetch;
    incident->rebuild_seconds = all - fetch;
    incident->fetched_ms = incident->decided_ms + (int64_t)(1000 * fetch);
    incident->ready_ms = core->wall_ms;
    changed(core, job);
}

/* Write the first failure of the incident. */
static void first_failure(const struct incident *incident, char *out, size_t size)
{
    const char *name = incident->device[0].name, *other = incident->device[1].name;
    switch ((enum incident_cause)incident->cause) {
    case INCIDENT_DEVICE_LOST: text_set(out, size, "device '%.60s' was lost", name); break;
    case INCIDENT_DEVICE_RESTARTED: text_set(out, size, "device '%.60s' restarted", name); break;
    case INCIDENT_LINK:
        text_set(out, size, "devices '%.60s' and '%.60s' did not reach each other", name, other);
        break;
    case INCIDENT_STALLED: text_set(out, size, "no step completed within the step deadline"); break;
    case INCIDENT_ERROR: text_set(out, size, "device '%.60s' reported an error", name); break;
    case INCIDENT_DEADLINE: text_set(out, size, "a phase timed out"); break;
    }
}

void incidents_cost(const struct job_slot *job, char *out, size_t size)
{
    const struct incident *incident = &job->incidents.row;
    char first[MESSAGE_SIZE], more[64] = "";
    out[0] = '\0';
    if (!job->incidents.open) {
        return;
    }
    first_failure(incident, first, sizeof(first));
    if (incident->failures > 1) {
        text_set(more, sizeof(more), ", then %" PRId64 " more failure%s", incident->failures - 1,
                 incident->failures == 2 ? "" : "s");
    }
    if (incident->steps_redone == 0) {
        text_set(out, size, "%s%s, 0 steps to retrain", first, more);
    } else {
        text_set(out, size, "%s%s, %" PRId64 " step%s to retrain from step %" PRId64, first, more,
                 incident->steps_redone, incident->steps_redone == 1 ? "" : "s",
                 incident->resume_version);
    }
}

static void close_incident(struct core *core, struct job_slot *job, int state)
{
    job->incidents.row.state = state;
    job->incidents.open = false;
    changed(core, job);
}

static void resolve(struct core *core, struct job_slot *job)
{
    struct incident *incident = &job->incidents.row;
    incident->resumed_ms = core->wall_ms;
    incident->resume_seconds = seconds_between(job->incidents.times.ready_ms, core->now_ms);
    incident->generation_after = job->plan.generation;
    close_incident(core, job, INCIDENT_RESOLVED);
    act_publish_job(core, "incident_resolved", &job->job, incident->id.text,
                    "'%.40s' resumed from step %" PRId64
                    " after %s: detect %.3f s, decide %.3f s, fetch %.3f s, "
                    "rebuild %.3f s, resume %.3f s, %" PRId64 " step%s redone",
                    job->job.spec.name, incident->resume_version,
                    incident_cause_names[incident->cause], incident->detect_seconds,
                    incident->decide_seconds, incident->fetch_seconds, incident->rebuild_seconds,
                    incident->resume_seconds, incident->steps_redone,
                    incident->steps_redone == 1 ? "" : "s");
}

void incidents_settle(struct core *core, struct job_slot *job)
{
    if (job->incidents.open && job->incidents.times.ready_ms != 0 &&
        job->progress.reached_step > job->plan.resume_version) {
        resolve(core, job);
    }
}

void incidents_end(struct core *core, struct job_slot *job)
{
    if (job->incidents.open && job->job.state == JOB_SUCCEEDED) {
        resolve(core, job); /* the job completed its last step before the failure */
    } else if (job->incidents.open) {
        close_incident(core, job, INCIDENT_ABANDONED);
        act_publish_job(core, "incident_abandoned", &job->job, job->incidents.row.id.text,
                        "'%.60s' does not resume: %.150s", job->job.spec.name, job->job.message);
    }
}

/* ---- a job that another one takes over ---- */

void incidents_hand_over(struct job_slot *job, struct incidents *kept)
{
    if (job->incidents.open) {
        *kept = job->incidents;
        job->incidents.open = job->mark.incident = false;
    }
}

/* The steps of the new job count from its own start. */
void incidents_take_over(struct core *core, struct job_slot *job, struct incidents *kept)
{
    if (kept->open) {
        job->incidents = *kept;
        job->incidents.row.job = job->job.id;
        job->incidents.row.step_reached = 0;
        kept->open = false;
        changed(core, job);
    }
}

void incidents_abandon(struct core *core, const struct job *parent, struct incidents *kept)
{
    if (kept->open) {
        kept->open = false;
        kept->row.state = INCIDENT_ABANDONED;
        kept->row.revision++;
        act_persist(core, OBJECT_INCIDENT, &kept->row);
        act_wake(core, OBJECT_INCIDENT, kept->row.id.text);
        act_publish_job(core, "incident_abandoned", parent, kept->row.id.text,
                        "group %" PRId64 " of '%.60s' does not begin again: the job has ended",
                        kept->row.of.group, parent->spec.name);
    }
}

/* ---- after a restart ---- */

/* The incidents of the job or, if another job will take over, of its parent. NULL: both have ended.
 */
static struct incidents *find_place(struct core *core, const struct incident *row)
{
    struct job_slot *job = slots_job(core, row->job.text);
    struct parent_slot *parent = slots_parent(core, row->of.parent.text);
    const bool mixes = parent && parent->job.spec.strategy == STRATEGY_GOSSIP &&
                       row->of.part == JOB_GROUP && row->of.group < GROUPS_MAX;
    return job ? &job->incidents : mixes ? &parent->mixes.group[row->of.group].incidents : NULL;
}

/* Only times of day survive a restart. They suffice to show the duration. */
void incidents_restore(struct core *core, const struct incident *row)
{
    struct incidents *place = find_place(core, row);
    ids_seen(core, row->id.text);
    if (!place || row->state != INCIDENT_OPEN) {
        return;
    }
    const int64_t wall[] = {row->suspected_ms, row->detected_ms, row->decided_ms, row->ready_ms};
    int64_t *const time[] = {&place->times.suspected_ms, &place->times.detected_ms,
                             &place->times.decided_ms, &place->times.ready_ms};
    for (size_t i = 0; i < sizeof(wall) / sizeof(wall[0]); i++) {
        int64_t age_ms = core->wall_ms > wall[i] ? core->wall_ms - wall[i] : 0;
        *time[i] = wall[i] == 0 ? 0 : age_ms < core->now_ms ? core->now_ms - age_ms : 1;
    }
    place->row = *row;
    place->open = true;
    const char *message = place->row.message, *waiting = strstr(message, WAITING);
    place->message_end = waiting ? (size_t)(waiting - message) : 0;
}
