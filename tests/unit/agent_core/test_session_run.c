/* The session: assignments, the phases of a generation, its rounds, and what goes on without the
 * coordinator. */
#include "agent/core/session.h"

#include <stdio.h>

#include "tests/support/test.h"
#include "tests/unit/agent_core/bench.h"

#define OTHER_JOB "job_01J9ZQ4X7C8E2N5R3T6V9W0Y1B"

static void one_generation_goes_through_its_phases(void **state)
{
    struct bench *bench = *state;
    bench_start(bench);
    bench_assign(bench, BENCH_JOB, 3, PHASE_PREPARE, 0);
    bench_expect(bench, SESSION_DO_CALLERS);
    const struct session_action *action = bench_find(bench, SESSION_DO_PREPARE);
    assert_non_null(action);
    const int64_t serial = action->serial;
    assert_int_equal(session_phase(bench->session), PHASE_PREPARE);

    bench_report(bench, SESSION_PREPARED, serial, 0);
    assert_int_equal(session_phase(bench->session), PHASE_READY);
    bench_assign(bench, BENCH_JOB, 3, PHASE_RUN, 0);
    bench_expect(bench, SESSION_DO_RUN);
    bench_expect_not(bench, SESSION_DO_PREPARE);
    bench_assign(bench, BENCH_JOB, 3, PHASE_STOPPING, 0);
    bench_expect(bench, SESSION_DO_STOP);
    bench_report(bench, SESSION_STOPPED, serial, 17);
    bench_answer_beat(bench, bench->assignment.revision);
    bench_beat(bench);
    assert_int_equal(bench->heartbeat.phase, PHASE_STOPPED);
    assert_int_equal(bench->heartbeat.stopped_version, 17);
    assert_int_equal(bench->heartbeat.generation, 3);
    bench_assign(bench, BENCH_JOB, 3, PHASE_FINISHED, 17);
    action = bench_find(bench, SESSION_DO_UPLOAD);
    assert_non_null(action);
    assert_int_equal(action->version, 17);
    bench_assign(bench, BENCH_JOB, 3, PHASE_FINISHED, 17);
    bench_expect_not(bench, SESSION_DO_UPLOAD);
    bench_report(bench, SESSION_UPLOADED, serial, 17);
    assert_int_equal(session_phase(bench->session), PHASE_FINISHED);
    bench_assign(bench, NULL, 0, 0, 0);
    bench_expect(bench, SESSION_DO_DISCARD);
    assert_int_equal(session_phase(bench->session), PHASE_IDLE);
}

static void a_phase_told_early_is_followed_when_the_device_is_ready(void **state)
{
    struct bench *bench = *state;
    bench_start(bench);
    bench_assign(bench, BENCH_JOB, 1, PHASE_RUN, 0);
    bench_expect_not(bench, SESSION_DO_RUN);
    int64_t serial = bench_find(bench, SESSION_DO_PREPARE)->serial;
    bench_report(bench, SESSION_PREPARED, serial, 0);
    bench_expect(bench, SESSION_DO_RUN);
    bench_assign(bench, BENCH_JOB, 1, PHASE_FINISHED, 5);
    bench_expect(bench, SESSION_DO_STOP);
    bench_report(bench, SESSION_STOPPED, serial, 5);
    bench_expect(bench, SESSION_DO_UPLOAD);
}

static void a_new_generation_replaces_the_run_and_old_reports_are_ignored(void **state)
{
    struct bench *bench = *state;
    bench_start(bench);
    bench_assign(bench, BENCH_JOB, 1, PHASE_PREPARE, 0);
    int64_t old = bench_find(bench, SESSION_DO_PREPARE)->serial;
    bench_assign(bench, BENCH_JOB, 2, PHASE_PREPARE, 4);
    int64_t serial = bench_find(bench, SESSION_DO_PREPARE)->serial;
    assert_int_not_equal(serial, old);
    bench_report(bench, SESSION_PREPARED, old, 0);
    assert_int_equal(session_phase(bench->session), PHASE_PREPARE);
    bench_report(bench, SESSION_PREPARED, serial, 0);
    assert_int_equal(session_phase(bench->session), PHASE_READY);
}

