#include <string.h>

#include "coordinator/turn/incident_log.h"
#include "tests/support/test.h"

static void note(struct incident_log *log, int64_t revision, int cause, int state, double seconds)
{
    struct err err = {0};
    struct incident incident = {.revision = revision,
                                .cause = cause,
                                .state = state,
                                .detect_seconds = seconds,
                                .decide_seconds = 2 * seconds,
                                .resume_seconds = 3 * seconds};
    assert_ok(incident_log_note(log, &incident, &err), &err);
}

static void nothing_is_counted_before_the_commit(void **state)
{
    (void)state;
    struct incident_log log = {0};
    note(&log, 1, INCIDENT_LINK, INCIDENT_OPEN, 0);
    note(&log, 4, INCIDENT_LINK, INCIDENT_RESOLVED, 0.5);
    assert_int_equal(log.opened[INCIDENT_LINK], 0);
    assert_int_equal(log.resolved, 0);
    incident_log_write(&log);
    assert_int_equal(log.opened[INCIDENT_LINK], 1);
    assert_int_equal(log.resolved, 1);
    incident_log_write(&log);
    assert_int_equal(log.opened[INCIDENT_LINK], 1);
    assert_int_equal(log.resolved, 1);
    incident_log_done(&log);
}

static void each_incident_counts_once_when_it_opens_and_its_phases_when_it_is_resolved(void **state)
{
    (void)state;
    struct incident_log log = {0};
    for (int round = 0; round < 20; round++) {
        note(&log, 1, INCIDENT_DEVICE_LOST, INCIDENT_OPEN, 0);
        note(&log, 2, INCIDENT_DEVICE_LOST, INCIDENT_OPEN, 0.1);
        note(&log, 3, INCIDENT_DEVICE_LOST, INCIDENT_RESOLVED, 0.25);
    }
    note(&log, 2, INCIDENT_STALLED, INCIDENT_ABANDONED, 9);
    note(&log, 1, INCIDENT_ERROR, INCIDENT_ABANDONED, 9); /* over in the turn that opened it */
    incident_log_write(&log);
    assert_int_equal(log.opened[INCIDENT_DEVICE_LOST], 20);
    assert_int_equal(log.opened[INCIDENT_STALLED], 0);
    assert_int_equal(log.opened[INCIDENT_ERROR], 1);
    assert_int_equal(log.resolved, 20);
    const double expected[RECOVERY_PHASES] = {
        [RECOVERY_DETECT] = 5, [RECOVERY_DECIDE] = 10, [RECOVERY_RESUME] = 15};
    assert_close(log.seconds, expected, RECOVERY_PHASES, 1e-12);
    incident_log_done(&log);
    assert_null(log.noted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_counted_before_the_commit),
        cmocka_unit_test(
            each_incident_counts_once_when_it_opens_and_its_phases_when_it_is_resolved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
