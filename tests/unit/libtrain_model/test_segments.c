/* The optimal segments against all others.
 *
 *   test_segments [EVERY [RANDOM]]   one in EVERY of the small cases (default 97), and RANDOM
 *                                    random cases (default 2000) */
#include "libtrain/model/segments.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "tests/support/test.h"

#define LAYERS_MAX 1000
#define NEAR 1e-12

static size_t every = 97, random_cases = 2000;
static struct segments_scratch *scratch;

/* A problem with its arrays. */
struct problem {
    struct segments_problem of;
    double bytes[LAYERS_MAX], seconds[LAYERS_MAX];
    size_t server[LAYERS_MAX];
    struct segments_link link[3];
};

static void point(struct problem *problem)
{
    problem->of.bytes = problem->bytes;
    problem->of.seconds = problem->seconds;
    problem->of.server = problem->server;
    problem->of.link = problem->link;
}

static bool is_near(double a, double b)
{
    return fabs(a - b) <= NEAR * (fabs(a) + fabs(b)) + 1e-300;
}

static size_t count_requests(const struct problem *problem, const size_t *end, size_t count)
{
    size_t requests = 0;
    for (size_t k = 0; k < count; k++) {
        requests += !problem->link[problem->server[end[k] - 1]].local;
    }
    return requests;
}

struct best {
    double seconds;
    size_t requests;
};

/* Every way to divide the layers, borders of servers included. */
static struct best try_all(const struct problem *problem)
{
    const size_t count = problem->of.count;
    struct best best = {INFINITY, SIZE_MAX};
    for (uint32_t cuts = 0; cuts < UINT32_C(1) << (count - 1); cuts++) {
        size_t end[12], segments = 0;
        bool fits = true;
        for (size_t j = 0; j + 1 < count; j++) {
            const bool border = problem->server[j] != problem->server[j + 1];
            fits = fits && (!border || cuts >> j & 1);
            if (cuts >> j & 1) {
                end[segments++] = j + 1;
            }
        }
        end[segments++] = count;
        if (!fits) {
            continue;
        }
        const double seconds = segments_evaluate(&problem->of, end, segments);
        const size_t requests = count_requests(problem, end, segments);
        const bool better = seconds < best.seconds && !is_near(seconds, best.seconds);
        if (better || (is_near(seconds, best.seconds) && requests < best.requests)) {
            best.requests = requests;
        }
        best.seconds = seconds < best.seconds ? seconds : best.seconds;
    }
    return best;
}

/* Returns the solution's seconds. */
static double check(const struct problem *problem)
{
    size_t end[LAYERS_MAX], count = 0;
    const double seconds = segments_solve(&problem->of, scratch, end, &count);
    assert_true(count >= 1 && end[count - 1] == problem->of.count);
    for (size_t k = 0, first = 0; k < count; first = end[k++]) {
        assert_true(end[k] > first);
        assert_int_equal(problem->server[first], problem->server[end[k] - 1]);
    }
    assert_true(is_near(segments_evaluate(&problem->of, end, count), seconds));
    assert_true(is_near(segments_solve_slowly(&problem->of, scratch), seconds));
    if (problem->of.count <= 12) {
        const struct best best = try_all(problem);
        if (!is_near(seconds, best.seconds)) {
            fail_msg("%.17g, the best is %.17g", seconds, best.seconds);
        }
        assert_int_equal(count_requests(problem, end, count), best.requests);
    }
    return seconds;
}

/* ---- small cases ---- */

static size_t check_small(size_t layers, size_t split, bool pull)
{
    static const double request[] = {0, 1, 2, 5};
    static struct problem problem;
    size_t cases = 0, number = 0;
    const size_t per_layer = 16; /* seconds and bytes, each of 0 to 3 */
    size_t all = 1;
    for (size_t j = 0; j < layers; j++) {
        all *= per_layer;
    }
    problem.of = (struct segments_problem){.count = layers, .pull = pull};
    point(&problem);
    for (size_t j = 0; j < layers; j++) {
        problem.server[j] = j >= split;
    }
    const size_t requests = split < layers ? 4 * 4 : 4; /* of two servers, or of one */
    for (size_t i = 0; i < all; i++) {
        for (size_t d = 0; d < requests; d++) {
            if (number++ % every != 0) {
                continue;
            }
            for (size_t j = 0, rest = i; j < layers; j++, rest /= per_layer) {
                problem.seconds[j] = (double)(rest % 4);
                problem.bytes[j] = (double)(rest / 4 % 4);
            }
            problem.link[0] = (struct segments_link){request[d % 4], 1, false};
            problem.link[1] = (struct segments_link){request[d / 4], 1, false};
            problem.of.first_request_seconds = request[d % 4] / 2;
            problem.of.busy_seconds = pull ? 0 : (double)(i % 3);
            (void)check(&problem);
            cases++;
        }
    }
    return cases;
}

