/* Shares of workers against all divisions of a batch.
 *
 *   test_plan_shares [RANDOM]   RANDOM random problems (default 10000) */
#include "coordinator/plan/shares.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/rng.h"
#include "tests/support/test.h"

#define WORKERS_MAX 3
#define COUNT_MAX 8
#define LAYERS_MAX 12

static size_t problems = 10000;
static struct segments_scratch *scratch;
static struct shares_scratch room;

/* Workers with their layers, all from one or two servers. */
struct fleet {
    size_t workers, count;
    double bytes[LAYERS_MAX], forward[WORKERS_MAX][LAYERS_MAX], backward[WORKERS_MAX][LAYERS_MAX];
    size_t server[LAYERS_MAX];
    struct segments_link link[WORKERS_MAX][2];
    struct shares_worker worker[WORKERS_MAX];
};

static void draw_fleet(uint64_t seed, struct fleet *out)
{
    const struct rng_stream random = rng_stream(seed, RNG_SIMULATION, 0, 0);
    uint64_t next = 0;
    const size_t layers = 1 + (size_t)rng_below(&random, next++, LAYERS_MAX);
    const size_t border = (size_t)rng_below(&random, next++, 2 * layers);
    const bool streams = rng_below(&random, next++, 4) == 0;
    *out = (struct fleet){.workers = 1 + (size_t)rng_below(&random, next++, WORKERS_MAX),
                          .count = 1 + (size_t)rng_below(&random, next++, COUNT_MAX)};
    for (size_t l = 0; l < layers; l++) {
        out->bytes[l] = rng_uniform(&random, next++);
        out->server[l] = l >= border;
    }
    for (size_t w = 0; w < out->workers; w++) {
        struct shares_worker *worker = &out->worker[w];
        const double slowness = exp(2 * rng_uniform(&random, next++));
        for (size_t s = 0; s < 2; s++) {
            out->link[w][s] =
                (struct segments_link){.request_seconds = rng_uniform(&random, next++),
                                       .bytes_per_second = 0.5 + 4 * rng_uniform(&random, next++)};
        }
        for (size_t l = 0; l < layers; l++) {
            out->forward[w][l] = 0.3 * slowness * rng_uniform(&random, next++);
            out->backward[w][l] = 2 * out->forward[w][l];
            worker->forward_seconds += out->forward[w][l];
            worker->backward_seconds += out->backward[w][l];
        }
        worker->streams = streams;
        worker->pull = (struct segments_problem){.count = layers,
                                                 .bytes = out->bytes,
                                                 .seconds = out->forward[w],
                                                 .server = out->server,
                                                 .link = out->link[w],
                                                 .pull = true};
        worker->pull.first_request_seconds = out->link[w][0].request_seconds / 2;
        worker->push = worker->pull;
        worker->push.pull = false;
        worker->push.seconds = out->backward[w];
    }
}

static double seconds_of(void *arg, size_t worker, struct reduce_range share)
{
    const struct fleet *fleet = arg;
    return shares_worker_seconds(&fleet->worker[worker], fleet->count, share, scratch);
}

/* Every division, also those that leave workers out. */
static double try_all(struct fleet *fleet, size_t worker, size_t first)
{
    if (worker == fleet->workers) {
        return first == fleet->count ? 0 : INFINITY;
    }
    double best = INFINITY;
    for (size_t end = first; end <= fleet->count; end++) {
        const double own =
            end == first ? 0 : seconds_of(fleet, worker, (struct reduce_range){first, end});
        const double rest = try_all(fleet, worker + 1, end);
        const double slowest = own > rest ? own : rest;
        best = slowest < best ? slowest : best;
    }
    return best;
}

/* One micro-batch at a time to the worker that then ends first. */
static double add_one_by_one(struct fleet *fleet)
{
    size_t size[WORKERS_MAX] = {0};
    for (size_t m = 0; m < fleet->count; m++) {
        size_t best = 0;
        double least = INFINITY;
        for (size_t w = 0; w < fleet->workers; w++) {
            size_t first = 0;
            for (size_t v = 0; v < w; v++) {
                first += size[v];
            }
            const double ends =
                seconds_of(fleet, w, (struct reduce_range){first, first + size[w] + 1});
            if (ends < least) {
                least = ends;
                best = w;
            }
        }
        size[best]++;
    }
    double slowest = 0;
    for (size_t w = 0, first = 0; w < fleet->workers; first += size[w++]) {
        const double own =
            size[w] == 0 ? 0 : seconds_of(fleet, w, (struct reduce_range){first, first + size[w]});
        slowest = own > slowest ? own : slowest;
    }
    return slowest;
}

static double check(struct fleet *fleet)
{
    struct reduce_range share[WORKERS_MAX];
    const double seconds =
        shares_solve(fleet->workers, fleet->count, seconds_of, fleet, &room, share);
    double slowest = 0;
    size_t at = 0;
    for (size_t w = 0; w < fleet->workers; w++) {
        assert_int_equal(share[w].first, at);
        assert_true(share[w].end >= at);
        at = share[w].end;
        const double own = share[w].first == at ? 0 : seconds_of(fleet, w, share[w]);
        slowest = own > slowest ? own : slowest;
    }
    assert_int_equal(at, fleet->count);
    assert_true(slowest >= seconds && slowest <= seconds);
    return seconds;
}

