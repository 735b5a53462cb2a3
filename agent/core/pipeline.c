#include "agent/core/pipeline.h"

#include <stdlib.h>

#include "agent/core/pipeline_parts.h"
#include "base/assert.h"
#include "libtrain/schedule/schedule.h"

const char *const transfer_kind_names[] = {"activation", "gradient",   "evaluation",
                                           "norm",       "norm_total", NULL};

static int check(const struct pipeline_config *config, struct err *err)
{
    if (config->count == 0 || config->index >= config->count) {
        return err_set(err, ERR_INVALID, "stage %zu of %zu", config->index, config->count);
    }
    if (config->micro_batches == 0 || config->in_flight == 0 ||
        config->in_flight > config->micro_batches) {
        return err_set(err, ERR_INVALID, "%zu micro-batches in flight of %zu", config->in_flight,
                       config->micro_batches);
    }
    if ((config->index == 0) != (config->previous_in_flight == 0) ||
        config->previous_in_flight > config->micro_batches) {
        return err_set(err, ERR_INVALID, "stage %zu: %zu micro-batches in flight before it",
                       config->index, config->previous_in_flight);
    }
    if (config->resume_version < 0 || config->resume_version > config->total_steps) {
        return err_set(err, ERR_INVALID, "version %lld of %lld steps",
                       (long long)config->resume_version, (long long)config->total_steps);
    }
    if (config->evaluate_every < 0) {
        return err_set(err, ERR_INVALID, "an evaluation every %lld steps",
                       (long long)config->evaluate_every);
    }
    for (int kind = 0; kind < REPLICA_KINDS; kind++) {
        if (config->round_every[kind] < 0) {
            return err_set(err, ERR_INVALID, "a round of replication every %lld steps",
                           (long long)config->round_every[kind]);
        }
    }
    return 0;
}

static bool make_slots(struct pipeline *pipeline)
{
    const struct pipeline_config *config = &pipeline->config;
    pipeline->input = calloc(config->previous_in_flight + 1, sizeof(*pipeline->input));
    pipeline->gradient = calloc(config->in_flight, sizeof(*pipeline->gradient));
    pipeline->activation_busy = calloc(config->in_flight, sizeof(*pipeline->activation_busy));
    pipeline->gradient_busy =
        calloc(config->previous_in_flight + 1, sizeof(*pipeline->gradient_busy));
    pipeline->sum = calloc(SUM_SLOTS, sizeof(*pipeline->sum));
    return pipeline->input && pipeline->gradient && pipeline->sum && pipeline->activation_busy &&
           pipeline->gradient_busy;
}

int pipeline_new(const struct pipeline_config *config, struct pipeline **out, struct err *err)
{
    int rc = check(config, err);
    if (rc != 0) {
        return rc;
    }
    struct pipeline *pipeline = calloc(1, sizeof(*pipeline));
    if (!pipeline) {
        return err_set(err, ERR_MEMORY, "pipeline");
    }
    pipeline->config = *config;
    if (!make_slots(pipeline)) {
        pipeline_free(&pipeline);
        return err_set(err, ERR_MEMORY, "pipeline: %zu slots",
                       config->in_flight + config->previous_in_flight);
    }
    pipeline->stop_version = INT64_MAX;
    pipeline->version = config->resume_version;
    pipeline->evaluating = pipeline_evaluation_due(pipeline, pipeline->version);
    *out = pipeline;
    return 0;
}

void pipeline_free(struct pipeline **pipeline)
{
    if (*pipeline) {
        free((*pipeline)->input);
        free((*pipeline)->gradient);
        free((*pipeline)->sum);
        free((*pipeline)->activation_busy);
        free((*pipeline)->gradient_busy);
        free(*pipeline);
        *pipeline = NULL;
    }
}

/* ---- work ---- */

void pipeline_run(struct pipeline *pipeline)
{
    pipeline->running = true;
}

void pipeline_stop(struct pipeline *pipeline)
{
    pipeline->stop_asked = true;
}

void pipeline_hold(struct pipeline *pipeline, bool held)
{
    pipeline->held = held;
}

