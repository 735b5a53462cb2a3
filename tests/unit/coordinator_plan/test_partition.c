#include "coordinator/plan/partition.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/rng.h"
#include "tests/support/test.h"

/* A problem with its arrays; memory of a stage = units' bytes + in-flight activations. */
struct sample {
    struct partition_problem problem;
    double forward[PARTITION_DEVICES_MAX * PARTITION_UNITS_MAX];
    double backward[PARTITION_DEVICES_MAX * PARTITION_UNITS_MAX];
    double update[PARTITION_DEVICES_MAX * PARTITION_UNITS_MAX];
    uint64_t border[PARTITION_UNITS_MAX];
    struct partition_link link[PARTITION_DEVICES_MAX];
    uint64_t cap[PARTITION_DEVICES_MAX];
    uint64_t unit_bytes[PARTITION_UNITS_MAX], activation_bytes[PARTITION_UNITS_MAX];
    size_t memory_calls;
    double memory_work;
};

static uint64_t sample_memory(void *arg, size_t device, size_t first, size_t end, size_t in_flight)
{
    (void)device;
    struct sample *sample = arg;
    uint64_t bytes = 0;
    sample->memory_calls++;
    sample->memory_work += 1e4; /* a large model: 1.5 ms */
    for (size_t u = first; u < end; u++) {
        bytes += sample->unit_bytes[u] + in_flight * sample->activation_bytes[u];
    }
    return bytes;
}

static void sample_init(struct sample *sample, size_t units, size_t devices, size_t micro_batches)
{
    memset(sample, 0, sizeof(*sample));
    sample->problem = (struct partition_problem){
        .unit_count = units,
        .device_count = devices,
        .forward_seconds = sample->forward,
        .backward_seconds = sample->backward,
        .update_seconds = sample->update,
        .border_bytes = sample->border,
        .link = sample->link,
        .memory_cap_bytes = sample->cap,
        .stage_memory = sample_memory,
        .arg = sample,
        .micro_batches = micro_batches,
    };
    for (size_t d = 0; d < devices; d++) {
        sample->cap[d] = UINT64_MAX;
        sample->link[d] = (struct partition_link){.latency_seconds = 0, .bytes_per_second = 1e9};
        for (size_t u = 0; u < units; u++) {
            sample->forward[d * units + u] = 1;
            sample->backward[d * units + u] = 2;
        }
    }
}

static double uniform(const struct rng_stream *stream, uint64_t *index, double low, double high)
{
    return low + (high - low) * (double)rng_uniform(stream, (*index)++);
}

/* Unequal devices and units; links from invisible to dominant; every third problem is short of
 * memory. */
static void sample_draw(struct sample *sample, const struct rng_stream *stream, uint64_t *index,
                        size_t units_max, size_t devices_max)
{
    size_t units = 1 + (size_t)rng_below(stream, (*index)++, units_max);
    size_t most = devices_max < units ? devices_max : units;
    size_t devices = 1 + (size_t)rng_below(stream, (*index)++, most);
    sample_init(sample, units, devices, 1 + (size_t)rng_below(stream, (*index)++, 8));
    sample->problem.clips_norm = devices % 2 == 0;
    double slow = rng_below(stream, (*index)++, 2) ? 1 : 0.05;
    bool tight = rng_below(stream, (*index)++, 3) == 0;
    for (size_t u = 0; u < units; u++) {
        double work = uniform(stream, index, 0.1, 3);
        sample->border[u] = rng_below(stream, (*index)++, 1000);
        sample->unit_bytes[u] = rng_below(stream, (*index)++, 100);
        sample->activation_bytes[u] = rng_below(stream, (*index)++, 50);
        for (size_t d = 0; d < devices; d++) {
            sample->forward[d * units + u] =
                work * (double)(d % 3 + 1) * uniform(stream, index, 0.8, 1.2);
            sample->backward[d * units + u] =
                2 * work * (double)(d % 3 + 1) * uniform(stream, index, 0.8, 1.2);
            sample->update[d * units + u] = uniform(stream, index, 0, 0.3);
        }
    }
    for (size_t d = 0; d < devices; d++) {
        sample->link[d] =
            (struct partition_link){.latency_seconds = slow * uniform(stream, index, 0, 1),
                                    .bytes_per_second = uniform(stream, index, 200, 2000) / slow};
        sample->cap[d] = tight ? 50 + rng_below(stream, (*index)++, 600) : UINT64_MAX;
    }
}

