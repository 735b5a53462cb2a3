#include "coordinator/core/jobs/forecast.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "coordinator/core/jobs/previews.h"
#include "coordinator/core/jobs/servers_forecast.h"
#include "coordinator/core/parts/part_spec.h"
#include "coordinator/core/placement/asking.h"
#include "coordinator/core/placement/matching.h"
#include "coordinator/core/placement/strategy.h"
#include "coordinator/core/state/planning.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/state/text.h"
#include "coordinator/core/submodel/savings.h"
#include "coordinator/core/submodel/submodel_parts.h"
#include "coordinator/core/submodel/submodel_plan.h"
#include "schema/job_check.h"

/* The searches in their order. The first is only for servers and workers; the searches after
 * SEARCH_SINGLE are only for sub-models. */
enum search { SEARCH_OWN, SEARCH_PIPELINE, SEARCH_SINGLE, SEARCH_JOINT, SEARCH_GROUPS, SEARCH_END };

/* A device that trains a group. */
struct taken {
    struct device_id device;
    double until_seconds; /* since the start of the phase of groups */
};

struct forecast {
    struct parent_slot parent; /* as if it were submitted */
    const struct plan_question *question;
    struct derived_model group[GROUPS_MAX], joint;
    enum search search;
    size_t order[GROUPS_MAX]; /* in which groups begin */
    size_t next;              /* in the order, for SEARCH_GROUPS */
    struct job_spec spec;
    struct job_data data; /* of the search */
    struct taken taken[GROUPS_MAX];
    size_t taken_count;
    double now_seconds; /* start of the next group, since the start of the phase of groups */
    struct submodel_work work;
    struct planned target;
    struct event_planned target_answer;
    struct submodel_preview preview;
    char joint_failure[MESSAGE_SIZE]; /* why the joint phase has no plan; "": it has one */
    bool waits;                       /* a device of a group trains another job */
    struct servers_preview servers;
};

static bool joins(const struct forecast *forecast)
{
    return forecast->parent.job.spec.submodel.joint_epochs > 0;
}

static bool has_servers(const struct forecast *forecast)
{
    return forecast->parent.job.spec.strategy == STRATEGY_PARAMETER_SERVER;
}

int forecast_new(struct core *core, const struct forecast_request *request, struct forecast **out,
                 struct err *err)
{
    AUTO(forecast_free) struct forecast *forecast = calloc(1, sizeof(*forecast));
    if (!forecast) {
        return err_set(err, ERR_MEMORY, "no memory for a forecast");
    }
    struct parent_slot *parent = &forecast->parent;
    parent->job.spec = *request->spec;
    parent->job.data = *request->data;
    parent->model = request->model;
    forecast->question = request->question;
    if (!has_servers(forecast)) {
        forecast->search = SEARCH_PIPELINE;
        submodel_take_classes(parent, request->classes);
        int rc = submodel_plan(core, parent, request->question, err);
        if (rc) {
            return rc;
        }
    }
    if (job_is_local(&parent->job.spec)) { /* else no device has all samples */
        forecast->search = joins(forecast) ? SEARCH_JOINT : SEARCH_GROUPS;
    }
    *out = forecast;
    forecast = NULL;
    return 0;
}

void forecast_free(struct forecast **forecast)
{
    free(*forecast);
    *forecast = NULL;
}

const struct class_groups *forecast_groups(const struct forecast *forecast)
{
    return &forecast->parent.parent.groups;
}

/* ---- groups ---- */

static void write_spec(struct forecast *forecast, size_t group)
{
    forecast->data = forecast->parent.job.data;
    submodel_group_job(&forecast->parent, group, &forecast->spec, &forecast->data);
}

static bool has_device(const struct forecast *forecast, size_t group)
{
    return forecast->parent.parent.groups.group[group].device.text[0] != '\0';
}

void forecast_take_models(struct forecast *forecast, const struct derived_model *group,
                          const struct derived_model *joint)
{
    const struct parent *row = &forecast->parent.parent;
    struct submodel_preview *preview = &forecast->preview;
    forecast->joint = *joint;
    preview->group_count = row->groups.count;
    preview->runs = true;
    submodel_begin_order(&forecast->parent, forecast->order);
    for (size_t g = 0; g < row->groups.count; g++) {
        const struct class_group *from = &row->groups.group[g];
        struct preview_group *to = &preview->group[g];
        forecast->group[g] = group[g];
        write_spec(forecast, g);
        to->group = (int64_t)g;
        to->width = from->width;
        to->class_count = (size_t)from->class_count;
        memcpy(to->class_of, &row->groups.class_of[from->class_first],
               to->class_count * sizeof(to->class_of[0]));
        to->samples = job_epoch_samples(&forecast->data);
        to->flops_per_sample = savings_flops(group[g].model, 0, group[g].model->unit_count);
    }
}

