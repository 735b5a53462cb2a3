/* Evaluations between two steps and at the end of the job. */
#include "tests/unit/agent_core/exchange_steps.h"

/* ---- the worker ---- */

static void compute(struct exchange *worker)
{
    (void)steps_do(worker, EXCHANGE_FORWARD);
    (void)steps_do(worker, EXCHANGE_BACKWARD);
}

static void a_worker_evaluates_its_micro_batches_before_it_trains(void **state)
{
    (void)state;
    struct exchange_config config = steps_config(WORKER);
    config.resume_version = 2;
    config.evaluate_every = 2;
    config.evaluation_batches = 16; /* of which 12 are those of this worker */
    struct exchange *worker AUTO(exchange_free) = steps_run(&config);
    const struct exchange_segments segments = steps_layers();
    steps_begin(worker, &segments);
    steps_wait(worker, EXCHANGE_WAITS_FOR_PARAMETERS);
    steps_pull_all(worker, 2);
    struct exchange_message result[EXCHANGE_RESULTS];
    for (size_t i = 0; i < EXCHANGE_RESULTS; i++) {
        const struct exchange_task task = steps_do(worker, EXCHANGE_EVALUATE);
        assert_int_equal(task.step, 2);
        assert_int_equal(task.micro_batch, i / 3 * 4 + i % 3);
        result[i] = steps_message(worker, EXCHANGE_RESULT);
        assert_int_equal(result[i].to, LEAD);
        assert_int_equal(result[i].step, 2);
        assert_int_equal(result[i].micro_batch, task.micro_batch);
        assert_int_equal(result[i].buffer, task.buffer);
    }
    steps_wait(worker, EXCHANGE_WAITS_FOR_ROOM);
    exchange_sent(worker, &result[5]);
    assert_int_equal(steps_do(worker, EXCHANGE_EVALUATE).buffer, 5);
    for (size_t i = 0; i < 3; i++) {
        exchange_sent(worker, &result[i]);
        (void)steps_do(worker, EXCHANGE_EVALUATE);
    }
    assert_int_equal(steps_do(worker, EXCHANGE_FORWARD).step, 3);
}

static void the_last_segment_waits_for_the_results_of_an_evaluation_too(void **state)
{
    (void)state;
    struct exchange_config config = steps_config(SMALL_WORKER);
    config.resume_version = 2;
    config.evaluate_every = 2;
    config.evaluation_batches = 4;
    struct exchange *worker AUTO(exchange_free) = steps_run(&config);
    const struct exchange_segments segments = steps_layers();
    steps_begin(worker, &segments);
    steps_pull_all(worker, 2);
    (void)steps_do(worker, EXCHANGE_EVALUATE);
    const struct exchange_message result = steps_message(worker, EXCHANGE_RESULT);
    compute(worker);
    for (size_t i = 1; i < STEPS_LAYERS; i++) {
        const struct exchange_message push = steps_message(worker, EXCHANGE_CONTRIBUTION);
        exchange_sent(worker, &push);
    }
    steps_no_message(worker);
    exchange_sent(worker, &result);
    assert_true(steps_message(worker, EXCHANGE_CONTRIBUTION).done);
}

static void after_the_last_step_a_worker_pulls_only_what_it_evaluates(void **state)
{
    (void)state;
    struct exchange_config config = steps_config(SMALL_WORKER);
    config.resume_version = config.total_steps;
    struct exchange *idle AUTO(exchange_free) = steps_run(&config);
    steps_wait(idle, EXCHANGE_WAITS_FOR_BLOCKS); /* until it hears that the job is over */
    config.evaluate_every = 3;
    config.evaluation_batches = 4;
    struct exchange *worker AUTO(exchange_free) = steps_run(&config);
    const struct exchange_segments segments = steps_layers();
    steps_begin(worker, &segments);
    steps_pull_all(worker, config.total_steps);
    assert_int_equal(steps_do(worker, EXCHANGE_EVALUATE).micro_batch, 3);
    steps_wait(worker, EXCHANGE_WAITS_FOR_BLOCKS);
}

/* ---- the lead ---- */

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

