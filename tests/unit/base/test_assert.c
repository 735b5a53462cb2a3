#include "base/assert.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/test.h"

static void a_true_condition_passes(void **state)
{
    (void)state;
    ASSERT(1 + 1 == 2);
}

/* Run in a child; returns its exit status and its text. */
static void a_false_condition_names_its_place_and_aborts(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)signal(SIGABRT, SIG_DFL);
        (void)dup2(ends[1], STDERR_FILENO);
        ASSERT(1 + 1 == 3);
        _exit(0);
    }
    (void)close(ends[1]);
    char text[256] = "";
    assert_true(read(ends[0], text, sizeof(text) - 1) > 0);
    (void)close(ends[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    assert_holds(text, "test_assert.c:");
    assert_holds(text, ": assertion failed: 1 + 1 == 3\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_true_condition_passes),
        cmocka_unit_test(a_false_condition_names_its_place_and_aborts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
