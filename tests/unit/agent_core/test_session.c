#include "agent/core/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/metric_queue.h"
#include "tests/support/test.h"

#define DEVICE "dev_01J9ZQ4X7C8E2N5R3T6V9W0Y1A"
#define JOB "job_01J9ZQ4X7C8E2N5R3T6V9W0Y1A"
#define OTHER_JOB "job_01J9ZQ4X7C8E2N5R3T6V9W0Y1B"

struct bench {
    struct session *session;
    struct session_actions actions;
    struct assignment assignment;
    struct heartbeat heartbeat;
    int64_t now_ms;
};

static int set_up(void **state)
{
    struct bench *bench = calloc(1, sizeof(*bench));
    const struct session_config config = {.seed = 1, .boot = "boot_1"};
    struct err err = {0};
    if (!bench || session_new(&config, &bench->session, &err) != 0) {
        free(bench);
        return -1;
    }
    bench->now_ms = 1000;
    *state = bench;
    return 0;
}

static int tear_down(void **state)
{
    struct bench *bench = *state;
    session_free(&bench->session);
    free(bench);
    return 0;
}

static void step(struct bench *bench, struct session_event event)
{
    event.now_ms = bench->now_ms;
    bench->actions.count = 0;
    session_step(bench->session, &event, &bench->actions);
}

static const struct session_action *find(const struct bench *bench, enum session_action_type type)
{
    for (size_t i = 0; i < bench->actions.count; i++) {
        if (bench->actions.item[i].type == type) {
            return &bench->actions.item[i];
        }
    }
    return NULL;
}

static void expect(const struct bench *bench, enum session_action_type type)
{
    assert_non_null(find(bench, type));
}

static void expect_not(const struct bench *bench, enum session_action_type type)
{
    assert_null(find(bench, type));
}

static void enrol(struct bench *bench)
{
    struct session_event event = {.type = SESSION_ENROLLED};
    (void)snprintf(event.enrolled.device.text, ID_SIZE, "%s", DEVICE);
    event.enrolled.interval_ms = 1000;
    step(bench, event);
}

static void answer_beat(struct bench *bench, int64_t revision)
{
    const struct heartbeat_reply reply = {.interval_ms = 1000, .revision = revision};
    step(bench, (struct session_event){.type = SESSION_BEATEN, .reply = &reply});
}

static void start(struct bench *bench)
{
    step(bench, (struct session_event){.type = SESSION_START});
    expect(bench, SESSION_DO_ENROLL);
    enrol(bench);
    expect(bench, SESSION_DO_BEAT);
    expect(bench, SESSION_DO_POLL);
    answer_beat(bench, 0);
}

static void break_off(struct bench *bench, enum session_event_type type, enum session_failure failure)
{
    struct session_event event = {.type = type};
    event.failed.failure = failure;
    (void)snprintf(event.failed.text, sizeof(event.failed.text), "it says no");
    step(bench, event);
}

static void assign(struct bench *bench, const char *job, int64_t generation, int phase, int64_t version)
{
    struct assignment *assignment = &bench->assignment;
    memset(assignment, 0, sizeof(*assignment));
    assignment->revision = ++bench->now_ms;
    assignment->interval_ms = 1000;
    assignment->has_run = job != NULL;
    if (job) {
        (void)snprintf(assignment->run.job.text, ID_SIZE, "%s", job);
        assignment->run.generation = generation;
        assignment->run.phase = phase;
        assignment->run.resume_version = version;
        assignment->run.job_spec.autonomy_seconds = 10;
    }
    step(bench, (struct session_event){.type = SESSION_ASSIGNED, .assignment = assignment});
}

static void report(struct bench *bench, enum session_event_type type, int64_t serial, int64_t version)
{
    step(bench, (struct session_event){.type = type, .serial = serial, .version = version});
}

static void beat(struct bench *bench)
{
    session_heartbeat(bench->session, &bench->heartbeat);
}

