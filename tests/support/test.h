/* test.h: the header of every unit test, and the only include of cmocka, which needs four headers
 * before its own. Beside cmocka's assertions there are comparisons of arrays of floating point
 * numbers, a temporary directory per test and the paths of committed test data. One thread. */
#ifndef TESTS_SUPPORT_TEST_H
#define TESTS_SUPPORT_TEST_H

/* clang-format off: the order matters to cmocka. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include "base/err.h"

/* Fail unless max|actual - expected| <= tolerance * max|expected|, the measure of the whole
 * project; the message shows the worst element. Numbers that are not finite never pass. actual and
 * expected: float or double arrays of count elements. */
#define assert_close(actual, expected, count, tolerance)                                           \
    _Generic((actual)[0], float                                                                    \
             : test_close_float, double                                                            \
             : test_close_double)((actual), (expected), (count), (tolerance), __FILE__, __LINE__)
void test_close_float(const float *actual, const float *expected, size_t count, double tolerance,
                      const char *file, int line);
void test_close_double(const double *actual, const double *expected, size_t count, double tolerance,
                       const char *file, int line);

/* Fail unless the call returned 0, showing the text of the error otherwise. */
#define assert_ok(call, err) test_ok((call), (err), #call, __FILE__, __LINE__)
void test_ok(int rc, const struct err *err, const char *call, const char *file, int line);

/* Fail unless `text` holds `part`. */
#define assert_holds(text, part) test_holds((text), (part), __FILE__, __LINE__)
void test_holds(const char *text, const char *part, const char *file, int line);

/* Leave the test as skipped; the reason goes to the summary of tests/run.sh. */
#define test_skip(reason) (print_message("skip: %s\n", (reason)), skip())

#define TEST_PATH_MAX 4096
struct test_path {
    char text[TEST_PATH_MAX];
};

/* "<source tree>/relative": test_data_path("examples/data/digits").text */
struct test_path test_data_path(const char *relative);
/* "<directory>/name" */
struct test_path test_path_in(const char *directory, const char *name);

/* A test with a directory of its own: `const char *directory = *state`. It is removed at the end,
 * whatever is in it. */
#define test_with_directory(function)                                                              \
    cmocka_unit_test_setup_teardown(function, test_directory_setup, test_directory_teardown)
int test_directory_setup(void **state);
int test_directory_teardown(void **state);

#endif
