/* A report that a device cannot be reached does not say whether the device or the link failed, so
 * the device is challenged at once. If it does not answer, and its connection was refused or
 * broken, the device has failed. If it answers, the link has failed, unless the report is
 * withdrawn. If a report says only that the device is silent, its lease decides. */
#include "coordinator/core/failures/suspicion.h"

#include <string.h>

#include "base/assert.h"
#include "coordinator/core/copies/sources.h"
#include "coordinator/core/failures/avoidance.h"
#include "coordinator/core/failures/challenge.h"
#include "coordinator/core/failures/failure.h"
#include "coordinator/core/failures/lease.h"
#include "coordinator/core/failures/links.h"
#include "coordinator/core/placement/candidates.h"
#include "coordinator/core/placement/matching.h"
#include "coordinator/core/state/act.h"
#include "coordinator/core/state/device.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/state/states.h"

/* ---- challenges ---- */

static void unanswered(struct core *core, struct device_slot *device)
{
    device->challenge.due_ms = NEVER;
    device->challenge.silent = true;
    if (challenge_broken_since_ms(core, device) != NEVER) {
        lease_disconnected(core, device);
    }
}

/* ---- links ---- */

/* Whether the two work in one running or preparing plan, or one takes units from the other. */
static bool concerns(const struct device_slot *device, const struct device_slot *suspect)
{
    const struct job_slot *job = device->job;
    if (!job || !states_plan_active(job)) {
        return false;
    }
    if (suspect->job == job) {
        return true;
    }
    for (size_t u = 0; states_phase(job) == PHASE_PREPARE && u < job->unit_count; u++) {
        if (sources_is(job, (int64_t)u, suspect)) {
            return true;
        }
    }
    return false;
}

/* Whether the job has enough devices without this one and the excluded ones, so that one end of the
 * pair can be left out. */
static bool can_do_without(const struct core *core, const struct job_slot *job,
                           const struct device_slot *device)
{
    const struct placement_request request = {
        .spec = &job->job.spec,
        .model = job->model,
        .job = job,
        .candidates = CANDIDATES_FREE,
        .avoid = AVOID_ALL,
        .without = {.device = &device->device.id, .count = 1}};
    const struct candidates_sum there = candidates_there(core, &request);
    return candidates_suffice(&job->job.spec, &there);
}

/* Charge one end of the pair: the device of the later stage or, if the suspect is a source outside
 * of the plan, the device of the plan. Exclude this device, unless the next plan equals the last
 * one. */
static void blame_link(struct core *core, struct device_slot *device, const struct trouble *trouble)
{
    struct device_slot *suspect = slots_device(core, trouble->device.text);
    struct job_slot *job = device->job;
    if (!suspect || !concerns(device, suspect)) {
        return;
    }
    links_note(core, job, device, suspect);
    bool later = suspect->job == job && suspect->stage > device->stage;
    struct device_slot *leaves = later ? suspect : device;
    /* If only moved units need the link, the plan that ran does not need it; the joining device is
     * excluded. */
    bool stays = links_can_stay(core, job), one = links_ran(job, device) != links_ran(job, suspect);
    if (stays && one) {
        leaves = links_ran(job, device) ? suspect : device;
    }
    if ((!stays || one) && can_do_without(core, job, leaves)) {
        avoidance_add(core, job, leaves, AVOID_LINK);
    }
    failure_note(core, job,
                 (struct blame){.cause = FAILURE_LINK,
                                .device = leaves,
                                .other = later ? device : suspect,
                                .since_ms = trouble->since_ms},
                 "devices '%.60s' and '%.60s' are alive but do not reach each other",
                 device->device.name, suspect->device.name);
}

/* The error with code "peer" was not settled in time. Decide by the reports of its device or,
 * without reports, by the error alone. */
void suspicion_settle(struct core *core, struct job_slot *job)
{
    struct device_slot *device = slots_stage_device(core, job, job->suspicion.stage);
    const struct trouble *trouble =
        device && device->challenge.trouble_count > 0 ? &device->challenge.trouble[0] : NULL;
    struct device_slot *suspect = trouble ? slots_device(core, trouble->device.text) : NULL;
    if (suspect && suspect->challenge.silent) {
        failure_note(
            core, job,
            (struct blame){
                .cause = FAILURE_DEVICE_LOST, .device = suspect, .since_ms = trouble->since_ms},
            "device '%.60s' does not answer; %.150s", suspect->device.name, job->suspicion.text);
    } else if (suspect) {
        blame_link(core, device, trouble);
    }
    const struct blame blame = {
        .cause = FAILURE_ERROR, .device = device, .code = "peer", .since_ms = core->now_ms};
    failure_note(core, job, blame, "%s", job->suspicion.text);
}

