#include "tests/unit/agent_core/exchange_steps.h"

static const struct exchange_block blocks[] = {
    {WORKER, {0, 2}}, {WORKER, {2, 3}}, {SMALL_WORKER, {3, 4}}};
static const size_t layer_ends[STEPS_LAYERS] = {1, 2, 3};

struct exchange_config steps_config(size_t index)
{
    return (struct exchange_config){.index = index,
                                    .count = STEPS_STAGES,
                                    .servers = 2,
                                    .layer_end = {2, 3},
                                    .micro_batches = 4,
                                    .block = blocks,
                                    .blocks = 3,
                                    .total_steps = 10};
}

struct exchange *steps_make(const struct exchange_config *config)
{
    struct exchange *exchange = NULL;
    struct err err = {0};
    assert_ok(exchange_new(config, &exchange, &err), &err);
    return exchange;
}

struct exchange *steps_run(const struct exchange_config *config)
{
    struct exchange *exchange = steps_make(config);
    steps_order(exchange, &(struct orders){.run = true});
    return exchange;
}

void steps_order(struct exchange *exchange, const struct orders *orders)
{
    exchange_follow(exchange, orders);
}

/* ---- messages to it ---- */

struct exchange_message steps_pull(size_t to, int64_t version, size_t first, size_t end)
{
    return (struct exchange_message){.kind = EXCHANGE_PARAMETERS,
                                     .from = WORKER,
                                     .to = to,
                                     .step = version,
                                     .first = first,
                                     .end = end};
}

struct exchange_message steps_contribution(size_t to, int64_t step, size_t block, size_t first,
                                           size_t end)
{
    return (struct exchange_message){.kind = EXCHANGE_CONTRIBUTION,
                                     .from = blocks[block].stage,
                                     .to = to,
                                     .step = step,
                                     .block = block,
                                     .first = first,
                                     .end = end,
                                     .done = to == LEAD && first == 0 && block > 0};
}

struct exchange_message steps_commit(size_t to, int64_t step)
{
    return (struct exchange_message){.kind = EXCHANGE_COMMIT, .to = to, .step = step};
}

void steps_deliver(struct exchange *exchange, const struct exchange_message *message)
{
    struct exchange_claim claim;
    assert_int_equal(exchange_offer(exchange, message, &claim), EXCHANGE_TAKE);
    assert_int_equal(exchange_received(exchange, message, &claim), EXCHANGE_STORED);
}

enum exchange_verdict steps_offer(struct exchange *exchange, const struct exchange_message *message)
{
    struct exchange_claim claim;
    return exchange_offer(exchange, message, &claim);
}

void steps_deliver_all(struct exchange *exchange, size_t to, int64_t step)
{
    for (size_t block = 0; block < 3; block++) {
        const size_t first = to == LEAD ? 0 : 2;
        const struct exchange_message message =
            steps_contribution(to, step, block, first, first == 0 ? 2 : 3);
        steps_deliver(exchange, &message);
    }
}

/* ---- work ---- */

struct exchange_task steps_do(struct exchange *exchange, enum exchange_work work)
{
    struct exchange_task task;
    assert_int_equal(exchange_next(exchange, &task), work);
    exchange_done(exchange, &task);
    return task;
}

void steps_wait(struct exchange *exchange, enum exchange_wait why)
{
    struct exchange_task task;
    assert_int_equal(exchange_next(exchange, &task), EXCHANGE_WAIT);
    assert_int_equal(exchange_waits(exchange), why);
}

void steps_begin(struct exchange *exchange, const struct exchange_segments *segments)
{
    struct exchange_task task;
    struct err err = {0};
    assert_int_equal(exchange_next(exchange, &task), EXCHANGE_BEGIN);
    assert_ok(exchange_begin(exchange, segments, &err), &err);
    exchange_done(exchange, &task);
}

struct exchange_segments steps_layers(void)
{
    const struct exchange_requests requests = {layer_ends, STEPS_LAYERS};
    return (struct exchange_segments){
        .pull = requests, .push = {requests, requests, requests}, .window = 1};
}

void steps_pull_all(struct exchange *exchange, int64_t version)
{
    for (size_t i = 0; i < STEPS_LAYERS; i++) {
        const struct exchange_message pull = steps_message(exchange, EXCHANGE_PARAMETERS);
        assert_int_equal(pull.step, version);
        exchange_pulled(exchange, &pull, pull.end);
    }
}

/* ---- messages from it ---- */

struct exchange_message steps_message(struct exchange *exchange, enum exchange_kind kind)
{
    struct exchange_message message;
    assert_true(exchange_next_message(exchange, &message));
    assert_int_equal(message.kind, kind);
    return message;
}

void steps_no_message(struct exchange *exchange)
{
    struct exchange_message message;
    assert_false(exchange_next_message(exchange, &message));
}