static void small_cases_equal_the_best_of_all_ways(void **state)
{
    (void)state;
    size_t cases = 0;
    for (size_t layers = 1; layers <= 4; layers++) {
        for (size_t split = 1; split <= layers; split++) {
            cases += check_small(layers, split, false) + check_small(layers, split, true);
        }
    }
    (void)printf("%zu small cases\n", cases);
}

/* ---- random cases ---- */

static double draw(const struct rng_stream *random, uint64_t *next, int kind)
{
    const double u = rng_uniform(random, (*next)++);
    switch (kind) {
    case 0: return floor(4 * u);                                      /* ties and zeros */
    case 1: return exp(3 * (u + rng_uniform(random, (*next)++) - 1)); /* far apart */
    case 2: return u < 0.3 ? 0 : u;
    }
    return u;
}

static void draw_problem(uint64_t seed, size_t layers_max, struct problem *out)
{
    const struct rng_stream random = rng_stream(seed, RNG_SIMULATION, 0, 0);
    uint64_t next = 0;
    const int kind = (int)rng_below(&random, next++, 4);
    const size_t count = 1 + (size_t)rng_below(&random, next++, layers_max);
    const size_t servers = 1 + (size_t)rng_below(&random, next++, 3);
    const size_t local = (size_t)rng_below(&random, next++, 5); /* 3 and 4: none */
    *out = (struct problem){.of = {.count = count, .pull = rng_below(&random, next++, 2) == 0}};
    for (size_t s = 0; s < 3; s++) {
        out->link[s] =
            (struct segments_link){.request_seconds = 2 * draw(&random, &next, kind),
                                   .bytes_per_second = 0.2 + rng_uniform(&random, next++),
                                   .local = s == local};
    }
    size_t server = 0;
    for (size_t j = 0; j < count; j++) {
        out->bytes[j] = draw(&random, &next, kind);
        out->seconds[j] = draw(&random, &next, kind);
        server += server + 1 < servers && j > 0 && rng_below(&random, next++, count) < servers;
        out->server[j] = server;
    }
    out->of.first_request_seconds = out->link[0].request_seconds / 2;
    out->of.busy_seconds =
        !out->of.pull && rng_below(&random, next++, 3) == 0 ? 3 * draw(&random, &next, kind) : 0;
    point(out);
}

static void random_cases_equal_the_best_of_all_ways(void **state)
{
    (void)state;
    static struct problem problem;
    for (uint64_t seed = 1; seed <= random_cases; seed++) {
        draw_problem(seed, 12, &problem);
        (void)check(&problem);
    }
    (void)printf("%zu random cases of up to 12 layers\n", random_cases);
}

static void long_cases_equal_the_double_loop(void **state)
{
    (void)state;
    static struct problem problem;
    for (uint64_t seed = 1; seed <= random_cases / 50; seed++) {
        draw_problem(1000000 + seed, LAYERS_MAX, &problem);
        (void)check(&problem);
    }
}

/* ---- what follows from the model ---- */

/* A pull with the same numbers as the push, its first request like the others. */
static void a_pull_is_a_push_in_reversed_time(void **state)
{
    (void)state;
    static struct problem push, pull;
    for (uint64_t seed = 1; seed <= random_cases / 10; seed++) {
        draw_problem(seed, 40, &push);
        push.of.pull = false;
        push.of.busy_seconds = 0;
        pull = push;
        point(&pull);
        pull.of.pull = true;
        size_t remote = 0;
        while (remote + 1 < push.of.count && push.link[push.server[remote]].local) {
            remote++;
        }
        pull.of.first_request_seconds = push.link[push.server[remote]].request_seconds;
        assert_true(is_near(check(&push), check(&pull)));
    }
}

static void free_requests_transfer_each_layer_alone_where_that_is_needed(void **state)
{
    (void)state;
    static struct problem problem;
    problem = (struct problem){.of = {.count = 8}, .link = {{0, 1, false}}};
    point(&problem);
    for (size_t j = 0; j < 8; j++) {
        problem.bytes[j] = problem.seconds[j] = 1;
    }
    size_t end[8], count;
    assert_true(is_near(segments_solve(&problem.of, scratch, end, &count), 9));
    assert_int_equal(count, 8);
}