static void shares_equal_the_best_of_all_divisions(void **state)
{
    (void)state;
    static struct fleet fleet;
    size_t worse = 0, several = 0;
    for (uint64_t seed = 1; seed <= problems; seed++) {
        draw_fleet(seed, &fleet);
        const double seconds = check(&fleet);
        const double best = try_all(&fleet, 0, 0);
        assert_true(seconds >= best && seconds <= best);
        if (fleet.workers > 1 && fleet.count > 1) {
            several++;
            worse += add_one_by_one(&fleet) > seconds * (1 + 1e-12);
        }
    }
    (void)printf("%zu problems; adding one micro-batch at a time is worse in %zu of %zu\n",
                 problems, worse, several);
}

/* Whole numbers of seconds by worker, share and its blocks: every table of them is a problem. */
struct table {
    const struct fleet *fleet;
    double of[WORKERS_MAX];
    double push;
};

static double table_seconds(void *arg, size_t worker, struct reduce_range share)
{
    const struct table *table = arg;
    struct reduce_range block[REDUCE_BLOCKS_MAX];
    const size_t blocks = reduce_blocks(table->fleet->count, share, block);
    return table->of[worker] * (double)(share.end - share.first) + table->push * (double)blocks;
}

static double try_table(struct table *table, size_t worker, size_t first)
{
    const size_t count = table->fleet->count;
    if (worker == table->fleet->workers) {
        return first == count ? 0 : INFINITY;
    }
    double best = INFINITY;
    for (size_t end = first; end <= count; end++) {
        const double own =
            end == first ? 0 : table_seconds(table, worker, (struct reduce_range){first, end});
        const double rest = try_table(table, worker + 1, end);
        best = fmin(best, own > rest ? own : rest);
    }
    return best;
}

static void every_case_of_three_workers_and_eight_micro_batches_is_solved(void **state)
{
    (void)state;
    static struct fleet fleet;
    struct table table = {.fleet = &fleet};
    size_t cases = 0;
    for (fleet.workers = 1; fleet.workers <= WORKERS_MAX; fleet.workers++) {
        for (fleet.count = 1; fleet.count <= COUNT_MAX; fleet.count++) {
            for (size_t i = 0; i < 5 * 5 * 5 * 4; i++) {
                struct reduce_range share[WORKERS_MAX];
                table.of[0] = 1 + (double)(i % 5);
                table.of[1] = 1 + (double)(i / 5 % 5);
                table.of[2] = 1 + (double)(i / 25 % 5);
                table.push = 2 * (double)(i / 125);
                const double seconds =
                    shares_solve(fleet.workers, fleet.count, table_seconds, &table, &room, share);
                const double best = try_table(&table, 0, 0);
                assert_true(seconds >= best && seconds <= best);
                cases++;
            }
        }
    }
    (void)printf("%zu cases\n", cases);
}

static void a_worker_that_only_lengthens_the_step_gets_none(void **state)
{
    (void)state;
    static struct fleet fleet;
    struct table table = {.fleet = &fleet, .of = {1, 100, 1}, .push = 0};
    struct reduce_range share[WORKERS_MAX];
    fleet.workers = 3;
    fleet.count = 8;
    assert_true(shares_solve(3, 8, table_seconds, &table, &room, share) <= 4);
    assert_int_equal(share[1].first, share[1].end);
    assert_int_equal(share[0].end, 4);
    assert_int_equal(share[2].end - share[2].first, 4);
}

/* 8 micro-batches are one block, 7 are three. */
static void a_larger_share_can_take_less_time(void **state)
{
    (void)state;
    static struct fleet fleet;
    struct table table = {.fleet = &fleet, .of = {1, 1, 1}, .push = 2};
    fleet.count = 16;
    assert_true(table_seconds(&table, 0, (struct reduce_range){0, 8}) <
                table_seconds(&table, 0, (struct reduce_range){0, 7}));
}

/* With free links only the passes are left. */
static void a_step_over_free_links_is_its_passes(void **state)
{
    (void)state;
    static struct fleet fleet;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        draw_fleet(seed, &fleet);
        const struct shares_worker *worker = &fleet.worker[0];
        const double passes = worker->forward_seconds + worker->backward_seconds;
        for (size_t s = 0; s < 2; s++) {
            fleet.link[0][s] = (struct segments_link){.bytes_per_second = INFINITY};
        }
        fleet.worker[0].pull.first_request_seconds = 0;
        for (size_t end = 1; end <= fleet.count; end++) {
            const double seconds = seconds_of(&fleet, 0, (struct reduce_range){0, end});
            assert_true(fabs(seconds - (double)end * passes) <= 1e-9 * (1 + seconds));
        }
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_equal_the_best_of_all_divisions),
        cmocka_unit_test(every_case_of_three_workers_and_eight_micro_batches_is_solved),
        cmocka_unit_test(a_worker_that_only_lengthens_the_step_gets_none),
        cmocka_unit_test(a_larger_share_can_take_less_time),
        cmocka_unit_test(a_step_over_free_links_is_its_passes),
    };
    struct err err = {0};
    problems = argc > 1 ? strtoul(argv[1], NULL, 10) : problems;
    if (segments_scratch_new(LAYERS_MAX, &scratch, &err) != 0) {
        return 1;
    }
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    segments_scratch_free(&scratch);
    return failed;
}
