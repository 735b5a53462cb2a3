#include "coordinator/plan/servers_place.h"

#include <math.h>

#include "tests/support/test.h"
#include "tests/unit/coordinator_plan/servers_sample.h"

#define NEAR 1e-9
#define CASES 1200

static struct servers_sample sample;

static bool is_near(double a, double b)
{
    return fabs(a - b) <= NEAR * (fabs(a) + fabs(b)) + 1e-300;
}

/* The least largest seconds of any boundaries; devices in order. */
static double try_boundaries(size_t count)
{
    const size_t units = sample.problem.unit_count;
    double best = INFINITY;
    for (unsigned cuts = 0; cuts < 1u << (units - 1); cuts++) {
        double largest = 0;
        size_t s = 0, first = 0;
        for (size_t u = 0; u < units && s < count; u++) {
            if (u + 1 < units && !(cuts >> u & 1)) {
                continue;
            }
            const struct servers_stage stage = {
                .device = s, .first = first, .end = u + 1, .sums = 1};
            const double seconds =
                servers_step_bytes(&sample.problem, first, u + 1) / sample.rate[s];
            largest = seconds > largest ? seconds : largest;
            largest = servers_place_fits(&sample.problem, &stage) ? largest : INFINITY;
            first = u + 1;
            s++;
        }
        best = first == units && s == count && largest < best ? largest : best;
    }
    return best;
}

static void boundaries_minimise_the_largest_bytes_over_rate_within_memory(void **state)
{
    (void)state;
    static const size_t device[] = {0, 1, 2, 3};
    struct draws draws = draws_of(1, 86);
    size_t impossible = 0;
    for (size_t i = 0; i < CASES; i++) {
        size_t end[SERVERS_SAMPLE_DEVICES];
        servers_sample_draw(&sample, &draws, false);
        const size_t count = 1 + draw_below(&draws, sample.problem.device_count);
        const double best = try_boundaries(count);
        const bool placed = servers_place(&sample.problem, device, count, false, end);
        assert_int_equal(placed, isfinite(best));
        impossible += !placed;
        double largest = 0;
        for (size_t s = 0, first = 0; placed && s < count; first = end[s++]) {
            const double seconds =
                servers_step_bytes(&sample.problem, first, end[s]) / sample.rate[s];
            largest = seconds > largest ? seconds : largest;
        }
        assert_true(!placed || is_near(largest, best));
    }
    assert_true(impossible > 0 && impossible < CASES / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(boundaries_minimise_the_largest_bytes_over_rate_within_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