static void a_lower_generation_of_the_same_job_is_refused(void **state)
{
    struct bench *bench = *state;
    bench_start(bench);
    bench_assign(bench, BENCH_JOB, 7, PHASE_PREPARE, 0);
    bench_assign(bench, BENCH_JOB, 6, PHASE_PREPARE, 0);
    bench_expect_not(bench, SESSION_DO_PREPARE);
    bench_expect_not(bench, SESSION_DO_CALLERS);
    bench_beat(bench);
    assert_int_equal(bench->heartbeat.generation, 7);
    assert_int_equal(bench->heartbeat.highest_generation, 7);
    bench_assign(bench, OTHER_JOB, 1, PHASE_PREPARE, 0);
    bench_expect(bench, SESSION_DO_PREPARE);
}

static void a_plan_of_the_same_number_is_another_one(void **state)
{
    struct bench *bench = *state;
    bench_start(bench);
    const int64_t serial = bench_run(bench, 3);
    struct assignment *assignment = &bench->assignment;
    assignment->revision = ++bench->now_ms;
    assignment->run.phase = PHASE_PREPARE;
    (void)snprintf(assignment->run.plan.text, ID_SIZE, "plan_of_a_restored_backup");
    bench_step(bench, (struct session_event){.type = SESSION_ASSIGNED, .assignment = assignment});
    assert_true(bench_find(bench, SESSION_DO_PREPARE)->serial > serial);
    bench_report(bench, SESSION_PREPARED, bench_find(bench, SESSION_DO_PREPARE)->serial, 0);
    bench_answer_beat(bench, assignment->revision);
    bench_beat(bench);
    assert_string_equal(bench->heartbeat.plan.text, "plan_of_a_restored_backup");
}

static void an_error_is_reported_until_the_next_generation(void **state)
{
    struct bench *bench = *state;
    bench_start(bench);
    bench_assign(bench, BENCH_JOB, 1, PHASE_PREPARE, 0);
    struct session_event event = {.type = SESSION_FAILED,
                                  .serial = bench_find(bench, SESSION_DO_PREPARE)->serial};
    (void)snprintf(event.error.code, sizeof(event.error.code), "memory");
    bench_step(bench, event);
    bench_answer_beat(bench, bench->assignment.revision);
    bench_beat(bench);
    assert_true(bench->heartbeat.has_error);
    assert_string_equal(bench->heartbeat.error.code, "memory");
    bench_assign(bench, BENCH_JOB, 1, PHASE_RUN, 0);
    bench_expect_not(bench, SESSION_DO_RUN);
    bench_assign(bench, BENCH_JOB, 2, PHASE_PREPARE, 0);
    bench->now_ms += 1000;
    bench_answer_beat(bench, bench->assignment.revision);
    bench_beat(bench);
    assert_false(bench->heartbeat.has_error);
}

static void the_last_state_of_a_run_is_reported_before_an_assignment_ends_it(void **state)
{
    struct bench *bench = *state;
    bench_start(bench);
    (void)bench_run(bench, 1);
    bench_assign(bench, BENCH_JOB, 2, PHASE_PREPARE, 0);
    assert_int_equal(bench->actions.item[0].type,
                     SESSION_DO_BEAT); /* the runtime still has its step */
    bench_beat(bench);
    assert_int_equal(bench->heartbeat.generation, 1);
    assert_int_equal(bench->heartbeat.highest_generation, 1);
    assert_int_equal(bench->heartbeat.phase, PHASE_RUN);
    bench->now_ms += 1000;
    bench_answer_beat(bench, bench->assignment.revision);
    bench_beat(bench);
    assert_int_equal(bench->heartbeat.generation, 2);
    assert_int_equal(bench->heartbeat.phase, PHASE_PREPARE);
    bench_assign(bench, NULL, 0, 0, 0);
    assert_int_equal(bench->actions.item[0].type, SESSION_DO_BEAT);
    bench_beat(bench);
    assert_int_equal(bench->heartbeat.generation, 2);
}

