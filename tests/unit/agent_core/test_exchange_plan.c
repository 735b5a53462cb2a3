/* What an assignment must be, and what follows from it. */
#include "agent/core/exchange_plan.h"
#include "tests/unit/agent_core/exchange_steps.h"

static void expect_error(const struct exchange_config *config, const char *text)
{
    struct exchange *exchange = NULL;
    struct err err = {0};
    assert_int_equal(exchange_new(config, &exchange, &err), ERR_INVALID);
    assert_null(exchange);
    assert_holds(err.text, text);
}

static void numbers_that_do_not_fit_together_are_named(void **state)
{
    (void)state;
    struct exchange_config config = steps_config(STEPS_STAGES);
    expect_error(&config, "exchange: stage 4 of 4");
    config = steps_config(LEAD);
    config.count = STAGES_MAX + 1;
    expect_error(&config, "stage 0 of 33");
    config = steps_config(LEAD);
    config.servers = 0;
    expect_error(&config, "0 servers of 4 stages");
    config.servers = EXCHANGE_SERVERS_MAX + 1;
    expect_error(&config, "9 servers of 4 stages");
    config = steps_config(LEAD);
    config.layer_end[1] = 1;
    expect_error(&config, "server 1: layers [2, 1)");
    config.layer_end[0] = config.layer_end[1] = 0;
    expect_error(&config, "no server keeps a layer");
    config.layer_end[1] = EXCHANGE_LAYERS_MAX + 1;
    expect_error(&config, "server 1: layers [0, 4097)");
    config = steps_config(LEAD);
    config.micro_batches = 0;
    expect_error(&config, "0 micro-batches");
    config = steps_config(LEAD);
    config.resume_version = 11;
    expect_error(&config, "version 11 of 10 steps");
    config = steps_config(LEAD);
    config.evaluate_every = -1;
    expect_error(&config, "an evaluation every -1 steps");
    config = steps_config(LEAD);
    config.round_every[REPLICA_CENTER] = -2;
    expect_error(&config, "a round of replication every -2 steps");
    config = steps_config(LEAD);
    config.count = 5;
    expect_error(&config, "stage 4 keeps no units and has no share");
}

static void expect_blocks(size_t count, const struct exchange_block *block, size_t blocks,
                          const char *text)
{
    struct exchange_config config = steps_config(LEAD);
    config.micro_batches = count;
    config.block = block;
    config.blocks = blocks;
    expect_error(&config, text);
}

static void blocks_must_be_the_fewest_nodes_of_contiguous_shares(void **state)
{
    (void)state;
    static const struct exchange_block gap[] = {{WORKER, {0, 2}}, {SMALL_WORKER, {3, 4}}};
    expect_blocks(4, gap, 2, "block 1: micro-batches [3, 4) of stage 3");
    static const struct exchange_block no_node[] = {{WORKER, {0, 3}}, {SMALL_WORKER, {3, 4}}};
    expect_blocks(4, no_node, 2, "block 0: micro-batches [0, 3) of stage 2");
    static const struct exchange_block nobody[] = {{WORKER, {0, 2}}, {STEPS_STAGES, {2, 4}}};
    expect_blocks(4, nobody, 2, "block 1: micro-batches [2, 4) of stage 4");
    static const struct exchange_block split[] = {
        {WORKER, {0, 1}}, {SMALL_WORKER, {1, 2}}, {WORKER, {2, 4}}};
    expect_blocks(4, split, 3, "block 2: the share of stage 2 is in two parts");
    static const struct exchange_block many[] = {
        {WORKER, {0, 1}}, {WORKER, {1, 2}}, {SMALL_WORKER, {2, 4}}};
    expect_blocks(4, many, 3, "stage 2: 2 blocks where 1 are enough");
    static const struct exchange_block few[] = {{WORKER, {0, 1}}, {SMALL_WORKER, {1, 2}}};
    expect_blocks(4, few, 2, "blocks end with micro-batch 2 of 4");
    expect_blocks(4, few, 0, "0 blocks of 4 micro-batches");
    expect_blocks(1, few, 2, "2 blocks of 1 micro-batches");
}