static void with_free_requests_no_way_is_faster_than_each_layer_alone(void **state)
{
    (void)state;
    static struct problem problem;
    for (uint64_t seed = 1; seed <= random_cases / 10; seed++) {
        size_t end[40], count;
        draw_problem(seed, 40, &problem);
        for (size_t s = 0; s < 3; s++) {
            problem.link[s].request_seconds = 0;
        }
        problem.of.first_request_seconds = 0;
        segments_choose(&problem.of, SEGMENTS_LAYER, 0, scratch, end, &count);
        assert_true(is_near(segments_evaluate(&problem.of, end, count), check(&problem)));
    }
}

static void slow_requests_make_one_segment_per_server(void **state)
{
    (void)state;
    static struct problem problem;
    for (uint64_t seed = 1; seed <= random_cases / 10; seed++) {
        size_t end[40], count, whole_end[40], whole;
        draw_problem(seed, 40, &problem);
        double passes = 0;
        for (size_t j = 0; j < problem.of.count; j++) {
            passes += problem.seconds[j];
        }
        for (size_t s = 0; s < 3; s++) {
            problem.link[s].local = false;
            problem.link[s].request_seconds = passes;
        }
        problem.of.first_request_seconds = passes;
        (void)segments_solve(&problem.of, scratch, end, &count);
        segments_choose(&problem.of, SEGMENTS_WHOLE, 0, scratch, whole_end, &whole);
        assert_int_equal(count, whole);
    }
}

static void scale(struct problem *problem, double factor)
{
    for (size_t j = 0; j < problem->of.count; j++) {
        problem->bytes[j] *= factor;
        problem->seconds[j] *= factor;
    }
    for (size_t s = 0; s < 3; s++) {
        problem->link[s].request_seconds *= factor;
    }
    problem->of.first_request_seconds *= factor;
    problem->of.busy_seconds *= factor;
}

static void the_optimum_scales_and_rises_with_every_input(void **state)
{
    (void)state;
    static struct problem problem, more;
    for (uint64_t seed = 1; seed <= random_cases / 10; seed++) {
        const struct rng_stream random = rng_stream(seed, RNG_SIMULATION, 2, 0);
        draw_problem(seed, 40, &problem);
        const double seconds = check(&problem);
        more = problem;
        point(&more);
        scale(&more, 4);
        assert_true(is_near(check(&more), 4 * seconds));
        more = problem;
        point(&more);
        const size_t j = (size_t)rng_below(&random, 0, problem.of.count);
        switch (rng_below(&random, 1, 5)) {
        case 0: more.bytes[j] += 0.5; break;
        case 1: more.seconds[j] += 0.5; break;
        case 2: more.link[more.server[j]].request_seconds += 0.5; break;
        case 3: more.of.first_request_seconds += 0.5; break;
        default: more.of.busy_seconds += problem.of.pull ? 0 : 0.5; break;
        }
        assert_true(check(&more) >= seconds * (1 - NEAR));
    }
}

/* ---- the other ways ---- */

static const struct {
    enum segments_transfers transfers;
    const char *name;
} ways[] = {{SEGMENTS_WHOLE, "whole"},
            {SEGMENTS_LAYER, "layer"},
            {SEGMENTS_FIXED, "fixed"},
            {SEGMENTS_GREEDY, "greedy"},
            {SEGMENTS_READY, "ready"}};
#define WAYS (sizeof(ways) / sizeof(ways[0]))

static void no_way_with_one_transfer_at_a_time_is_faster(void **state)
{
    (void)state;
    static struct problem problem;
    size_t loses[WAYS] = {0}, cases = 0, window_wins = 0;
    double sum[WAYS] = {0}, window_sum = 0;
    for (uint64_t seed = 1; seed <= random_cases / 5; seed++) {
        size_t end[LAYERS_MAX], count;
        draw_problem(seed, 40, &problem);
        const double best = check(&problem);
        if (best <= 0) {
            continue;
        }
        cases++;
        for (size_t w = 0; w < WAYS; w++) {
            segments_choose(&problem.of, ways[w].transfers, 2.5, scratch, end, &count);
            assert_int_equal(end[count - 1], problem.of.count);
            for (size_t k = 0, first = 0; k < count; first = end[k++]) {
                assert_int_equal(problem.server[first], problem.server[end[k] - 1]);
            }
            const double seconds = segments_evaluate(&problem.of, end, count);
            assert_true(seconds >= best * (1 - NEAR));
            loses[w] += seconds > best * (1 + NEAR);
            sum[w] += log(seconds / best);
        }
        const double window = segments_window(&problem.of, SEGMENTS_WINDOW);
        window_wins += window < best * (1 - NEAR);
        window_sum += log(window / best);
        assert_true(segments_window(&problem.of, 1) >= best * (1 - NEAR));
    }
    for (size_t w = 0; w < WAYS; w++) {
        (void)printf("%s loses %zu of %zu, by %.1f %% in the geometric mean\n", ways[w].name,
                     loses[w], cases, 100 * (exp(sum[w] / (double)cases) - 1));
    }
    (void)printf("layer_window is faster in %zu of %zu, its mean is %+.1f %%\n", window_wins, cases,
                 100 * (exp(window_sum / (double)cases) - 1));
}

