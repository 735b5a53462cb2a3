#include "coordinator/core/generation/heartbeats.h"

#include <inttypes.h>
#include <string.h>

#include "coordinator/core/capacity/measured.h"
#include "coordinator/core/capacity/relays.h"
#include "coordinator/core/copies/center.h"
#include "coordinator/core/copies/commits.h"
#include "coordinator/core/copies/holdings.h"
#include "coordinator/core/failures/failure.h"
#include "coordinator/core/failures/incidents.h"
#include "coordinator/core/failures/lease.h"
#include "coordinator/core/failures/stall.h"
#include "coordinator/core/failures/suspicion.h"
#include "coordinator/core/generation/drain.h"
#include "coordinator/core/generation/drift.h"
#include "coordinator/core/generation/early_stops.h"
#include "coordinator/core/generation/ending.h"
#include "coordinator/core/generation/generations.h"
#include "coordinator/core/generation/progress.h"
#include "coordinator/core/generation/tuning.h"
#include "coordinator/core/state/act.h"
#include "coordinator/core/state/mark.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/state/states.h"
#include "coordinator/core/state/text.h"

#define JITTER_WINDOW 16 /* heartbeats */

static void take_address(struct core *core, struct device_slot *device, const char *address)
{
    if (address[0] == '\0' || strcmp(device->device.address, address) == 0) {
        return;
    }
    text_set(device->device.address, sizeof(device->device.address), "%s", address);
    mark_device_changed(core, device);
    for (size_t i = 0; i < core->jobs.count; i++) {
        struct job_slot *job = slots_job_at(core, i);
        if (device->job == job || (job->sources.from_peers && states_phase(job) == PHASE_PREPARE)) {
            holdings_touch_job(core, job);
        }
    }
}

/* Whether the device reports about the present plan of the job. Compare the id of the plan: its
 * generation may recur after the rows were restored from a backup. */
static bool is_current(const struct device_slot *device, const struct job_slot *job,
                       const struct heartbeat *heartbeat)
{
    return device->job == job && heartbeat->generation == job->plan.generation &&
           id_equal(heartbeat->plan.text, job->plan.id.text);
}

/* If a device has seen a later generation than the rows have, or works for another plan of the same
 * generation, the rows were restored from a backup. The next generations get higher numbers. The
 * present one fails, because the device rejects it or confuses it with the other plan. */
static void take_highest(struct core *core, struct device_slot *device, struct job_slot *job,
                         const struct heartbeat *heartbeat)
{
    int64_t highest = heartbeat->highest_generation;
    bool other = device->job == job && heartbeat->generation >= job->plan.generation &&
                 !id_equal(heartbeat->plan.text, job->plan.id.text);
    highest = other && heartbeat->generation > highest ? heartbeat->generation : highest;
    if (highest > GENERATION_MAX || (highest <= job->job.generation && !other)) {
        return;
    }
    job->generation.floor = highest > job->generation.floor ? highest : job->generation.floor;
    if (device->job == job) {
        failure_note(
            core, job,
            (struct blame){.cause = FAILURE_RESTARTED, .device = device, .since_ms = core->now_ms},
            "device '%s' reports generation %" PRId64 ", which is not in the database",
            device->device.name, highest);
    }
}

static void lower_cap(struct job_slot *job, const struct device_slot *device)
{
    const struct plan_stage *stage = &job->plan.stage[device->stage];
    int64_t bytes = (stage->memory_bytes - stage->replica_bytes) / 10 * 9;
    size_t i = 0;
    while (i < job->charges.cap_count &&
           !id_equal(job->charges.cap[i].device.text, device->device.id.text)) {
        i++;
    }
    if (i == STAGES_MAX) {
        i = 0; /* the list is full: overwrite an entry */
    }
    job->charges.cap[i] = (struct memory_cap){.device = device->device.id, .bytes = bytes};
    job->charges.cap_count = i < job->charges.cap_count ? job->charges.cap_count : i + 1;
}