static void sums_are_added_in_the_order_of_the_tree(void **state)
{
    (void)state;
    /* 7 micro-batches: (0..3, (4..5, 6)). */
    static const struct exchange_block block[] = {
        {WORKER, {0, 2}}, {SMALL_WORKER, {2, 4}}, {SMALL_WORKER, {4, 6}}, {SERVER, {6, 7}}};
    static const size_t expected[][2] = {{0, 1}, {2, 3}, {0, 2}};
    struct exchange_config config = steps_config(LEAD);
    config.micro_batches = 7;
    config.block = block;
    config.blocks = 4;
    struct exchange_plan plan;
    struct err err = {0};
    assert_ok(exchange_plan_init(&plan, &config, &err), &err);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(plan.add[i].left, expected[i][0]);
        assert_int_equal(plan.add[i].right, expected[i][1]);
    }
    assert_int_equal(plan.add[2].added.first, 4);
    assert_int_equal(plan.add[2].added.end, 7);
    assert_true(exchange_plan_is_server(&plan, SERVER) && exchange_plan_is_worker(&plan, SERVER));
    assert_false(exchange_plan_is_worker(&plan, LEAD));
    exchange_plan_done(&plan);
}

static void test_micro_batches_are_dealt_in_proportion_to_the_shares(void **state)
{
    (void)state;
    struct exchange_config config = steps_config(LEAD);
    config.evaluation_batches = 10;
    struct exchange_plan plan;
    struct err err = {0};
    assert_ok(exchange_plan_init(&plan, &config, &err), &err);
    static const size_t worker[] = {0, 1, 2, 4, 5, 6, 8, 9}, small[] = {3, 7};
    size_t next = 0;
    for (size_t i = 0; i < 8; i++, next++) {
        next = exchange_plan_test(&plan, WORKER, next);
        assert_int_equal(next, worker[i]);
    }
    assert_int_equal(exchange_plan_test(&plan, WORKER, next), 10);
    next = 0;
    for (size_t i = 0; i < 2; i++, next++) {
        next = exchange_plan_test(&plan, SMALL_WORKER, next);
        assert_int_equal(next, small[i]);
    }
    assert_int_equal(exchange_plan_test(&plan, SMALL_WORKER, next), 10);
    assert_int_equal(exchange_plan_test(&plan, LEAD, 0), 10);
    exchange_plan_done(&plan);
}

static void segments_belong_to_one_server(void **state)
{
    (void)state;
    struct exchange_config config = steps_config(LEAD);
    config.servers = 3;
    config.layer_end[1] = 2; /* it keeps none */
    config.layer_end[2] = 3;
    struct exchange_plan plan;
    struct err err = {0};
    assert_ok(exchange_plan_init(&plan, &config, &err), &err);
    size_t server = 9;
    assert_true(exchange_plan_server_of(&plan, 0, 2, &server));
    assert_int_equal(server, 0);
    assert_true(exchange_plan_server_of(&plan, 2, 3, &server));
    assert_int_equal(server, 2);
    assert_false(exchange_plan_server_of(&plan, 1, 3, &server));
    assert_false(exchange_plan_server_of(&plan, 1, 1, &server));
    assert_false(exchange_plan_server_of(&plan, 2, 4, &server));
    exchange_plan_done(&plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_that_do_not_fit_together_are_named),
        cmocka_unit_test(blocks_must_be_the_fewest_nodes_of_contiguous_shares),
        cmocka_unit_test(sums_are_added_in_the_order_of_the_tree),
        cmocka_unit_test(test_micro_batches_are_dealt_in_proportion_to_the_shares),
        cmocka_unit_test(segments_belong_to_one_server),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