/* Every split, each timed by the timeline. */
static double brute_force(const struct partition_problem *problem, size_t device, size_t *end)
{
    size_t first = device == 0 ? 0 : end[device - 1];
    if (device + 1 == problem->device_count) {
        struct partition_plan plan;
        end[device] = problem->unit_count;
        return partition_evaluate(problem, end, &plan, NULL) == 0 ? plan.step_seconds : INFINITY;
    }
    double best = INFINITY;
    for (size_t e = first + 1; e <= problem->unit_count - (problem->device_count - 1 - device);
         e++) {
        end[device] = e;
        best = fmin(best, brute_force(problem, device + 1, end));
    }
    return best;
}

static void the_best_partition_equals_brute_force(void **state)
{
    (void)state;
    struct rng_stream stream = rng_stream(1, RNG_SIMULATION, 11, 0);
    uint64_t index = 0;
    static struct sample sample;
    int infeasible = 0, feasible = 0;
    for (int trial = 0; trial < 4000; trial++) {
        sample_draw(&sample, &stream, &index, 10, 5);
        size_t end[PARTITION_DEVICES_MAX] = {0};
        double expected = brute_force(&sample.problem, 0, end);
        struct partition_plan plan;
        struct err err = {0};
        int rc = partition_solve(&sample.problem, &plan, &err);
        if (!isfinite(expected)) {
            assert_int_equal(rc, ERR_MEMORY);
            infeasible++;
            continue;
        }
        assert_ok(rc, &err);
        assert_close(&plan.step_seconds, &expected, 1, 1e-9);
        feasible++;
    }
    assert_true(infeasible > 100 && feasible > 2000);
}

static void a_plan_keeps_every_promise(void **state)
{
    (void)state;
    struct rng_stream stream = rng_stream(1, RNG_SIMULATION, 12, 0);
    uint64_t index = 0;
    static struct sample sample;
    for (int trial = 0; trial < 200; trial++) {
        sample_draw(&sample, &stream, &index, 40, 8);
        struct partition_plan plan, again;
        struct err err = {0};
        if (partition_solve(&sample.problem, &plan, &err) != 0) {
            assert_int_equal(err.code, ERR_MEMORY);
            continue;
        }
        size_t first = 0;
        for (size_t d = 0; d < sample.problem.device_count; d++) {
            assert_true(plan.end[d] > first);
            assert_in_range(plan.in_flight[d], 1, sample.problem.micro_batches);
            assert_int_equal(plan.memory_bytes[d],
                             sample_memory(&sample, d, first, plan.end[d], plan.in_flight[d]));
            assert_true(plan.memory_bytes[d] <= sample.cap[d]);
            assert_true(plan.busy[d] > 0 && plan.busy[d] <= 1 + 1e-9);
            first = plan.end[d];
        }
        assert_int_equal(first, sample.problem.unit_count);
        assert_true(plan.bound_seconds <= plan.step_seconds * (1 + 1e-9));
        assert_ok(partition_evaluate(&sample.problem, plan.end, &again, &err), &err);
        assert_close(&again.step_seconds, &plan.step_seconds, 1, 1e-12);
    }
}

static void a_slow_device_gets_fewer_units(void **state)
{
    (void)state;
    static struct sample sample;
    sample_init(&sample, 12, 3, 16);
    for (size_t u = 0; u < 12; u++) {
        sample.forward[2 * 12 + u] *= 4;
        sample.backward[2 * 12 + u] *= 4;
    }
    struct partition_plan plan;
    struct err err = {0};
    assert_ok(partition_solve(&sample.problem, &plan, &err), &err);
    assert_true(plan.end[1] - plan.end[0] >= 4);
    assert_true(plan.end[2] - plan.end[1] <= 2);
}

static void links_that_are_slow_are_crossed_where_little_travels(void **state)
{
    (void)state;
    static struct sample sample;
    sample_init(&sample, 6, 2, 4);
    for (size_t u = 0; u < 6; u++) {
        sample.border[u] = u == 1 ? 1 : 1000;
    }
    sample.link[0].bytes_per_second = 10;
    struct partition_plan plan;
    struct err err = {0};
    assert_ok(partition_solve(&sample.problem, &plan, &err), &err);
    assert_int_equal(plan.end[0], 2);
}

static void slow_links_raise_the_in_flight_limit(void **state)
{
    (void)state;
    static struct sample sample;
    sample_init(&sample, 6, 2, 16);
    for (size_t u = 0; u < 6; u++) {
        sample.border[u] = 9;
    }
    sample.link[0] = (struct partition_link){.latency_seconds = 5, .bytes_per_second = 1};
    struct partition_plan plan;
    struct err err = {0};
    assert_ok(partition_solve(&sample.problem, &plan, &err), &err);
    assert_true(plan.in_flight[0] > 2);
    assert_int_equal(plan.in_flight[1], 1);
}