/* The device cannot reach another device. Its reports name that device, which is challenged
 * (suspicion.c). The generation fails when the cause is settled, or after link_ms. */
static void take_peer_error(struct core *core, struct device_slot *device, struct job_slot *job,
                            const struct device_error *error)
{
    job->report[device->stage].failed_at_peer = true;
    if (job->timer_ms[TIMER_SUSPICION] == NEVER) {
        job->timer_ms[TIMER_SUSPICION] = core->now_ms + job->job.deadlines.link_ms;
        job->suspicion.stage = device->stage;
        text_set(job->suspicion.text, sizeof(job->suspicion.text), "device '%.60s': %.150s",
                 device->device.name, error->message);
        mark_job(core, job);
    }
}

static void take_error(struct core *core, struct device_slot *device, struct job_slot *job,
                       const struct device_error *error)
{
    if (strcmp(error->code, "diverged") == 0) {
        ending_job(core, job, JOB_FAILED, "diverged", error->message);
    } else if (strcmp(error->code, "peer") == 0) {
        take_peer_error(core, device, job, error);
    } else {
        if (strcmp(error->code, "memory") == 0) {
            lower_cap(job, device);
        }
        const struct blame blame = {.cause = FAILURE_ERROR,
                                    .device = device,
                                    .code = error->code,
                                    .since_ms = core->now_ms};
        failure_note(core, job, blame, "device '%.60s': %.40s: %.120s", device->device.name,
                     error->code, error->message);
    }
}

/* The list of a stopped device names every unit of its stage at the version of the stop. If a unit
 * lacks, a delayed list has replaced a newer one, and the device must send its list again. */
static void check_holdings(struct core *core, struct job_slot *job, struct device_slot *device,
                           const struct heartbeat *heartbeat)
{
    const struct plan_stage *stage = &job->plan.stage[device->stage];
    int64_t version = heartbeat->stopped_version;
    bool lacks = false;
    for (int64_t u = stage->first; u < stage->end && !lacks; u++) {
        lacks = !holdings_find(core, device, job, version, u);
    }
    if (lacks && version > 0 && !heartbeat->all_holdings && heartbeat->phase == PHASE_STOPPED) {
        device->holdings.known = false;
    }
}

/* Take the report of a device of the plan about this generation. */
static void take_report(struct core *core, struct device_slot *device, struct job_slot *job,
                        const struct heartbeat *heartbeat)
{
    struct stage_report *report = &job->report[device->stage];
    report->fetch_seconds = heartbeat->fetch_seconds >= 0 ? heartbeat->fetch_seconds : 0;
    measured_take(core, job, device, heartbeat);
    early_stops_take(core, job, heartbeat);
    progress_take(core, job, device, heartbeat);
    stall_take(core, job, heartbeat->busy_ms);
    drift_take(core, job);
    if (heartbeat->has_error && center_needs_device(device)) {
        take_error(core, device, job, &heartbeat->error);
        return;
    }
    report->failed_at_peer = false;
    if (job->timer_ms[TIMER_SUSPICION] != NEVER && job->suspicion.stage == device->stage) {
        job->timer_ms[TIMER_SUSPICION] = NEVER;
        mark_job(core, job);
    }
    switch ((enum phase)heartbeat->phase) {
    case PHASE_IDLE:
    case PHASE_PREPARE: break;
    case PHASE_READY:
        report->ready = true;
        tuning_take(core, job, device, heartbeat);
        break;
    case PHASE_RUN:
    case PHASE_STOPPING: report->ready = true; break;
    case PHASE_STOPPED:
    case PHASE_FINISHED:
        report->ready = report->stopped = true;
        report->stopped_version = heartbeat->stopped_version;
        /* A lead whose agent has restarted since does not repeat it. */
        if (device->stage == 0 && heartbeat->unevaluated) {
            job->plan.unevaluated = true;
        }
        check_holdings(core, job, device, heartbeat);
        break;
    }
    generations_advance(core, job);
}

