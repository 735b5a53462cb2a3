/* The session: calls to the coordinator, the content and time of reports. */
#include "agent/core/session.h"

#include <stdio.h>

#include "agent/core/metric_queue.h"
#include "tests/support/test.h"
#include "tests/unit/agent_core/bench.h"

static void an_agent_enrols_then_reports_and_asks(void **state)
{
    struct bench *bench = *state;
    bench_start(bench);
    bench->now_ms = session_deadline_ms(bench->session);
    assert_int_equal(bench->now_ms, 2000);
    bench_step(bench, (struct session_event){.type = SESSION_TICK});
    bench_expect(bench, SESSION_DO_BEAT);
    bench_expect_not(bench, SESSION_DO_POLL);
    bench_beat(bench);
    assert_string_equal(bench->heartbeat.device.text, BENCH_DEVICE);
    assert_string_equal(bench->heartbeat.boot, "boot_1");
    assert_int_equal(bench->heartbeat.phase, PHASE_IDLE);
    bench_step(bench, (struct session_event){.type = SESSION_POLL_ENDED});
    bench_expect(bench, SESSION_DO_POLL);
}

static void a_failing_enrolment_is_repeated_with_growing_waits(void **state)
{
    struct bench *bench = *state;
    bench_step(bench, (struct session_event){.type = SESSION_START});
    int64_t longest = 0;
    for (int i = 0; i < 12; i++) {
        bench_break_off(bench, SESSION_ENROLL_FAILED, FAILURE_NETWORK);
        bench_expect_not(bench, SESSION_DO_ENROLL);
        int64_t wait_ms = session_deadline_ms(bench->session) - bench->now_ms;
        assert_in_range(wait_ms, 187, 1000);
        longest = wait_ms > longest ? wait_ms : longest;
        bench->now_ms += wait_ms;
        bench_step(bench, (struct session_event){.type = SESSION_TICK});
        bench_expect(bench, SESSION_DO_ENROLL);
    }
    assert_true(longest > 800);
}

static void a_stated_retry_after_is_respected(void **state)
{
    struct bench *bench = *state;
    bench_step(bench, (struct session_event){.type = SESSION_START});
    struct session_event event = {.type = SESSION_ENROLL_FAILED};
    event.failed.retry_after_ms = 20000;
    bench_step(bench, event);
    assert_in_range(session_deadline_ms(bench->session) - bench->now_ms, 15000, 25001);
}

static void a_refused_enrolment_ends_the_agent_and_says_why(void **state)
{
    struct bench *bench = *state;
    bench_step(bench, (struct session_event){.type = SESSION_START});
    bench_break_off(bench, SESSION_ENROLL_FAILED, FAILURE_REFUSED);
    const struct session_action *action = bench_find(bench, SESSION_DO_EXIT);
    assert_non_null(action);
    assert_string_equal(action->text, "it says no");
    assert_int_equal(session_deadline_ms(bench->session), INT64_MAX);
}

static void metrics_are_kept_until_a_reply_acknowledges_them(void **state)
{
    struct bench *bench = *state;
    bench_start(bench);
    bench_assign(bench, BENCH_JOB, 1, PHASE_PREPARE, 0);
    struct session_event event = {.type = SESSION_METRIC,
                                  .serial = bench_find(bench, SESSION_DO_PREPARE)->serial};
    bench_answer_beat(bench, 0);
    for (int i = 1; i <= 3; i++) {
        event.metric = (struct metric){.step = i, .name = METRIC_LOSS, .value = 0.5};
        bench_step(bench, event);
    }
    bench->now_ms += 1000;
    bench_step(bench, (struct session_event){.type = SESSION_TICK});
    bench_expect(bench, SESSION_DO_BEAT);
    bench_beat(bench);
    assert_int_equal(bench->heartbeat.metric_count, 3);
    bench_break_off(bench, SESSION_BEAT_FAILED, FAILURE_NETWORK);
    bench->now_ms = session_deadline_ms(bench->session);
    bench_step(bench, (struct session_event){.type = SESSION_TICK});
    bench_beat(bench);
    assert_int_equal(bench->heartbeat.metric_count, 3);
    event.metric.step = 4;
    bench_step(bench, event);
    bench_answer_beat(bench, bench->assignment.revision);
    bench->now_ms += 1000;
    bench_step(bench, (struct session_event){.type = SESSION_TICK});
    bench_beat(bench);
    assert_int_equal(bench->heartbeat.metric_count, 1);
    assert_int_equal(bench->heartbeat.metric[0].step, 4);
}

