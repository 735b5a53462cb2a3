#include "libtrain/schedule/link.h"

#include <math.h>

#include "base/rng.h"
#include "tests/support/test.h"

static void add(struct link_sums *sums, double count, double bytes, double seconds)
{
    const struct link_sums more = {.count = count,
                                   .seconds = count * seconds,
                                   .bytes = count * bytes,
                                   .bytes_squared = count * bytes * bytes,
                                   .bytes_seconds = count * bytes * seconds};
    link_add(sums, &more);
}

static double seconds_of(const struct link_speed *link, double bytes)
{
    return link->latency_seconds + bytes / link->bytes_per_second;
}

static struct link_speed of_one_size(double bytes, double seconds)
{
    struct link_sums sums = {0};
    add(&sums, 100, bytes, seconds);
    return link_estimate(&sums);
}

static void assert_between(double value, double least, double most)
{
    if (!(value >= least && value <= most)) {
        fail_msg("%g is not in [%g, %g]", value, least, most);
    }
}

static void a_link_never_measured_is_a_usual_one(void **state)
{
    (void)state;
    struct link_sums sums = {0};
    struct link_speed link = link_estimate(&sums);
    assert_true(link.latency_seconds == LINK_LATENCY_SECONDS &&
                link.bytes_per_second == LINK_BYTES_PER_SECOND);
    add(&sums, 1, 1000, 5); /* one transfer opens the connection, too */
    link = link_estimate(&sums);
    assert_true(link.latency_seconds == LINK_LATENCY_SECONDS &&
                link.bytes_per_second == LINK_BYTES_PER_SECOND);
}

/* The tensors of one border, of which some carry a mark in their header and meet the moments at
 * which state is copied: the slope between the two sizes is that of the moments. */
static void sizes_that_hardly_differ_say_nothing_of_bandwidth(void **state)
{
    (void)state;
    static const double sizes[] = {144, 800, 2800, 28800, 1e6};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        const double usual = 0.0001 + sizes[i] / 1e9;
        struct link_sums sums = {0};
        add(&sums, 1900, sizes[i], usual);
        add(&sums, 100, sizes[i] + 64, 10 * usual);
        const struct link_speed link = link_estimate(&sums);
        const double mean = sums.seconds / sums.count;
        assert_between(seconds_of(&link, sizes[i]), 0.9 * mean, 1.001 * mean);
        assert_true(link.bytes_per_second > 50e6);
        /* The next question of the planner: a boundary ten times as large. */
        assert_true(seconds_of(&link, 10 * sizes[i]) < 0.0015 + 10 * mean);
    }
}

static void sizes_that_differ_tell_latency_from_bandwidth(void **state)
{
    (void)state;
    static const struct link_speed links[] = {{0.0001, 1e9}, {0.0002, 118e6}, {0.001, 11.8e6},
                                              {0.020, 5e6},  {0.100, 100e6},  {0.002, 125e3}};
    for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
        struct link_sums sums = {0};
        add(&sums, 500, 30e3, seconds_of(&links[i], 30e3));
        add(&sums, 500, 400e3, seconds_of(&links[i], 400e3));
        const struct link_speed link = link_estimate(&sums);
        assert_between(link.bytes_per_second / links[i].bytes_per_second, 0.8, 1.25);
        assert_between(seconds_of(&link, 30e3) / seconds_of(&links[i], 30e3), 0.8, 1.25);
        assert_between(seconds_of(&link, 2e6) / seconds_of(&links[i], 2e6), 0.8, 1.25);
    }
}

/* With one size only: within a factor of the properties of such a link, so that the costs of other
 * boundaries stay plausible. */
static void one_size_is_held_against_a_usual_link(void **state)
{
    (void)state;
    const struct link_speed loopback = of_one_size(800, 0.0002);
    assert_between(loopback.bytes_per_second, 50e6, 1e9);
    const struct link_speed slow = of_one_size(1e6, 0.085); /* 100 Mbit/s */
    assert_between(slow.bytes_per_second, 11.7e6, 13e6);
    const struct link_speed fast = of_one_size(1e6, 0.001);
    assert_between(fast.bytes_per_second, 0.9e9, 2e9);
    const struct link_speed far = of_one_size(2800, 0.030); /* a round trip of 30 ms */
    assert_between(far.latency_seconds, 0.028, 0.030);
    assert_between(far.bytes_per_second, 10e6, 100e6);
}

