/* Who is to blame when a device cannot be reached or a job stands still: whoever is accused is
 * asked at once. No answer and a refused or broken connection: the device is out of the plan. An
 * answer: the link is to blame, if the complaint stands. A complaint of mere silence leaves it to
 * the lease. */
#include <inttypes.h>
#include <string.h>

#include "base/assert.h"
#include "coordinator/core/core_private.h"

/* ---- challenges ---- */

void suspicion_challenge(struct core *core, struct device_slot *device)
{
    if (!device_reachable(device) || device->challenge_due_ms != NEVER) {
        return;
    }
    core_id(core, device->challenge, "chl_");
    device->challenge_due_ms = core->now_ms + challenge_ms(core, device);
    device_touch(core, device); /* its parked poll wakes */
}

void suspicion_clear(struct device_slot *device)
{
    device->trouble_count = 0;
    device->challenge[0] = '\0';
    device->challenge_due_ms = NEVER;
    device->silent = device->poll_broken = false;
}

static struct trouble *find_trouble(struct device_slot *device, const struct device_id *about)
{
    for (size_t i = 0; i < device->trouble_count; i++) {
        if (strcmp(device->trouble[i].device.text, about->text) == 0) {
            return &device->trouble[i];
        }
    }
    return NULL;
}

/* Since when, by those who say that nobody listens there or that the connection broke; NEVER:
 * nobody says so. */
static int64_t cut_off_since(const struct core *core, const struct device_slot *device)
{
    int64_t since_ms = device->poll_broken ? device->seen_ms : NEVER;
    for (size_t i = 0; i < core->devices.count; i++) {
        struct device_slot *other = device_slot_at(core, i);
        const struct trouble *trouble = find_trouble(other, &device->device.id);
        if (trouble && trouble->kind != PEER_STALLED && trouble->since_ms < since_ms) {
            since_ms = trouble->since_ms;
        }
    }
    return since_ms;
}

/* Its last sign of life: its last heartbeat, or what its peers saw later. */
int64_t device_alive_ms(const struct core *core, const struct device_slot *device)
{
    int64_t since_ms = cut_off_since(core, device);
    return since_ms != NEVER && since_ms > device->seen_ms ? since_ms : device->seen_ms;
}

static void unanswered(struct core *core, struct device_slot *device)
{
    device->challenge_due_ms = NEVER;
    device->silent = true;
    if (cut_off_since(core, device) != NEVER) {
        device_disconnected(core, device);
    }
}

/* ---- links ---- */

/* Whether the two work in one running or preparing plan, or one takes units from the other. */
static bool concerns(const struct device_slot *device, const struct device_slot *suspect)
{
    const struct job_slot *job = device->job;
    if (!job || !plan_active(job)) {
        return false;
    }
    if (suspect->job == job) {
        return true;
    }
    for (size_t u = 0; job_phase(job) == PHASE_PREPARE && u < job->unit_count; u++) {
        if (source_is(job, (int64_t)u, suspect)) {
            return true;
        }
    }
    return false;
}

/* Whether there are devices enough beside it and those that are avoided already: of a pair one end
 * is left out. */
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
    uint64_t bytes;
    return placement_there(core, &request, &bytes) >= (size_t)job->job.spec.devices_min;
}

/* The later stage of the two goes; of a device of the plan and a source outside of it, the device.
 * Who goes is avoided unless the next plan is the one that ran. */
static void blame_link(struct core *core, struct device_slot *device, const struct trouble *trouble)
{
    struct device_slot *suspect = device_find(core, trouble->device.text);
    struct job_slot *job = device->job;
    if (!suspect || !concerns(device, suspect)) {
        return;
    }
    link_note(core, job, device, suspect);
    bool later = suspect->job == job && suspect->stage > device->stage;
    struct device_slot *leaves = later ? suspect : device;
    /* If only moved units need the link, the plan that ran can do without; whoever was to join it
     * is left out. */
    bool stays = links_can_stay(core, job), one = links_ran(job, device) != links_ran(job, suspect);
    if (stays && one) {
        leaves = links_ran(job, device) ? suspect : device;
    }
    if ((!stays || one) && can_do_without(core, job, leaves)) {
        avoid(core, job, leaves, AVOID_LINK);
    }
    generation_fail(core, job,
                    (struct blame){.cause = FAILURE_LINK,
                                   .device = leaves,
                                   .other = later ? device : suspect,
                                   .since_ms = trouble->since_ms},
                    "devices '%.60s' and '%.60s' are alive and do not reach each other",
                    device->device.name, suspect->device.name);
}