static void an_agent_enrols_then_reports_and_asks(void **state)
{
    struct bench *bench = *state;
    start(bench);
    bench->now_ms = session_deadline_ms(bench->session);
    assert_int_equal(bench->now_ms, 2000);
    step(bench, (struct session_event){.type = SESSION_TICK});
    expect(bench, SESSION_DO_BEAT);
    expect_not(bench, SESSION_DO_POLL);
    beat(bench);
    assert_string_equal(bench->heartbeat.device.text, DEVICE);
    assert_string_equal(bench->heartbeat.boot, "boot_1");
    assert_int_equal(bench->heartbeat.phase, PHASE_IDLE);
    step(bench, (struct session_event){.type = SESSION_POLL_ENDED});
    expect(bench, SESSION_DO_POLL);
}

static void a_failing_enrolment_is_repeated_with_growing_waits(void **state)
{
    struct bench *bench = *state;
    step(bench, (struct session_event){.type = SESSION_START});
    int64_t longest = 0;
    for (int i = 0; i < 12; i++) {
        break_off(bench, SESSION_ENROLL_FAILED, FAILURE_NETWORK);
        expect_not(bench, SESSION_DO_ENROLL);
        int64_t wait_ms = session_deadline_ms(bench->session) - bench->now_ms;
        assert_in_range(wait_ms, 187, 6251);
        longest = wait_ms > longest ? wait_ms : longest;
        bench->now_ms += wait_ms;
        step(bench, (struct session_event){.type = SESSION_TICK});
        expect(bench, SESSION_DO_ENROLL);
    }
    assert_true(longest > 3000);
}

static void a_stated_retry_after_is_respected(void **state)
{
    struct bench *bench = *state;
    step(bench, (struct session_event){.type = SESSION_START});
    struct session_event event = {.type = SESSION_ENROLL_FAILED};
    event.failed.retry_after_ms = 20000;
    step(bench, event);
    assert_in_range(session_deadline_ms(bench->session) - bench->now_ms, 15000, 25001);
}

static void a_refused_enrolment_ends_the_agent_and_says_why(void **state)
{
    struct bench *bench = *state;
    step(bench, (struct session_event){.type = SESSION_START});
    break_off(bench, SESSION_ENROLL_FAILED, FAILURE_REFUSED);
    const struct session_action *action = find(bench, SESSION_DO_EXIT);
    assert_non_null(action);
    assert_string_equal(action->text, "it says no");
    assert_int_equal(session_deadline_ms(bench->session), INT64_MAX);
}

static void one_generation_goes_through_its_phases(void **state)
{
    struct bench *bench = *state;
    start(bench);
    assign(bench, JOB, 3, PHASE_PREPARE, 0);
    expect(bench, SESSION_DO_CALLERS);
    const struct session_action *action = find(bench, SESSION_DO_PREPARE);
    assert_non_null(action);
    const int64_t serial = action->serial;
    assert_int_equal(session_phase(bench->session), PHASE_PREPARE);

    report(bench, SESSION_PREPARED, serial, 0);
    assert_int_equal(session_phase(bench->session), PHASE_READY);
    assign(bench, JOB, 3, PHASE_RUN, 0);
    expect(bench, SESSION_DO_RUN);
    expect_not(bench, SESSION_DO_PREPARE);
    assign(bench, JOB, 3, PHASE_STOPPING, 0);
    expect(bench, SESSION_DO_STOP);
    report(bench, SESSION_STOPPED, serial, 17);
    beat(bench);
    assert_int_equal(bench->heartbeat.phase, PHASE_STOPPED);
    assert_int_equal(bench->heartbeat.stopped_version, 17);
    assert_int_equal(bench->heartbeat.generation, 3);
    assign(bench, JOB, 3, PHASE_FINISHED, 17);
    action = find(bench, SESSION_DO_UPLOAD);
    assert_non_null(action);
    assert_int_equal(action->version, 17);
    assign(bench, JOB, 3, PHASE_FINISHED, 17);
    expect_not(bench, SESSION_DO_UPLOAD);
    report(bench, SESSION_UPLOADED, serial, 17);
    assert_int_equal(session_phase(bench->session), PHASE_FINISHED);
    assign(bench, NULL, 0, 0, 0);
    expect(bench, SESSION_DO_DISCARD);
    assert_int_equal(session_phase(bench->session), PHASE_IDLE);
}