static bool is_taken(const struct forecast *forecast, const struct device_id *device)
{
    bool taken = false;
    for (size_t i = 0; i < forecast->taken_count; i++) {
        taken = taken || (forecast->taken[i].until_seconds > forecast->now_seconds &&
                          id_equal(forecast->taken[i].device.text, device->text));
    }
    return taken;
}

/* Let time pass until the next device is free. false: all devices are free. */
static bool wait_for_device(struct forecast *forecast)
{
    double free_seconds = INFINITY;
    for (size_t i = 0; i < forecast->taken_count; i++) {
        const double until = forecast->taken[i].until_seconds;
        free_seconds = until > forecast->now_seconds ? fmin(free_seconds, until) : free_seconds;
    }
    forecast->now_seconds = isfinite(free_seconds) ? free_seconds : forecast->now_seconds;
    return isfinite(free_seconds);
}

/* ---- questions ---- */

static int64_t steps_of(const struct job_spec *spec, const struct job_data *data)
{
    return job_total_steps(spec, job_epoch_samples(data));
}

static void ask(struct core *core, const struct forecast *forecast, const struct model *model,
                struct planning *planning)
{
    if (forecast->question) {
        const struct event_plan_question asked = {.question = forecast->question, .model = model};
        const struct job_slot *job = slots_job(core, forecast->question->job.text);
        asking_what_if(core, job, &asked, &forecast->spec, planning);
    } else {
        const struct placement_request request = {
            .spec = &forecast->spec, .model = model, .candidates = CANDIDATES_ONLINE};
        asking_request(core, &request, planning);
    }
}

/* Groups begin in their order as devices become free, as in the queue of the scheduler. */
static void ask_group(struct core *core, struct forecast *forecast, struct planning *planning)
{
    const size_t g = forecast->order[forecast->next];
    const struct derived_model *group = &forecast->group[g];
    write_spec(forecast, g);
    memcpy(forecast->spec.model.sha256, group->sha256, SHA256_SIZE);
    ask(core, forecast, group->model, planning);
    planning->attempt_count = 0;
    if (has_device(forecast, g)) {
        planning->wanted = (struct replan_request){
            .device = {forecast->parent.parent.groups.group[g].device}, .device_count = 1};
        planning_try(planning, STAGES_WANTED, AVOID_ALL, CANDIDATES_FREE);
    }
    planning_try(planning, STAGES_ANY, AVOID_ALL, CANDIDATES_FREE);
    const bool bound = job_is_local(&forecast->spec); /* only this device has the group's data */
    for (size_t d = 0; d < planning->device_count; d++) {
        forecast->waits = forecast->waits || (bound && planning->device[d].busy);
        planning->device[d].busy = is_taken(forecast, &planning->device[d].id);
    }
}

/* Write a job that trains the target as a pipeline for the epochs of the job. */
static void write_target(struct forecast *forecast)
{
    const struct parent_slot *parent = &forecast->parent;
    if (has_servers(forecast)) {
        part_spec_begin(parent, &forecast->spec);
    } else {
        submodel_stem_job(parent, &forecast->spec);
        forecast->spec.epochs = parent->job.spec.epochs;
    }
    forecast->data = parent->job.data;
}

/* The pipeline may use the same devices as the job's own plan. */
static void ask_target(struct core *core, struct forecast *forecast, struct planning *planning)
{
    const struct planning_attempt *own = &forecast->target.attempt;
    ask(core, forecast, forecast->parent.model, planning);
    if (has_servers(forecast) && forecast->target_answer.code == 0) {
        planning->attempt_count = 0;
        planning_try(planning, STAGES_ANY, own->avoid, own->candidates);
    }
}

static void ask_joint(struct core *core, struct forecast *forecast, struct planning *planning)
{
    forecast->data = forecast->parent.job.data;
    submodel_joint_job(&forecast->parent, &forecast->spec, &forecast->data);
    memcpy(forecast->spec.model.sha256, forecast->joint.sha256, SHA256_SIZE);
    ask(core, forecast, forecast->joint.model, planning);
}

void forecast_ask(struct core *core, struct forecast *forecast, struct planning *planning)
{
    switch (forecast->search) {
    case SEARCH_OWN:
        forecast->spec = forecast->parent.job.spec;
        ask(core, forecast, forecast->parent.model, planning);
        break;
    case SEARCH_PIPELINE:
        write_target(forecast);
        ask_target(core, forecast, planning);
        break;
    case SEARCH_SINGLE:
        write_target(forecast);
        forecast->spec.devices_min = forecast->spec.devices_max = 1;
        ask_target(core, forecast, planning);
        break;
    case SEARCH_JOINT: ask_joint(core, forecast, planning); break;
    case SEARCH_GROUPS: ask_group(core, forecast, planning); break;
    case SEARCH_END: break;
    }
}

