/* What the lead decides: commits, rounds, evaluations, the end. */
#include "tests/unit/agent_core/exchange_steps.h"

static struct exchange *make_lead(void)
{
    const struct exchange_config config = steps_config(LEAD);
    return steps_run(&config);
}

/* Every worker is done with the step, and it is committed; its commit is not acknowledged. */
static struct exchange_message complete(struct exchange *lead, int64_t step)
{
    steps_deliver_all(lead, LEAD, step);
    const struct exchange_message commit = steps_message(lead, EXCHANGE_COMMIT);
    assert_int_equal(commit.step, step);
    assert_int_equal(commit.to, SERVER);
    (void)steps_do(lead, EXCHANGE_ADD);
    (void)steps_do(lead, EXCHANGE_ADD);
    return commit;
}

/* The step is applied everywhere. */
static void apply(struct exchange *lead, int64_t step)
{
    const struct exchange_message commit = complete(lead, step);
    exchange_sent(lead, &commit);
    assert_int_equal(steps_do(lead, EXCHANGE_UPDATE).step, step);
}

/* All others hear of the last version. */
static void expect_last(struct exchange *lead, int64_t version)
{
    for (size_t to = 1; to < STEPS_STAGES; to++) {
        const struct exchange_message notice = steps_message(lead, EXCHANGE_COMMIT);
        assert_int_equal(notice.to, to);
        assert_int_equal(notice.step, version);
        assert_true(notice.last);
        exchange_sent(lead, &notice);
    }
    steps_no_message(lead);
    assert_int_equal(exchange_last(lead), version);
}

/* ---- commits ---- */

static void the_lead_commits_a_step_when_all_blocks_are_done(void **state)
{
    (void)state;
    struct exchange *lead AUTO(exchange_free) = make_lead();
    for (size_t block = 0; block < 3; block++) {
        steps_no_message(lead);
        const struct exchange_message part = steps_contribution(LEAD, 1, block, 0, 2);
        steps_deliver(lead, &part);
    }
    const struct exchange_message commit = steps_message(lead, EXCHANGE_COMMIT);
    assert_int_equal(commit.to, SERVER);
    assert_int_equal(commit.step, 1);
    assert_false(commit.last);
    steps_no_message(lead); /* workers hear of it by their pulls */
    (void)steps_do(lead, EXCHANGE_ADD);
    (void)steps_do(lead, EXCHANGE_ADD);
    (void)steps_do(lead, EXCHANGE_UPDATE);
    assert_int_equal(exchange_version(lead), 1);
}

static void done_without_everything_else_is_refused(void **state)
{
    (void)state;
    struct exchange *lead AUTO(exchange_free) = make_lead();
    struct exchange_message done = steps_contribution(LEAD, 1, 1, 0, 1);
    struct exchange_claim claim;
    assert_int_equal(exchange_offer(lead, &done, &claim), EXCHANGE_TAKE);
    assert_int_equal(exchange_received(lead, &done, &claim), EXCHANGE_REFUSE); /* block 0 */
    const struct exchange_message block = steps_contribution(LEAD, 1, 0, 0, 2);
    steps_deliver(lead, &block);
    assert_int_equal(exchange_offer(lead, &done, &claim), EXCHANGE_TAKE);
    assert_int_equal(exchange_received(lead, &done, &claim), EXCHANGE_REFUSE); /* layer 1 */
    const struct exchange_message layer = steps_contribution(LEAD, 1, 1, 1, 2);
    steps_deliver(lead, &layer);
    steps_deliver(lead, &done);
    done.done = false;
    assert_int_equal(steps_offer(lead, &done), EXCHANGE_REFUSE); /* the lowest layer says it */
}

static void a_lead_without_layers_hears_of_done_alone(void **state)
{
    (void)state;
    struct exchange_config config = steps_config(LEAD);
    config.layer_end[0] = 0;
    struct exchange *lead AUTO(exchange_free) = steps_run(&config);
    struct exchange_message done = steps_contribution(LEAD, 1, 1, 0, 0);
    steps_deliver(lead, &done);
    assert_int_equal(steps_offer(lead, &done), EXCHANGE_STORED);
    steps_no_message(lead);
    done = steps_contribution(LEAD, 1, 2, 0, 0);
    steps_deliver(lead, &done);
    const struct exchange_message commit = steps_message(lead, EXCHANGE_COMMIT);
    exchange_sent(lead, &commit);
    done.step = 2;
    assert_int_equal(steps_offer(lead, &done), EXCHANGE_NOT_YET);
    (void)steps_do(lead, EXCHANGE_UPDATE);
    steps_deliver(lead, &done);
}