static void one_open_layer_at_a_time_is_the_way_layer(void **state)
{
    (void)state;
    static struct problem problem;
    for (uint64_t seed = 1; seed <= random_cases / 5; seed++) {
        size_t end[40], count;
        draw_problem(seed, 40, &problem);
        segments_choose(&problem.of, SEGMENTS_LAYER, 0, scratch, end, &count);
        const double layer = segments_evaluate(&problem.of, end, count);
        assert_true(is_near(segments_window(&problem.of, 1), layer));
        assert_true(segments_window(&problem.of, 4) <= layer * (1 + NEAR));
    }
}

static void a_stream_to_one_server_is_never_slower(void **state)
{
    (void)state;
    static struct problem problem;
    for (uint64_t seed = 1; seed <= random_cases / 5; seed++) {
        draw_problem(seed, 40, &problem);
        for (size_t j = 0; j < problem.of.count; j++) {
            problem.server[j] = 0;
        }
        assert_true(segments_stream(&problem.of) <= check(&problem) * (1 + NEAR));
    }
}

/* Two servers of a layer each, 10 s of link for each: both are asked at once. */
static void a_stream_asks_all_servers_at_once(void **state)
{
    (void)state;
    const double bytes[] = {10, 10}, seconds[] = {1, 2};
    const size_t server[] = {0, 1};
    const struct segments_link link[] = {{.request_seconds = 4, .bytes_per_second = 1},
                                         {.request_seconds = 4, .bytes_per_second = 1}};
    struct segments_problem problem = {.count = 2,
                                       .bytes = bytes,
                                       .seconds = seconds,
                                       .server = server,
                                       .link = link,
                                       .pull = true,
                                       .first_request_seconds = 2};
    assert_true(is_near(segments_stream(&problem), 4 + 10 + 2));
    problem.pull = false; /* the lead's stream begins after both layers, and ends with an answer */
    assert_true(is_near(segments_stream(&problem), 3 + 4 + 10 + 4));
}

static void too_many_layers_are_rejected(void **state)
{
    (void)state;
    struct segments_scratch *none = NULL;
    struct err err = {0};
    assert_int_equal(segments_scratch_new(SEGMENTS_LAYERS_MAX + 1, &none, &err), ERR_INVALID);
    assert_null(none);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_cases_equal_the_best_of_all_ways),
        cmocka_unit_test(random_cases_equal_the_best_of_all_ways),
        cmocka_unit_test(long_cases_equal_the_double_loop),
        cmocka_unit_test(a_pull_is_a_push_in_reversed_time),
        cmocka_unit_test(free_requests_transfer_each_layer_alone_where_that_is_needed),
        cmocka_unit_test(with_free_requests_no_way_is_faster_than_each_layer_alone),
        cmocka_unit_test(slow_requests_make_one_segment_per_server),
        cmocka_unit_test(the_optimum_scales_and_rises_with_every_input),
        cmocka_unit_test(no_way_with_one_transfer_at_a_time_is_faster),
        cmocka_unit_test(one_open_layer_at_a_time_is_the_way_layer),
        cmocka_unit_test(a_stream_to_one_server_is_never_slower),
        cmocka_unit_test(a_stream_asks_all_servers_at_once),
        cmocka_unit_test(too_many_layers_are_rejected),
    };
    struct err err = {0};
    every = argc > 1 ? strtoul(argv[1], NULL, 10) : every;
    random_cases = argc > 2 ? strtoul(argv[2], NULL, 10) : random_cases;
    if (segments_scratch_new(LAYERS_MAX, &scratch, &err) != 0) {
        return 1;
    }
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    segments_scratch_free(&scratch);
    return failed;
}
