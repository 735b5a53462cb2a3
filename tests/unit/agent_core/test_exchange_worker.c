/* What a worker pulls, computes and pushes in a step. */
#include "tests/unit/agent_core/exchange_steps.h"

static void assert_segment(const struct exchange_message *message, size_t to, size_t first,
                           size_t end)
{
    assert_int_equal(message->to, to);
    assert_int_equal(message->first, first);
    assert_int_equal(message->end, end);
}

/* ---- pulls ---- */

static void a_worker_pulls_a_version_segment_by_segment_in_forward_order(void **state)
{
    (void)state;
    const struct exchange_config config = steps_config(WORKER);
    struct exchange *worker AUTO(exchange_free) = steps_run(&config);
    const struct exchange_segments segments = steps_layers();
    steps_begin(worker, &segments);
    for (size_t i = 0; i < STEPS_LAYERS; i++) {
        const struct exchange_message pull = steps_message(worker, EXCHANGE_PARAMETERS);
        assert_segment(&pull, i < 2 ? LEAD : SERVER, i, i + 1);
        assert_int_equal(pull.step, 0);
        assert_false(pull.statistics);
        steps_no_message(worker); /* one at a time */
        exchange_pulled(worker, &pull, pull.end);
    }
    steps_no_message(worker);
}

/* A worker that has begun a step with the pulls [0, 2) and [2, 3). */
static struct exchange *begin_two_pulls(bool streams)
{
    const struct exchange_config config = steps_config(WORKER);
    struct exchange *worker = steps_run(&config);
    const size_t pull_end[] = {2, 3};
    struct exchange_segments segments = steps_layers();
    segments.pull = (struct exchange_requests){pull_end, 2};
    segments.streams = streams;
    steps_begin(worker, &segments);
    return worker;
}

static void a_part_of_a_segment_is_not_used(void **state)
{
    (void)state;
    struct exchange *worker AUTO(exchange_free) = begin_two_pulls(false);
    const struct exchange_message first = steps_message(worker, EXCHANGE_PARAMETERS);
    exchange_pulled(worker, &first, 1);
    steps_wait(worker, EXCHANGE_WAITS_FOR_PARAMETERS);
    exchange_pulled(worker, &first, 2);
    const struct exchange_task task = steps_do(worker, EXCHANGE_FORWARD);
    assert_int_equal(task.end, 2);
}

static void the_first_micro_batch_runs_as_layers_arrive_and_the_others_follow(void **state)
{
    (void)state;
    struct exchange *worker AUTO(exchange_free) = begin_two_pulls(true);
    steps_wait(worker, EXCHANGE_WAITS_FOR_PARAMETERS);
    const struct exchange_message first = steps_message(worker, EXCHANGE_PARAMETERS);
    exchange_pulled(worker, &first, 1); /* as a stream brings it */
    struct exchange_task task = steps_do(worker, EXCHANGE_FORWARD);
    assert_int_equal(task.first, 0);
    assert_int_equal(task.end, 1);
    steps_wait(worker, EXCHANGE_WAITS_FOR_PARAMETERS);
    exchange_pulled(worker, &first, 2);
    const struct exchange_message second = steps_message(worker, EXCHANGE_PARAMETERS);
    exchange_pulled(worker, &second, 3);
    task = steps_do(worker, EXCHANGE_FORWARD);
    assert_int_equal(task.first, 1);
    assert_int_equal(task.end, 3);
    (void)steps_do(worker, EXCHANGE_BACKWARD);
    task = steps_do(worker, EXCHANGE_FORWARD);
    assert_int_equal(task.micro_batch, 1);
    assert_int_equal(task.first, 0);
    assert_int_equal(task.end, 3);
}

