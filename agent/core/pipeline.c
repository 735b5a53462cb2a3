#include "agent/core/pipeline.h"

#include <stdlib.h>
#include <string.h>

#include "agent/core/pipeline_check.h"
#include "agent/core/progress.h"
#include "base/assert.h"
#include "libtrain/schedule/schedule.h"

struct pipeline {
    struct progress at;
    struct slots slots;
    bool *busy[TRANSFER_LANES]; /* send buffers, by lane */
    struct rounds rounds;       /* of stage 0 */
    bool running;
    bool held, rests; /* no step begins: by order; for the stage's own reason */
    bool stop_asked;
    int64_t stop_version; /* INT64_MAX while not known */
    bool working;         /* a task was given and is not done */
    enum pipeline_wait waits;
    bool stopped;
    bool announced;          /* the next stage knows stop_version */
    struct round_mark *mark; /* [in_flight]: of each step in flight, from its first forward task */
};

/* ---- life ---- */

static int make_slots(struct pipeline *pipeline, struct err *err)
{
    const struct pipeline_config *config = &pipeline->at.config;
    const size_t slots[TRANSFER_LANES] = {[LANE_ACTIVATION] = config->previous_in_flight,
                                          [LANE_GRADIENT] = config->in_flight,
                                          [LANE_NORM] = 1,
                                          [LANE_TOTAL] = 1,
                                          [LANE_JUDGED] = 1};
    const size_t buffers[TRANSFER_LANES] = {[LANE_ACTIVATION] = config->in_flight,
                                            [LANE_GRADIENT] = config->previous_in_flight,
                                            [LANE_NORM] = 1,
                                            [LANE_TOTAL] = 1,
                                            [LANE_JUDGED] = 1};
    for (int lane = 0; lane < TRANSFER_LANES; lane++) {
        pipeline->busy[lane] = calloc(buffers[lane] + 1, sizeof(bool));
        if (!pipeline->busy[lane]) {
            return err_set(err, ERR_MEMORY, "%zu buffers", buffers[lane]);
        }
    }
    pipeline->mark = calloc(config->in_flight, sizeof(*pipeline->mark));
    if (!pipeline->mark) {
        return err_set(err, ERR_MEMORY, "%zu marks", config->in_flight);
    }
    return slots_init(&pipeline->slots, slots, config->async, err);
}

int pipeline_new(const struct pipeline_config *config, struct pipeline **out, struct err *err)
{
    int rc = pipeline_check(config, err);
    if (rc != 0) {
        return rc;
    }
    struct pipeline *pipeline = calloc(1, sizeof(*pipeline));
    if (!pipeline) {
        return err_set(err, ERR_MEMORY, "pipeline");
    }
    pipeline->at.config = *config;
    pipeline->at.judged = config->judged;
    pipeline->at.config.total_steps = early_stop_last(&config->judged, config->total_steps);
    pipeline->rounds = (struct rounds){.resume_version = config->resume_version,
                                       .total_steps = pipeline->at.config.total_steps,
                                       .checkpoint_every = config->checkpoint_every};
    memcpy(pipeline->rounds.every, config->round_every, sizeof(config->round_every));
    rc = make_slots(pipeline, err);
    if (rc != 0) {
        pipeline_free(&pipeline);
        return err_wrap(err, "pipeline");
    }
    pipeline->stop_version = INT64_MAX;
    pipeline->at.version = config->resume_version;
    pipeline->at.evaluating = progress_evaluation_due(&pipeline->at, pipeline->at.version);
    *out = pipeline;
    return 0;
}

void pipeline_free(struct pipeline **pipeline)
{
    if (*pipeline) {
        slots_done(&(*pipeline)->slots);
        for (int lane = 0; lane < TRANSFER_LANES; lane++) {
            free((*pipeline)->busy[lane]);
        }
        free((*pipeline)->mark);
        free(*pipeline);
        *pipeline = NULL;
    }
}