static struct exchange_config evaluating_config(int64_t resume_version)
{
    struct exchange_config config = steps_config(LEAD);
    config.resume_version = resume_version;
    config.evaluate_every = 2;
    config.evaluation_batches = 5;
    config.judges = true;
    config.stop = (struct stop_rule){.metric = JUDGED_TEST_ACCURACY, .target = 0.9};
    return config;
}

static struct exchange_message result_of(int64_t version, size_t micro_batch)
{
    return (struct exchange_message){.kind = EXCHANGE_RESULT,
                                     .from = micro_batch % 4 < 3 ? WORKER : SMALL_WORKER,
                                     .to = LEAD,
                                     .step = version,
                                     .micro_batch = micro_batch};
}

static void deliver_results(struct exchange *lead, int64_t version)
{
    for (size_t i = 5; i-- > 0;) {
        const struct exchange_message result = result_of(version, i);
        steps_deliver(lead, &result);
        assert_int_equal(steps_offer(lead, &result), EXCHANGE_STORED);
    }
}

static void judge(struct exchange *lead, int64_t version, double value)
{
    struct exchange_task task;
    assert_int_equal(exchange_next(lead, &task), EXCHANGE_JUDGE);
    assert_int_equal(task.step, version);
    task.value = value;
    exchange_done(lead, &task);
}

static void no_step_is_committed_before_the_evaluation_is_judged(void **state)
{
    (void)state;
    const struct exchange_config config = evaluating_config(2);
    struct exchange *lead AUTO(exchange_free) = steps_run(&config);
    steps_deliver_all(lead, LEAD, 3);
    (void)steps_do(lead, EXCHANGE_ADD);
    (void)steps_do(lead, EXCHANGE_ADD);
    steps_wait(lead, EXCHANGE_WAITS_FOR_BLOCKS);
    steps_no_message(lead);
    deliver_results(lead, 2);
    steps_no_message(lead);
    judge(lead, 2, 0.5);
    assert_int_equal(steps_message(lead, EXCHANGE_COMMIT).step, 3);
    struct heartbeat beat = {0};
    exchange_report(lead, &beat);
    assert_true(beat.has_early_stop);
    assert_int_equal(beat.early_stop.version, 2);
    const struct exchange_message late = result_of(2, 1);
    assert_int_equal(steps_offer(lead, &late), EXCHANGE_STORED);
}

static void an_evaluation_may_end_the_job(void **state)
{
    (void)state;
    const struct exchange_config config = evaluating_config(2);
    struct exchange *lead AUTO(exchange_free) = steps_run(&config);
    deliver_results(lead, 2);
    judge(lead, 2, 0.95);
    expect_last(lead, 2);
    const struct exchange_message part = steps_contribution(LEAD, 3, 0, 0, 2);
    assert_int_equal(steps_offer(lead, &part), EXCHANGE_OUTDATED);
    assert_int_equal(steps_do(lead, EXCHANGE_STOP).step, 2);
}

static void a_stop_abandons_an_evaluation_that_is_due(void **state)
{
    (void)state;
    const struct exchange_config config = evaluating_config(2);
    struct exchange *lead AUTO(exchange_free) = steps_run(&config);
    const struct exchange_message result = result_of(2, 0), other = result_of(2, 1);
    steps_deliver(lead, &result);
    steps_order(lead, &(struct orders){.run = true, .stop = true});
    assert_int_equal(steps_offer(lead, &result), EXCHANGE_STORED);
    assert_int_equal(steps_offer(lead, &other), EXCHANGE_OUTDATED);
    expect_last(lead, 2);
    assert_int_equal(steps_do(lead, EXCHANGE_STOP).step, 2);
}

static bool says_unevaluated(const struct exchange *lead)
{
    struct heartbeat beat = {0};
    exchange_report(lead, &beat);
    return beat.unevaluated;
}

