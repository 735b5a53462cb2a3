/* The copies of a job's units and the cost of each possible loss. The functions that decide after a
 * real loss compute the answers, so both always agree. */
#include "coordinator/core/generation/coverage.h"

#include <string.h>

#include "coordinator/core/copies/held.h"
#include "coordinator/core/copies/holdings.h"
#include "coordinator/core/failures/recovery.h"
#include "coordinator/core/gossip/gossip_forecast.h"
#include "coordinator/core/jobs/previews.h"
#include "coordinator/core/placement/asking.h"
#include "coordinator/core/placement/candidates.h"
#include "coordinator/core/placement/matching.h"
#include "coordinator/core/placement/strategy.h"
#include "coordinator/core/state/act.h"
#include "coordinator/core/state/device.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/state/states.h"
#include "coordinator/core/state/text.h"
#include "libtrain/memory/memory.h"
#include "schema/replicas.h"

/* ---- copies ---- */

/* Keep the newest copies. */
static void add_copy(struct replica_unit *unit, const struct device_slot *device,
                     const struct holding *holding)
{
    size_t at = unit->copy_count;
    while (at > 0 && unit->copy[at - 1].version < holding->version) {
        at--;
    }
    if (at == COPIES_MAX) {
        return;
    }
    size_t last = unit->copy_count < COPIES_MAX ? unit->copy_count : COPIES_MAX - 1;
    memmove(&unit->copy[at + 1], &unit->copy[at], (last - at) * sizeof(unit->copy[0]));
    unit->copy[at] = (struct replica_copy){.device = device->device.id,
                                           .version = holding->version,
                                           .generation = holding->generation};
    unit->copy_count = last + 1;
}

static void list_copies(const struct core *core, const struct job_slot *job, struct replicas *out)
{
    out->unit_count = job->unit_count;
    for (size_t u = 0; u < job->unit_count; u++) {
        out->unit[u].unit = (int64_t)u;
    }
    for (size_t d = 0; d < core->devices.count; d++) {
        const struct device_slot *device = slots_device_at(core, d);
        for (uint32_t i = device_reachable(device) ? device->holdings.first : 0; i != 0;
             i = core->holding[i].next) {
            const struct holding *holding = &core->holding[i].holding;
            if (holding->unit < (int64_t)job->unit_count &&
                holdings_usable(job, &core->holding[i])) {
                add_copy(&out->unit[holding->unit], device, holding);
            }
        }
    }
}

/* ---- losses ---- */

/* The least memory that the job needs, on any devices. */
static struct strategy_memory need_of(const struct core *core, const struct job_slot *job)
{
    const struct job_spec *spec = &job->job.spec;
    struct strategy_memory need;
    const struct memory_request request = {.first = 0,
                                           .end = job->unit_count,
                                           .micro_batch =
                                               (size_t)(spec->batch / spec->micro_batches),
                                           .in_flight = 1,
                                           .threads = 1,
                                           .recompute = spec->recompute,
                                           .backend = conv2d_backend_of(job->job.numeric_class),
                                           .scratch = core->planning->arena};
    job->strategy->least_memory(job, &request, &need);
    return need;
}

static bool can_continue(const struct core *core, const struct job_slot *job,
                         const struct absent *absent, const struct strategy_memory *need)
{
    const struct placement_request request = {.spec = &job->job.spec,
                                              .model = job->model,
                                              .job = job,
                                              .candidates = CANDIDATES_FREE,
                                              .without = *absent};
    const struct candidates_sum there = candidates_there(core, &request);
    return candidates_suffice(&job->job.spec, &there) && there.bytes >= need->all_bytes &&
           there.most_bytes >= need->one_bytes;
}

static struct replica_loss loss_of(const struct core *core, const struct job_slot *job,
                                   const struct strategy_memory *need, size_t held, size_t first,
                                   size_t second)
{
    struct replica_loss loss = {.device_count = 1};
    loss.device[0] = job->plan.stage[first].device;
    if (second != first) {
        loss.device[loss.device_count++] = job->plan.stage[second].device;
    }
    const struct absent absent = {.device = loss.device, .count = loss.device_count};
    loss.resume_version = recovery_survives(job, &absent)
                              ? job->job.progress.step
                              : recovery_without(core, job, held, &absent);
    loss.can_continue = can_continue(core, job, &absent, need);
    return loss;
}

/* Devices may hold a version newer than the current step, from before the restore of a backup of
 * the coordinator. The cost of a loss counts from that version. */
static void count_steps(const struct job_slot *job, struct replicas *out)
{
    out->step = job->job.progress.step;
    for (size_t i = 0; i < out->single_count; i++) {
        out->step =
            out->single[i].resume_version > out->step ? out->single[i].resume_version : out->step;
    }
    for (size_t i = 0; i < out->single_count; i++) {
        out->single[i].steps_lost = out->step - out->single[i].resume_version;
    }
    for (size_t i = 0; i < out->pair_count; i++) {
        out->pair[i].steps_lost = out->step - out->pair[i].resume_version;
    }
}

bool core_replicas(const struct core *core, const char *job_id, struct replicas *out)
{
    const struct job_slot *job = slots_job(core, job_id);
    if (!job) {
        return false;
    }
    const struct strategy_memory need = need_of(core, job);
    size_t stages = states_plan_active(job) ? job->plan.stage_count : 0;
    memset(out, 0, sizeof(*out));
    out->neighbor_version = job->job.neighbor_version;
    out->center_version = job->job.version;
    list_copies(core, job, out);
    size_t held =
        stages > 0 ? held_covered(core, job, recovery_list(core, job, &device_all_present)) : 0;
    for (size_t s = 0; s < stages; s++) {
        out->single[out->single_count++] = loss_of(core, job, &need, held, s, s);
        for (size_t t = s + 1; t < stages && out->pair_count < LOSSES_MAX; t++) {
            out->pair[out->pair_count++] = loss_of(core, job, &need, held, s, t);
        }
    }
    count_steps(job, out);
    return true;
}

