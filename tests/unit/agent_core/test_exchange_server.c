/* What a server takes, adds and updates in a step. */
#include "tests/unit/agent_core/exchange_steps.h"

static struct exchange *make_server(void)
{
    const struct exchange_config config = steps_config(SERVER);
    return steps_run(&config);
}

static enum exchange_verdict commit(struct exchange *server, int64_t step)
{
    const struct exchange_message message = steps_commit(SERVER, step);
    return exchange_commit(server, &message);
}

/* Everything of the step arrives, it is committed and applied. */
static void apply(struct exchange *server, int64_t step)
{
    steps_deliver_all(server, SERVER, step);
    (void)steps_do(server, EXCHANGE_ADD);
    (void)steps_do(server, EXCHANGE_ADD);
    assert_int_equal(commit(server, step), EXCHANGE_STORED);
    assert_int_equal(steps_do(server, EXCHANGE_UPDATE).step, step);
    assert_int_equal(exchange_version(server), step);
}

/* ---- contributions ---- */

static void a_server_adds_siblings_as_soon_as_both_are_there(void **state)
{
    (void)state;
    struct exchange *server AUTO(exchange_free) = make_server();
    for (size_t block = 2; block > 0; block--) {
        steps_wait(server, EXCHANGE_WAITS_FOR_BLOCKS);
        const struct exchange_message part = steps_contribution(SERVER, 1, block, 2, 3);
        steps_deliver(server, &part);
    }
    /* Micro-batches 2 and 3 are siblings; 0 to 1 is that of both together. */
    struct exchange_task task = steps_do(server, EXCHANGE_ADD);
    assert_int_equal(task.block, 1);
    assert_int_equal(task.right, 2);
    steps_wait(server, EXCHANGE_WAITS_FOR_BLOCKS);
    const struct exchange_message part = steps_contribution(SERVER, 1, 0, 2, 3);
    steps_deliver(server, &part);
    task = steps_do(server, EXCHANGE_ADD);
    assert_int_equal(task.block, 0);
    assert_int_equal(task.right, 1);
    steps_wait(server, EXCHANGE_WAITS_FOR_BLOCKS);
}

static void blocks_that_are_no_siblings_wait(void **state)
{
    (void)state;
    struct exchange *server AUTO(exchange_free) = make_server();
    for (size_t block = 0; block < 2; block++) {
        const struct exchange_message part = steps_contribution(SERVER, 1, block, 2, 3);
        steps_deliver(server, &part);
    }
    steps_wait(server, EXCHANGE_WAITS_FOR_BLOCKS);
}

static void a_block_is_whole_when_all_of_its_layers_are_here(void **state)
{
    (void)state;
    const struct exchange_config config = steps_config(LEAD);
    struct exchange *lead AUTO(exchange_free) = steps_run(&config);
    struct exchange_message part = steps_contribution(LEAD, 1, 1, 1, 2);
    steps_deliver(lead, &part);
    part = steps_contribution(LEAD, 1, 2, 0, 2);
    steps_deliver(lead, &part);
    steps_wait(lead, EXCHANGE_WAITS_FOR_BLOCKS);
    part = steps_contribution(LEAD, 1, 0, 0, 2);
    steps_deliver(lead, &part);
    steps_wait(lead, EXCHANGE_WAITS_FOR_BLOCKS);
    part = steps_contribution(LEAD, 1, 1, 0, 1);
    steps_deliver(lead, &part);
    assert_int_equal(steps_do(lead, EXCHANGE_ADD).block, 1);
}

static void a_repeat_is_accepted_and_ignored(void **state)
{
    (void)state;
    struct exchange *server AUTO(exchange_free) = make_server();
    const struct exchange_message part = steps_contribution(SERVER, 1, 0, 2, 3);
    steps_deliver(server, &part);
    assert_int_equal(steps_offer(server, &part), EXCHANGE_STORED);
    for (size_t block = 1; block < 3; block++) {
        const struct exchange_message other = steps_contribution(SERVER, 1, block, 2, 3);
        steps_deliver(server, &other);
    }
    (void)steps_do(server, EXCHANGE_ADD);
    assert_int_equal(steps_offer(server, &part), EXCHANGE_STORED); /* it is part of a sum */
    (void)steps_do(server, EXCHANGE_ADD);
    assert_int_equal(commit(server, 1), EXCHANGE_STORED);
    assert_int_equal(commit(server, 1), EXCHANGE_STORED);
    (void)steps_do(server, EXCHANGE_UPDATE);
    assert_int_equal(steps_offer(server, &part), EXCHANGE_STORED); /* it was used */
    assert_int_equal(commit(server, 1), EXCHANGE_STORED);
}