static void in_flight_gives_way_to_memory(void **state)
{
    (void)state;
    static struct sample sample;
    sample_init(&sample, 4, 2, 8);
    for (size_t u = 0; u < 4; u++) {
        sample.activation_bytes[u] = 10;
    }
    sample.cap[0] = 25;
    struct partition_plan plan;
    struct err err = {0};
    assert_ok(partition_solve(&sample.problem, &plan, &err), &err);
    assert_true(plan.memory_bytes[0] <= 25);
    assert_int_equal(plan.in_flight[0] * 10 * plan.end[0], plan.memory_bytes[0]);
}

static void the_unit_that_does_not_fit_is_named(void **state)
{
    (void)state;
    static struct sample sample;
    static const char *const units[] = {"stem", "block1", "block2", "head"};
    static const char *const devices[] = {"alpha", "beta"};
    sample_init(&sample, 4, 2, 4);
    sample.problem.unit_name = units;
    sample.problem.device_name = devices;
    sample.unit_bytes[2] = 500;
    sample.unit_bytes[3] = 20;
    sample.cap[0] = sample.cap[1] = 400;
    struct partition_plan plan;
    struct err err = {0};
    assert_int_equal(partition_solve(&sample.problem, &plan, &err), ERR_MEMORY);
    assert_string_equal(err.text,
                        "unit 'block2' does not fit on device 'beta': it needs 500 bytes, 400 are "
                        "available (100 too many)");
    sample.cap[1] = 510;
    assert_int_equal(partition_solve(&sample.problem, &plan, &err), ERR_MEMORY);
    assert_string_equal(
        err.text,
        "unit 'head' does not fit on device 'beta' with 1 unit from unit 'block2' on: they "
        "need 520 bytes, 510 are available (10 too many)");
    const size_t cuts[] = {3, 4};
    sample.problem.unit_name = NULL;
    sample.problem.device_name = NULL;
    assert_int_equal(partition_evaluate(&sample.problem, cuts, &plan, &err), ERR_MEMORY);
    assert_holds(err.text, "unit 2 does not fit on device 0");
}

static void wrong_sizes_are_refused(void **state)
{
    (void)state;
    static struct sample sample;
    struct partition_plan plan;
    struct err err = {0};
    sample_init(&sample, 2, 3, 4);
    assert_int_equal(partition_solve(&sample.problem, &plan, &err), ERR_INVALID);
    assert_holds(err.text, "3 devices for 2 units");
    sample_init(&sample, 4, 2, 0);
    assert_int_equal(partition_solve(&sample.problem, &plan, &err), ERR_INVALID);
    sample_init(&sample, 4, 2, 1);
    sample.problem.unit_count = PARTITION_UNITS_MAX + 1;
    assert_int_equal(partition_solve(&sample.problem, &plan, &err), ERR_INVALID);
    sample_init(&sample, 4, 2, 1);
    const size_t falling[] = {4, 4}, beyond[] = {2, 5}, short_of[] = {2, 3}, empty[] = {0, 4};
    assert_int_equal(partition_evaluate(&sample.problem, falling, &plan, &err), ERR_INVALID);
    assert_int_equal(partition_evaluate(&sample.problem, beyond, &plan, &err), ERR_INVALID);
    assert_int_equal(partition_evaluate(&sample.problem, short_of, &plan, &err), ERR_INVALID);
    assert_int_equal(partition_evaluate(&sample.problem, empty, &plan, &err), ERR_INVALID);
}

/* A count of work limits the search, never a clock: the largest problem ends, with a plan close to
 * the bound where links are fast. */
static void the_largest_problem_ends_with_a_good_plan(void **state)
{
    (void)state;
    struct rng_stream stream = rng_stream(1, RNG_SIMULATION, 13, 0);
    uint64_t index = 0;
    static struct sample sample;
    sample_init(&sample, PARTITION_UNITS_MAX, PARTITION_DEVICES_MAX, 64);
    for (size_t d = 0; d < PARTITION_DEVICES_MAX; d++) {
        for (size_t u = 0; u < PARTITION_UNITS_MAX; u++) {
            sample.forward[d * PARTITION_UNITS_MAX + u] = uniform(&stream, &index, 0.5, 1.5);
        }
    }
    struct partition_plan plan, again;
    struct err err = {0};
    assert_ok(partition_solve(&sample.problem, &plan, &err), &err);
    /* (M + N - 1) / M of the fluid bound is the bubble; the rest is the grain of the units. */
    assert_true(plan.step_seconds < plan.bound_seconds * (64 + 31) / 64 * 1.25);
    assert_ok(partition_solve(&sample.problem, &again, &err), &err);
    assert_memory_equal(&plan, &again, sizeof(plan));
}