/* ---- assumed losses ---- */

static bool knows_all(struct core *core, const struct plan_question *question)
{
    for (size_t i = 0; i < question->without_count; i++) {
        if (!slots_device(core, question->without[i].text)) {
            act_problem(core, PROBLEM_UNKNOWN_DEVICE, "/without/%zu: unknown device '%s'", i,
                        question->without[i].text);
            return false;
        }
    }
    return true;
}

static int64_t steps_lost(const struct job_slot *job, int64_t resume_version)
{
    int64_t step = job->job.progress.step;
    return step > resume_version ? step - resume_version : 0;
}

bool core_plan_question(struct core *core, const struct event_plan_question *asked,
                        const struct job_spec *spec, struct planning *planning)
{
    const struct plan_question *question = asked->question;
    const struct job_slot *job = slots_job(core, question->job.text);
    const struct absent absent = {.device = question->without, .count = question->without_count};
    if (!job && !question->has_spec) {
        return false;
    }
    if (what_if_assumes(question)) {
        asking_what_if(core, job, asked, spec, planning);
    } else {
        asking_next(core, job, NULL, &absent, planning);
    }
    return true;
}

/* Add the devices that the question lists and that cannot work for the job now. */
static void add_unavailable(const struct core *core, const struct event_plan_question *asked,
                            const struct job_slot *job, struct job_preview *preview)
{
    const struct plan_question *question = asked->question;
    const struct placement_request request = {
        .spec = job ? &job->job.spec : asked->spec,
        .model = job ? job->model : asked->model,
        .job = job,
        .candidates = CANDIDATES_ONLINE,
        .avoid = AVOID_NONE,
        .without = {.device = question->without, .count = question->without_count}};
    for (size_t i = 0; i < question->device_count; i++) {
        const struct device_slot *device = slots_device(core, question->device[i].id.text);
        if (device && !candidates_has(core, &request, device) &&
            preview->left_out_count < PREVIEW_LEFT_OUT_MAX) {
            struct preview_left_out *row = &preview->left_out[preview->left_out_count++];
            row->device = device->device.id;
            row->reason = PLAN_LEFT_OUT_UNAVAILABLE;
            text_set(row->name, sizeof(row->name), "%s", device->device.name);
        }
    }
}

static void fill_preview(const struct core *core, const struct event_plan_question *asked,
                         const struct job_slot *job, struct job_preview *preview)
{
    const struct event_planned *planned = asked->planned;
    preview->steps = job ? job->total_steps : asked->steps;
    if (planned->code != 0) {
        text_set(preview->waiting_for, sizeof(preview->waiting_for), "%.250s", planned->message);
        preview->starts = PREVIEW_WHEN_MORE;
        return;
    }
    if (!job && planned->planned->attempt_index > 0) {
        text_set(preview->waiting_for, sizeof(preview->waiting_for), "%.250s",
                 planned->planned->first_failure);
        preview->starts = PREVIEW_WHEN_FREE;
    }
    previews_fill(core, asked->question, planned->planned, job ? job->model : asked->model,
                  preview);
    add_unavailable(core, asked, job, preview);
}

void coverage_on_question(struct core *core, const struct event *event)
{
    const struct event_plan_question *asked = &event->plan_question;
    const struct plan_question *question = asked->question;
    const struct event_planned *planned = asked->planned;
    const struct job_slot *job = slots_job(core, question->job.text);
    struct plan_answer *answer = core->answer;
    struct cut cut;
    if (!job && !question->has_spec) {
        act_problem(core, PROBLEM_UNKNOWN_JOB, "job '%s' is unknown or has ended",
                    question->job.text);
        return;
    }
    if (!knows_all(core, question)) {
        return;
    }
    const struct absent absent = {.device = question->without, .count = question->without_count};
    if (planned->code != 0 && asked->combination_count == 0) {
        act_problem(core,
                    planned->code == ERR_MEMORY    ? PROBLEM_MODEL_TOO_LARGE
                    : planned->code == ERR_INVALID ? PROBLEM_INVALID_FIELDS
                                                   : PROBLEM_NOT_ENOUGH_DEVICES,
                    "%.250s", planned->message);
        return;
    }
    memset(answer, 0, sizeof(*answer));
    fill_preview(core, asked, job, &answer->preview);
    previews_add_forecast(&asked->forecast, &answer->preview);
    if (asked->spec && asked->spec->strategy == STRATEGY_GOSSIP) {
        const struct gossip_asked groups = {.spec = asked->spec,
                                            .model = asked->model,
                                            .data = asked->data,
                                            .classes = asked->classes,
                                            .question = question};
        gossip_forecast(core, &groups, &answer->preview);
    }
    if (job) {
        answer->resume_version = recovery_survives(job, &absent)
                                     ? job->job.progress.step
                                     : recovery_start(core, job, &absent, &cut);
        answer->steps_lost = steps_lost(job, answer->resume_version);
    }
    answer->combination_count = asked->combination_count;
    for (size_t i = 0; i < asked->combination_count; i++) {
        answer->combination[i] = asked->combination[i];
    }
    act_reply(core, 200, OBJECT_PLAN_ANSWER, answer);
}