/* ---- received tensors ---- */

enum transfer_verdict pipeline_offer(struct pipeline *pipeline, const struct transfer *transfer,
                                     struct slot_claim *claim)
{
    enum transfer_verdict verdict = progress_judge(&pipeline->at, transfer);
    if (verdict != TRANSFER_TAKE) {
        return verdict;
    }
    if (pipeline->stopped) {
        return TRANSFER_DUPLICATE;
    }
    switch (slots_claim(&pipeline->slots, transfer, claim)) {
    case SLOT_CLAIMED: return TRANSFER_TAKE;
    case SLOT_OCCUPIED: return TRANSFER_FULL;
    case SLOT_HAS_IT: return TRANSFER_DUPLICATE;
    }
    return TRANSFER_REFUSE;
}

bool pipeline_holds(const struct pipeline *pipeline, const struct transfer *transfer,
                    const struct slot_claim *claim)
{
    return slots_holds(&pipeline->slots, transfer, claim);
}

bool pipeline_received(struct pipeline *pipeline, const struct transfer *transfer,
                       const struct slot_claim *claim)
{
    if (!slots_holds(&pipeline->slots, transfer, claim)) {
        return false;
    }
    /* A stop may have abandoned the evaluation while the tensor was on its way. */
    slots_fill(&pipeline->slots, transfer, claim,
               progress_judge(&pipeline->at, transfer) == TRANSFER_TAKE);
    return true;
}

void pipeline_abandon(struct pipeline *pipeline, const struct transfer *transfer,
                      const struct slot_claim *claim)
{
    if (slots_holds(&pipeline->slots, transfer, claim)) {
        slots_fill(&pipeline->slots, transfer, claim, false);
    }
}

void pipeline_mark(struct pipeline *pipeline, int64_t step)
{
    pipeline->stop_version = step;
}

/* ---- control ---- */

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

void pipeline_rest(struct pipeline *pipeline, bool rests)
{
    pipeline->rests = rests;
}

static bool is_at_rest(const struct pipeline *pipeline)
{
    return pipeline->held || pipeline->rests;
}

void pipeline_away(struct pipeline *pipeline, bool away)
{
    pipeline->rounds.away = away;
}

void pipeline_follow(struct pipeline *pipeline, const struct orders *orders)
{
    pipeline->running = pipeline->running || orders->run;
    pipeline->stop_asked = pipeline->stop_asked || orders->stop;
    pipeline_hold(pipeline, orders->held);
    pipeline_away(pipeline, orders->away);
}

void pipeline_take_rounds(struct pipeline *pipeline, const struct round round[REPLICA_KINDS])
{
    rounds_take(&pipeline->rounds, round);
}

int64_t pipeline_round(const struct pipeline *pipeline, enum replica_kind kind)
{
    return pipeline->rounds.open[kind];
}

void pipeline_report(const struct pipeline *pipeline, struct heartbeat *out)
{
    rounds_report(&pipeline->rounds, out);
    out->has_early_stop = pipeline->at.judged.version > 0;
    out->early_stop = pipeline->at.judged;
}

/* ---- the next task ---- */

bool pipeline_output(const struct pipeline *pipeline, const struct pipeline_task *task,
                     struct transfer *out)
{
    return progress_output(&pipeline->at, task, out);
}

/* Return the send buffer of the task; NULL: it needs none. */
static bool *buffer_of(struct pipeline *pipeline, const struct pipeline_task *task)
{
    struct transfer output;
    const bool empty = task->work == PIPELINE_STOP || task->work == PIPELINE_LAST;
    return !empty && pipeline_output(pipeline, task, &output)
               ? &pipeline->busy[transfer_info(&output)->lane][task->output]
               : NULL;
}

static struct round_mark *mark_of(const struct pipeline *pipeline, int64_t step)
{
    return &pipeline->mark[(size_t)step % pipeline->at.config.in_flight];
}