static void a_phase_told_early_is_followed_when_the_device_is_ready(void **state)
{
    struct bench *bench = *state;
    start(bench);
    assign(bench, JOB, 1, PHASE_RUN, 0);
    expect_not(bench, SESSION_DO_RUN);
    int64_t serial = find(bench, SESSION_DO_PREPARE)->serial;
    report(bench, SESSION_PREPARED, serial, 0);
    expect(bench, SESSION_DO_RUN);
    assign(bench, JOB, 1, PHASE_FINISHED, 5);
    expect(bench, SESSION_DO_STOP);
    report(bench, SESSION_STOPPED, serial, 5);
    expect(bench, SESSION_DO_UPLOAD);
}

static void a_new_generation_replaces_the_run_and_old_reports_are_ignored(void **state)
{
    struct bench *bench = *state;
    start(bench);
    assign(bench, JOB, 1, PHASE_PREPARE, 0);
    int64_t old = find(bench, SESSION_DO_PREPARE)->serial;
    assign(bench, JOB, 2, PHASE_PREPARE, 4);
    int64_t serial = find(bench, SESSION_DO_PREPARE)->serial;
    assert_int_not_equal(serial, old);
    report(bench, SESSION_PREPARED, old, 0);
    assert_int_equal(session_phase(bench->session), PHASE_PREPARE);
    report(bench, SESSION_PREPARED, serial, 0);
    assert_int_equal(session_phase(bench->session), PHASE_READY);
}

static void a_lower_generation_of_the_same_job_is_refused(void **state)
{
    struct bench *bench = *state;
    start(bench);
    assign(bench, JOB, 7, PHASE_PREPARE, 0);
    assign(bench, JOB, 6, PHASE_PREPARE, 0);
    expect_not(bench, SESSION_DO_PREPARE);
    expect_not(bench, SESSION_DO_CALLERS);
    beat(bench);
    assert_int_equal(bench->heartbeat.generation, 7);
    assert_int_equal(bench->heartbeat.highest_generation, 7);
    assign(bench, OTHER_JOB, 1, PHASE_PREPARE, 0);
    expect(bench, SESSION_DO_PREPARE);
}

static void an_error_is_reported_until_the_next_generation(void **state)
{
    struct bench *bench = *state;
    start(bench);
    assign(bench, JOB, 1, PHASE_PREPARE, 0);
    struct session_event event = {.type = SESSION_FAILED, .serial = find(bench, SESSION_DO_PREPARE)->serial};
    (void)snprintf(event.error.code, sizeof(event.error.code), "memory");
    step(bench, event);
    beat(bench);
    assert_true(bench->heartbeat.has_error);
    assert_string_equal(bench->heartbeat.error.code, "memory");
    assign(bench, JOB, 1, PHASE_RUN, 0);
    expect_not(bench, SESSION_DO_RUN);
    assign(bench, JOB, 2, PHASE_PREPARE, 0);
    beat(bench);
    assert_false(bench->heartbeat.has_error);
}

static void metrics_are_kept_until_a_reply_acknowledges_them(void **state)
{
    struct bench *bench = *state;
    start(bench);
    assign(bench, JOB, 1, PHASE_PREPARE, 0);
    struct session_event event = {.type = SESSION_METRIC, .serial = find(bench, SESSION_DO_PREPARE)->serial};
    answer_beat(bench, 0);
    for (int i = 1; i <= 3; i++) {
        event.metric = (struct metric){.step = i, .name = METRIC_LOSS, .value = 0.5};
        step(bench, event);
    }
    bench->now_ms += 1000;
    step(bench, (struct session_event){.type = SESSION_TICK});
    expect(bench, SESSION_DO_BEAT);
    beat(bench);
    assert_int_equal(bench->heartbeat.metric_count, 3);
    break_off(bench, SESSION_BEAT_FAILED, FAILURE_NETWORK);
    bench->now_ms = session_deadline_ms(bench->session);
    step(bench, (struct session_event){.type = SESSION_TICK});
    beat(bench);
    assert_int_equal(bench->heartbeat.metric_count, 3);
    event.metric.step = 4;
    step(bench, event);
    answer_beat(bench, bench->assignment.revision);
    bench->now_ms += 1000;
    step(bench, (struct session_event){.type = SESSION_TICK});
    beat(bench);
    assert_int_equal(bench->heartbeat.metric_count, 1);
    assert_int_equal(bench->heartbeat.metric[0].step, 4);
}