/* An error of code peer was not settled before its time: by its reports, or by itself. */
void suspicion_settle(struct core *core, struct job_slot *job)
{
    struct device_slot *device = stage_device(core, job, job->suspicion_stage);
    const struct trouble *trouble =
        device && device->trouble_count > 0 ? &device->trouble[0] : NULL;
    struct device_slot *suspect = trouble ? device_find(core, trouble->device.text) : NULL;
    if (suspect && suspect->silent) {
        generation_fail(
            core, job,
            (struct blame){
                .cause = FAILURE_DEVICE_LOST, .device = suspect, .since_ms = trouble->since_ms},
            "device '%.60s' does not answer; %.150s", suspect->device.name, job->suspicion_text);
    } else if (suspect) {
        blame_link(core, device, trouble);
    }
    const struct blame blame = {
        .cause = FAILURE_ERROR, .device = device, .code = "peer", .since_ms = core->now_ms};
    generation_fail(core, job, blame, "%s", job->suspicion_text);
}

/* The accused speaks: those who complain have link_ms left to take it back. Who could not prepare
 * for it does not. */
static void answered(struct core *core, struct device_slot *suspect)
{
    for (size_t i = 0; i < core->devices.count; i++) {
        struct device_slot *device = device_slot_at(core, i);
        struct trouble *trouble = find_trouble(device, &suspect->device.id);
        if (!trouble || !concerns(device, suspect)) {
            continue;
        }
        bool given_up = device->job->report[device->stage].failed_at_peer;
        trouble->due_ms = core->now_ms + (given_up ? 0 : device->job->job.deadlines.link_ms);
        if (given_up) {
            blame_link(core, device, trouble);
        }
        device_time(core, device);
    }
}

/* ---- what comes in ---- */

static void take_answer(struct core *core, struct device_slot *device, const char *challenge)
{
    if (device->challenge[0] == '\0' || strcmp(device->challenge, challenge) != 0) {
        return;
    }
    device->challenge[0] = '\0';
    device->challenge_due_ms = NEVER;
    core->schedule = core->schedule || device->silent;
    device->silent = device->poll_broken = false;
    answered(core, device);
}

/* A complaint that is new, or harder than before, makes the accused speak. */
static void take_reports(struct core *core, struct device_slot *device,
                         const struct heartbeat *heartbeat)
{
    struct trouble before[PEER_REPORTS_MAX];
    size_t before_count = device->trouble_count;
    ASSERT(before_count <= PEER_REPORTS_MAX);
    memcpy(before, device->trouble, sizeof(before));
    device->trouble_count = 0;
    bool current = device->job && strcmp(heartbeat->plan, device->job->plan.id.text) == 0;
    for (size_t i = 0; current && i < heartbeat->peer_report_count; i++) {
        const struct peer_report *report = &heartbeat->peer_report[i];
        struct device_slot *suspect = device_find(core, report->device.text);
        if (!suspect || suspect == device || find_trouble(device, &report->device)) {
            continue;
        }
        int64_t for_ms = report->for_ms < core->now_ms ? report->for_ms : core->now_ms;
        struct trouble trouble = {.device = report->device,
                                  .kind = report->kind,
                                  .since_ms = core->now_ms - for_ms,
                                  .due_ms = NEVER};
        bool known = false;
        for (size_t k = 0; k < before_count; k++) {
            if (strcmp(before[k].device.text, report->device.text) == 0) {
                known = before[k].kind != PEER_STALLED || report->kind == PEER_STALLED;
                trouble.since_ms = before[k].since_ms;
                trouble.due_ms = before[k].due_ms;
            }
        }
        device->trouble[device->trouble_count++] = trouble;
        if (!known) {
            suspicion_challenge(core, suspect);
        }
    }
}

void suspicion_take(struct core *core, struct device_slot *device,
                    const struct heartbeat *heartbeat)
{
    take_answer(core, device, heartbeat->challenge);
    take_reports(core, device, heartbeat);
    device->busy_ms = heartbeat->busy_ms;
    device_time(core, device);
}

