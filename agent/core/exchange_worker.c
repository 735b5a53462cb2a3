#include "agent/core/exchange_worker.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

/* ---- life ---- */

static size_t block_count(const struct exchange_worker *worker)
{
    const struct exchange_plan *plan = worker->plan;
    return plan->share[plan->config.index].end - plan->share[plan->config.index].first;
}

static void begin_step(struct exchange_worker *worker, int64_t step)
{
    const struct exchange_plan *plan = worker->plan;
    const size_t index = plan->config.index;
    worker->step = step;
    worker->begun = false;
    worker->arrived = worker->pull_next = 0;
    worker->test = exchange_plan_evaluation_due(plan, step - 1) ? exchange_plan_test(plan, index, 0)
                                                                : plan->config.evaluation_batches;
    worker->micro_batch = exchange_plan_share(plan, index).first;
    worker->forward = 0;
    worker->block = plan->share[index].first;
}

int exchange_worker_init(struct exchange_worker *worker, const struct exchange_plan *plan,
                         const struct exchange_course *course, struct err *err)
{
    *worker = (struct exchange_worker){.plan = plan, .course = course};
    const size_t layers = plan->layers, blocks = block_count(worker);
    worker->pull_end = calloc(layers, sizeof(size_t));
    worker->push_end = calloc(blocks * layers + 1, sizeof(size_t));
    worker->pulled = calloc(layers, sizeof(size_t));
    worker->sum = calloc(blocks + 1, sizeof(*worker->sum));
    if (!worker->pull_end || !worker->push_end || !worker->pulled || !worker->sum) {
        return err_set(err, ERR_MEMORY, "segments of %zu layers", layers);
    }
    for (size_t i = 0; i < blocks; i++) {
        worker->sum[i].push_end = calloc(layers, sizeof(size_t));
        if (!worker->sum[i].push_end) {
            return err_set(err, ERR_MEMORY, "segments of %zu layers", layers);
        }
    }
    begin_step(worker, plan->config.resume_version + 1);
    return 0;
}

void exchange_worker_done(struct exchange_worker *worker)
{
    for (size_t i = 0; worker->sum && i < block_count(worker); i++) {
        free(worker->sum[i].push_end);
    }
    free(worker->sum);
    free(worker->pulled);
    free(worker->push_end);
    free(worker->pull_end);
    *worker = (struct exchange_worker){0};
}

/* ---- tasks ---- */

static bool tests(const struct exchange_worker *worker)
{
    return worker->test < worker->plan->config.evaluation_batches;
}

static const struct exchange_result *free_result(const struct exchange_worker *worker)
{
    for (size_t i = 0; i < EXCHANGE_RESULTS; i++) {
        if (worker->result[i].state == RESULT_NONE) {
            return &worker->result[i];
        }
    }
    return NULL;
}

static bool sums_are_free(const struct exchange_worker *worker)
{
    for (size_t i = 0; i < block_count(worker); i++) {
        if (worker->sum[i].answered < worker->sum[i].pushes) {
            return false;
        }
    }
    return true;
}

static bool next_evaluation(const struct exchange_worker *worker, struct exchange_task *task,
                            enum exchange_wait *why)
{
    const struct exchange_result *result = free_result(worker);
    *task = (struct exchange_task){
        .work = EXCHANGE_EVALUATE, .step = worker->step - 1, .micro_batch = worker->test};
    if (worker->arrived < worker->plan->layers) {
        *why = EXCHANGE_WAITS_FOR_PARAMETERS;
        return false;
    }
    if (!result) {
        *why = EXCHANGE_WAITS_FOR_ROOM;
        return false;
    }
    task->buffer = (size_t)(result - worker->result);
    return true;
}