static void a_long_absence_loses_the_oldest_metrics_only(void **state)
{
    struct bench *bench = *state;
    start(bench);
    assign(bench, JOB, 1, PHASE_PREPARE, 0);
    struct session_event event = {.type = SESSION_METRIC, .serial = find(bench, SESSION_DO_PREPARE)->serial};
    for (int i = 1; i <= METRIC_QUEUE_MAX + 10; i++) {
        event.metric = (struct metric){.step = i, .name = METRIC_LOSS, .value = 0.5};
        step(bench, event);
    }
    assert_int_equal(session_metrics_lost(bench->session), 10);
}

static void a_stop_is_told_behind_the_last_metric(void **state)
{
    struct bench *bench = *state;
    start(bench);
    assign(bench, JOB, 1, PHASE_RUN, 0);
    int64_t serial = find(bench, SESSION_DO_PREPARE)->serial;
    report(bench, SESSION_PREPARED, serial, 0);
    answer_beat(bench, 0);
    struct session_event event = {.type = SESSION_METRIC, .serial = serial};
    for (int i = 1; i <= METRICS_MAX + 5; i++) {
        event.metric = (struct metric){.step = i};
        step(bench, event);
    }
    report(bench, SESSION_STOPPED, serial, METRICS_MAX + 5);
    assert_int_equal(session_phase(bench->session), PHASE_STOPPING);
    answer_beat(bench, bench->assignment.revision);
    expect(bench, SESSION_DO_BEAT);
    answer_beat(bench, bench->assignment.revision);
    assert_int_equal(session_phase(bench->session), PHASE_STOPPED);
}

static void holdings_are_listed_on_connecting_and_after_each_change(void **state)
{
    struct bench *bench = *state;
    step(bench, (struct session_event){.type = SESSION_START});
    enrol(bench);
    beat(bench);
    assert_true(bench->heartbeat.all_holdings);
    answer_beat(bench, 0);
    bench->now_ms += 1000;
    step(bench, (struct session_event){.type = SESSION_TICK});
    beat(bench);
    assert_false(bench->heartbeat.all_holdings);
    step(bench, (struct session_event){.type = SESSION_HOLDINGS_CHANGED});
    answer_beat(bench, 0);
    expect(bench, SESSION_DO_BEAT);
    beat(bench);
    assert_true(bench->heartbeat.all_holdings);
    break_off(bench, SESSION_BEAT_FAILED, FAILURE_NETWORK);
    bench->now_ms = session_deadline_ms(bench->session);
    step(bench, (struct session_event){.type = SESSION_TICK});
    beat(bench);
    assert_true(bench->heartbeat.all_holdings);
}

static void a_list_waits_a_little_while_more_is_likely_to_come(void **state)
{
    struct bench *bench = *state;
    const struct session_event more = {.type = SESSION_HOLDINGS_CHANGED, .partial = true};
    start(bench);
    step(bench, more);
    expect_not(bench, SESSION_DO_BEAT);
    const int64_t due_ms = session_deadline_ms(bench->session);
    assert_int_equal(due_ms, bench->now_ms + 50);
    bench->now_ms += 30;
    step(bench, more);
    assert_int_equal(session_deadline_ms(bench->session), due_ms);
    bench->now_ms = due_ms;
    step(bench, (struct session_event){.type = SESSION_TICK});
    expect(bench, SESSION_DO_BEAT);
    beat(bench);
    assert_true(bench->heartbeat.all_holdings);
    step(bench, more);
    answer_beat(bench, 0);
    expect_not(bench, SESSION_DO_BEAT);
    assert_int_equal(session_deadline_ms(bench->session), bench->now_ms + 50);
    step(bench, (struct session_event){.type = SESSION_HOLDINGS_CHANGED});
    expect(bench, SESSION_DO_BEAT);
    answer_beat(bench, 0);
    assert_int_equal(session_deadline_ms(bench->session), bench->now_ms + 1000);
}