/* Equal devices are the hardest: many cuts are equally good. */
static void a_search_does_the_work_it_may_and_no_more(void **state)
{
    (void)state;
    static struct sample sample;
    struct partition_plan best, first;
    struct err err = {0};
    sample_init(&sample, 64, PARTITION_DEVICES_MAX, 32);
    assert_ok(partition_solve(&sample.problem, &best, &err), &err);
    double one_play = 5.0 * PARTITION_DEVICES_MAX * 32;
    assert_true(best.work <= PARTITION_WORK_MAX + 3 * one_play);
    sample.problem.first_fit = true;
    assert_ok(partition_solve(&sample.problem, &first, &err), &err);
    assert_true(first.work < 4 * one_play);
    assert_true(first.step_seconds >= best.step_seconds);
    sample.cap[0] = 0;
    sample.unit_bytes[0] = 1;
    assert_int_equal(partition_solve(&sample.problem, &first, &err), ERR_MEMORY);
}

/* A stage's memory is the costliest query: the search for the longest stages that fit starts at
 * the result for the unit before. */
static void few_questions_are_asked_of_the_memory(void **state)
{
    (void)state;
    static struct sample sample;
    struct partition_plan plan;
    struct err err = {0};
    sample_init(&sample, PARTITION_UNITS_MAX, 4, 8);
    sample.problem.first_fit = true;
    for (size_t u = 0; u < PARTITION_UNITS_MAX; u++) {
        sample.unit_bytes[u] = 10;
    }
    for (uint64_t cap = 600; cap <= 2560; cap += 490) {
        for (size_t d = 0; d < 4; d++) {
            sample.cap[d] = cap + d;
        }
        sample.memory_calls = 0;
        int rc = partition_solve(&sample.problem, &plan, &err);
        assert_int_equal(rc, cap == 600 ? ERR_MEMORY : 0);
        assert_true(sample.memory_calls < 4 * 3 * PARTITION_UNITS_MAX);
    }
}

/* Where the memory is dear to ask for, devices are taken for smaller ones and cuts are not all
 * tried. */
static void questions_for_the_memory_are_work_too(void **state)
{
    (void)state;
    static struct sample sample;
    struct partition_plan plan;
    struct err err = {0};
    sample_init(&sample, PARTITION_UNITS_MAX, PARTITION_DEVICES_MAX, 8);
    sample.problem.memory_work = &sample.memory_work;
    for (size_t u = 0; u < PARTITION_UNITS_MAX; u++) {
        sample.unit_bytes[u] = 10;
    }
    for (size_t d = 0; d < PARTITION_DEVICES_MAX; d++) {
        sample.cap[d] = 2000 - d * d;
    }
    assert_ok(partition_solve(&sample.problem, &plan, &err), &err);
    /* The smallest device is asked about, and two plans are played, in any case. */
    assert_true((double)sample.memory_calls < PARTITION_MEMORY_WORK_MAX / 1e4 +
                                                  3 * PARTITION_UNITS_MAX +
                                                  4 * PARTITION_DEVICES_MAX);
    for (size_t d = 0; d < PARTITION_DEVICES_MAX; d++) {
        assert_true(plan.memory_bytes[d] <= sample.cap[d]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_partition_equals_brute_force),
        cmocka_unit_test(a_plan_keeps_every_promise),
        cmocka_unit_test(a_slow_device_gets_fewer_units),
        cmocka_unit_test(links_that_are_slow_are_crossed_where_little_travels),
        cmocka_unit_test(slow_links_raise_the_in_flight_limit),
        cmocka_unit_test(in_flight_gives_way_to_memory),
        cmocka_unit_test(the_unit_that_does_not_fit_is_named),
        cmocka_unit_test(wrong_sizes_are_refused),
        cmocka_unit_test(the_largest_problem_ends_with_a_good_plan),
        cmocka_unit_test(few_questions_are_asked_of_the_memory),
        cmocka_unit_test(questions_for_the_memory_are_work_too),
        cmocka_unit_test(a_search_does_the_work_it_may_and_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