static void pulls_for_an_evaluation_contain_the_statistics(void **state)
{
    (void)state;
    struct exchange_config config = steps_config(WORKER);
    config.resume_version = 2;
    config.evaluate_every = 2;
    config.evaluation_batches = 4;
    struct exchange *worker AUTO(exchange_free) = steps_run(&config);
    const struct exchange_segments segments = steps_layers();
    steps_begin(worker, &segments);
    const struct exchange_message pull = steps_message(worker, EXCHANGE_PARAMETERS);
    assert_int_equal(pull.step, 2);
    assert_true(pull.statistics);
}

static void a_window_lets_several_pulls_be_open(void **state)
{
    (void)state;
    const struct exchange_config config = steps_config(WORKER);
    struct exchange *worker AUTO(exchange_free) = steps_run(&config);
    struct exchange_segments segments = steps_layers();
    segments.window = 2;
    steps_begin(worker, &segments);
    const struct exchange_message first = steps_message(worker, EXCHANGE_PARAMETERS);
    const struct exchange_message second = steps_message(worker, EXCHANGE_PARAMETERS);
    steps_no_message(worker);
    exchange_pulled(worker, &second, second.end);
    steps_wait(worker, EXCHANGE_WAITS_FOR_PARAMETERS); /* layer 0 is not here */
    exchange_pulled(worker, &first, first.end);
    assert_int_equal(steps_do(worker, EXCHANGE_FORWARD).end, 2);
}

static void segments_that_do_not_fit_the_plan_are_rejected(void **state)
{
    (void)state;
    static const size_t spanning[] = {1, 3}, short_one[] = {1, 2}, falling[] = {2, 1, 3};
    const struct exchange_config config = steps_config(WORKER);
    struct exchange *worker AUTO(exchange_free) = steps_run(&config);
    struct exchange_task task;
    struct err err = {0};
    assert_int_equal(exchange_next(worker, &task), EXCHANGE_BEGIN);
    struct exchange_segments segments = steps_layers();
    segments.pull = (struct exchange_requests){spanning, 2};
    assert_int_equal(exchange_begin(worker, &segments, &err), ERR_INVALID);
    assert_holds(err.text, "pull 1: layers [1, 3)");
    segments = steps_layers();
    segments.push[1] = (struct exchange_requests){short_one, 2};
    assert_int_equal(exchange_begin(worker, &segments, &err), ERR_INVALID);
    assert_holds(err.text, "push segments end with layer 2 of 3");
    segments.push[1] = (struct exchange_requests){falling, 3};
    assert_int_equal(exchange_begin(worker, &segments, &err), ERR_INVALID);
    segments = steps_layers();
    segments.window = 0;
    assert_int_equal(exchange_begin(worker, &segments, &err), ERR_INVALID);
    segments.window = EXCHANGE_WINDOW_MAX + 1;
    assert_int_equal(exchange_begin(worker, &segments, &err), ERR_INVALID);
}

/* ---- pushes ---- */

static struct exchange *worker_with_parameters(const struct exchange_config *config,
                                               const struct exchange_segments *segments)
{
    struct exchange *worker = steps_run(config);
    steps_begin(worker, segments);
    steps_pull_all(worker, 0);
    return worker;
}

static void compute(struct exchange *worker)
{
    (void)steps_do(worker, EXCHANGE_FORWARD);
    (void)steps_do(worker, EXCHANGE_BACKWARD);
}

static void a_layer_is_pushed_once_the_last_micro_batch_of_its_block_has_passed_it(void **state)
{
    (void)state;
    const struct exchange_config config = steps_config(WORKER);
    const struct exchange_segments segments = steps_layers();
    struct exchange *worker AUTO(exchange_free) = worker_with_parameters(&config, &segments);
    (void)steps_do(worker, EXCHANGE_FORWARD);
    struct exchange_task task = steps_do(worker, EXCHANGE_BACKWARD);
    assert_true(task.block_begins && !task.block_ends);
    steps_no_message(worker);
    (void)steps_do(worker, EXCHANGE_FORWARD);
    assert_int_equal(exchange_next(worker, &task), EXCHANGE_BACKWARD);
    assert_true(!task.block_begins && task.block_ends);
    steps_no_message(worker);
    exchange_summed(worker, 2);
    const struct exchange_message push = steps_message(worker, EXCHANGE_CONTRIBUTION);
    assert_segment(&push, SERVER, 2, 3);
    assert_int_equal(push.block, 0);
    assert_int_equal(push.step, 1);
    exchange_sent(worker, &push);
    steps_no_message(worker); /* layer 1 is not final */
    exchange_done(worker, &task);
    (void)steps_message(worker, EXCHANGE_CONTRIBUTION);
}