static void a_slower_link_never_has_a_shorter_estimate(void **state)
{
    (void)state;
    for (double bytes = 10; bytes < 1e8; bytes *= 3) {
        struct link_speed before = of_one_size(bytes, 1e-6);
        for (double seconds = 1e-6; seconds < 100; seconds *= 1.3) {
            const struct link_speed link = of_one_size(bytes, seconds);
            assert_true(link.latency_seconds >= before.latency_seconds * (1 - 1e-9));
            assert_true(link.bytes_per_second <= before.bytes_per_second * (1 + 1e-9));
            before = link;
        }
    }
}

/* Whatever was seen: the mean is met, and no bandwidth is below the mean rate. */
static void estimates_stay_within_the_measurements(void **state)
{
    (void)state;
    const struct rng_stream rng = rng_stream(28, RNG_SIMULATION, 0, 0);
    uint64_t draw = 0;
    for (int trial = 0; trial < 2000; trial++) {
        struct link_sums sums = {0};
        for (int i = 0; i < 5; i++) {
            const double bytes = exp(3 + 13 * (double)rng_uniform(&rng, draw++));
            const double seconds = exp(-12 + 14 * (double)rng_uniform(&rng, draw++));
            add(&sums, 2 + (double)rng_below(&rng, draw++, 50), bytes, seconds);
        }
        const struct link_speed link = link_estimate(&sums);
        const double bytes = sums.bytes / sums.count, seconds = sums.seconds / sums.count;
        assert_true(link.latency_seconds >= 0 && link.latency_seconds <= seconds);
        assert_true(link.bytes_per_second >= bytes / seconds * (1 - 1e-9));
        assert_true(link.bytes_per_second <= LINK_BYTES_PER_SECOND_MAX);
        assert_true(seconds_of(&link, bytes) >= seconds * (1 - 1e-9));
    }
}

static void a_link_that_changed_is_seen(void **state)
{
    (void)state;
    struct link_sums sums = {0};
    for (int i = 0; i < 1000; i++) {
        add(&sums, 1000, 1e5, 0.001);
    }
    for (int i = 0; i < 300; i++) {
        add(&sums, 1000, 1e5, 0.1);
    }
    const struct link_speed link = link_estimate(&sums);
    assert_between(seconds_of(&link, 1e5), 0.095, 0.1001);
    assert_true(sums.count <= LINK_COUNT_MAX);
}

static void sums_of_nonsense_stay_finite(void **state)
{
    (void)state;
    static const double value[] = {0, 5e-324, 1, 1e9, 1e300};
    const size_t values = sizeof(value) / sizeof(value[0]);
    for (size_t i = 0; i < values * values * values * values; i++) {
        struct link_sums sums = {0};
        const struct link_sums more = {.count = 2 + (double)(i % 3) * 4e8,
                                       .seconds = value[i % values],
                                       .bytes = value[i / values % values],
                                       .bytes_squared = value[i / values / values % values],
                                       .bytes_seconds = value[i / values / values / values]};
        link_add(&sums, &more);
        const struct link_speed link = link_estimate(&sums);
        assert_between(link.latency_seconds, 0, LINK_LATENCY_SECONDS_MAX);
        assert_between(link.bytes_per_second, LINK_BYTES_PER_SECOND_MIN, LINK_BYTES_PER_SECOND_MAX);
    }
}

static void links_in_series_add_their_latencies(void **state)
{
    (void)state;
    const struct link_speed near = {.latency_seconds = 0.001, .bytes_per_second = 1e8};
    const struct link_speed far = {.latency_seconds = 0.02, .bytes_per_second = 1e6};
    const struct link_speed both = link_in_series(near, far);
    assert_true(both.latency_seconds == 0.021 && both.bytes_per_second == 1e6);
    const struct link_speed farthest = {.latency_seconds = LINK_LATENCY_SECONDS_MAX,
                                        .bytes_per_second = 1};
    assert_true(link_in_series(farthest, far).latency_seconds == LINK_LATENCY_SECONDS_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_link_never_measured_is_a_usual_one),
        cmocka_unit_test(sizes_that_hardly_differ_say_nothing_of_bandwidth),
        cmocka_unit_test(sizes_that_differ_tell_latency_from_bandwidth),
        cmocka_unit_test(one_size_is_held_against_a_usual_link),
        cmocka_unit_test(a_slower_link_never_has_a_shorter_estimate),
        cmocka_unit_test(estimates_stay_within_the_measurements),
        cmocka_unit_test(a_link_that_changed_is_seen),
        cmocka_unit_test(sums_of_nonsense_stay_finite),
        cmocka_unit_test(links_in_series_add_their_latencies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
