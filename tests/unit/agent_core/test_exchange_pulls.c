/* When a server answers requests for parameters. */
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

static void a_server_parks_a_pull_until_it_has_applied_the_version(void **state)
{
    (void)state;
    struct exchange *server AUTO(exchange_free) = make_server();
    struct exchange_answer answer;
    struct exchange_message pull = steps_pull(SERVER, 0, 2, 3);
    assert_int_equal(exchange_pull(server, &pull, 7), EXCHANGE_SERVE);
    pull.step = 1;
    assert_int_equal(exchange_pull(server, &pull, 8), EXCHANGE_PARK);
    assert_false(exchange_next_answer(server, &answer));
    apply(server, 1);
    assert_true(exchange_next_answer(server, &answer));
    assert_int_equal(answer.handle, 8);
    assert_int_equal(answer.verdict, EXCHANGE_SERVE);
    assert_int_equal(answer.message.step, 1);
    assert_true(exchange_serves(server, &answer.message));
    assert_false(exchange_next_answer(server, &answer));
}

static void a_server_that_does_not_run_yet_parks_all_pulls(void **state)
{
    (void)state;
    const struct exchange_config config = steps_config(SERVER);
    struct exchange *server AUTO(exchange_free) = steps_make(&config);
    struct exchange_answer answer;
    const struct exchange_message pull = steps_pull(SERVER, 0, 2, 3);
    assert_int_equal(exchange_pull(server, &pull, 1), EXCHANGE_PARK);
    assert_false(exchange_next_answer(server, &answer));
    steps_order(server, &(struct orders){.run = true});
    assert_true(exchange_next_answer(server, &answer));
}

static void a_held_server_answers_no_pull(void **state)
{
    (void)state;
    struct exchange_config config = steps_config(SERVER);
    config.resume_version = 9;
    config.evaluate_every = 5;
    config.evaluation_batches = 4;
    struct exchange *server AUTO(exchange_free) = steps_run(&config);
    struct exchange_answer answer;
    struct exchange_message pull = steps_pull(SERVER, 9, 2, 3);
    steps_order(server, &(struct orders){.run = true, .held = true});
    assert_int_equal(exchange_pull(server, &pull, 1), EXCHANGE_PARK);
    steps_order(server, &(struct orders){.run = true});
    assert_true(exchange_next_answer(server, &answer));
    /* The evaluation of the last version begins no step. */
    steps_order(server, &(struct orders){.run = true, .held = true});
    pull.step = 10;
    pull.statistics = true;
    assert_int_equal(exchange_pull(server, &pull, 2), EXCHANGE_PARK);
    apply(server, 10);
    assert_true(exchange_next_answer(server, &answer));
    assert_int_equal(answer.verdict, EXCHANGE_SERVE);
}

static void each_parked_pull_gets_one_answer(void **state)
{
    (void)state;
    struct exchange *server AUTO(exchange_free) = make_server();
    struct exchange_answer answer;
    const struct exchange_message pull = steps_pull(SERVER, 1, 2, 3);
    assert_int_equal(exchange_pull(server, &pull, 1), EXCHANGE_PARK);
    assert_int_equal(exchange_pull(server, &pull, 2), EXCHANGE_PARK); /* a repeat */
    assert_true(exchange_next_answer(server, &answer));
    assert_int_equal(answer.handle, 1);
    assert_int_equal(answer.verdict, EXCHANGE_OUTDATED);
    struct exchange_message other = pull;
    other.from = SMALL_WORKER;
    assert_int_equal(exchange_pull(server, &other, 3), EXCHANGE_PARK);
    exchange_forget(server, 3);
    exchange_forget(server, 99); /* none of it */
    struct exchange_message stop = steps_commit(SERVER, 0);
    stop.last = true;
    assert_int_equal(exchange_commit(server, &stop), EXCHANGE_STORED);
    assert_true(exchange_next_answer(server, &answer));
    assert_int_equal(answer.handle, 2);
    assert_int_equal(answer.verdict, EXCHANGE_LAST);
    assert_int_equal(exchange_last(server), 0);
    assert_false(exchange_next_answer(server, &answer));
    assert_int_equal(exchange_pull(server, &pull, 4), EXCHANGE_LAST);
}