static void what_is_not_in_the_plan_is_refused(void **state)
{
    (void)state;
    struct exchange *server AUTO(exchange_free) = make_server();
    const struct exchange_message good = steps_contribution(SERVER, 1, 0, 2, 3);
    struct exchange_message bad = good;
    bad.block = 3;
    assert_int_equal(steps_offer(server, &bad), EXCHANGE_REFUSE);
    bad = good;
    bad.from = SMALL_WORKER; /* another worker's block */
    assert_int_equal(steps_offer(server, &bad), EXCHANGE_REFUSE);
    bad = good;
    bad.first = 1; /* the lead's layer */
    assert_int_equal(steps_offer(server, &bad), EXCHANGE_REFUSE);
    bad = good;
    bad.first = bad.end = 2;
    assert_int_equal(steps_offer(server, &bad), EXCHANGE_REFUSE);
    bad = good;
    bad.done = true; /* the lead hears of it */
    assert_int_equal(steps_offer(server, &bad), EXCHANGE_REFUSE);
    bad = good;
    bad.step = 11;
    assert_int_equal(steps_offer(server, &bad), EXCHANGE_REFUSE);
    bad = good;
    bad.step = 2; /* nobody is there */
    assert_int_equal(steps_offer(server, &bad), EXCHANGE_REFUSE);
    bad = good;
    bad.to = LEAD;
    assert_int_equal(steps_offer(server, &bad), EXCHANGE_REFUSE);
    bad = good;
    bad.from = STEPS_STAGES;
    assert_int_equal(steps_offer(server, &bad), EXCHANGE_REFUSE);
    bad = (struct exchange_message){.kind = EXCHANGE_RESULT, .from = WORKER, .to = SERVER};
    assert_int_equal(steps_offer(server, &bad), EXCHANGE_REFUSE);
    bad = (struct exchange_message){.kind = EXCHANGE_NORM_TOTAL, .to = SERVER, .step = 1};
    assert_int_equal(steps_offer(server, &bad), EXCHANGE_REFUSE); /* nothing is clipped */
    assert_int_equal(steps_offer(server, &good), EXCHANGE_TAKE);
}

static void segments_of_one_block_do_not_overlap(void **state)
{
    (void)state;
    const struct exchange_config config = steps_config(LEAD);
    struct exchange *lead AUTO(exchange_free) = steps_run(&config);
    struct exchange_message part = steps_contribution(LEAD, 1, 0, 1, 2);
    steps_deliver(lead, &part);
    part = steps_contribution(LEAD, 1, 0, 0, 2);
    assert_int_equal(steps_offer(lead, &part), EXCHANGE_REFUSE);
}

static void the_newest_claim_wins(void **state)
{
    (void)state;
    struct exchange *server AUTO(exchange_free) = make_server();
    const struct exchange_message part = steps_contribution(SERVER, 1, 0, 2, 3);
    struct exchange_claim older, newer, newest;
    assert_int_equal(exchange_offer(server, &part, &older), EXCHANGE_TAKE);
    assert_int_equal(exchange_offer(server, &part, &newer), EXCHANGE_TAKE);
    assert_false(exchange_holds(server, &part, &older));
    assert_true(exchange_holds(server, &part, &newer));
    assert_int_equal(exchange_received(server, &part, &older), EXCHANGE_NOT_YET);
    exchange_abandon(server, &part, &older);
    assert_true(exchange_holds(server, &part, &newer));
    exchange_abandon(server, &part, &newer);
    assert_false(exchange_holds(server, &part, &newer));
    assert_int_equal(exchange_offer(server, &part, &newest), EXCHANGE_TAKE);
    assert_int_equal(exchange_received(server, &part, &newest), EXCHANGE_STORED);
    assert_false(exchange_holds(server, &part, &newest));
}

/* ---- commits ---- */

static void a_commit_finds_every_contribution_or_is_refused(void **state)
{
    (void)state;
    struct exchange *server AUTO(exchange_free) = make_server();
    for (size_t block = 0; block < 2; block++) {
        const struct exchange_message part = steps_contribution(SERVER, 1, block, 2, 3);
        steps_deliver(server, &part);
    }
    assert_int_equal(commit(server, 1), EXCHANGE_REFUSE);
    assert_int_equal(commit(server, 2), EXCHANGE_REFUSE);
    const struct exchange_message part = steps_contribution(SERVER, 1, 2, 2, 3);
    steps_deliver(server, &part);
    assert_int_equal(commit(server, 1), EXCHANGE_STORED);
}