/* Count the micro-batches before the flush whose tensors have arrived: `done`, and those that
 * follow without a gap. */
static size_t count_arrived(const struct pipeline *pipeline, enum transfer_kind kind, size_t done,
                            size_t flush)
{
    size_t arrived = done;
    while (arrived < flush) {
        const struct transfer key = progress_key(&pipeline->at, kind, arrived);
        if (!slots_have(&pipeline->slots, &key)) {
            break;
        }
        arrived++;
    }
    return arrived;
}

static bool next_evaluation(struct pipeline *pipeline, struct pipeline_task *task)
{
    const struct pipeline_config *config = &pipeline->at.config;
    const size_t micro_batch = pipeline->at.evaluated;
    *task = (struct pipeline_task){
        .work = PIPELINE_EVALUATE, .step = pipeline->at.version, .micro_batch = micro_batch};
    task->evaluation_ends = micro_batch + 1 == config->evaluation_batches;
    task->output = progress_is_last(&pipeline->at) ? 0 : micro_batch % config->in_flight;
    if (progress_is_first(&pipeline->at)) {
        return true;
    }
    const struct transfer input = {TRANSFER_EVALUATION, pipeline->at.version, micro_batch};
    task->input = micro_batch % config->previous_in_flight;
    return slots_have(&pipeline->slots, &input);
}

/* The last stage has the metric itself; the others wait for the metric from the next stage. */
static bool next_judgement(const struct pipeline *pipeline, struct pipeline_task *task)
{
    const struct transfer judged = {TRANSFER_JUDGED, pipeline->at.version, 0};
    *task = (struct pipeline_task){.work = PIPELINE_JUDGE, .step = pipeline->at.version};
    return progress_is_last(&pipeline->at) || slots_have(&pipeline->slots, &judged);
}

/* Choose the tasks after all backward passes: the update or, if gradients are clipped by their
 * norm, first the tasks that lead to the total. */
static bool next_update(const struct pipeline *pipeline, struct pipeline_task *task)
{
    const struct transfer norm = {TRANSFER_NORM, task->step, 0};
    const struct transfer total = {TRANSFER_NORM_TOTAL, task->step, 0};
    task->work = PIPELINE_UPDATE;
    task->mark = *mark_of(pipeline, task->step);
    if (!pipeline->at.config.clips_norm) {
        return true;
    }
    if (!pipeline->at.summed) {
        task->work = PIPELINE_SUM;
        return progress_is_last(&pipeline->at) || slots_have(&pipeline->slots, &norm);
    }
    if (progress_is_first(&pipeline->at)) {
        return true;
    }
    if (!progress_is_last(&pipeline->at) && !pipeline->at.passed_on) {
        task->work = PIPELINE_TOTAL;
    }
    return slots_have(&pipeline->slots, &total);
}

/* Fill in the micro-batch `after` places after step `version`, with its slots and buffers. */
static void fill_pass(const struct pipeline *pipeline, enum pipeline_work work, size_t after,
                      struct pipeline_task *task)
{
    const struct pipeline_config *config = &pipeline->at.config;
    const struct transfer key = progress_key(&pipeline->at, TRANSFER_ACTIVATION, after);
    const size_t position = transfer_position(&key, config->async);
    *task = (struct pipeline_task){.work = work, .step = key.step, .micro_batch = key.micro_batch};
    task->slot = position % config->in_flight;
    task->input = progress_is_first(&pipeline->at) ? 0 : position % config->previous_in_flight;
    const size_t towards_next = progress_is_last(&pipeline->at) ? 0 : task->slot;
    task->gradient = work == PIPELINE_BACKWARD ? towards_next : 0;
    task->output = work == PIPELINE_BACKWARD ? task->input : towards_next;
}