void pipeline_away(struct pipeline *pipeline, bool away)
{
    pipeline->away = away;
}

/* ---- rounds ---- */

void pipeline_pause_round(struct pipeline *pipeline, enum replica_kind kind, bool paused)
{
    pipeline->paused[kind] = paused;
}

void pipeline_close_round(struct pipeline *pipeline, enum replica_kind kind, int64_t version,
                          bool committed)
{
    if (version == 0 || pipeline->round[kind] != version) {
        return;
    }
    pipeline->round[kind] = 0;
    if (committed && version > pipeline->committed) {
        pipeline->committed = version;
    }
}

int64_t pipeline_round(const struct pipeline *pipeline, enum replica_kind kind)
{
    return pipeline->round[kind];
}

static bool round_due(const struct pipeline *pipeline, enum replica_kind kind, int64_t step)
{
    const struct pipeline_config *config = &pipeline->config;
    const int64_t every = config->round_every[kind];
    if (every == 0 || step == config->total_steps) {
        return false;
    }
    const bool resumed = kind == REPLICA_NEIGHBOR && config->resume_version > 0 &&
                         step == config->resume_version + 1;
    return resumed || step % every == 0;
}

/* Stage 0 begins a step: open the rounds that are due. */
static void open_rounds(struct pipeline *pipeline, struct pipeline_task *task)
{
    for (int i = 0; i < REPLICA_KINDS; i++) {
        const enum replica_kind kind = (enum replica_kind)i;
        if (round_due(pipeline, kind, task->step) && pipeline->round[kind] == 0 &&
            !pipeline->paused[kind] && !pipeline->away) {
            pipeline->round[kind] = task->step;
            pipeline->mark.kinds |= REPLICA_MARK(kind);
        }
    }
    task->opens_round = pipeline->mark.kinds != 0;
    if (task->opens_round) {
        pipeline->mark.keep[0] = pipeline->committed;
        for (int kind = 0; kind < REPLICA_KINDS; kind++) {
            const int64_t version = pipeline->round[kind];
            pipeline->mark.keep[1 + kind] = version < task->step ? version : 0;
        }
    }
}

/* ---- the next task ---- */

static bool is_full(const struct slot *slot, enum transfer_kind kind, int64_t step,
                    size_t micro_batch)
{
    return slot->state == SLOT_FULL && slot->key.kind == kind && slot->key.step == step &&
           slot->key.micro_batch == micro_batch;
}

/* Tensors of the current step are there from micro-batch `done` on, as far as slots are filled
 * without a gap. */
static size_t count_arrived(const struct pipeline *pipeline, enum transfer_kind kind, size_t done)
{
    const int64_t step = pipeline->version + 1;
    size_t arrived = done;
    while (arrived < pipeline->config.micro_batches) {
        struct transfer key = {kind, step, arrived};
        if (!is_full(pipeline_slot_of(pipeline, &key), kind, step, arrived)) {
            break;
        }
        arrived++;
    }
    return arrived;
}

static bool next_evaluation(struct pipeline *pipeline, struct pipeline_task *task)
{
    const struct pipeline_config *config = &pipeline->config;
    const size_t micro_batch = pipeline->evaluated;
    *task = (struct pipeline_task){
        .work = PIPELINE_EVALUATE, .step = pipeline->version, .micro_batch = micro_batch};
    task->evaluation_ends = micro_batch + 1 == config->evaluation_batches;
    if (!pipeline_is_first(pipeline)) {
        task->input = micro_batch % config->previous_in_flight;
        if (!is_full(&pipeline->input[task->input], TRANSFER_EVALUATION, pipeline->version,
                     micro_batch)) {
            return false;
        }
    }
    if (!pipeline_is_last(pipeline)) {
        task->output = micro_batch % config->in_flight;
        if (pipeline->activation_busy[task->output]) {
            return false;
        }
    }
    return true;
}

/* All backward passes are done: update, where gradients are clipped by their norm as soon as the
 * total is there. */