/* The suspected device has answered: the reporting devices have link_ms left to withdraw their
 * reports. A device that could not prepare because of the suspect does not withdraw. */
static void answered(struct core *core, struct device_slot *suspect)
{
    for (size_t i = 0; i < core->devices.count; i++) {
        struct device_slot *device = slots_device_at(core, i);
        struct trouble *trouble = challenge_trouble(device, &suspect->device.id);
        if (!trouble || !concerns(device, suspect)) {
            continue;
        }
        bool given_up = device->job->report[device->stage].failed_at_peer;
        trouble->due_ms = core->now_ms + (given_up ? 0 : device->job->job.deadlines.link_ms);
        if (given_up) {
            blame_link(core, device, trouble);
        }
        lease_time(core, device);
    }
}

/* ---- reports ---- */

static void take_answer(struct core *core, struct device_slot *device, const char *challenge)
{
    if (device->challenge.nonce[0] == '\0' || strcmp(device->challenge.nonce, challenge) != 0) {
        return;
    }
    device->challenge.nonce[0] = '\0';
    device->challenge.due_ms = NEVER;
    core->schedule = core->schedule || device->challenge.silent;
    device->challenge.silent = device->challenge.poll_broken = false;
    answered(core, device);
}

/* A report that is new, or more severe than before, causes a challenge of the reported device. */
static void take_reports(struct core *core, struct device_slot *device,
                         const struct heartbeat *heartbeat)
{
    struct trouble before[PEER_REPORTS_MAX];
    size_t before_count = device->challenge.trouble_count;
    ASSERT(before_count <= PEER_REPORTS_MAX);
    memcpy(before, device->challenge.trouble, sizeof(before));
    device->challenge.trouble_count = 0;
    bool current = device->job && id_equal(heartbeat->plan.text, device->job->plan.id.text);
    for (size_t i = 0; current && i < heartbeat->peer_report_count; i++) {
        const struct peer_report *report = &heartbeat->peer_report[i];
        struct device_slot *suspect = slots_device(core, report->device.text);
        if (!suspect || suspect == device || challenge_trouble(device, &report->device)) {
            continue;
        }
        int64_t for_ms = report->for_ms < core->now_ms ? report->for_ms : core->now_ms;
        struct trouble trouble = {.device = report->device,
                                  .kind = report->kind,
                                  .since_ms = core->now_ms - for_ms,
                                  .due_ms = NEVER};
        bool known = false;
        for (size_t k = 0; k < before_count; k++) {
            if (id_equal(before[k].device.text, report->device.text)) {
                known = before[k].kind != PEER_STALLED || report->kind == PEER_STALLED;
                trouble.since_ms = before[k].since_ms;
                trouble.due_ms = before[k].due_ms;
            }
        }
        device->challenge.trouble[device->challenge.trouble_count++] = trouble;
        if (!known) {
            challenge_send(core, suspect);
        }
    }
}

void suspicion_take(struct core *core, struct device_slot *device,
                    const struct heartbeat *heartbeat)
{
    take_answer(core, device, heartbeat->challenge);
    take_reports(core, device, heartbeat);
    device->challenge.busy_ms = heartbeat->busy_ms;
    lease_time(core, device);
}

void suspicion_on_poll_broken(struct core *core, const struct event *event)
{
    struct device_slot *device = slots_device(core, event->poll_broken.device.text);
    if (device && device_reachable(device) && core->now_ms >= core->thawed_ms) {
        device->challenge.poll_broken = true;
        challenge_send(core, device);
    }
    act_reply(core, 204, OBJECT_NOTHING, NULL);
}

/* ---- time ---- */

void suspicion_tick(struct core *core, struct device_slot *device)
{
    if (device->challenge.due_ms <= core->now_ms) {
        unanswered(core, device);
    }
    for (size_t i = 0; i < device->challenge.trouble_count; i++) {
        if (device->challenge.trouble[i].due_ms <= core->now_ms) {
            device->challenge.trouble[i].due_ms = NEVER;
            blame_link(core, device, &device->challenge.trouble[i]);
        }
    }
    lease_time(core, device);
}