static bool next_pass(const struct exchange_worker *worker, bool held, struct exchange_task *task,
                      enum exchange_wait *why)
{
    const struct exchange_plan *plan = worker->plan;
    const struct reduce_range block = plan->block[worker->block].range;
    *task = (struct exchange_task){.work = EXCHANGE_FORWARD,
                                   .step = worker->step,
                                   .micro_batch = worker->micro_batch,
                                   .block = worker->block,
                                   .first = worker->forward,
                                   .end = worker->arrived};
    if (worker->forward == plan->layers) {
        task->work = EXCHANGE_BACKWARD;
        task->first = task->end = 0;
        task->block_begins = worker->micro_batch == block.first;
        task->block_ends = worker->micro_batch + 1 == block.end;
        return true;
    }
    const bool step_begins = worker->forward == 0 &&
                             task->block == plan->share[plan->config.index].first &&
                             worker->micro_batch == block.first;
    if (step_begins && held) {
        *why = EXCHANGE_WAITS_FOR_ORDERS;
        return false;
    }
    if (step_begins && !sums_are_free(worker)) {
        *why = EXCHANGE_WAITS_FOR_ROOM;
        return false;
    }
    *why = EXCHANGE_WAITS_FOR_PARAMETERS;
    return worker->forward < worker->arrived;
}

bool exchange_worker_next(const struct exchange_worker *worker, bool held,
                          struct exchange_task *task, enum exchange_wait *why)
{
    const bool trains = worker->step <= worker->plan->config.total_steps;
    *why = EXCHANGE_WAITS_FOR_BLOCKS;
    if (block_count(worker) == 0 || (!trains && !tests(worker))) {
        return false;
    }
    if (!worker->begun) {
        *task = (struct exchange_task){.work = EXCHANGE_BEGIN, .step = worker->step};
        return true;
    }
    return tests(worker) ? next_evaluation(worker, task, why) : next_pass(worker, held, task, why);
}

/* ---- segments ---- */

static int check_segments(const struct exchange_plan *plan, const char *name,
                          const struct exchange_requests *requests, struct err *err)
{
    size_t first = 0, server;
    for (size_t i = 0; i < requests->count; i++) {
        const size_t end = requests->end[i];
        if (!exchange_plan_server_of(plan, first, end, &server)) {
            return err_set(err, ERR_INVALID, "%s %zu: layers [%zu, %zu)", name, i, first, end);
        }
        first = end;
    }
    if (first != plan->layers) {
        return err_set(err, ERR_INVALID, "%s segments end with layer %zu of %zu", name, first,
                       plan->layers);
    }
    return 0;
}

/* Copy the requests into the worker's own array, into[layers]. */
static void take_requests(struct exchange_requests *requests, size_t *into)
{
    memcpy(into, requests->end, requests->count * sizeof(size_t));
    requests->end = into;
}

static void take_segments(struct exchange_worker *worker, const struct exchange_segments *segments)
{
    worker->list = *segments;
    take_requests(&worker->list.pull, worker->pull_end);
    for (size_t b = 0; b < block_count(worker); b++) {
        take_requests(&worker->list.push[b], worker->push_end + b * worker->plan->layers);
    }
    for (size_t i = 0; i < segments->pull.count; i++) {
        worker->pulled[i] = i == 0 ? 0 : worker->pull_end[i - 1];
    }
}

int exchange_worker_begin(struct exchange_worker *worker, const struct exchange_segments *segments,
                          struct err *err)
{
    ASSERT(!worker->begun);
    int rc = check_segments(worker->plan, "pull", &segments->pull, err);
    for (size_t b = 0; rc == 0 && b < block_count(worker); b++) {
        rc = check_segments(worker->plan, "push", &segments->push[b], err);
    }
    if (rc != 0) {
        return rc;
    }
    if (segments->window == 0 || segments->window > EXCHANGE_WINDOW_MAX) {
        return err_set(err, ERR_INVALID, "%zu open requests", segments->window);
    }
    take_segments(worker, segments);
    worker->begun = true;
    return 0;
}

static struct exchange_sum *sum_of(const struct exchange_worker *worker, size_t block)
{
    return &worker->sum[block - worker->plan->share[worker->plan->config.index].first];
}

static bool is_last_block(const struct exchange_worker *worker, size_t block)
{
    return block + 1 == worker->plan->share[worker->plan->config.index].end;
}

/* A sum has one request per segment; the last block of a step has one more if the lead keeps no
 * layers. */