static bool next_update(const struct pipeline *pipeline, struct pipeline_task *task)
{
    const struct slot *sum = pipeline->sum;
    task->work = PIPELINE_UPDATE;
    task->mark = pipeline->mark;
    if (!pipeline->config.clips_norm) {
        return true;
    }
    if (!pipeline->summed) {
        const bool busy = pipeline_is_first(pipeline) ? pipeline->total_busy : pipeline->norm_busy;
        task->work = PIPELINE_SUM;
        return !busy && (pipeline_is_last(pipeline) ||
                         is_full(&sum[SUM_SLOT_NORM], TRANSFER_NORM, task->step, 0));
    }
    if (pipeline_is_first(pipeline)) {
        return true;
    }
    if (!is_full(&sum[SUM_SLOT_TOTAL], TRANSFER_NORM_TOTAL, task->step, 0)) {
        return false;
    }
    if (!pipeline_is_last(pipeline) && !pipeline->passed_on) {
        task->work = PIPELINE_TOTAL;
        return !pipeline->total_busy;
    }
    return true;
}

static bool next_of_step(struct pipeline *pipeline, struct pipeline_task *task)
{
    const struct pipeline_config *config = &pipeline->config;
    const struct schedule_progress progress = {
        .micro_batches = config->micro_batches,
        .in_flight = config->in_flight,
        .inputs = pipeline_is_first(pipeline)
                      ? config->micro_batches
                      : count_arrived(pipeline, TRANSFER_ACTIVATION, pipeline->forwards),
        .gradients = pipeline_is_last(pipeline)
                         ? pipeline->forwards
                         : count_arrived(pipeline, TRANSFER_GRADIENT, pipeline->backwards),
        .forwards = pipeline->forwards,
        .backwards = pipeline->backwards,
    };
    *task = (struct pipeline_task){.step = pipeline->version + 1};
    switch (schedule_next(&progress)) {
    case SCHEDULE_WAIT: return false;
    case SCHEDULE_UPDATE: return next_update(pipeline, task);
    case SCHEDULE_FORWARD:
        task->work = PIPELINE_FORWARD;
        task->micro_batch = pipeline->forwards;
        task->slot = task->micro_batch % config->in_flight;
        task->input =
            pipeline_is_first(pipeline) ? 0 : task->micro_batch % config->previous_in_flight;
        task->output = pipeline_is_last(pipeline) ? 0 : task->slot;
        return pipeline_is_last(pipeline) || !pipeline->activation_busy[task->output];
    case SCHEDULE_BACKWARD:
        task->work = PIPELINE_BACKWARD;
        task->micro_batch = pipeline->backwards;
        task->slot = task->micro_batch % config->in_flight;
        task->gradient = pipeline_is_last(pipeline) ? 0 : task->slot;
        task->input =
            pipeline_is_first(pipeline) ? 0 : task->micro_batch % config->previous_in_flight;
        task->output = task->input;
        return pipeline_is_first(pipeline) || !pipeline->gradient_busy[task->output];
    }
    return false;
}

static void give_up_evaluation(struct pipeline *pipeline)
{
    pipeline->evaluating = false;
    pipeline->evaluated = 0;
    for (size_t i = 0; i < pipeline->config.previous_in_flight; i++) {
        if (pipeline->input[i].state == SLOT_FULL) {
            pipeline->input[i].state = SLOT_FREE;
        }
    }
}

static bool find_task(struct pipeline *pipeline, struct pipeline_task *task)
{
    const int64_t total = pipeline->config.total_steps;
    const bool at_border = pipeline->forwards == 0;
    if (at_border && pipeline->stop_asked && pipeline_is_first(pipeline) &&
        pipeline->stop_version == INT64_MAX) {
        pipeline->stop_version = pipeline->version;
    }
    if (pipeline->evaluating && pipeline->stop_version == pipeline->version &&
        pipeline->version != total) {
        give_up_evaluation(pipeline);
    }
    if (pipeline->evaluating) {
        return next_evaluation(pipeline, task);
    }
    if (at_border && (pipeline->version == pipeline->stop_version || pipeline->version == total)) {
        *task = (struct pipeline_task){.work = PIPELINE_STOP, .step = pipeline->version};
        task->announce = !pipeline_is_last(pipeline) && pipeline->version != total;
        return true;
    }
    if (at_border && pipeline->held) {
        return false;
    }
    return next_of_step(pipeline, task);
}