void handle_poll_broken(struct core *core, const struct event *event)
{
    struct device_slot *device = device_find(core, event->poll_broken.device.text);
    if (device && device_reachable(device) && core->now_ms >= core->thawed_ms) {
        device->poll_broken = true;
        suspicion_challenge(core, device);
    }
    act_reply(core, 204, OBJECT_NOTHING, NULL);
}

/* ---- time ---- */

int64_t suspicion_due_ms(const struct device_slot *device)
{
    int64_t due_ms = device->challenge_due_ms;
    for (size_t i = 0; i < device->trouble_count; i++) {
        due_ms = device->trouble[i].due_ms < due_ms ? device->trouble[i].due_ms : due_ms;
    }
    return due_ms;
}

/* Nobody could be heard meanwhile: a challenge begins anew, and complaints have a heartbeat left to
 * be taken back. */
void suspicion_late(const struct core *core, struct device_slot *device)
{
    if (device->challenge_due_ms != NEVER) {
        device->challenge_due_ms = core->now_ms + challenge_ms(core, device);
    }
    for (size_t i = 0; i < device->trouble_count; i++) {
        int64_t *due_ms = &device->trouble[i].due_ms,
                least_ms = core->now_ms + 2 * core->config.heartbeat_ms;
        *due_ms = *due_ms < least_ms ? least_ms : *due_ms;
    }
}

void suspicion_tick(struct core *core, struct device_slot *device)
{
    if (device->challenge_due_ms <= core->now_ms) {
        unanswered(core, device);
    }
    for (size_t i = 0; i < device->trouble_count; i++) {
        if (device->trouble[i].due_ms <= core->now_ms) {
            device->trouble[i].due_ms = NEVER;
            blame_link(core, device, &device->trouble[i]);
        }
    }
    device_time(core, device);
}

/* ---- steps ---- */

void stall_watch(struct core *core, struct job_slot *job)
{
    job->progress_ms = core->now_ms;
    job->step_due_ms = core->now_ms + step_timeout_ms(job);
    if (job->job.stalled) {
        job->job.stalled = false;
        job_changed(core, job);
    }
    job_mark(core, job);
}

/* Who holds work without progress: it has been at one task for longer than a step may take. */
static struct device_slot *busiest(const struct core *core, const struct job_slot *job)
{
    struct device_slot *worst = NULL;
    for (size_t s = 0; s < job->plan.stage_count; s++) {
        struct device_slot *device = stage_device(core, job, s);
        if (device && device->busy_ms > job->job.deadlines.step_ms &&
            (!worst || device->busy_ms > worst->busy_ms)) {
            worst = device;
        }
    }
    return worst;
}

static void stall_settle(struct core *core, struct job_slot *job)
{
    struct device_slot *worst = busiest(core, job);
    struct blame blame = {.cause = FAILURE_STALLED, .device = worst, .since_ms = job->progress_ms};
    job->step_due_ms = NEVER;
    if (worst) {
        avoid(core, job, worst, AVOID_SLOW);
        generation_fail(core, job, blame,
                        "no step since step %" PRId64 ": device '%.60s' is at one task for %.1f s",
                        job->reached_step, worst->device.name, (double)worst->busy_ms / 1000);
    } else {
        generation_fail(core, job, blame,
                        "no step since step %" PRId64 " for %.1f s, and no device works on one",
                        job->reached_step, (double)(core->now_ms - job->progress_ms) / 1000);
    }
}

void stall_tick(struct core *core, struct job_slot *job)
{
    if (job->step_due_ms > core->now_ms) {
        return;
    }
    job_mark(core, job);
    if (job_phase(job) != PHASE_RUN) {
        job->step_due_ms = NEVER;
    } else if (job->job.stalled) {
        stall_settle(core, job);
    } else {
        job->job.stalled = true;
        job->step_due_ms = core->now_ms + step_timeout_ms(job);
        job_changed(core, job);
        act_publish(core, "job_stalled", job->job.id.text,
                    "no step since step %" PRId64 " for %.1f s", job->reached_step,
                    (double)(core->now_ms - job->progress_ms) / 1000);
        for (size_t s = 0; s < job->plan.stage_count; s++) {
            struct device_slot *device = stage_device(core, job, s);
            if (device) {
                suspicion_challenge(core, device);
            }
        }
    }
}