/* Early heartbeats were sent at once. Only late ones show how long an answer may take. */
static void take_jitter(const struct core *core, struct device_slot *device)
{
    int64_t late_ms = core->now_ms - device->lease.beat_ms - core->config.heartbeat_ms;
    late_ms = late_ms < 0 ? 0 : late_ms < core->config.lease_ms ? late_ms : core->config.lease_ms;
    device->challenge.jitter_ms += ((double)late_ms - device->challenge.jitter_ms) / JITTER_WINDOW;
    device->lease.beat_ms = core->now_ms;
}

/* Take the load of the machine, for users. A heartbeat without a measured step changes it only if
 * the device does not train. */
static void take_load(struct device *device, const struct heartbeat *heartbeat)
{
    const struct stage_seconds *stage = &heartbeat->stage_seconds;
    const double computed = stage->compute - stage->stopped;
    device->resident_bytes = heartbeat->resident_bytes;
    device->free_memory_bytes = heartbeat->free_memory_bytes;
    device->replica_bytes_sent = heartbeat->replica_bytes_sent;
    device->replica_bytes_written = heartbeat->replica_bytes_written;
    if (heartbeat->phase != PHASE_RUN) {
        device->busy_share = 0;
    } else if (stage->step > 0 && computed >= 0) {
        device->busy_share = computed < stage->step ? computed / stage->step : 1;
    }
}

void heartbeats_on_heartbeat(struct core *core, const struct event *event)
{
    const struct heartbeat *heartbeat = event->heartbeat.heartbeat;
    struct device_slot *device = slots_device(core, heartbeat->device.text);
    core->heartbeat_reply = (struct heartbeat_reply){.interval_ms = core->config.heartbeat_ms,
                                                     .start_id = core->revision_base};
    if (!device) {
        core->heartbeat_reply.reenroll = true; /* agents of every version read this reply */
        act_reply_agent(core, 200, OBJECT_HEARTBEAT_REPLY, &core->heartbeat_reply,
                        PROTOCOL_VERSION_MIN);
        return;
    }
    if (strcmp(device->device.boot, heartbeat->boot) != 0) {
        act_problem(core, PROBLEM_STALE_BOOT, "device '%s' restarted: boot '%.31s' is not valid",
                    device->device.name, heartbeat->boot);
        return;
    }
    take_jitter(core, device);
    lease_renew(core, device);
    take_load(&device->device, heartbeat);
    take_address(core, device, heartbeat->address);
    relays_take(core, device, heartbeat);
    measured_take_idle(core, device, heartbeat);
    if (heartbeat->all_holdings) {
        holdings_replace(core, device, heartbeat);
    }
    if (heartbeat->revision > device->assignment_revision && heartbeat->revision <= REVISION_MAX) {
        device->assignment_revision = heartbeat->revision; /* of an earlier life: continue above */
        mark_device_touched(core, device);
    }
    struct job_slot *job =
        heartbeat->job.text[0] == '\0' ? NULL : slots_job(core, heartbeat->job.text);
    if (job) {
        take_highest(core, device, job, heartbeat);
        incidents_heard(core, job, heartbeat);
    }
    progress_take_metrics(core, device, heartbeat);
    if (job && is_current(device, job, heartbeat)) {
        take_report(core, device, job, heartbeat);
    }
    suspicion_take(core, device, heartbeat);
    if (device->job && heartbeat->all_holdings) {
        commits_check(core, device->job);
    }
    commits_take(core, device, heartbeat);
    drift_take_probe(core, device, heartbeat);
    drain_take_leaving(core, device, heartbeat->leaving);
    drain_check(core, device);
    core->heartbeat_reply.drained = device->device.drained;
    /* After a restart of the coordinator the device continues its work; it enrols again and lists
     * its holdings. */
    core->heartbeat_reply.reenroll = !device->holdings.known;
    core->beating = device;
    act_reply_agent(core, 200, OBJECT_HEARTBEAT_REPLY, &core->heartbeat_reply,
                    device->device.protocol);
}