/* A coordinator that restarts between two heartbeats breaks no call, and has not stored metrics
 * that its predecessor acknowledged. */
static void metrics_are_sent_again_to_a_restarted_coordinator(void **state)
{
    struct bench *bench = *state;
    struct heartbeat_reply reply = {.interval_ms = 1000, .start_id = 1};
    const struct session_event answer = {.type = SESSION_BEATEN, .reply = &reply};
    bench_start(bench);
    bench_assign(bench, BENCH_JOB, 1, PHASE_PREPARE, 0);
    const int64_t serial = bench_find(bench, SESSION_DO_PREPARE)->serial;
    reply.revision = bench->assignment.revision;
    bench_step(bench, answer);
    struct session_event event = {.type = SESSION_METRIC, .serial = serial};
    event.metric = (struct metric){.step = 1, .name = METRIC_LOSS, .value = 0.5};
    bench_step(bench, event);
    for (size_t i = 0; i < 4; i++) {
        reply.start_id = i < 2 ? 1 : 2;
        bench->now_ms += 500;
        bench_step(bench, (struct session_event){.type = SESSION_TICK});
        bench->now_ms += 500;
        bench_step(bench, (struct session_event){.type = SESSION_TICK});
        bench_beat(bench);
        assert_int_equal(bench->heartbeat.metric_count, i == 0 || i == 3);
        bench_step(bench, answer);
    }
}

static void keep(struct bench *bench, int64_t serial, int64_t step)
{
    struct session_event event = {.type = SESSION_METRIC, .serial = serial};
    event.metric = (struct metric){.step = step, .name = METRIC_LOSS, .value = 0.5};
    bench_step(bench, event);
}

static int64_t assigned(struct bench *bench, const char *job, int64_t generation)
{
    bench_assign(bench, job, generation, PHASE_PREPARE, 0);
    return bench_find(bench, SESSION_DO_PREPARE)->serial;
}

/* The heartbeat under way has this many metrics, measured there, the first of them of that step. */
static void expect_metrics(struct bench *bench, const char *job, int64_t generation, int64_t step,
                           size_t count)
{
    bench_beat(bench);
    assert_int_equal(bench->heartbeat.metric_count, count);
    assert_int_equal(bench->heartbeat.metric[0].step, step);
    assert_int_equal(bench->heartbeat.metrics_generation, generation);
    assert_string_equal(bench->heartbeat.metrics_job.text, job);
}

static void metrics_outlive_their_generation_and_their_job(void **state)
{
    static const char other[] = "job_01J9ZQ4X7C8E2N5R3T6V9W0Y1B";
    struct bench *bench = *state;
    bench_start(bench);
    const int64_t first = assigned(bench, BENCH_JOB, 1);
    keep(bench, first, 1);
    const int64_t second = assigned(bench, BENCH_JOB, 2);
    keep(bench, first, 2); /* its thread was at work still */
    keep(bench, second, 3);
    const int64_t third = assigned(bench, other, 1);
    keep(bench, third, 4);
    expect_metrics(bench, BENCH_JOB, 1, 1, 2);
    bench_break_off(bench, SESSION_BEAT_FAILED, FAILURE_NETWORK);
    bench->now_ms = session_deadline_ms(bench->session);
    bench_step(bench, (struct session_event){.type = SESSION_TICK});
    expect_metrics(bench, BENCH_JOB, 1, 1, 2);
    bench_answer_beat(bench, bench->assignment.revision);
    expect_metrics(bench, BENCH_JOB, 2, 3, 1);
    bench_answer_beat(bench, bench->assignment.revision);
    bench->now_ms = session_deadline_ms(bench->session);
    bench_step(bench, (struct session_event){.type = SESSION_TICK});
    expect_metrics(bench, other, 1, 4, 1);
    bench_answer_beat(bench, bench->assignment.revision);
    assert_int_equal(session_metrics_lost(bench->session), 0);
}