static void the_lead_waits_for_the_acknowledgement_of_the_commit_before(void **state)
{
    (void)state;
    struct exchange *lead AUTO(exchange_free) = make_lead();
    const struct exchange_message commit = complete(lead, 1);
    (void)steps_do(lead, EXCHANGE_UPDATE);
    steps_deliver_all(lead, LEAD, 2);
    (void)steps_do(lead, EXCHANGE_ADD);
    (void)steps_do(lead, EXCHANGE_ADD);
    steps_wait(lead, EXCHANGE_WAITS_FOR_BLOCKS);
    exchange_sent(lead, &commit);
    assert_int_equal(steps_message(lead, EXCHANGE_COMMIT).step, 2);
}

static void a_held_lead_without_layers_commits_nothing(void **state)
{
    (void)state;
    struct exchange_config config = steps_config(LEAD);
    config.layer_end[0] = 0;
    struct exchange *lead AUTO(exchange_free) = steps_run(&config);
    steps_order(lead, &(struct orders){.run = true, .held = true});
    for (size_t block = 1; block < 3; block++) {
        const struct exchange_message done = steps_contribution(LEAD, 1, block, 0, 0);
        steps_deliver(lead, &done);
    }
    steps_no_message(lead);
    steps_order(lead, &(struct orders){.run = true});
    (void)steps_message(lead, EXCHANGE_COMMIT);
}

/* ---- rounds ---- */

static void the_commit_carries_the_mark_of_the_round(void **state)
{
    (void)state;
    struct exchange_config config = steps_config(LEAD);
    config.round_every[REPLICA_NEIGHBOR] = 2;
    struct exchange *lead AUTO(exchange_free) = steps_run(&config);
    const struct exchange_message plain = complete(lead, 1);
    assert_int_equal(plain.mark.kinds, 0);
    exchange_sent(lead, &plain);
    assert_false(steps_do(lead, EXCHANGE_UPDATE).opens_round);
    const struct exchange_message marked = complete(lead, 2);
    assert_int_equal(marked.mark.kinds, REPLICA_MARK(REPLICA_NEIGHBOR));
    struct heartbeat beat = {0};
    exchange_report(lead, &beat);
    assert_int_equal(beat.round_neighbor, 2);
    const struct exchange_task task = steps_do(lead, EXCHANGE_UPDATE);
    assert_int_equal(task.mark.kinds, REPLICA_MARK(REPLICA_NEIGHBOR));
    assert_true(task.opens_round);
    const struct round round[REPLICA_KINDS] = {{.version = 2, .state = ROUND_COMMITTED}};
    exchange_take_rounds(lead, round);
    exchange_report(lead, &beat);
    assert_int_equal(beat.round_neighbor, 0);
}

static void no_round_is_opened_while_the_coordinator_is_away(void **state)
{
    (void)state;
    struct exchange_config config = steps_config(LEAD);
    config.round_every[REPLICA_CENTER] = 1;
    struct exchange *lead AUTO(exchange_free) = steps_run(&config);
    steps_order(lead, &(struct orders){.run = true, .away = true});
    apply(lead, 1);
    steps_order(lead, &(struct orders){.run = true});
    assert_int_equal(complete(lead, 2).mark.kinds, REPLICA_MARK(REPLICA_CENTER));
}

/* ---- stops ---- */

static void a_stop_fixes_the_version_of_the_lead(void **state)
{
    (void)state;
    struct exchange *lead AUTO(exchange_free) = make_lead();
    apply(lead, 1);
    for (size_t block = 0; block < 2; block++) {
        const struct exchange_message part = steps_contribution(LEAD, 2, block, 0, 2);
        steps_deliver(lead, &part);
    }
    steps_order(lead, &(struct orders){.run = true, .stop = true});
    expect_last(lead, 1);
    const struct exchange_message late = steps_contribution(LEAD, 2, 2, 0, 2);
    assert_int_equal(steps_offer(lead, &late), EXCHANGE_OUTDATED);
    assert_int_equal(steps_do(lead, EXCHANGE_STOP).step, 1);
    steps_order(lead, &(struct orders){.run = true}); /* a stop is for good */
    steps_wait(lead, EXCHANGE_WAITS_FOR_ORDERS);
}