/* ---- answers ---- */

/* Count the operations of `steps` steps of a plan. */
static void count_work(struct forecast *forecast, const struct planned *planned,
                       const struct model *model, int64_t steps)
{
    const double samples = (double)(steps * forecast->spec.batch);
    for (size_t s = 0; s < planned->stage_count; s++) {
        const struct plan_stage *stage = &planned->stage[s];
        savings_add(&forecast->work, &stage->device,
                    samples * savings_flops(model, (size_t)stage->first, (size_t)stage->end));
    }
}

static void keep_target(struct forecast *forecast, const struct event_planned *answer)
{
    forecast->target = *answer->planned;
    forecast->target_answer = *answer;
    forecast->target_answer.planned = &forecast->target;
}

static void take_pipeline(struct forecast *forecast, const struct event_planned *answer)
{
    struct submodel_preview *preview = &forecast->preview;
    const double step_seconds = answer->code ? 0 : answer->planned->expected_seconds;
    keep_target(forecast, answer);
    preview->pipeline_seconds = step_seconds * (double)steps_of(&forecast->spec, &forecast->data);
    forecast->spec.epochs = forecast->parent.job.spec.submodel.stem_epochs;
    const int64_t steps =
        forecast->spec.epochs > 0 ? steps_of(&forecast->spec, &forecast->data) : 0;
    preview->stem_seconds = step_seconds * (double)steps;
    preview->runs = preview->runs && (answer->code == 0 || steps == 0);
    if (answer->code == 0) {
        count_work(forecast, answer->planned, forecast->parent.model, steps);
    }
}

static void take_single(const struct core *core, struct forecast *forecast,
                        const struct event_planned *answer)
{
    struct submodel_preview *preview = &forecast->preview;
    if (answer->code == 0) {
        preview->single_seconds =
            answer->planned->expected_seconds * (double)steps_of(&forecast->spec, &forecast->data);
        previews_name_device(core, forecast->question, &answer->planned->stage[0].device,
                             &preview->single_device, preview->single_name);
    }
}

static void take_joint(struct forecast *forecast, const struct event_planned *answer)
{
    const int64_t steps = steps_of(&forecast->spec, &forecast->data);
    forecast->preview.runs = forecast->preview.runs && answer->code == 0;
    if (answer->code != 0) {
        text_set(forecast->joint_failure, MESSAGE_SIZE, "joint phase: %.200s", answer->message);
    } else {
        forecast->preview.joint_seconds = answer->planned->expected_seconds * (double)steps;
        count_work(forecast, answer->planned, forecast->joint.model, steps);
    }
}

static void take_group(const struct core *core, struct forecast *forecast,
                       const struct event_planned *answer)
{
    const size_t g = forecast->order[forecast->next];
    struct preview_group *group = &forecast->preview.group[g];
    const struct model *model = forecast->group[g].model;
    const int64_t steps = steps_of(&forecast->spec, &forecast->data);
    if (answer->code != 0 && wait_for_device(forecast)) {
        return; /* this search is asked again */
    }
    forecast->next++;
    if (answer->code != 0) {
        text_set(group->failure, sizeof(group->failure), "%.250s", answer->message);
    } else if (steps < 1) {
        text_set(group->failure, sizeof(group->failure),
                 "%" PRId64 " training samples in an epoch of the group, fewer than a batch of "
                 "%" PRId64,
                 job_epoch_samples(&forecast->data), forecast->spec.batch);
    }
    if (group->failure[0] != '\0') {
        forecast->preview.runs = false;
        return;
    }
    const struct plan_stage *stage = &answer->planned->stage[0];
    group->begins_seconds = forecast->now_seconds;
    group->seconds = answer->planned->expected_seconds * (double)steps;
    group->memory_bytes = stage->memory_bytes;
    previews_name_device(core, forecast->question, &stage->device, &group->device, group->name);
    forecast->taken[forecast->taken_count++] = (struct taken){
        .device = stage->device, .until_seconds = group->begins_seconds + group->seconds};
    count_work(forecast, answer->planned, model, steps);
}

static int fastest_way(const struct submodel_preview *preview)
{
    const double seconds[] = {[WAY_SUBMODEL] = preview->runs ? preview->total_seconds : 0,
                              [WAY_PIPELINE] = preview->pipeline_seconds,
                              [WAY_SINGLE] = preview->single_seconds};
    return previews_fastest(seconds, sizeof(seconds) / sizeof(seconds[0]));
}