static void segments_are_pushed_in_backward_order(void **state)
{
    (void)state;
    const struct exchange_config config = steps_config(SMALL_WORKER);
    const struct exchange_segments segments = steps_layers();
    struct exchange *worker AUTO(exchange_free) = worker_with_parameters(&config, &segments);
    compute(worker);
    for (size_t i = STEPS_LAYERS; i-- > 0;) {
        const struct exchange_message push = steps_message(worker, EXCHANGE_CONTRIBUTION);
        assert_segment(&push, i < 2 ? LEAD : SERVER, i, i + 1);
        exchange_sent(worker, &push);
    }
}

static void pushes_of_earlier_blocks_overlap_with_the_computation_of_later_ones(void **state)
{
    (void)state;
    const struct exchange_config config = steps_config(WORKER);
    const struct exchange_segments segments = steps_layers();
    struct exchange *worker AUTO(exchange_free) = worker_with_parameters(&config, &segments);
    compute(worker);
    compute(worker);
    const struct exchange_message push = steps_message(worker, EXCHANGE_CONTRIBUTION);
    assert_int_equal(push.block, 0);
    struct exchange_task task = steps_do(worker, EXCHANGE_FORWARD);
    assert_int_equal(task.micro_batch, 2);
    task = steps_do(worker, EXCHANGE_BACKWARD);
    assert_int_equal(task.block, 1);
    assert_true(task.block_begins && task.block_ends);
    steps_no_message(worker); /* blocks follow one another */
}

static void each_block_has_segments_of_its_own(void **state)
{
    (void)state;
    static const size_t fewer[] = {2, 3};
    const struct exchange_config config = steps_config(WORKER);
    struct exchange_segments segments = steps_layers();
    segments.push[1] = (struct exchange_requests){fewer, 2};
    struct exchange *worker AUTO(exchange_free) = worker_with_parameters(&config, &segments);
    compute(worker);
    compute(worker);
    compute(worker);
    for (size_t i = STEPS_LAYERS; i-- > 0;) {
        const struct exchange_message push = steps_message(worker, EXCHANGE_CONTRIBUTION);
        assert_segment(&push, i < 2 ? LEAD : SERVER, i, i + 1);
        exchange_sent(worker, &push);
    }
    const struct exchange_message upper = steps_message(worker, EXCHANGE_CONTRIBUTION);
    assert_segment(&upper, SERVER, 2, 3);
    exchange_sent(worker, &upper);
    const struct exchange_message lower = steps_message(worker, EXCHANGE_CONTRIBUTION);
    assert_segment(&lower, LEAD, 0, 2);
    assert_int_equal(lower.block, 1);
}

/* Computes a step of two blocks, and sends all but the last request. */
static void send_all_but_the_last(struct exchange *worker, struct exchange_message *unanswered)
{
    compute(worker);
    compute(worker);
    compute(worker);
    for (size_t i = 0; i < 2 * STEPS_LAYERS - 1; i++) {
        *unanswered = steps_message(worker, EXCHANGE_CONTRIBUTION);
        assert_false(unanswered->done);
        if (i < 2 * STEPS_LAYERS - 2) {
            exchange_sent(worker, unanswered);
        }
    }
}