static void a_server_adds_what_is_left_then_updates_and_takes_a_marked_snapshot(void **state)
{
    (void)state;
    struct exchange *server AUTO(exchange_free) = make_server();
    steps_deliver_all(server, SERVER, 1);
    struct exchange_message message = steps_commit(SERVER, 1);
    message.mark = (struct round_mark){.kinds = REPLICA_MARK(REPLICA_CENTER), .keep = {0, 0, 5}};
    assert_int_equal(exchange_commit(server, &message), EXCHANGE_STORED);
    (void)steps_do(server, EXCHANGE_ADD);
    (void)steps_do(server, EXCHANGE_ADD);
    const struct exchange_task task = steps_do(server, EXCHANGE_UPDATE);
    assert_int_equal(task.mark.kinds, REPLICA_MARK(REPLICA_CENTER));
    assert_int_equal(task.mark.keep[2], 5);
    assert_false(task.opens_round);
    apply(server, 2);
}

static void a_server_without_layers_acknowledges_what_it_has_applied(void **state)
{
    (void)state;
    struct exchange_config config = steps_config(SERVER);
    config.layer_end[0] = STEPS_LAYERS;
    struct exchange *server AUTO(exchange_free) = steps_run(&config);
    assert_int_equal(commit(server, 1), EXCHANGE_NOT_YET);
    assert_int_equal(commit(server, 1), EXCHANGE_NOT_YET);
    assert_int_equal(commit(server, 2), EXCHANGE_NOT_YET);
    (void)steps_do(server, EXCHANGE_UPDATE);
    assert_int_equal(commit(server, 1), EXCHANGE_STORED);
    assert_int_equal(commit(server, 2), EXCHANGE_NOT_YET);
}

/* ---- stops ---- */

static void a_server_finishes_the_last_step_and_no_other(void **state)
{
    (void)state;
    struct exchange *server AUTO(exchange_free) = make_server();
    steps_deliver_all(server, SERVER, 1);
    struct exchange_message stop = steps_commit(SERVER, 1);
    stop.last = true;
    assert_int_equal(exchange_commit(server, &stop), EXCHANGE_STORED);
    assert_int_equal(exchange_commit(server, &stop), EXCHANGE_STORED);
    assert_int_equal(commit(server, 2), EXCHANGE_REFUSE);
    (void)steps_do(server, EXCHANGE_ADD);
    (void)steps_do(server, EXCHANGE_ADD);
    (void)steps_do(server, EXCHANGE_UPDATE);
    assert_int_equal(steps_do(server, EXCHANGE_STOP).step, 1);
    assert_int_equal(exchange_version(server), 1);
    assert_int_equal(exchange_commit(server, &stop), EXCHANGE_STORED);
}

static void contributions_to_a_discarded_step_are_outdated(void **state)
{
    (void)state;
    struct exchange *server AUTO(exchange_free) = make_server();
    apply(server, 1);
    const struct exchange_message on_its_way = steps_contribution(SERVER, 2, 0, 2, 3);
    const struct exchange_message late = steps_contribution(SERVER, 2, 1, 2, 3);
    struct exchange_claim claim;
    assert_int_equal(exchange_offer(server, &on_its_way, &claim), EXCHANGE_TAKE);
    struct exchange_message stop = steps_commit(SERVER, 1);
    stop.last = true;
    assert_int_equal(exchange_commit(server, &stop), EXCHANGE_STORED);
    assert_int_equal(exchange_received(server, &on_its_way, &claim), EXCHANGE_OUTDATED);
    assert_int_equal(steps_offer(server, &late), EXCHANGE_OUTDATED);
    (void)steps_do(server, EXCHANGE_STOP);
    assert_int_equal(steps_offer(server, &late), EXCHANGE_OUTDATED);
}

static void what_was_before_the_generation_is_outdated(void **state)
{
    (void)state;
    struct exchange_config config = steps_config(SERVER);
    config.resume_version = 4;
    struct exchange *server AUTO(exchange_free) = steps_run(&config);
    const struct exchange_message part = steps_contribution(SERVER, 4, 0, 2, 3);
    const struct exchange_message pull = steps_pull(SERVER, 3, 2, 3);
    assert_int_equal(steps_offer(server, &part), EXCHANGE_OUTDATED);
    assert_int_equal(exchange_pull(server, &pull, 1), EXCHANGE_OUTDATED);
    assert_int_equal(commit(server, 3), EXCHANGE_OUTDATED);
    assert_int_equal(commit(server, 4), EXCHANGE_STORED); /* a repeat, or a stop at once */
}

/* ---- norms ---- */

static struct exchange_message norm_message(enum exchange_kind kind, size_t from, size_t to)
{
    return (struct exchange_message){.kind = kind, .from = from, .to = to, .step = 1};
}

