#include <inttypes.h>
#include <string.h>

#include "coordinator/core/core_private.h"

static void take_address(struct core *core, struct device_slot *device, const char *address)
{
    if (address[0] == '\0' || strcmp(device->device.address, address) == 0) {
        return;
    }
    text_set(device->device.address, sizeof(device->device.address), "%s", address);
    device_changed(core, device);
    for (size_t i = 0; i < core->jobs.count; i++) {
        struct job_slot *job = job_slot_at(core, i);
        if (device->job == job || (job->peer_sources && job_phase(job) == PHASE_PREPARE)) {
            job_touch(core, job);
        }
    }
}

/* A device has seen a later generation than the rows know: they were restored from a backup. Generations go on above
 * it, and the present one, which the device refuses, is given up. */
static void take_highest(struct core *core, struct device_slot *device, struct job_slot *job, int64_t highest)
{
    if (highest <= job->job.generation || highest <= job->generation_floor || highest > GENERATION_MAX) {
        return;
    }
    job->generation_floor = highest;
    if (device->job == job) {
        generation_fail(core, job, FAILURE_RESTARTED, "device '%s' has seen generation %" PRId64, device->device.name,
                        highest);
    }
}

static void lower_cap(struct job_slot *job, const struct device_slot *device)
{
    int64_t bytes = job->plan.stage[device->stage].memory_bytes / 10 * 9;
    size_t i = 0;
    while (i < job->cap_count && strcmp(job->cap[i].device.text, device->device.id.text) != 0) {
        i++;
    }
    if (i == STAGES_MAX) {
        i = 0; /* the oldest */
    }
    job->cap[i] = (struct memory_cap){.device = device->device.id, .bytes = bytes};
    job->cap_count = i < job->cap_count ? job->cap_count : i + 1;
}

/* A neighbour that cannot be reached may be dead: its lease tells within lease_ms. If none runs out until then, the
 * error stands. */
static void suspect_peers(struct core *core, struct device_slot *device, struct job_slot *job,
                          const struct device_error *error)
{
    if (job->suspicion_ms == NEVER) {
        job->suspicion_ms = core->now_ms + core->config.lease_ms;
        job->suspicion_stage = device->stage;
        text_set(job->suspicion_text, sizeof(job->suspicion_text), "device '%.60s': %.150s", device->device.name,
                 error->message);
        job_mark(core, job);
    }
}

static void take_error(struct core *core, struct device_slot *device, struct job_slot *job,
                       const struct device_error *error)
{
    if (strcmp(error->code, "diverged") == 0) {
        job_end(core, job, JOB_FAILED, "diverged", error->message);
    } else if (strcmp(error->code, "peer") == 0) {
        suspect_peers(core, device, job, error);
    } else {
        if (strcmp(error->code, "memory") == 0) {
            lower_cap(job, device);
        }
        generation_fail(core, job, FAILURE_ERROR, "device '%.60s': %.40s: %.120s", device->device.name, error->code,
                        error->message);
    }
}

/* What a device of the plan reports about this generation. */
static void take_report(struct core *core, struct device_slot *device, struct job_slot *job,
                        const struct heartbeat *heartbeat)
{
    struct stage_report *report = &job->report[device->stage];
    profile_take(core, job, device, heartbeat);
    progress_take(core, job, device, heartbeat);
    if (heartbeat->has_error && device_needed(device)) {
        take_error(core, device, job, &heartbeat->error);
        return;
    }
    if (job->suspicion_ms != NEVER && job->suspicion_stage == device->stage) {
        job->suspicion_ms = NEVER;
        job_mark(core, job);
    }
    switch ((enum phase)heartbeat->phase) {
    case PHASE_IDLE:
    case PHASE_PREPARE: break;
    case PHASE_READY:
    case PHASE_RUN:
    case PHASE_STOPPING: report->ready = true; break;
    case PHASE_STOPPED:
    case PHASE_FINISHED:
        report->ready = report->stopped = true;
        report->stopped_version = heartbeat->stopped_version;
        break;
    }
    generation_advance(core, job);
}

void handle_heartbeat(struct core *core, const struct event *event)
{
    const struct heartbeat *heartbeat = event->heartbeat.heartbeat;
    struct device_slot *device = device_find(core, heartbeat->device.text);
    core->heartbeat_reply = (struct heartbeat_reply){.interval_ms = core->config.heartbeat_ms};
    if (!device) {
        core->heartbeat_reply.reenroll = true;
        act_reply(core, 200, OBJECT_HEARTBEAT_REPLY, &core->heartbeat_reply);
        return;
    }
    if (strcmp(device->device.boot, heartbeat->boot) != 0) {
        act_problem(core, PROBLEM_STALE_BOOT, "device '%s' has started anew; boot '%.31s' is over", device->device.name,
                    heartbeat->boot);
        return;
    }
    device_seen(core, device);
    device->device.resident_bytes = heartbeat->resident_bytes;
    take_address(core, device, heartbeat->address);
    if (heartbeat->all_holdings) {
        holdings_replace(core, device, heartbeat);
    }
    if (heartbeat->revision > device->assignment_revision && heartbeat->revision <= REVISION_MAX) {
        device->assignment_revision = heartbeat->revision; /* of an earlier life: go on above it */
        device_touch(core, device);
    }
    struct job_slot *job = heartbeat->job[0] == '\0' ? NULL : job_find(core, heartbeat->job);
    if (job) {
        take_highest(core, device, job, heartbeat->highest_generation);
    }
    if (job && device->job == job && heartbeat->generation == job->plan.generation) {
        take_report(core, device, job, heartbeat);
    }
    /* After a restart of ours the device goes on as if nothing had happened; enrolling again, it lists what it holds.
     */
    core->heartbeat_reply.reenroll = !device->holdings_known;
    core->beating = device;
    act_reply(core, 200, OBJECT_HEARTBEAT_REPLY, &core->heartbeat_reply);
}