static void drops_are_passed_on(void **state)
{
    struct bench *bench = *state;
    start(bench);
    bench->assignment = (struct assignment){.revision = 2, .interval_ms = 1000, .drop_count = 1};
    (void)snprintf(bench->assignment.drop[0].job.text, ID_SIZE, "%s", JOB);
    bench->assignment.drop[0].below_version = 9;
    step(bench, (struct session_event){.type = SESSION_ASSIGNED, .assignment = &bench->assignment});
    const struct session_action *action = find(bench, SESSION_DO_DROP);
    assert_non_null(action);
    assert_int_equal(action->drop.below_version, 9);
}

static void a_device_that_is_not_known_enrols_again_and_trains_on(void **state)
{
    struct bench *bench = *state;
    start(bench);
    assign(bench, JOB, 1, PHASE_RUN, 0);
    report(bench, SESSION_PREPARED, find(bench, SESSION_DO_PREPARE)->serial, 0);
    const struct heartbeat_reply reply = {.interval_ms = 1000, .reenroll = true};
    step(bench, (struct session_event){.type = SESSION_BEATEN, .reply = &reply});
    expect(bench, SESSION_DO_ENROLL);
    expect_not(bench, SESSION_DO_DISCARD);
    enrol(bench);
    expect(bench, SESSION_DO_POLL);
    beat(bench);
    assert_int_equal(bench->heartbeat.phase, PHASE_RUN);
    assert_true(bench->heartbeat.all_holdings);
}

static void a_replaced_boot_gives_up_its_work_and_the_second_time_exits(void **state)
{
    struct bench *bench = *state;
    start(bench);
    assign(bench, JOB, 1, PHASE_PREPARE, 0);
    break_off(bench, SESSION_POLL_FAILED, FAILURE_STALE_BOOT);
    expect(bench, SESSION_DO_DISCARD);
    break_off(bench, SESSION_BEAT_FAILED, FAILURE_STALE_BOOT);
    expect_not(bench, SESSION_DO_EXIT);
    bench->now_ms = session_deadline_ms(bench->session);
    step(bench, (struct session_event){.type = SESSION_TICK});
    expect(bench, SESSION_DO_ENROLL);
    enrol(bench);
    break_off(bench, SESSION_BEAT_FAILED, FAILURE_STALE_BOOT);
    expect(bench, SESSION_DO_EXIT);
}

static void without_its_coordinator_the_agent_begins_no_step_after_its_autonomy(void **state)
{
    struct bench *bench = *state;
    start(bench);
    assign(bench, JOB, 1, PHASE_RUN, 0);
    report(bench, SESSION_PREPARED, find(bench, SESSION_DO_PREPARE)->serial, 0);
    const int64_t contact_ms = bench->now_ms;
    bool held = false;
    break_off(bench, SESSION_POLL_FAILED, FAILURE_NETWORK);
    break_off(bench, SESSION_BEAT_FAILED, FAILURE_NETWORK);
    while (!held) {
        bench->now_ms = session_deadline_ms(bench->session);
        assert_true(bench->now_ms <= contact_ms + 10000);
        step(bench, (struct session_event){.type = SESSION_TICK});
        held = find(bench, SESSION_DO_HOLD) != NULL;
        break_off(bench, SESSION_BEAT_FAILED, FAILURE_NETWORK);
    }
    assert_int_equal(bench->now_ms, contact_ms + 10000);
    bench->now_ms = session_deadline_ms(bench->session);
    step(bench, (struct session_event){.type = SESSION_TICK});
    expect_not(bench, SESSION_DO_HOLD);
    answer_beat(bench, bench->assignment.revision);
    expect(bench, SESSION_DO_RELEASE);
}

static void a_coordinator_that_counts_anew_is_asked_from_the_start(void **state)
{
    struct bench *bench = *state;
    start(bench);
    assign(bench, JOB, 1, PHASE_RUN, 0);
    assert_int_equal(find(bench, SESSION_DO_POLL)->after, bench->assignment.revision);
    answer_beat(bench, 1);
    const struct session_action *action = find(bench, SESSION_DO_POLL);
    assert_non_null(action);
    assert_int_equal(action->after, 0);
}

/* A run of one generation that trains; its serial. */
static int64_t run(struct bench *bench, int64_t generation)
{
    assign(bench, JOB, generation, PHASE_PREPARE, 0);
    const int64_t serial = find(bench, SESSION_DO_PREPARE)->serial;
    report(bench, SESSION_PREPARED, serial, 0);
    assign(bench, JOB, generation, PHASE_RUN, 0);
    expect(bench, SESSION_DO_RUN);
    answer_beat(bench, bench->assignment.revision);
    return serial;
}

