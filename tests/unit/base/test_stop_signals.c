#include "base/stop_signals.h"

#include <signal.h>
#include <stdbool.h>

#include "base/file.h"
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
        cmocka_unit_test(a_hangup_that_was_ignored_at_the_start_stays_ignored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