/* The heartbeat after the given milliseconds. */
static void beat_after(struct bench *bench, int64_t wait_ms)
{
    bench_answer_beat(bench, bench->assignment.revision);
    bench->now_ms += wait_ms;
    bench_step(bench, (struct session_event){.type = SESSION_TICK});
    bench_beat(bench);
}

/* The heartbeat in flight has no answer; this is the next one. */
static void beat_in_vain(struct bench *bench)
{
    bench_break_off(bench, SESSION_BEAT_FAILED, FAILURE_NETWORK);
    bench->now_ms += 5000; /* longer than every wait */
    bench_step(bench, (struct session_event){.type = SESSION_TICK});
    bench_beat(bench);
}

/* Acknowledged metrics of before are durable. */
static void settle(struct bench *bench)
{
    for (int i = 0; i < 2 * METRIC_SETTLE_MS / METRIC_ANSWER_MS; i++) {
        beat_after(bench, METRIC_ANSWER_MS);
        assert_int_equal(bench->heartbeat.metric_count, 0);
    }
}

static void a_coordinator_that_failed_a_call_gets_unsettled_metrics_again(void **state)
{
    struct bench *bench = *state;
    bench_start(bench);
    const int64_t serial = assigned(bench, BENCH_JOB, 1);
    keep(bench, serial, 1);
    beat_after(bench, 1000);
    settle(bench);
    keep(bench, serial, 2);
    beat_after(bench, 1000);
    assert_int_equal(bench->heartbeat.metric_count, 1);
    beat_after(bench, 10 * METRIC_SETTLE_MS); /* as its clock says, which may have jumped */
    assert_int_equal(bench->heartbeat.metric_count, 0);
    keep(bench, serial, 3);
    beat_in_vain(bench);
    assert_int_equal(bench->heartbeat.metric_count, 2);
    assert_int_equal(bench->heartbeat.metric[0].step, 2);
    settle(bench);
    beat_in_vain(bench);
    assert_int_equal(bench->heartbeat.metric_count, 0);
}

static void metrics_of_too_many_generations_lose_those_of_the_oldest(void **state)
{
    struct bench *bench = *state;
    bench_start(bench);
    for (int64_t generation = 1; generation <= METRIC_LOTS_MAX + 1; generation++) {
        keep(bench, assigned(bench, BENCH_JOB, generation), generation);
    }
    assert_int_equal(session_metrics_lost(bench->session), 1);
}

static void a_long_absence_loses_the_oldest_metrics_only(void **state)
{
    struct bench *bench = *state;
    bench_start(bench);
    bench_assign(bench, BENCH_JOB, 1, PHASE_PREPARE, 0);
    struct session_event event = {.type = SESSION_METRIC,
                                  .serial = bench_find(bench, SESSION_DO_PREPARE)->serial};
    for (int i = 1; i <= METRIC_QUEUE_MAX + 10; i++) {
        event.metric = (struct metric){.step = i, .name = METRIC_LOSS, .value = 0.5};
        bench_step(bench, event);
    }
    assert_int_equal(session_metrics_lost(bench->session), 10);
}

static void holdings_are_listed_on_connecting_and_after_each_change(void **state)
{
    struct bench *bench = *state;
    bench_step(bench, (struct session_event){.type = SESSION_START});
    bench_enrol(bench);
    bench_beat(bench);
    assert_true(bench->heartbeat.all_holdings);
    bench_answer_beat(bench, 0);
    bench->now_ms += 1000;
    bench_step(bench, (struct session_event){.type = SESSION_TICK});
    bench_beat(bench);
    assert_false(bench->heartbeat.all_holdings);
    bench_step(bench, (struct session_event){.type = SESSION_HOLDINGS_CHANGED});
    bench_answer_beat(bench, 0);
    bench_expect(bench, SESSION_DO_BEAT);
    bench_beat(bench);
    assert_true(bench->heartbeat.all_holdings);
    bench_break_off(bench, SESSION_BEAT_FAILED, FAILURE_NETWORK);
    bench->now_ms = session_deadline_ms(bench->session);
    bench_step(bench, (struct session_event){.type = SESSION_TICK});
    bench_beat(bench);
    assert_true(bench->heartbeat.all_holdings);
}