static void answer_rounds(struct bench *bench, struct round neighbor, struct round center)
{
    const struct heartbeat_reply reply = {
        .interval_ms = 1000, .revision = bench->assignment.revision, .neighbor = neighbor, .center = center};
    step(bench, (struct session_event){.type = SESSION_BEATEN, .reply = &reply});
}

static void a_round_is_reported_at_once_and_its_end_is_passed_on_once(void **state)
{
    struct bench *bench = *state;
    const struct round none = {0};
    start(bench);
    (void)run(bench, 1);
    answer_rounds(bench, none, none); /* the heartbeat that said `run` */
    step(bench, (struct session_event){.type = SESSION_ROUND_OPENED});
    expect(bench, SESSION_DO_BEAT);
    const struct round open = {.version = 50, .state = ROUND_OPEN};
    answer_rounds(bench, open, none);
    step(bench, (struct session_event){.type = SESSION_HOLDINGS_CHANGED});
    const struct round committed = {.version = 50, .state = ROUND_COMMITTED};
    const struct round paused = {.state = ROUND_PAUSED};
    answer_rounds(bench, committed, paused);
    const struct session_action *told = find(bench, SESSION_DO_ROUNDS);
    assert_non_null(told);
    assert_int_equal(told->round[REPLICA_NEIGHBOR].version, 50);
    assert_int_equal(told->round[REPLICA_NEIGHBOR].state, ROUND_COMMITTED);
    assert_int_equal(told->round[REPLICA_CENTER].state, ROUND_PAUSED);
    step(bench, (struct session_event){.type = SESSION_HOLDINGS_CHANGED});
    answer_rounds(bench, committed, paused);
    expect_not(bench, SESSION_DO_ROUNDS);
}

static void what_is_said_of_rounds_of_an_earlier_run_is_ignored(void **state)
{
    struct bench *bench = *state;
    start(bench);
    (void)run(bench, 1);
    step(bench, (struct session_event){.type = SESSION_ROUND_OPENED});
    /* A heartbeat of generation 1 is under way; its answer comes in generation 2. */
    assign(bench, JOB, 2, PHASE_PREPARE, 0);
    const struct round abandoned = {.version = 50, .state = ROUND_ABANDONED};
    answer_rounds(bench, abandoned, abandoned);
    expect_not(bench, SESSION_DO_ROUNDS);
}

static void a_challenge_is_answered_at_once_even_while_a_heartbeat_hangs(void **state)
{
    struct bench *bench = *state;
    start(bench);
    (void)run(bench, 1);
    step(bench, (struct session_event){.type = SESSION_HOLDINGS_CHANGED});
    step(bench, (struct session_event){.type = SESSION_HOLDINGS_CHANGED});
    expect_not(bench, SESSION_DO_BEAT); /* one is under way, and no answer comes */
    struct assignment *assignment = &bench->assignment;
    assignment->revision = ++bench->now_ms;
    (void)snprintf(assignment->challenge, sizeof(assignment->challenge), "nonce");
    step(bench, (struct session_event){.type = SESSION_ASSIGNED, .assignment = assignment});
    expect(bench, SESSION_DO_BEAT);
    beat(bench);
    assert_string_equal(bench->heartbeat.challenge, "nonce");
    assert_true(bench->heartbeat.all_holdings);
    /* The same challenge in a later assignment is no new one. */
    assignment->revision = ++bench->now_ms;
    step(bench, (struct session_event){.type = SESSION_ASSIGNED, .assignment = assignment});
    expect_not(bench, SESSION_DO_BEAT);
}

static void a_challenge_is_answered_although_reports_were_failing(void **state)
{
    struct bench *bench = *state;
    start(bench);
    (void)run(bench, 1);
    step(bench, (struct session_event){.type = SESSION_HOLDINGS_CHANGED});
    break_off(bench, SESSION_BEAT_FAILED, FAILURE_NETWORK);
    step(bench, (struct session_event){.type = SESSION_HOLDINGS_CHANGED});
    expect_not(bench, SESSION_DO_BEAT);
    struct assignment *assignment = &bench->assignment;
    assignment->revision = ++bench->now_ms;
    (void)snprintf(assignment->challenge, sizeof(assignment->challenge), "nonce");
    step(bench, (struct session_event){.type = SESSION_ASSIGNED, .assignment = assignment});
    expect(bench, SESSION_DO_BEAT);
}