static void a_worker_has_only_so_many_parked_pulls(void **state)
{
    (void)state;
    struct exchange *server AUTO(exchange_free) = make_server();
    const struct exchange_message pull = steps_pull(SERVER, 1, 2, 3);
    struct exchange_message other = pull;
    other.from = SMALL_WORKER;
    uint64_t handle = 1;
    while (exchange_pull(server, &pull, handle) == EXCHANGE_PARK) {
        assert_true(handle++ <= 2 * EXCHANGE_WINDOW_MAX);
    }
    assert_int_equal(exchange_pull(server, &pull, handle), EXCHANGE_NOT_YET);
    assert_int_equal(exchange_pull(server, &other, handle), EXCHANGE_PARK);
    struct exchange_answer answer;
    for (uint64_t i = 1; i + 1 < handle; i++) {
        assert_true(exchange_next_answer(server, &answer)); /* all but the newest */
        assert_int_equal(answer.handle, i);
    }
    assert_false(exchange_next_answer(server, &answer));
}

static void pulls_contain_layers_of_the_server_only(void **state)
{
    (void)state;
    struct exchange *server AUTO(exchange_free) = make_server();
    struct exchange_message pull = steps_pull(SERVER, 0, 1, 3);
    assert_int_equal(exchange_pull(server, &pull, 1), EXCHANGE_REFUSE);
    pull = steps_pull(SERVER, 0, 3, 3);
    assert_int_equal(exchange_pull(server, &pull, 1), EXCHANGE_REFUSE);
    pull = steps_pull(SERVER, 0, 2, 4);
    assert_int_equal(exchange_pull(server, &pull, 1), EXCHANGE_REFUSE);
    pull = steps_pull(SERVER, 0, 2, 3);
    pull.from = LEAD; /* it has no share */
    assert_int_equal(exchange_pull(server, &pull, 1), EXCHANGE_REFUSE);
    pull.from = WORKER;
    pull.statistics = true; /* nothing is evaluated */
    assert_int_equal(exchange_pull(server, &pull, 1), EXCHANGE_REFUSE);
    pull = steps_pull(SERVER, 2, 2, 3); /* nobody is there */
    assert_int_equal(exchange_pull(server, &pull, 1), EXCHANGE_REFUSE);
}

static void nobody_reads_parameters_while_they_are_updated(void **state)
{
    (void)state;
    struct exchange *server AUTO(exchange_free) = make_server();
    const struct exchange_message pull = steps_pull(SERVER, 0, 2, 3);
    const struct exchange_message next = steps_pull(SERVER, 1, 2, 3);
    steps_deliver_all(server, SERVER, 1);
    (void)steps_do(server, EXCHANGE_ADD);
    (void)steps_do(server, EXCHANGE_ADD);
    assert_int_equal(commit(server, 1), EXCHANGE_STORED);
    assert_true(exchange_serves(server, &pull));
    struct exchange_task task;
    assert_int_equal(exchange_next(server, &task), EXCHANGE_UPDATE);
    assert_false(exchange_serves(server, &pull));
    assert_int_equal(exchange_pull(server, &pull, 1), EXCHANGE_OUTDATED);
    assert_int_equal(exchange_pull(server, &next, 2), EXCHANGE_PARK);
    exchange_done(server, &task);
    assert_false(exchange_serves(server, &pull));
    assert_true(exchange_serves(server, &next));
    assert_int_equal(exchange_pull(server, &pull, 3), EXCHANGE_OUTDATED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_parks_a_pull_until_it_has_applied_the_version),
        cmocka_unit_test(a_server_that_does_not_run_yet_parks_all_pulls),
        cmocka_unit_test(a_held_server_answers_no_pull),
        cmocka_unit_test(each_parked_pull_gets_one_answer),
        cmocka_unit_test(a_worker_has_only_so_many_parked_pulls),
        cmocka_unit_test(pulls_contain_layers_of_the_server_only),
        cmocka_unit_test(nobody_reads_parameters_while_they_are_updated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