static void squares_are_summed_from_the_last_server_and_the_total_travels_back(void **state)
{
    (void)state;
    struct exchange_config config = steps_config(SERVER);
    config.clips_norm = true;
    struct exchange *server AUTO(exchange_free) = steps_run(&config);
    steps_deliver_all(server, SERVER, 1);
    assert_int_equal(commit(server, 1), EXCHANGE_STORED);
    (void)steps_do(server, EXCHANGE_ADD);
    (void)steps_do(server, EXCHANGE_ADD);
    (void)steps_do(server, EXCHANGE_SUM);
    const struct exchange_message norm = steps_message(server, EXCHANGE_NORM);
    assert_int_equal(norm.to, LEAD);
    assert_int_equal(norm.step, 1);
    steps_wait(server, EXCHANGE_WAITS_FOR_NORM);
    const struct exchange_message total = norm_message(EXCHANGE_NORM_TOTAL, LEAD, SERVER);
    steps_deliver(server, &total);
    assert_int_equal(steps_offer(server, &total), EXCHANGE_STORED);
    (void)steps_do(server, EXCHANGE_UPDATE);
    assert_int_equal(steps_offer(server, &total), EXCHANGE_STORED);
    /* The buffer of the norm is still being sent. */
    steps_deliver_all(server, SERVER, 2);
    (void)steps_do(server, EXCHANGE_ADD);
    (void)steps_do(server, EXCHANGE_ADD);
    assert_int_equal(commit(server, 2), EXCHANGE_STORED);
    steps_wait(server, EXCHANGE_WAITS_FOR_ROOM);
    exchange_sent(server, &norm);
    (void)steps_do(server, EXCHANGE_SUM);
}

static void a_server_between_two_adds_its_squares_and_passes_the_total_on(void **state)
{
    (void)state;
    struct exchange_config config = steps_config(SERVER);
    config.clips_norm = true;
    config.servers = 3;
    config.layer_end[0] = 1;
    config.layer_end[1] = 2;
    config.layer_end[2] = 3;
    struct exchange *server AUTO(exchange_free) = steps_run(&config);
    const struct exchange_message norm = norm_message(EXCHANGE_NORM, 2, SERVER);
    struct exchange_claim early;
    assert_int_equal(exchange_offer(server, &norm, &early), EXCHANGE_TAKE);
    for (size_t block = 0; block < 3; block++) {
        const struct exchange_message part = steps_contribution(SERVER, 1, block, 1, 2);
        steps_deliver(server, &part);
    }
    (void)steps_do(server, EXCHANGE_ADD);
    (void)steps_do(server, EXCHANGE_ADD);
    steps_wait(server, EXCHANGE_WAITS_FOR_BLOCKS); /* nothing is summed before the commit */
    assert_int_equal(commit(server, 1), EXCHANGE_STORED);
    steps_wait(server, EXCHANGE_WAITS_FOR_NORM);
    steps_deliver(server, &norm);
    (void)steps_do(server, EXCHANGE_SUM);
    assert_int_equal(steps_message(server, EXCHANGE_NORM).to, LEAD);
    const struct exchange_message total = norm_message(EXCHANGE_NORM_TOTAL, LEAD, SERVER);
    steps_deliver(server, &total);
    (void)steps_do(server, EXCHANGE_TOTAL);
    assert_int_equal(steps_message(server, EXCHANGE_NORM_TOTAL).to, 2);
    (void)steps_do(server, EXCHANGE_UPDATE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_adds_siblings_as_soon_as_both_are_there),
        cmocka_unit_test(blocks_that_are_no_siblings_wait),
        cmocka_unit_test(a_block_is_whole_when_all_of_its_layers_are_here),
        cmocka_unit_test(a_repeat_is_accepted_and_ignored),
        cmocka_unit_test(what_is_not_in_the_plan_is_refused),
        cmocka_unit_test(segments_of_one_block_do_not_overlap),
        cmocka_unit_test(the_newest_claim_wins),
        cmocka_unit_test(a_commit_finds_every_contribution_or_is_refused),
        cmocka_unit_test(a_server_adds_what_is_left_then_updates_and_takes_a_marked_snapshot),
        cmocka_unit_test(a_server_without_layers_acknowledges_what_it_has_applied),
        cmocka_unit_test(a_server_finishes_the_last_step_and_no_other),
        cmocka_unit_test(contributions_to_a_discarded_step_are_outdated),
        cmocka_unit_test(what_was_before_the_generation_is_outdated),
        cmocka_unit_test(squares_are_summed_from_the_last_server_and_the_total_travels_back),
        cmocka_unit_test(a_server_between_two_adds_its_squares_and_passes_the_total_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