static void the_last_segment_of_a_step_waits_for_the_answers_to_all_others(void **state)
{
    (void)state;
    const struct exchange_config config = steps_config(WORKER);
    struct exchange_segments segments = steps_layers();
    segments.window = 2;
    struct exchange *worker AUTO(exchange_free) = steps_run(&config);
    steps_begin(worker, &segments);
    steps_pull_all(worker, 0);
    struct exchange_message other;
    send_all_but_the_last(worker, &other);
    steps_no_message(worker);
    exchange_sent(worker, &other);
    const struct exchange_message last = steps_message(worker, EXCHANGE_CONTRIBUTION);
    assert_segment(&last, LEAD, 0, 1);
    assert_int_equal(last.block, 1);
}

static void with_the_last_segment_the_lead_gets_done(void **state)
{
    (void)state;
    const struct exchange_config config = steps_config(WORKER);
    const struct exchange_segments segments = steps_layers();
    struct exchange *worker AUTO(exchange_free) = worker_with_parameters(&config, &segments);
    struct exchange_message other;
    send_all_but_the_last(worker, &other);
    exchange_sent(worker, &other);
    assert_true(steps_message(worker, EXCHANGE_CONTRIBUTION).done);
}

static void done_is_a_request_of_its_own_if_the_lead_keeps_no_layers(void **state)
{
    (void)state;
    struct exchange_config config = steps_config(SMALL_WORKER);
    config.layer_end[0] = 0;
    const struct exchange_segments segments = steps_layers();
    struct exchange *worker AUTO(exchange_free) = worker_with_parameters(&config, &segments);
    compute(worker);
    struct exchange_message push;
    for (size_t i = STEPS_LAYERS; i-- > 0;) {
        push = steps_message(worker, EXCHANGE_CONTRIBUTION);
        assert_segment(&push, SERVER, i, i + 1);
        assert_false(push.done);
        if (i > 0) {
            exchange_sent(worker, &push);
        }
    }
    steps_no_message(worker);
    exchange_sent(worker, &push);
    push = steps_message(worker, EXCHANGE_CONTRIBUTION);
    assert_segment(&push, LEAD, 0, 0);
    assert_true(push.done);
    assert_int_equal(exchange_sendable(worker, &push), 0);
}

static void a_stream_begins_with_its_first_final_layer(void **state)
{
    (void)state;
    static const size_t whole[] = {2, 3};
    const struct exchange_config config = steps_config(SMALL_WORKER);
    struct exchange_segments segments = steps_layers();
    segments.push[0] = (struct exchange_requests){whole, 2};
    segments.window = 2;
    segments.streams = true;
    struct exchange *worker AUTO(exchange_free) = steps_run(&config);
    steps_begin(worker, &segments);
    steps_pull_all(worker, 0);
    (void)steps_do(worker, EXCHANGE_FORWARD);
    struct exchange_task task;
    assert_int_equal(exchange_next(worker, &task), EXCHANGE_BACKWARD);
    exchange_summed(worker, 2);
    const struct exchange_message upper = steps_message(worker, EXCHANGE_CONTRIBUTION);
    steps_no_message(worker);
    exchange_summed(worker, 1);
    const struct exchange_message lower = steps_message(worker, EXCHANGE_CONTRIBUTION);
    assert_segment(&lower, LEAD, 0, 2);
    assert_true(lower.done);
    assert_int_equal(exchange_sendable(worker, &lower), 1);
    assert_false(exchange_withholds(worker, &lower)); /* it is not final */
    exchange_done(worker, &task);
    /* Its last layer waits for the answer to the other one. */
    assert_int_equal(exchange_sendable(worker, &lower), 1);
    assert_true(exchange_withholds(worker, &lower));
    exchange_sent(worker, &upper);
    assert_int_equal(exchange_sendable(worker, &lower), 0);
    assert_false(exchange_withholds(worker, &lower));
}

