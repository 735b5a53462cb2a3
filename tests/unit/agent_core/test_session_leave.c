/* A device that is to leave: what it says, and when it may go. */
#include "tests/support/test.h"
#include "tests/unit/agent_core/bench.h"

/* The answer to the heartbeat that says so. */
static void answer_leave(struct bench *bench, bool drained)
{
    struct heartbeat_reply reply = {
        .interval_ms = 1000, .revision = bench->assignment.revision, .drained = drained};
    bench_beat(bench);
    assert_true(bench->heartbeat.leaving);
    bench_step(bench, (struct session_event){.type = SESSION_BEATEN, .reply = &reply});
}

static void a_device_goes_once_the_coordinator_does_not_need_it(void **state)
{
    struct bench *bench = *state;
    bench_start(bench);
    (void)bench_run(bench, 1);
    bench_answer_beat(bench, bench->assignment.revision);
    bench_step(bench, (struct session_event){.type = SESSION_LEAVE});
    bench_expect(bench, SESSION_DO_BEAT);
    answer_leave(bench, false);
    assert_int_equal(session_leave(bench->session, bench->now_ms), LEAVE_WAITS);
    bench_assign(bench, NULL, 0, 0, 0);
    answer_leave(bench, true);
    assert_int_equal(session_leave(bench->session, bench->now_ms), LEAVE_DRAINED);
}

static void a_device_goes_when_its_coordinator_is_away(void **state)
{
    struct bench *bench = *state;
    bench_start(bench);
    (void)bench_run(bench, 1);
    bench_answer_beat(bench, bench->assignment.revision);
    const int64_t contact_ms = bench->now_ms;
    bench_step(bench, (struct session_event){.type = SESSION_LEAVE});
    bench_break_off(bench, SESSION_BEAT_FAILED, FAILURE_NETWORK);
    assert_int_equal(session_leave(bench->session, bench->now_ms), LEAVE_WAITS);
    bench->now_ms = contact_ms + 2999;
    assert_int_equal(session_leave(bench->session, bench->now_ms), LEAVE_WAITS);
    bench->now_ms = contact_ms + 3000;
    assert_true(session_deadline_ms(bench->session) <= bench->now_ms);
    assert_int_equal(session_leave(bench->session, bench->now_ms), LEAVE_ALONE);
}

static void an_idle_device_goes_without_an_answer(void **state)
{
    struct bench *bench = *state;
    bench_start(bench);
    bench_answer_beat(bench, 0);
    bench_step(bench, (struct session_event){.type = SESSION_LEAVE});
    assert_int_equal(session_leave(bench->session, bench->now_ms), LEAVE_WAITS);
    bench_break_off(bench, SESSION_BEAT_FAILED, FAILURE_NETWORK);
    assert_int_equal(session_leave(bench->session, bench->now_ms), LEAVE_ALONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        bench_test(a_device_goes_once_the_coordinator_does_not_need_it),
        bench_test(a_device_goes_when_its_coordinator_is_away),
        bench_test(an_idle_device_goes_without_an_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