static void a_stop_is_told_behind_the_last_metric(void **state)
{
    struct bench *bench = *state;
    bench_start(bench);
    bench_assign(bench, BENCH_JOB, 1, PHASE_RUN, 0);
    int64_t serial = bench_find(bench, SESSION_DO_PREPARE)->serial;
    bench_report(bench, SESSION_PREPARED, serial, 0);
    bench_answer_beat(bench, 0);
    struct session_event event = {.type = SESSION_METRIC, .serial = serial};
    for (int i = 1; i <= METRICS_MAX + 5; i++) {
        event.metric = (struct metric){.step = i};
        bench_step(bench, event);
    }
    bench_report(bench, SESSION_STOPPED, serial, METRICS_MAX + 5);
    assert_int_equal(session_phase(bench->session), PHASE_STOPPING);
    bench_answer_beat(bench, bench->assignment.revision);
    bench_expect(bench, SESSION_DO_BEAT);
    bench_answer_beat(bench, bench->assignment.revision);
    assert_int_equal(session_phase(bench->session), PHASE_STOPPED);
}

static void drops_are_passed_on(void **state)
{
    struct bench *bench = *state;
    bench_start(bench);
    bench->assignment = (struct assignment){.revision = 2, .interval_ms = 1000, .drop_count = 1};
    (void)snprintf(bench->assignment.drop[0].job.text, ID_SIZE, "%s", BENCH_JOB);
    bench->assignment.drop[0].below_version = 9;
    bench_step(bench,
               (struct session_event){.type = SESSION_ASSIGNED, .assignment = &bench->assignment});
    const struct session_action *action = bench_find(bench, SESSION_DO_DROP);
    assert_non_null(action);
    assert_int_equal(action->drop.below_version, 9);
}

static void without_its_coordinator_the_agent_begins_no_step_after_its_autonomy(void **state)
{
    struct bench *bench = *state;
    bench_start(bench);
    bench_assign(bench, BENCH_JOB, 1, PHASE_RUN, 0);
    bench_report(bench, SESSION_PREPARED, bench_find(bench, SESSION_DO_PREPARE)->serial, 0);
    const int64_t contact_ms = bench->now_ms;
    bool held = false;
    bench_break_off(bench, SESSION_POLL_FAILED, FAILURE_NETWORK);
    bench_break_off(bench, SESSION_BEAT_FAILED, FAILURE_NETWORK);
    while (!held) {
        bench->now_ms = session_deadline_ms(bench->session);
        assert_true(bench->now_ms <= contact_ms + 10000);
        bench_step(bench, (struct session_event){.type = SESSION_TICK});
        held = bench_find(bench, SESSION_DO_HOLD) != NULL;
        bench_break_off(bench, SESSION_BEAT_FAILED, FAILURE_NETWORK);
    }
    assert_int_equal(bench->now_ms, contact_ms + 10000);
    bench->now_ms = session_deadline_ms(bench->session);
    bench_step(bench, (struct session_event){.type = SESSION_TICK});
    bench_expect_not(bench, SESSION_DO_HOLD);
    bench_answer_beat(bench, bench->assignment.revision);
    bench_expect(bench, SESSION_DO_RELEASE);
}

static void answer_rounds(struct bench *bench, struct round neighbor, struct round center)
{
    const struct heartbeat_reply reply = {.interval_ms = 1000,
                                          .revision = bench->assignment.revision,
                                          .neighbor = neighbor,
                                          .center = center};
    bench_step(bench, (struct session_event){.type = SESSION_BEATEN, .reply = &reply});
}