enum pipeline_work pipeline_next(struct pipeline *pipeline, struct pipeline_task *task)
{
    ASSERT(!pipeline->working);
    if (!pipeline->running || pipeline->stopped || !find_task(pipeline, task)) {
        *task = (struct pipeline_task){.work = PIPELINE_WAIT};
        return PIPELINE_WAIT;
    }
    if (task->work == PIPELINE_FORWARD) {
        if (pipeline_is_first(pipeline) && task->micro_batch == 0) {
            open_rounds(pipeline, task);
        } else if (!pipeline_is_first(pipeline)) {
            pipeline->mark = pipeline->input[task->input].mark;
        }
        task->mark = pipeline->mark;
    }
    pipeline->working = true;
    return task->work;
}

void pipeline_done(struct pipeline *pipeline, const struct pipeline_task *task)
{
    ASSERT(pipeline->working);
    pipeline->working = false;
    switch (task->work) {
    case PIPELINE_WAIT: break;
    case PIPELINE_FORWARD:
        pipeline->forwards++;
        if (!pipeline_is_last(pipeline)) {
            pipeline->activation_busy[task->output] = true;
        }
        break;
    case PIPELINE_BACKWARD:
        pipeline->backwards++;
        if (!pipeline_is_last(pipeline)) {
            pipeline->gradient[task->gradient].state = SLOT_FREE;
        }
        if (!pipeline_is_first(pipeline)) {
            pipeline->input[task->input].state = SLOT_FREE;
            pipeline->gradient_busy[task->output] = true;
        }
        break;
    case PIPELINE_SUM:
        pipeline->summed = true;
        pipeline->sum[SUM_SLOT_NORM].state = SLOT_FREE;
        if (!pipeline_is_first(pipeline)) {
            pipeline->norm_busy = true;
        } else if (!pipeline_is_last(pipeline)) {
            pipeline->total_busy = true;
        }
        break;
    case PIPELINE_TOTAL:
        pipeline->passed_on = true;
        pipeline->total_busy = true;
        break;
    case PIPELINE_UPDATE:
        pipeline->version++;
        pipeline->summed = pipeline->passed_on = false;
        pipeline->sum[SUM_SLOT_TOTAL].state = SLOT_FREE;
        pipeline->forwards = 0;
        pipeline->backwards = 0;
        pipeline->mark = (struct round_mark){0};
        pipeline->evaluating = pipeline_evaluation_due(pipeline, pipeline->version);
        pipeline->evaluated = 0;
        break;
    case PIPELINE_EVALUATE:
        if (!pipeline_is_first(pipeline)) {
            pipeline->input[task->input].state = SLOT_FREE;
        }
        if (!pipeline_is_last(pipeline)) {
            pipeline->activation_busy[task->output] = true;
        }
        pipeline->evaluated++;
        pipeline->evaluating = !task->evaluation_ends;
        break;
    case PIPELINE_STOP: pipeline->stopped = true; break;
    }
}

static bool *busy_of(struct pipeline *pipeline, enum transfer_kind kind, size_t output)
{
    switch (kind) {
    case TRANSFER_ACTIVATION:
    case TRANSFER_EVALUATION: break;
    case TRANSFER_GRADIENT: return &pipeline->gradient_busy[output];
    case TRANSFER_NORM: return &pipeline->norm_busy;
    case TRANSFER_NORM_TOTAL: return &pipeline->total_busy;
    }
    return &pipeline->activation_busy[output];
}

void pipeline_sent(struct pipeline *pipeline, enum transfer_kind kind, size_t output)
{
    bool *busy = busy_of(pipeline, kind, output);
    ASSERT(*busy);
    *busy = false;
}

int64_t pipeline_version(const struct pipeline *pipeline)
{
    return pipeline->version;
}

bool pipeline_stopped(const struct pipeline *pipeline)
{
    return pipeline->stopped;
}