static bool next_of_step(struct pipeline *pipeline, struct pipeline_task *task)
{
    const struct pipeline_config *config = &pipeline->at.config;
    const struct progress *at = &pipeline->at;
    const size_t flush = progress_flush(at, pipeline->stop_version);
    const struct schedule_progress progress = {
        .micro_batches = config->micro_batches,
        .flush = flush,
        .strict = config->strict || config->async,
        .in_flight = config->in_flight,
        .inputs = progress_is_first(at)
                      ? flush
                      : count_arrived(pipeline, TRANSFER_ACTIVATION, at->forwards, flush),
        .gradients = progress_is_last(at)
                         ? at->forwards
                         : count_arrived(pipeline, TRANSFER_GRADIENT, at->backwards, flush),
        .forwards = at->forwards,
        .backwards = at->backwards,
    };
    switch (schedule_next(&progress)) {
    case SCHEDULE_WAIT: return false;
    case SCHEDULE_UPDATE:
        *task = (struct pipeline_task){.step = at->version + 1};
        return next_update(pipeline, task);
    case SCHEDULE_FORWARD:
        fill_pass(pipeline, PIPELINE_FORWARD, at->forwards, task);
        return !is_at_rest(pipeline) || task->micro_batch > 0;
    case SCHEDULE_BACKWARD:
        fill_pass(pipeline, PIPELINE_BACKWARD, at->backwards, task);
        return true;
    }
    return false;
}

static void abandon_evaluation(struct pipeline *pipeline)
{
    pipeline->at.evaluating = false;
    pipeline->at.evaluated = 0;
    pipeline->at.judging = false;
    slots_release_all(&pipeline->slots, LANE_ACTIVATION);
    slots_release_all(&pipeline->slots, LANE_JUDGED);
}

/* Return whether the stop must be announced to the next stage. All stages know the end of the
 * job. */
static bool announces(const struct pipeline *pipeline)
{
    return !pipeline->announced && !progress_is_last(&pipeline->at) &&
           pipeline->stop_version < pipeline->at.config.total_steps;
}

static bool find_task(struct pipeline *pipeline, struct pipeline_task *task)
{
    const int64_t total = pipeline->at.config.total_steps;
    const bool at_border = pipeline->at.forwards == 0;
    if (pipeline->stop_asked && progress_is_first(&pipeline->at) &&
        pipeline->stop_version == INT64_MAX) {
        pipeline->stop_version = progress_begun(&pipeline->at);
    }
    /* In the strict order the next stage holds back its last batches until it knows that no batch
     * follows. */
    if (pipeline->at.config.async && announces(pipeline) &&
        progress_begun(&pipeline->at) == pipeline->stop_version) {
        *task = (struct pipeline_task){
            .work = PIPELINE_LAST, .step = pipeline->stop_version, .announce = true};
        return true;
    }
    if ((pipeline->at.evaluating || pipeline->at.judging) &&
        pipeline->stop_version == pipeline->at.version && pipeline->at.version != total) {
        abandon_evaluation(pipeline);
    }
    if (pipeline->at.evaluating) {
        return next_evaluation(pipeline, task);
    }
    if (pipeline->at.judging) {
        return next_judgement(pipeline, task);
    }
    if (at_border &&
        (pipeline->at.version == pipeline->stop_version || pipeline->at.version == total)) {
        *task = (struct pipeline_task){
            .work = PIPELINE_STOP, .step = pipeline->at.version, .announce = announces(pipeline)};
        return true;
    }
    return next_of_step(pipeline, task);
}