static void begin_sum(struct exchange_worker *worker)
{
    struct exchange_sum *sum = sum_of(worker, worker->block);
    const struct exchange_requests *push = &worker->list.push[sum - worker->sum];
    ASSERT(sum->answered == sum->pushes);
    sum->step = worker->step;
    sum->final = worker->plan->layers;
    sum->handed = sum->answered = 0;
    sum->pushes = push->count;
    memcpy(sum->push_end, push->end, push->count * sizeof(size_t));
    sum->pushes += is_last_block(worker, worker->block) && worker->plan->config.layer_end[0] == 0;
}

void exchange_worker_summed(struct exchange_worker *worker, size_t layer)
{
    struct exchange_sum *sum = sum_of(worker, worker->block);
    if (sum->step != worker->step) {
        begin_sum(worker);
    }
    ASSERT(layer <= sum->final);
    sum->final = layer;
}

static void end_backward(struct exchange_worker *worker, const struct exchange_task *task)
{
    const size_t index = worker->plan->config.index;
    worker->forward = 0;
    worker->micro_batch++;
    if (!task->block_ends) {
        return;
    }
    exchange_worker_summed(worker, 0);
    worker->block++;
    if (worker->block == worker->plan->share[index].end) {
        begin_step(worker, worker->step + 1);
    }
}

void exchange_worker_end(struct exchange_worker *worker, const struct exchange_task *task)
{
    if (task->work == EXCHANGE_BEGIN) {
        ASSERT(worker->begun);
    } else if (task->work == EXCHANGE_FORWARD) {
        worker->forward = task->end;
    } else if (task->work == EXCHANGE_BACKWARD) {
        end_backward(worker, task);
    } else if (task->work == EXCHANGE_EVALUATE) {
        worker->result[task->buffer] =
            (struct exchange_result){RESULT_READY, task->step, task->micro_batch};
        worker->test =
            exchange_plan_test(worker->plan, worker->plan->config.index, task->micro_batch + 1);
    }
}

/* ---- requests ---- */

static bool next_pull(struct exchange_worker *worker, struct exchange_message *out)
{
    const size_t i = worker->pull_next;
    if (!worker->begun || i == worker->list.pull.count ||
        worker->pulls_open >= worker->list.window) {
        return false;
    }
    *out = (struct exchange_message){.kind = EXCHANGE_PARAMETERS,
                                     .from = worker->plan->config.index,
                                     .step = worker->step - 1,
                                     .first = i == 0 ? 0 : worker->pull_end[i - 1],
                                     .end = worker->pull_end[i],
                                     .statistics = tests(worker),
                                     .streams = worker->list.streams};
    (void)exchange_plan_server_of(worker->plan, out->first, out->end, &out->to);
    worker->pull_next++;
    worker->pulls_open++;
    return true;
}

static bool next_result(struct exchange_worker *worker, struct exchange_message *out)
{
    for (size_t i = 0; i < EXCHANGE_RESULTS; i++) {
        struct exchange_result *result = &worker->result[i];
        if (result->state == RESULT_READY) {
            result->state = RESULT_SENDING;
            *out = (struct exchange_message){.kind = EXCHANGE_RESULT,
                                             .from = worker->plan->config.index,
                                             .step = result->version,
                                             .micro_batch = result->micro_batch,
                                             .buffer = i};
            return true;
        }
    }
    return false;
}

/* Return whether everything that the worker has sent was acknowledged, except `open` pushes. */
static bool is_acknowledged(const struct exchange_worker *worker, size_t open)
{
    for (size_t i = 0; i < EXCHANGE_RESULTS; i++) {
        if (worker->result[i].state != RESULT_NONE) {
            return false;
        }
    }
    return worker->pushes_open == open;
}

/* Return request `index` of a sum, in backward order. */
static struct exchange_message push_of(const struct exchange_worker *worker, size_t block,
                                       size_t index)
{
    const struct exchange_sum *sum = sum_of(worker, block);
    const size_t segments =
        sum->pushes - (is_last_block(worker, block) && worker->plan->config.layer_end[0] == 0);
    struct exchange_message push = {.kind = EXCHANGE_CONTRIBUTION,
                                    .from = worker->plan->config.index,
                                    .step = sum->step,
                                    .block = block};
    push.done = is_last_block(worker, block) && index + 1 == sum->pushes;
    if (index < segments) {
        const size_t at = segments - 1 - index;
        push.first = at == 0 ? 0 : sum->push_end[at - 1];
        push.end = sum->push_end[at];
        (void)exchange_plan_server_of(worker->plan, push.first, push.end, &push.to);
    }
    return push;
}