static void a_list_waits_a_little_while_more_is_likely_to_come(void **state)
{
    struct bench *bench = *state;
    const struct session_event more = {.type = SESSION_HOLDINGS_CHANGED, .partial = true};
    bench_start(bench);
    bench_step(bench, more);
    bench_expect_not(bench, SESSION_DO_BEAT);
    const int64_t due_ms = session_deadline_ms(bench->session);
    assert_int_equal(due_ms, bench->now_ms + 50);
    bench->now_ms += 30;
    bench_step(bench, more);
    assert_int_equal(session_deadline_ms(bench->session), due_ms);
    bench->now_ms = due_ms;
    bench_step(bench, (struct session_event){.type = SESSION_TICK});
    bench_expect(bench, SESSION_DO_BEAT);
    bench_beat(bench);
    assert_true(bench->heartbeat.all_holdings);
    bench_step(bench, more);
    bench_answer_beat(bench, 0);
    bench_expect_not(bench, SESSION_DO_BEAT);
    assert_int_equal(session_deadline_ms(bench->session), bench->now_ms + 50);
    bench_step(bench, (struct session_event){.type = SESSION_HOLDINGS_CHANGED});
    bench_expect(bench, SESSION_DO_BEAT);
    bench_answer_beat(bench, 0);
    assert_int_equal(session_deadline_ms(bench->session), bench->now_ms + 1000);
}

static void a_device_that_is_not_known_enrols_again_and_trains_on(void **state)
{
    struct bench *bench = *state;
    bench_start(bench);
    bench_assign(bench, BENCH_JOB, 1, PHASE_RUN, 0);
    bench_report(bench, SESSION_PREPARED, bench_find(bench, SESSION_DO_PREPARE)->serial, 0);
    const struct heartbeat_reply reply = {.interval_ms = 1000, .reenroll = true};
    bench_step(bench, (struct session_event){.type = SESSION_BEATEN, .reply = &reply});
    bench_expect(bench, SESSION_DO_ENROLL);
    bench_expect_not(bench, SESSION_DO_DISCARD);
    bench_enrol(bench);
    bench_expect_not(
        bench,
        SESSION_DO_POLL); /* the one under way is as good, and its end would look like a death */
    bench_beat(bench);
    assert_int_equal(bench->heartbeat.phase, PHASE_RUN);
    assert_true(bench->heartbeat.all_holdings);
}

static void a_replaced_boot_gives_up_its_work_and_enrols_until_it_is_refused(void **state)
{
    struct bench *bench = *state;
    bench_start(bench);
    bench_assign(bench, BENCH_JOB, 1, PHASE_PREPARE, 0);
    for (int i = 0; i < 3; i++) {
        bench_break_off(bench, SESSION_BEAT_FAILED, FAILURE_STALE_BOOT);
        bench_expect_not(bench, SESSION_DO_EXIT);
        assert_int_equal(session_phase(bench->session), PHASE_IDLE);
        bench->now_ms = session_deadline_ms(bench->session);
        bench_step(bench, (struct session_event){.type = SESSION_TICK});
        bench_expect(bench, SESSION_DO_ENROLL);
        bench_enrol(bench);
    }
    bench_break_off(bench, SESSION_BEAT_FAILED, FAILURE_STALE_BOOT);
    bench_break_off(bench, SESSION_ENROLL_FAILED, FAILURE_REFUSED);
    bench_expect(bench, SESSION_DO_EXIT);
}