/* No pipeline can train the target on data that stay on devices. So the answer states whether the
 * groups have plans. */
static void answer_for_groups(struct forecast *forecast)
{
    struct event_planned *answer = &forecast->target_answer;
    const char *failure = "";
    for (size_t g = 0; g < forecast->preview.group_count && failure[0] == '\0'; g++) {
        failure = forecast->preview.group[g].failure;
    }
    failure = failure[0] == '\0' ? forecast->joint_failure : failure;
    forecast->target = (struct planned){.strategy = strategy_of(STRATEGY_PIPELINE)};
    *answer = (struct event_planned){.planned = &forecast->target};
    if (failure[0] != '\0') {
        answer->code = ERR_NOT_FOUND;
        text_set(answer->message, MESSAGE_SIZE, "%.250s", failure);
        text_set(forecast->target.first_failure, MESSAGE_SIZE, "%.250s", failure);
    } else if (forecast->waits) {
        forecast->target.attempt_index = 1;
        text_set(forecast->target.first_failure, MESSAGE_SIZE,
                 "a device that has data of a group trains another job");
    }
}

static void end(struct forecast *forecast)
{
    struct submodel_preview *preview = &forecast->preview;
    const struct parent_slot *parent = &forecast->parent;
    double flops[GROUPS_MAX];
    for (size_t g = 0; g < preview->group_count; g++) {
        const struct preview_group *group = &preview->group[g];
        flops[g] = group->flops_per_sample;
        preview->groups_seconds =
            fmax(preview->groups_seconds, group->begins_seconds + group->seconds);
    }
    preview->total_seconds =
        preview->stem_seconds + preview->groups_seconds + preview->joint_seconds;
    write_target(forecast);
    const double samples =
        (double)(steps_of(&forecast->spec, &forecast->data) * forecast->spec.batch);
    const double sample_flops = savings_flops(parent->model, 0, parent->model->unit_count);
    const struct savings_base base = {.sample_flops = sample_flops,
                                      .flops = samples * sample_flops};
    savings_compare(&base, &forecast->work, flops, preview->group_count, &preview->compute);
    if (!preview->runs) {
        preview->compute.total = preview->compute.busiest = preview->compute.flops = 0;
    }
    preview->fastest = fastest_way(preview);
    if (job_is_local(&parent->job.spec)) {
        answer_for_groups(forecast);
    }
}

/* ---- the next search ---- */

static enum search take_ways(const struct core *core, struct forecast *forecast,
                             const struct event_planned *answer)
{
    if (forecast->search == SEARCH_OWN) {
        keep_target(forecast, answer);
        servers_forecast_own(&forecast->parent.job.spec, answer, &forecast->servers);
        return SEARCH_PIPELINE;
    }
    if (forecast->search == SEARCH_PIPELINE) {
        servers_forecast_pipeline(answer, &forecast->servers);
        return SEARCH_SINGLE;
    }
    servers_forecast_single(core, forecast->question, answer, &forecast->servers);
    return SEARCH_END;
}

static enum search take_parts(const struct core *core, struct forecast *forecast,
                              const struct event_planned *answer)
{
    switch (forecast->search) {
    case SEARCH_PIPELINE: take_pipeline(forecast, answer); return SEARCH_SINGLE;
    case SEARCH_SINGLE:
        take_single(core, forecast, answer);
        return joins(forecast) ? SEARCH_JOINT : SEARCH_GROUPS;
    case SEARCH_JOINT: take_joint(forecast, answer); return SEARCH_GROUPS;
    case SEARCH_GROUPS:
        take_group(core, forecast, answer);
        if (forecast->next < forecast->preview.group_count) {
            return SEARCH_GROUPS;
        }
        end(forecast);
        break;
    case SEARCH_OWN:
    case SEARCH_END: break;
    }
    return SEARCH_END;
}

bool forecast_take(const struct core *core, struct forecast *forecast,
                   const struct event_planned *answer)
{
    forecast->search = has_servers(forecast) ? take_ways(core, forecast, answer)
                                             : take_parts(core, forecast, answer);
    return forecast->search != SEARCH_END;
}

const struct event_planned *forecast_target(const struct forecast *forecast)
{
    return &forecast->target_answer;
}

struct event_forecast forecast_preview(const struct forecast *forecast)
{
    const bool servers = has_servers(forecast);
    return (struct event_forecast){.submodel = servers ? NULL : &forecast->preview,
                                   .servers = servers ? &forecast->servers : NULL};
}