/* Return why find_task has found no task. */
static enum pipeline_wait why_none(const struct pipeline *pipeline)
{
    const struct progress *at = &pipeline->at;
    const size_t micro_batches = at->config.micro_batches;
    if (!pipeline->running || pipeline->stopped || (at->forwards == 0 && is_at_rest(pipeline))) {
        return PIPELINE_WAITS_FOR_ORDERS;
    }
    if (at->evaluating) {
        return PIPELINE_WAITS_FOR_INPUT;
    }
    if (at->judging) {
        return PIPELINE_WAITS_FOR_GRADIENT;
    }
    if (at->backwards == micro_batches) { /* clips_norm: the sum comes back, the total goes on */
        return at->summed ? PIPELINE_WAITS_FOR_INPUT : PIPELINE_WAITS_FOR_GRADIENT;
    }
    const bool may_forward = at->forwards < progress_flush(at, pipeline->stop_version) &&
                             at->forwards - at->backwards < at->config.in_flight;
    return may_forward ? PIPELINE_WAITS_FOR_INPUT : PIPELINE_WAITS_FOR_GRADIENT;
}

enum pipeline_work pipeline_next(struct pipeline *pipeline, struct pipeline_task *task)
{
    ASSERT(!pipeline->working);
    const bool found = pipeline->running && !pipeline->stopped && find_task(pipeline, task);
    const bool *busy = found ? buffer_of(pipeline, task) : NULL;
    if (!found || (busy && *busy)) {
        pipeline->waits = found ? PIPELINE_WAITS_FOR_ROOM : why_none(pipeline);
        *task = (struct pipeline_task){.work = PIPELINE_WAIT};
        return PIPELINE_WAIT;
    }
    if (task->work == PIPELINE_FORWARD) {
        struct round_mark *mark = mark_of(pipeline, task->step);
        if (progress_is_first(&pipeline->at) && task->micro_batch == 0) {
            rounds_open(&pipeline->rounds, task->step, mark);
            task->opens_round = mark->kinds != 0;
        } else if (!progress_is_first(&pipeline->at)) {
            *mark = slots_mark(&pipeline->slots, task->input);
        }
        task->mark = *mark;
    }
    pipeline->working = true;
    return task->work;
}

enum pipeline_wait pipeline_waits(const struct pipeline *pipeline)
{
    return pipeline->waits;
}

/* Release the receive slots that the task has used. */
static void release_inputs(struct pipeline *pipeline, const struct pipeline_task *task)
{
    struct slots *slots = &pipeline->slots;
    const bool uses_input = task->work == PIPELINE_BACKWARD || task->work == PIPELINE_EVALUATE;
    if (uses_input && !progress_is_first(&pipeline->at)) {
        slots_release(slots, LANE_ACTIVATION, task->input);
    }
    if (task->work == PIPELINE_BACKWARD && !progress_is_last(&pipeline->at)) {
        slots_release(slots, LANE_GRADIENT, task->gradient);
    }
    if (task->work == PIPELINE_SUM) {
        slots_release(slots, LANE_NORM, 0);
    }
    if (task->work == PIPELINE_UPDATE) {
        slots_release(slots, LANE_TOTAL, 0);
    }
    if (task->work == PIPELINE_JUDGE) {
        slots_release(slots, LANE_JUDGED, 0);
    }
}

void pipeline_done(struct pipeline *pipeline, const struct pipeline_task *task)
{
    ASSERT(pipeline->working);
    pipeline->working = false;
    bool *busy = buffer_of(pipeline, task);
    if (busy) {
        *busy = true;
    }
    release_inputs(pipeline, task);
    progress_advance(&pipeline->at, task);
    pipeline->stopped = task->work == PIPELINE_STOP;
    pipeline->announced = pipeline->announced || task->announce;
    if (task->work == PIPELINE_UPDATE) {
        *mark_of(pipeline, task->step) = (struct round_mark){0};
    }
}

void pipeline_sent(struct pipeline *pipeline, enum transfer_kind kind, size_t output)
{
    bool *busy = &pipeline->busy[transfer_table[kind].lane][output];
    ASSERT(*busy);
    *busy = false;
}

int64_t pipeline_version(const struct pipeline *pipeline)
{
    return pipeline->at.version;
}

bool pipeline_stopped(const struct pipeline *pipeline)
{
    return pipeline->stopped;
}