static void the_next_step_pulls_at_once_and_computes_after_the_acknowledgements(void **state)
{
    (void)state;
    const struct exchange_config config = steps_config(SMALL_WORKER);
    const struct exchange_segments segments = steps_layers();
    struct exchange *worker AUTO(exchange_free) = worker_with_parameters(&config, &segments);
    compute(worker);
    steps_begin(worker, &segments);
    steps_pull_all(worker, 1);
    struct exchange_message push;
    for (size_t i = 0; i < STEPS_LAYERS; i++) {
        steps_wait(worker, EXCHANGE_WAITS_FOR_ROOM);
        push = steps_message(worker, EXCHANGE_CONTRIBUTION);
        assert_int_equal(push.step, 1);
        exchange_sent(worker, &push);
    }
    assert_int_equal(steps_do(worker, EXCHANGE_FORWARD).step, 2);
}

/* ---- orders and stops ---- */

static void a_held_worker_finishes_its_step_and_begins_none(void **state)
{
    (void)state;
    const struct exchange_config config = steps_config(WORKER);
    const struct exchange_segments segments = steps_layers();
    struct exchange *worker AUTO(exchange_free) = worker_with_parameters(&config, &segments);
    steps_order(worker, &(struct orders){.run = true, .held = true});
    steps_wait(worker, EXCHANGE_WAITS_FOR_ORDERS);
    steps_order(worker, &(struct orders){.run = true});
    (void)steps_do(worker, EXCHANGE_FORWARD);
    steps_order(worker, &(struct orders){.run = true, .held = true});
    (void)steps_do(worker, EXCHANGE_BACKWARD);
    compute(worker);
}

static void nothing_happens_before_a_worker_runs(void **state)
{
    (void)state;
    const struct exchange_config config = steps_config(WORKER);
    struct exchange *worker AUTO(exchange_free) = steps_make(&config);
    steps_wait(worker, EXCHANGE_WAITS_FOR_ORDERS);
    steps_no_message(worker);
}

static void a_worker_discards_the_step_in_progress_at_a_stop(void **state)
{
    (void)state;
    const struct exchange_config config = steps_config(WORKER);
    const struct exchange_segments segments = steps_layers();
    struct exchange *worker AUTO(exchange_free) = worker_with_parameters(&config, &segments);
    compute(worker);
    compute(worker);
    const struct exchange_message push = steps_message(worker, EXCHANGE_CONTRIBUTION);
    assert_true(exchange_wants(worker, &push));
    struct exchange_message stop = steps_commit(WORKER, 0);
    assert_int_equal(exchange_commit(worker, &stop), EXCHANGE_REFUSE); /* it keeps no units */
    stop.last = true;
    assert_int_equal(exchange_commit(worker, &stop), EXCHANGE_STORED);
    assert_int_equal(exchange_commit(worker, &stop), EXCHANGE_STORED);
    assert_false(exchange_wants(worker, &push));
    exchange_sent(worker, &push); /* an answer that comes all the same */
    steps_no_message(worker);
    assert_int_equal(steps_do(worker, EXCHANGE_STOP).step, 0);
    assert_true(exchange_stopped(worker));
    assert_int_equal(exchange_version(worker), 0);
    steps_wait(worker, EXCHANGE_WAITS_FOR_ORDERS);
}

static void a_worker_stops_at_what_a_parked_pull_is_answered(void **state)
{
    (void)state;
    const struct exchange_config config = steps_config(SMALL_WORKER);
    const struct exchange_segments segments = steps_layers();
    struct exchange *worker AUTO(exchange_free) = worker_with_parameters(&config, &segments);
    compute(worker);
    steps_begin(worker, &segments);
    const struct exchange_message pull = steps_message(worker, EXCHANGE_PARAMETERS);
    assert_false(exchange_ended(worker, &pull, 2)); /* nobody can be there */
    assert_true(exchange_ended(worker, &pull, 0));  /* step 1, of which all was sent, is lost */
    assert_int_equal(exchange_last(worker), 0);
    assert_int_equal(steps_do(worker, EXCHANGE_STOP).step, 0);
}