static void a_stop_after_the_commit_finishes_that_step(void **state)
{
    (void)state;
    struct exchange *lead AUTO(exchange_free) = make_lead();
    const struct exchange_message commit = complete(lead, 1);
    steps_order(lead, &(struct orders){.run = true, .stop = true});
    assert_int_equal(steps_message(lead, EXCHANGE_COMMIT).to, WORKER);
    assert_int_equal(steps_message(lead, EXCHANGE_COMMIT).to, SMALL_WORKER);
    steps_no_message(lead); /* the server has not answered the commit */
    exchange_sent(lead, &commit);
    const struct exchange_message last = steps_message(lead, EXCHANGE_COMMIT);
    assert_int_equal(last.to, SERVER);
    assert_int_equal(last.step, 1);
    assert_true(last.last);
    (void)steps_do(lead, EXCHANGE_UPDATE);
    assert_int_equal(steps_do(lead, EXCHANGE_STOP).step, 1);
}

static void a_stop_before_the_first_step_keeps_the_version_of_the_start(void **state)
{
    (void)state;
    struct exchange *lead AUTO(exchange_free) = make_lead();
    steps_order(lead, &(struct orders){.run = true, .stop = true});
    expect_last(lead, 0);
    assert_int_equal(steps_do(lead, EXCHANGE_STOP).step, 0);
}

static void a_stop_asked_of_another_stage_has_no_effect(void **state)
{
    (void)state;
    const struct exchange_config config = steps_config(SERVER);
    struct exchange *server AUTO(exchange_free) = steps_run(&config);
    steps_order(server, &(struct orders){.run = true, .stop = true});
    steps_wait(server, EXCHANGE_WAITS_FOR_BLOCKS);
}

static void the_commit_of_the_last_step_ends_the_job(void **state)
{
    (void)state;
    struct exchange_config config = steps_config(LEAD);
    config.resume_version = 9;
    struct exchange *lead AUTO(exchange_free) = steps_run(&config);
    steps_deliver_all(lead, LEAD, 10);
    expect_last(lead, 10);
    (void)steps_do(lead, EXCHANGE_ADD);
    (void)steps_do(lead, EXCHANGE_ADD);
    (void)steps_do(lead, EXCHANGE_UPDATE);
    assert_int_equal(steps_do(lead, EXCHANGE_STOP).step, 10);
}

/* ---- one device ---- */

static void one_device_is_lead_server_and_worker(void **state)
{
    (void)state;
    static const struct exchange_block whole[] = {{0, {0, 1}}};
    static const size_t end[] = {2};
    const struct exchange_config config = {.count = 1,
                                           .servers = 1,
                                           .layer_end = {2},
                                           .micro_batches = 1,
                                           .block = whole,
                                           .blocks = 1,
                                           .total_steps = 1};
    const struct exchange_segments segments = {.pull = {end, 1}, .push = {{end, 1}}, .window = 1};
    struct exchange *device AUTO(exchange_free) = steps_run(&config);
    steps_begin(device, &segments);
    const struct exchange_message pull = steps_message(device, EXCHANGE_PARAMETERS);
    assert_int_equal(pull.to, pull.from);
    assert_int_equal(exchange_pull(device, &pull, 1), EXCHANGE_SERVE);
    exchange_pulled(device, &pull, 2);
    (void)steps_do(device, EXCHANGE_FORWARD);
    (void)steps_do(device, EXCHANGE_BACKWARD);
    const struct exchange_message push = steps_message(device, EXCHANGE_CONTRIBUTION);
    steps_deliver(device, &push);
    exchange_sent(device, &push);
    assert_int_equal(steps_do(device, EXCHANGE_UPDATE).step, 1);
    assert_int_equal(steps_do(device, EXCHANGE_STOP).step, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_lead_commits_a_step_when_all_blocks_are_done),
        cmocka_unit_test(done_without_everything_else_is_refused),
        cmocka_unit_test(a_lead_without_layers_hears_of_done_alone),
        cmocka_unit_test(the_lead_waits_for_the_acknowledgement_of_the_commit_before),
        cmocka_unit_test(a_held_lead_without_layers_commits_nothing),
        cmocka_unit_test(the_commit_carries_the_mark_of_the_round),
        cmocka_unit_test(no_round_is_opened_while_the_coordinator_is_away),
        cmocka_unit_test(a_stop_fixes_the_version_of_the_lead),
        cmocka_unit_test(a_stop_after_the_commit_finishes_that_step),
        cmocka_unit_test(a_stop_before_the_first_step_keeps_the_version_of_the_start),
        cmocka_unit_test(a_stop_asked_of_another_stage_has_no_effect),
        cmocka_unit_test(the_commit_of_the_last_step_ends_the_job),
        cmocka_unit_test(one_device_is_lead_server_and_worker),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
