#include "base/user.h"

#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/test.h"

#define OTHER_USER 54321
#define OTHER_GROUP 54322

/* What a child process is after it became the owner of the directory. */
enum outcome { IS_OTHER = 10, STAYED, FAILED, KEPT_RIGHTS };

static int become(const char *directory)
{
    struct err err = {0};
    gid_t group;
    if (user_become_owner(directory, &err)) {
        return FAILED;
    }
    if (geteuid() != OTHER_USER) {
        return STAYED;
    }
    const bool whole = getuid() == OTHER_USER && getgid() == OTHER_GROUP &&
                       getegid() == OTHER_GROUP && getgroups(1, &group) == 0 && seteuid(0) != 0;
    return whole ? IS_OTHER : KEPT_RIGHTS;
}

static int outcome_of(const char *directory)
{
    int status = 0;
    const pid_t child = fork();
    if (child == 0) {
        _exit(become(directory));
    }
    assert_true(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void root_becomes_the_owner_for_good(void **state)
{
    if (geteuid() != 0) {
        skip();
    }
    assert_int_equal(chown(*state, OTHER_USER, OTHER_GROUP), 0);
    assert_int_equal(outcome_of(*state), IS_OTHER);
    assert_int_equal(chown(*state, 0, 0), 0);
}

static void nothing_changes_for_roots_own_and_for_missing_directories(void **state)
{
    const struct test_path missing = test_path_in(*state, "missing");
    assert_int_equal(outcome_of(*state), STAYED);
    assert_int_equal(outcome_of(missing.text), STAYED);
}

static void a_path_through_a_file_is_an_error_for_root(void **state)
{
    (void)state;
    assert_int_equal(outcome_of("/dev/null/x"), geteuid() == 0 ? FAILED : STAYED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_with_directory(root_becomes_the_owner_for_good),
        test_with_directory(nothing_changes_for_roots_own_and_for_missing_directories),
        cmocka_unit_test(a_path_through_a_file_is_an_error_for_root),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