/* The last request of a step waits for the answers to all others. A stream may begin earlier, but
 * withholds its last layer. */
static bool may_send(const struct exchange_worker *worker, const struct exchange_message *push)
{
    const struct exchange_sum *sum = sum_of(worker, push->block);
    const bool begins_early = worker->list.streams && push->first < push->end;
    if (push->done && !begins_early && !is_acknowledged(worker, 0)) {
        return false;
    }
    return begins_early ? sum->final < push->end : sum->final <= push->first;
}

static bool next_push(struct exchange_worker *worker, struct exchange_message *out)
{
    const struct exchange_plan *plan = worker->plan;
    if (worker->pushes_open >= worker->list.window) {
        return false;
    }
    const size_t first = plan->share[plan->config.index].first;
    for (size_t i = first; i < first + block_count(worker); i++) {
        struct exchange_sum *sum = sum_of(worker, i);
        if (sum->handed < sum->pushes) {
            *out = push_of(worker, i, sum->handed);
            if (!may_send(worker, out)) {
                return false;
            }
            sum->handed++;
            worker->pushes_open++;
            return true;
        }
    }
    return false;
}

bool exchange_worker_message(struct exchange_worker *worker, struct exchange_message *out)
{
    return !exchange_course_ends(worker->course) &&
           (next_pull(worker, out) || next_result(worker, out) || next_push(worker, out));
}

bool exchange_worker_withholds(const struct exchange_worker *worker,
                               const struct exchange_message *message)
{
    const size_t final = sum_of(worker, message->block)->final;
    return message->done && final <= message->first && !is_acknowledged(worker, 1);
}

size_t exchange_worker_sendable(const struct exchange_worker *worker,
                                const struct exchange_message *message)
{
    const size_t final = sum_of(worker, message->block)->final;
    size_t first = final > message->first ? final : message->first;
    first += exchange_worker_withholds(worker, message);
    return first < message->end ? first : message->end;
}

int64_t exchange_worker_done_step(const struct exchange_worker *worker)
{
    const struct exchange_plan *plan = worker->plan;
    const size_t blocks = block_count(worker);
    if (blocks == 0) {
        return worker->step - 1;
    }
    const struct exchange_sum *last = sum_of(worker, plan->share[plan->config.index].end - 1);
    const bool handed = last->step == worker->step && last->handed == last->pushes;
    return handed ? worker->step : worker->step - 1;
}

void exchange_worker_pulled(struct exchange_worker *worker, const struct exchange_message *message,
                            size_t end)
{
    const bool counts = end == message->end || message->streams;
    if (message->step + 1 != worker->step || !worker->begun || !counts) {
        return;
    }
    for (size_t i = 0; i < worker->list.pull.count; i++) {
        if (worker->pull_end[i] == message->end && worker->pulled[i] < end) {
            worker->pulled[i] = end;
            worker->pulls_open -= end == message->end;
        }
    }
    size_t arrived = 0;
    for (size_t i = 0; i < worker->list.pull.count; i++) {
        arrived = worker->pulled[i];
        if (arrived < worker->pull_end[i]) {
            break;
        }
    }
    worker->arrived = arrived;
}

void exchange_worker_sent(struct exchange_worker *worker, const struct exchange_message *message)
{
    if (message->kind == EXCHANGE_RESULT) {
        ASSERT(worker->result[message->buffer].state == RESULT_SENDING);
        worker->result[message->buffer].state = RESULT_NONE;
    } else if (message->kind == EXCHANGE_CONTRIBUTION) {
        struct exchange_sum *sum = sum_of(worker, message->block);
        ASSERT(sum->answered < sum->handed && sum->step == message->step);
        worker->pushes_open--;
        sum->answered++;
    }
}
