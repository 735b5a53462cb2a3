#include "base/stop_signals.h"

#include <signal.h>
#include <stdbool.h>

#include "base/file.h"
#include "base/log.h"
#include "tests/support/test.h"

/* The number that the descriptor returns after the signal was sent to this process, or 0. */
static int delivered(int number)
{
    struct err err = {0};
    FD_AUTO int fd = -1;
    assert_ok(stop_signals_open(&fd, &err), &err);
    assert_int_equal(raise(number), 0);
    return stop_signals_take(fd);
}

static void each_request_to_end_is_delivered(void **state)
{
    (void)state;
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        assert_int_equal(delivered(numbers[i]), numbers[i]);
    }
}

static void signals_about_the_log_do_not_end_the_program(void **state)
{
    (void)state;
    struct err err = {0};
    FD_AUTO int fd = -1;
    assert_ok(stop_signals_open(&fd, &err), &err);
    log_set_level(LOG_LEVEL_ERROR);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(raise(SIGUSR1), 0);
        assert_int_equal(stop_signals_take(fd), 0);
        assert_true(log_shows(LOG_LEVEL_DEBUG));
        assert_int_equal(raise(SIGUSR2), 0);
        assert_int_equal(stop_signals_take(fd), 0);
        assert_false(log_shows(LOG_LEVEL_WARN));
    }
    assert_int_equal(raise(SIGUSR1), 0);
    assert_int_equal(raise(SIGTERM), 0);
    assert_int_equal(raise(SIGUSR2), 0);
    int ends = 0;
    for (int number = stop_signals_take(fd); number != 0; number = stop_signals_take(fd)) {
        assert_int_equal(number, SIGTERM);
        ends++;
    }
    assert_int_equal(ends, 1);
    assert_false(log_shows(LOG_LEVEL_WARN));
    log_set_level(LOG_LEVEL_INFO);
}

static void a_hangup_that_was_ignored_at_the_start_stays_ignored(void **state)
{
    (void)state;
    sigset_t hangup;
    (void)sigemptyset(&hangup);
    (void)sigaddset(&hangup, SIGHUP);
    assert_int_equal(sigprocmask(SIG_UNBLOCK, &hangup, NULL), 0);
    assert_true(signal(SIGHUP, SIG_IGN) != SIG_ERR);
    assert_int_equal(delivered(SIGHUP), 0);
    assert_true(signal(SIGHUP, SIG_DFL) == SIG_IGN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_request_to_end_is_delivered),
        cmocka_unit_test(signals_about_the_log_do_not_end_the_program),
        cmocka_unit_test(a_hangup_that_was_ignored_at_the_start_stays_ignored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