static void a_stop_abandons_the_evaluation_at_the_end_of_the_job_and_says_so(void **state)
{
    (void)state;
    const struct exchange_config config = evaluating_config(9);
    struct exchange *lead AUTO(exchange_free) = steps_run(&config);
    apply(lead, 10);
    assert_false(says_unevaluated(lead));
    steps_order(lead, &(struct orders){.run = true, .stop = true});
    expect_last(lead, 10);
    assert_true(says_unevaluated(lead));
    assert_int_equal(steps_do(lead, EXCHANGE_STOP).step, 10);
}

static void a_generation_may_begin_with_the_evaluation_at_the_end_of_the_job(void **state)
{
    (void)state;
    const struct exchange_config config = evaluating_config(10);
    struct exchange *lead AUTO(exchange_free) = steps_run(&config);
    steps_wait(lead, EXCHANGE_WAITS_FOR_BLOCKS);
    deliver_results(lead, 10);
    judge(lead, 10, 0.5);
    expect_last(lead, 10);
    assert_false(says_unevaluated(lead));
}

static void a_stop_after_the_evaluation_at_the_end_of_the_job_is_its_end(void **state)
{
    (void)state;
    const struct exchange_config config = evaluating_config(9);
    struct exchange *lead AUTO(exchange_free) = steps_run(&config);
    apply(lead, 10);
    deliver_results(lead, 10);
    judge(lead, 10, 0.5);
    steps_order(lead, &(struct orders){.run = true, .stop = true});
    expect_last(lead, 10);
    assert_false(says_unevaluated(lead));
}

static void results_that_are_not_in_the_plan_are_refused(void **state)
{
    (void)state;
    const struct exchange_config config = evaluating_config(2);
    struct exchange *lead AUTO(exchange_free) = steps_run(&config);
    struct exchange_message result = result_of(3, 0); /* not evaluated */
    assert_int_equal(steps_offer(lead, &result), EXCHANGE_REFUSE);
    result = result_of(4, 0); /* nobody is there */
    assert_int_equal(steps_offer(lead, &result), EXCHANGE_REFUSE);
    result = result_of(2, 5);
    assert_int_equal(steps_offer(lead, &result), EXCHANGE_REFUSE);
    result = result_of(2, 3);
    result.from = WORKER; /* dealt to the other one */
    assert_int_equal(steps_offer(lead, &result), EXCHANGE_REFUSE);
    result.from = SERVER;
    assert_int_equal(steps_offer(lead, &result), EXCHANGE_REFUSE);
}

static void results_of_a_version_that_is_being_applied_come_too_early(void **state)
{
    (void)state;
    const struct exchange_config config = evaluating_config(1);
    struct exchange *lead AUTO(exchange_free) = steps_run(&config);
    const struct exchange_message commit = complete(lead, 2);
    exchange_sent(lead, &commit);
    const struct exchange_message result = result_of(2, 0);
    assert_int_equal(steps_offer(lead, &result), EXCHANGE_NOT_YET);
    (void)steps_do(lead, EXCHANGE_UPDATE);
    struct exchange_claim claim;
    assert_int_equal(exchange_offer(lead, &result, &claim), EXCHANGE_TAKE);
    exchange_abandon(lead, &result, &claim);
    assert_false(exchange_holds(lead, &result, &claim));
    steps_deliver(lead, &result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_evaluates_its_micro_batches_before_it_trains),
        cmocka_unit_test(the_last_segment_waits_for_the_results_of_an_evaluation_too),
        cmocka_unit_test(after_the_last_step_a_worker_pulls_only_what_it_evaluates),
        cmocka_unit_test(no_step_is_committed_before_the_evaluation_is_judged),
        cmocka_unit_test(an_evaluation_may_end_the_job),
        cmocka_unit_test(a_stop_abandons_an_evaluation_that_is_due),
        cmocka_unit_test(a_stop_abandons_the_evaluation_at_the_end_of_the_job_and_says_so),
        cmocka_unit_test(a_generation_may_begin_with_the_evaluation_at_the_end_of_the_job),
        cmocka_unit_test(a_stop_after_the_evaluation_at_the_end_of_the_job_is_its_end),
        cmocka_unit_test(results_that_are_not_in_the_plan_are_refused),
        cmocka_unit_test(results_of_a_version_that_is_being_applied_come_too_early),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
