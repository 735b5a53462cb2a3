#include <math.h>
#include <string.h>

#include "tests/support/test.h"

struct worst {
    size_t index;
    double difference;
    double scale;
};

/* Keep the largest difference; one that is not a number beats every other and stays. */
static void compare(struct worst *worst, size_t index, double actual, double expected)
{
    double difference = fabs(actual - expected);
    if (isfinite(worst->difference) && !(difference <= worst->difference)) {
        worst->difference = difference;
        worst->index = index;
    }
    worst->scale = fmax(worst->scale, fabs(expected));
}

static void judge(const struct worst *worst, double actual, double expected, double tolerance,
                  const char *file, int line)
{
    if (worst->difference <= tolerance * worst->scale) {
        return;
    }
    print_error(
        "element %zu is %.9g, expected %.9g: off by %.3g of the largest value %.3g, allowed %.3g\n",
        worst->index, actual, expected, worst->difference / worst->scale, worst->scale, tolerance);
    _fail(file, line);
}

void test_close_float(const float *actual, const float *expected, size_t count, double tolerance,
                      const char *file, int line)
{
    struct worst worst = {0};
    for (size_t i = 0; i < count; i++) {
        compare(&worst, i, (double)actual[i], (double)expected[i]);
    }
    if (count > 0) {
        judge(&worst, (double)actual[worst.index], (double)expected[worst.index], tolerance, file,
              line);
    }
}

void test_close_double(const double *actual, const double *expected, size_t count, double tolerance,
                       const char *file, int line)
{
    struct worst worst = {0};
    for (size_t i = 0; i < count; i++) {
        compare(&worst, i, actual[i], expected[i]);
    }
    if (count > 0) {
        judge(&worst, actual[worst.index], expected[worst.index], tolerance, file, line);
    }
}

void test_ok(int rc, const struct err *err, const char *call, const char *file, int line)
{
    if (rc != 0) {
        print_error("%s failed: %s: %s\n", call, err_name(rc),
                    err && err->code ? err->text : "no text");
        _fail(file, line);
    }
}

void test_holds(const char *text, const char *part, const char *file, int line)
{
    if (!strstr(text, part)) {
        print_error("\"%s\" does not hold \"%s\"\n", text, part);
        _fail(file, line);
    }
}