static void a_round_is_reported_at_once_and_its_end_is_passed_on_once(void **state)
{
    struct bench *bench = *state;
    const struct round none = {0};
    bench_start(bench);
    (void)bench_run(bench, 1);
    answer_rounds(bench, none, none); /* the heartbeat that said `run` */
    bench_step(bench, (struct session_event){.type = SESSION_ROUND_OPENED});
    bench_expect(bench, SESSION_DO_BEAT);
    const struct round open = {.version = 50, .state = ROUND_OPEN};
    answer_rounds(bench, open, none);
    bench_step(bench, (struct session_event){.type = SESSION_HOLDINGS_CHANGED});
    const struct round committed = {.version = 50, .state = ROUND_COMMITTED};
    const struct round paused = {.state = ROUND_PAUSED};
    answer_rounds(bench, committed, paused);
    const struct session_action *rounds = bench_find(bench, SESSION_DO_ROUNDS);
    assert_non_null(rounds);
    assert_int_equal(rounds->round[REPLICA_NEIGHBOR].version, 50);
    assert_int_equal(rounds->round[REPLICA_NEIGHBOR].state, ROUND_COMMITTED);
    assert_int_equal(rounds->round[REPLICA_CENTER].state, ROUND_PAUSED);
    bench_step(bench, (struct session_event){.type = SESSION_HOLDINGS_CHANGED});
    answer_rounds(bench, committed, paused);
    bench_expect_not(bench, SESSION_DO_ROUNDS);
}

static void what_is_said_of_rounds_of_an_earlier_run_is_ignored(void **state)
{
    struct bench *bench = *state;
    bench_start(bench);
    (void)bench_run(bench, 1);
    bench_step(bench, (struct session_event){.type = SESSION_ROUND_OPENED});
    /* A heartbeat of generation 1 is in flight; its answer arrives in generation 2. */
    bench_assign(bench, BENCH_JOB, 2, PHASE_PREPARE, 0);
    const struct round abandoned = {.version = 50, .state = ROUND_ABANDONED};
    answer_rounds(bench, abandoned, abandoned);
    bench_expect_not(bench, SESSION_DO_ROUNDS);
}

/* A group follows the matches of its assignments, and hears which of its records are stored. */
static void matches_are_passed_on_and_their_records_acknowledged(void **state)
{
    struct bench *bench = *state;
    bench_start(bench);
    (void)bench_run(bench, 1);
    bench_expect_not(bench, SESSION_DO_MIXES_STORED); /* it is no group */
    bench_assign_group(bench, 2);
    bench_expect(bench, SESSION_DO_PREPARE);
    bench_expect_not(bench, SESSION_DO_MIX); /* PREPARE has them */
    bench_assign_group(bench, 2);
    bench_expect(bench, SESSION_DO_MIX);
    bench_expect_not(bench, SESSION_DO_PREPARE);
    bench_answer_beat(bench, bench->assignment.revision);
    bench_expect(bench, SESSION_DO_MIXES_STORED);
    bench_answer_beat(bench, bench->assignment.revision); /* that of the second assignment */
    bench_step(bench, (struct session_event){.type = SESSION_MIX_CHANGED});
    bench_expect_not(bench, SESSION_DO_BEAT); /* nobody waits for it, at first */
    assert_in_range(session_deadline_ms(bench->session) - bench->now_ms, 1, 250);
    bench_step(bench, (struct session_event){.type = SESSION_MIX_AWAITED});
    bench_expect(bench, SESSION_DO_BEAT);
    bench_answer_beat(bench, bench->assignment.revision + 1);
    bench_expect_not(bench, SESSION_DO_MIXES_STORED); /* the group may not be this device's now */
    bench_step(bench, (struct session_event){.type = SESSION_MIX_AWAITED});
    bench_expect(bench, SESSION_DO_BEAT);
    bench_break_off(bench, SESSION_BEAT_FAILED, FAILURE_NETWORK);
    bench_expect_not(bench, SESSION_DO_MIXES_STORED);
    bench_assign(bench, BENCH_JOB, 3, PHASE_PREPARE, 0);
    bench_assign(bench, BENCH_JOB, 3, PHASE_PREPARE, 0);
    bench_expect_not(bench, SESSION_DO_MIX);
}