static void trouble_with_a_peer_is_reported_at_once(void **state)
{
    struct bench *bench = *state;
    start(bench);
    (void)run(bench, 1);
    answer_beat(bench, bench->assignment.revision);
    step(bench, (struct session_event){.type = SESSION_TROUBLE_CHANGED});
    expect(bench, SESSION_DO_BEAT);
}

static void rounds_wait_while_the_coordinator_is_away(void **state)
{
    struct bench *bench = *state;
    start(bench);
    (void)run(bench, 1);
    const int64_t contact_ms = bench->now_ms;
    bool away = false;
    while (!away) {
        bench->now_ms = session_deadline_ms(bench->session);
        assert_true(bench->now_ms <= contact_ms + 3000);
        step(bench, (struct session_event){.type = SESSION_TICK});
        away = find(bench, SESSION_DO_AWAY) != NULL;
        break_off(bench, SESSION_BEAT_FAILED, FAILURE_NETWORK);
    }
    assert_int_equal(bench->now_ms, contact_ms + 3000);
    assert_true(session_deadline_ms(bench->session) > bench->now_ms);
    step(bench, (struct session_event){.type = SESSION_POLL_ENDED});
    expect(bench, SESSION_DO_BACK);
}

static void a_plan_of_the_same_number_is_another_one(void **state)
{
    struct bench *bench = *state;
    start(bench);
    const int64_t serial = run(bench, 3);
    struct assignment *assignment = &bench->assignment;
    assignment->revision = ++bench->now_ms;
    assignment->run.phase = PHASE_PREPARE;
    (void)snprintf(assignment->run.plan.text, ID_SIZE, "plan_of_a_restored_backup");
    step(bench, (struct session_event){.type = SESSION_ASSIGNED, .assignment = assignment});
    assert_true(find(bench, SESSION_DO_PREPARE)->serial > serial);
    beat(bench);
    assert_string_equal(bench->heartbeat.plan, "plan_of_a_restored_backup");
}

#define session_test(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        session_test(an_agent_enrols_then_reports_and_asks),
        session_test(a_failing_enrolment_is_repeated_with_growing_waits),
        session_test(a_stated_retry_after_is_respected),
        session_test(a_refused_enrolment_ends_the_agent_and_says_why),
        session_test(one_generation_goes_through_its_phases),
        session_test(a_phase_told_early_is_followed_when_the_device_is_ready),
        session_test(a_new_generation_replaces_the_run_and_old_reports_are_ignored),
        session_test(a_lower_generation_of_the_same_job_is_refused),
        session_test(an_error_is_reported_until_the_next_generation),
        session_test(metrics_are_kept_until_a_reply_acknowledges_them),
        session_test(a_long_absence_loses_the_oldest_metrics_only),
        session_test(a_stop_is_told_behind_the_last_metric),
        session_test(holdings_are_listed_on_connecting_and_after_each_change),
        session_test(a_list_waits_a_little_while_more_is_likely_to_come),
        session_test(drops_are_passed_on),
        session_test(a_device_that_is_not_known_enrols_again_and_trains_on),
        session_test(a_replaced_boot_gives_up_its_work_and_the_second_time_exits),
        session_test(without_its_coordinator_the_agent_begins_no_step_after_its_autonomy),
        session_test(a_coordinator_that_counts_anew_is_asked_from_the_start),
        session_test(a_round_is_reported_at_once_and_its_end_is_passed_on_once),
        session_test(what_is_said_of_rounds_of_an_earlier_run_is_ignored),
        session_test(a_challenge_is_answered_at_once_even_while_a_heartbeat_hangs),
        session_test(a_challenge_is_answered_although_reports_were_failing),
        session_test(trouble_with_a_peer_is_reported_at_once),
        session_test(rounds_wait_while_the_coordinator_is_away),
        session_test(a_plan_of_the_same_number_is_another_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