/* The given number of tries of the call alone, each of which fails. */
static void fail_often(struct bench *bench, enum session_event_type type, int times)
{
    for (int i = 0; i < times; i++) {
        bench_break_off(bench, type, FAILURE_NETWORK);
        const int64_t due_ms = session_deadline_ms(bench->session);
        bench->now_ms = due_ms > bench->now_ms && due_ms != INT64_MAX ? due_ms : bench->now_ms;
        bench_step(bench, (struct session_event){.type = SESSION_TICK});
    }
    bench_break_off(bench, type, FAILURE_NETWORK);
}

static void a_call_that_succeeds_ends_the_waits_of_the_others(void **state)
{
    struct bench *bench = *state;
    bench_start(bench);
    fail_often(bench, SESSION_BEAT_FAILED, 5);
    assert_true(session_deadline_ms(bench->session) > bench->now_ms + 500);
    bench_step(bench, (struct session_event){.type = SESSION_POLL_ENDED});
    bench_expect(bench, SESSION_DO_BEAT);
    fail_often(bench, SESSION_POLL_FAILED, 5);
    assert_true(session_deadline_ms(bench->session) > bench->now_ms);
    bench_answer_beat(bench, 0);
    bench_expect(bench, SESSION_DO_POLL);
    bench->now_ms += 1000;
    bench_step(bench, (struct session_event){.type = SESSION_TICK});
    bench_break_off(bench, SESSION_BEAT_FAILED, FAILURE_NETWORK); /* the first wait again */
    assert_in_range(session_deadline_ms(bench->session) - bench->now_ms, 187, 313);
}

static void a_poll_that_breaks_is_asked_again_at_once_and_then_with_waits(void **state)
{
    struct bench *bench = *state;
    bench_start(bench);
    bench_break_off(bench, SESSION_POLL_FAILED, FAILURE_NETWORK);
    bench_expect(bench, SESSION_DO_POLL);
    bench_break_off(bench, SESSION_POLL_FAILED, FAILURE_NETWORK);
    bench_expect_not(bench, SESSION_DO_POLL);
}

static void a_wait_that_the_coordinator_asked_for_is_kept(void **state)
{
    struct bench *bench = *state;
    bench_start(bench);
    struct session_event event = {.type = SESSION_POLL_FAILED};
    event.failed.retry_after_ms = 20000;
    bench_step(bench, event);
    bench->now_ms += 1000;
    bench_step(bench, (struct session_event){.type = SESSION_TICK});
    bench_answer_beat(bench, 0);
    bench_expect_not(bench, SESSION_DO_POLL);
}

static void
no_wait_is_longer_than_the_interval_and_no_answer_is_waited_for_beyond_the_lease(void **state)
{
    struct bench *bench = *state;
    bench_start(bench);
    bench->now_ms += 1000;
    bench_step(bench, (struct session_event){.type = SESSION_TICK});
    assert_int_equal(bench_find(bench, SESSION_DO_BEAT)->timeout_ms, 1500);
    assert_int_equal(bench_find(bench, SESSION_DO_BEAT)->connect_ms, 1500);
    for (int i = 0; i < 6; i++) { /* a coordinator that is slow gets more and more time */
        bench_break_off(bench, SESSION_BEAT_FAILED, FAILURE_NETWORK);
        assert_in_range(session_deadline_ms(bench->session) - bench->now_ms, 1, 1000);
        bench->now_ms = session_deadline_ms(bench->session);
        bench_step(bench, (struct session_event){.type = SESSION_TICK});
    }
    assert_int_equal(bench_find(bench, SESSION_DO_BEAT)->timeout_ms, 10000);
    assert_int_equal(bench_find(bench, SESSION_DO_BEAT)->connect_ms, 1500);
}

static void a_coordinator_that_counts_anew_is_asked_from_the_start(void **state)
{
    struct bench *bench = *state;
    bench_start(bench);
    bench_assign(bench, BENCH_JOB, 1, PHASE_RUN, 0);
    assert_int_equal(bench_find(bench, SESSION_DO_POLL)->after, bench->assignment.revision);
    bench_answer_beat(bench, 1);
    const struct session_action *action = bench_find(bench, SESSION_DO_POLL);
    assert_non_null(action);
    assert_int_equal(action->after, 0);
}