static void a_device_that_offers_other_data_enrols_again_and_trains_on(void **state)
{
    struct bench *bench = *state;
    bench_start(bench);
    (void)bench_run(bench, 1);
    bench_answer_beat(bench, bench->assignment.revision);
    bench_step(bench, (struct session_event){.type = SESSION_DATA_CHANGED});
    bench_expect(bench, SESSION_DO_ENROLL);
    bench_expect_not(bench, SESSION_DO_DISCARD);
    /* Once more before the answer: what was sent is out of date. */
    bench_step(bench, (struct session_event){.type = SESSION_DATA_CHANGED});
    bench_expect_not(bench, SESSION_DO_ENROLL);
    bench->now_ms += 1000;
    bench_step(bench, (struct session_event){.type = SESSION_TICK});
    bench_expect(bench, SESSION_DO_BEAT);
    bench_enrol(bench);
    bench_expect(bench, SESSION_DO_ENROLL);
    bench_enrol(bench);
    bench_expect_not(bench, SESSION_DO_ENROLL);
    bench_beat(bench);
    assert_int_equal(bench->heartbeat.phase, PHASE_RUN);
    /* Refused data cost it no work: it asks again. */
    bench_step(bench, (struct session_event){.type = SESSION_DATA_CHANGED});
    bench_expect(bench, SESSION_DO_ENROLL);
    bench_break_off(bench, SESSION_ENROLL_FAILED, FAILURE_REFUSED);
    bench_expect_not(bench, SESSION_DO_EXIT);
    bench->now_ms += 60000;
    bench_step(bench, (struct session_event){.type = SESSION_TICK});
    bench_expect(bench, SESSION_DO_ENROLL);
    bench_beat(bench);
    assert_int_equal(bench->heartbeat.phase, PHASE_RUN);
}

static void rounds_wait_while_the_coordinator_is_away(void **state)
{
    struct bench *bench = *state;
    bench_start(bench);
    (void)bench_run(bench, 1);
    const int64_t contact_ms = bench->now_ms;
    bool away = false;
    while (!away) {
        bench->now_ms = session_deadline_ms(bench->session);
        assert_true(bench->now_ms <= contact_ms + 3000);
        bench_step(bench, (struct session_event){.type = SESSION_TICK});
        away = bench_find(bench, SESSION_DO_AWAY) != NULL;
        bench_break_off(bench, SESSION_BEAT_FAILED, FAILURE_NETWORK);
    }
    assert_int_equal(bench->now_ms, contact_ms + 3000);
    assert_true(session_deadline_ms(bench->session) > bench->now_ms);
    bench_step(bench, (struct session_event){.type = SESSION_POLL_ENDED});
    bench_expect(bench, SESSION_DO_BACK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        bench_test(one_generation_goes_through_its_phases),
        bench_test(a_phase_told_early_is_followed_when_the_device_is_ready),
        bench_test(a_new_generation_replaces_the_run_and_old_reports_are_ignored),
        bench_test(a_lower_generation_of_the_same_job_is_refused),
        bench_test(a_plan_of_the_same_number_is_another_one),
        bench_test(an_error_is_reported_until_the_next_generation),
        bench_test(the_last_state_of_a_run_is_reported_before_an_assignment_ends_it),
        bench_test(a_stop_is_told_behind_the_last_metric),
        bench_test(drops_are_passed_on),
        bench_test(without_its_coordinator_the_agent_begins_no_step_after_its_autonomy),
        bench_test(a_round_is_reported_at_once_and_its_end_is_passed_on_once),
        bench_test(what_is_said_of_rounds_of_an_earlier_run_is_ignored),
        bench_test(a_device_that_offers_other_data_enrols_again_and_trains_on),
        bench_test(rounds_wait_while_the_coordinator_is_away),
        bench_test(matches_are_passed_on_and_their_records_acknowledged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