/* The lead may commit the step before the worker's thread has left its last backward pass. */
static void a_step_whose_last_sum_is_sent_may_be_the_last_one(void **state)
{
    (void)state;
    const struct exchange_config config = steps_config(SMALL_WORKER);
    const struct exchange_segments segments = steps_layers();
    struct exchange *worker AUTO(exchange_free) = worker_with_parameters(&config, &segments);
    struct exchange_message last = steps_commit(SMALL_WORKER, 1);
    last.last = true;
    (void)steps_do(worker, EXCHANGE_FORWARD);
    struct exchange_task task;
    assert_int_equal(exchange_next(worker, &task), EXCHANGE_BACKWARD);
    exchange_summed(worker, 1);
    assert_int_equal(exchange_commit(worker, &last), EXCHANGE_REFUSE); /* not done */
    exchange_summed(worker, 0);
    for (size_t i = 0; i < STEPS_LAYERS; i++) {
        const struct exchange_message push = steps_message(worker, EXCHANGE_CONTRIBUTION);
        assert_int_equal(push.done, i + 1 == STEPS_LAYERS);
        assert_int_equal(exchange_commit(worker, &last),
                         push.done ? EXCHANGE_STORED : EXCHANGE_REFUSE);
        exchange_sent(worker, &push);
    }
    exchange_done(worker, &task);
    assert_int_equal(steps_do(worker, EXCHANGE_STOP).step, 1);
}

static void a_last_version_that_cannot_be_is_refused(void **state)
{
    (void)state;
    struct exchange_config config = steps_config(WORKER);
    config.resume_version = 3;
    struct exchange *worker AUTO(exchange_free) = steps_run(&config);
    struct exchange_message stop = steps_commit(WORKER, 2);
    stop.last = true;
    assert_int_equal(exchange_commit(worker, &stop), EXCHANGE_REFUSE);
    stop.step = 4;
    assert_int_equal(exchange_commit(worker, &stop), EXCHANGE_REFUSE);
    stop.step = 3;
    stop.from = SERVER;
    assert_int_equal(exchange_commit(worker, &stop), EXCHANGE_REFUSE);
    stop.from = LEAD;
    assert_int_equal(exchange_commit(worker, &stop), EXCHANGE_STORED);
    stop.step = 4;
    assert_int_equal(exchange_commit(worker, &stop), EXCHANGE_REFUSE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_pulls_a_version_segment_by_segment_in_forward_order),
        cmocka_unit_test(a_part_of_a_segment_is_not_used),
        cmocka_unit_test(the_first_micro_batch_runs_as_layers_arrive_and_the_others_follow),
        cmocka_unit_test(pulls_for_an_evaluation_contain_the_statistics),
        cmocka_unit_test(a_window_lets_several_pulls_be_open),
        cmocka_unit_test(segments_that_do_not_fit_the_plan_are_rejected),
        cmocka_unit_test(a_layer_is_pushed_once_the_last_micro_batch_of_its_block_has_passed_it),
        cmocka_unit_test(segments_are_pushed_in_backward_order),
        cmocka_unit_test(pushes_of_earlier_blocks_overlap_with_the_computation_of_later_ones),
        cmocka_unit_test(each_block_has_segments_of_its_own),
        cmocka_unit_test(the_last_segment_of_a_step_waits_for_the_answers_to_all_others),
        cmocka_unit_test(with_the_last_segment_the_lead_gets_done),
        cmocka_unit_test(done_is_a_request_of_its_own_if_the_lead_keeps_no_layers),
        cmocka_unit_test(a_stream_begins_with_its_first_final_layer),
        cmocka_unit_test(the_next_step_pulls_at_once_and_computes_after_the_acknowledgements),
        cmocka_unit_test(a_held_worker_finishes_its_step_and_begins_none),
        cmocka_unit_test(nothing_happens_before_a_worker_runs),
        cmocka_unit_test(a_worker_discards_the_step_in_progress_at_a_stop),
        cmocka_unit_test(a_worker_stops_at_what_a_parked_pull_is_answered),
        cmocka_unit_test(a_step_whose_last_sum_is_sent_may_be_the_last_one),
        cmocka_unit_test(a_last_version_that_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