static void challenge(struct bench *bench)
{
    struct assignment *assignment = &bench->assignment;
    assignment->revision = ++bench->now_ms;
    (void)snprintf(assignment->challenge, sizeof(assignment->challenge), "nonce");
    bench_step(bench, (struct session_event){.type = SESSION_ASSIGNED, .assignment = assignment});
}

static void a_challenge_is_answered_at_once_even_while_a_heartbeat_hangs(void **state)
{
    struct bench *bench = *state;
    bench_start(bench);
    (void)bench_run(bench, 1);
    bench_step(bench, (struct session_event){.type = SESSION_HOLDINGS_CHANGED});
    bench_step(bench, (struct session_event){.type = SESSION_HOLDINGS_CHANGED});
    bench_expect_not(bench, SESSION_DO_BEAT); /* one is under way, and no answer comes */
    challenge(bench);
    bench_expect(bench, SESSION_DO_BEAT);
    bench_beat(bench);
    assert_string_equal(bench->heartbeat.challenge, "nonce");
    assert_true(bench->heartbeat.all_holdings);
    /* The same challenge in a later assignment is not a new one. */
    challenge(bench);
    bench_expect_not(bench, SESSION_DO_BEAT);
}

static void a_challenge_is_answered_although_reports_were_failing(void **state)
{
    struct bench *bench = *state;
    bench_start(bench);
    (void)bench_run(bench, 1);
    bench_step(bench, (struct session_event){.type = SESSION_HOLDINGS_CHANGED});
    bench_break_off(bench, SESSION_BEAT_FAILED, FAILURE_NETWORK);
    bench_step(bench, (struct session_event){.type = SESSION_HOLDINGS_CHANGED});
    bench_expect_not(bench, SESSION_DO_BEAT);
    challenge(bench);
    bench_expect(bench, SESSION_DO_BEAT);
}

static void trouble_with_a_peer_is_reported_at_once(void **state)
{
    struct bench *bench = *state;
    bench_start(bench);
    (void)bench_run(bench, 1);
    bench_answer_beat(bench, bench->assignment.revision);
    bench_step(bench, (struct session_event){.type = SESSION_TROUBLE_CHANGED});
    bench_expect(bench, SESSION_DO_BEAT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        bench_test(an_agent_enrols_then_reports_and_asks),
        bench_test(a_failing_enrolment_is_repeated_with_growing_waits),
        bench_test(a_stated_retry_after_is_respected),
        bench_test(a_refused_enrolment_ends_the_agent_and_says_why),
        bench_test(metrics_are_kept_until_a_reply_acknowledges_them),
        bench_test(metrics_are_sent_again_to_a_restarted_coordinator),
        bench_test(metrics_outlive_their_generation_and_their_job),
        bench_test(a_coordinator_that_failed_a_call_gets_unsettled_metrics_again),
        bench_test(metrics_of_too_many_generations_lose_those_of_the_oldest),
        bench_test(a_long_absence_loses_the_oldest_metrics_only),
        bench_test(holdings_are_listed_on_connecting_and_after_each_change),
        bench_test(a_list_waits_a_little_while_more_is_likely_to_come),
        bench_test(a_device_that_is_not_known_enrols_again_and_trains_on),
        bench_test(a_replaced_boot_gives_up_its_work_and_enrols_until_it_is_refused),
        bench_test(a_call_that_succeeds_ends_the_waits_of_the_others),
        bench_test(a_poll_that_breaks_is_asked_again_at_once_and_then_with_waits),
        bench_test(a_wait_that_the_coordinator_asked_for_is_kept),
        bench_test(
            no_wait_is_longer_than_the_interval_and_no_answer_is_waited_for_beyond_the_lease),
        bench_test(a_coordinator_that_counts_anew_is_asked_from_the_start),
        bench_test(a_challenge_is_answered_at_once_even_while_a_heartbeat_hangs),
        bench_test(a_challenge_is_answered_although_reports_were_failing),
        bench_test(trouble_with_a_peer_is_reported_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
