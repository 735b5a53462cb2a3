#include "coordinator/plan/shares.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>

#include "tests/support/test.h"
#include "tests/unit/coordinator_plan/sample.h"

#define WORKERS 5
#define RANDOM_CASES 10000

static struct shares_scratch *scratch;

/* A worker takes `before`, then `each` for each micro-batch, and sends a sum of `push` seconds for
 * each block while it computes the next one. */
struct worker {
    double before, each, push;
    size_t most; /* micro-batches that it has memory for */
};

struct team {
    size_t count, micro_batches, asked;
    struct worker worker[WORKERS];
    double least[WORKERS], each[WORKERS];
    bool needed[WORKERS];
};

static double team_seconds(void *arg, size_t worker, struct reduce_range share)
{
    struct team *team = arg;
    const struct worker *w = &team->worker[worker];
    struct reduce_range block[REDUCE_BLOCKS_MAX];
    const size_t blocks = reduce_blocks(team->micro_batches, share, block);
    double computed = w->before, sent = 0;
    team->asked++;
    for (size_t i = 0; i < blocks; i++) {
        computed += w->each * (double)(block[i].end - block[i].first);
        sent = (sent > computed ? sent : computed) + w->push;
    }
    return share.end - share.first > w->most ? INFINITY : sent;
}

static struct shares_problem problem_of(struct team *team, bool bounds)
{
    for (size_t w = 0; w < team->count; w++) {
        team->least[w] = team->worker[w].before + team->worker[w].each + team->worker[w].push;
        team->each[w] = team->worker[w].each;
    }
    return (struct shares_problem){.worker_count = team->count,
                                   .micro_batches = team->micro_batches,
                                   .seconds = team_seconds,
                                   .arg = team,
                                   .least_seconds = bounds ? team->least : NULL,
                                   .each_seconds = bounds ? team->each : NULL,
                                   .needed = team->needed,
                                   .limit_seconds = INFINITY};
}

/* Every way to give [first, micro_batches) to the workers from `worker` on. */
static double try_all(struct team *team, size_t worker, size_t first)
{
    const bool last = worker + 1 == team->count;
    double best = INFINITY;
    for (size_t end = last ? team->micro_batches : first; end <= team->micro_batches; end++) {
        if (end == first && team->needed[worker]) {
            continue;
        }
        const double own =
            end > first ? team_seconds(team, worker, (struct reduce_range){first, end}) : 0;
        const double others = last ? 0 : try_all(team, worker + 1, end);
        const double seconds = own > others ? own : others;
        best = seconds < best ? seconds : best;
    }
    return best;
}

static double slowest(struct team *team, const struct reduce_range *share)
{
    double seconds = 0;
    for (size_t w = 0; w < team->count; w++) {
        const bool none = share[w].first == share[w].end;
        const double own = none ? 0 : team_seconds(team, w, share[w]);
        seconds = own > seconds ? own : seconds;
    }
    return seconds;
}

/* Returns the seconds, which must be those of all ways, with bounds and without. */
static double check(struct team *team)
{
    struct reduce_range share[WORKERS];
    const double expected = try_all(team, 0, 0);
    for (int bounds = 0; bounds <= 1; bounds++) {
        const struct shares_problem problem = problem_of(team, bounds);
        const double seconds = shares_solve(&problem, scratch, share);
        assert_true(seconds == expected);
        if (!isfinite(seconds)) {
            continue;
        }
        size_t next = 0;
        for (size_t w = 0; w < team->count; w++) {
            assert_int_equal(share[w].first, next);
            assert_true(share[w].end >= next);
            assert_true(share[w].end > next || !team->needed[w]);
            next = share[w].end;
        }
        assert_int_equal(next, team->micro_batches);
        assert_true(slowest(team, share) == seconds);
    }
    return expected;
}

static const struct worker kinds[] = {
    {0, 1, 0, 8}, {0, 1, 1, 8}, {0, 1, 4, 8}, {3, 1, 0, 8}, {3, 1, 1, 8}, {3, 1, 4, 3},
    {0, 2, 0, 8}, {0, 2, 1, 8}, {0, 2, 4, 8}, {3, 2, 0, 8}, {3, 2, 1, 8}, {3, 2, 4, 3},
    {0, 5, 0, 8}, {0, 5, 1, 8}, {0, 5, 4, 8}, {3, 5, 0, 8}, {3, 5, 1, 8}, {3, 5, 4, 3},
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static void every_small_case_equals_trying_all_shares(void **state)
{
    (void)state;
    size_t cases = 0;
    for (size_t workers = 1, all = KINDS; workers <= 3; workers++, all *= KINDS) {
        for (size_t i = 0; i < all; i++) {
            struct team team = {.count = workers};
            for (size_t w = 0, rest = i; w < workers; w++, rest /= KINDS) {
                team.worker[w] = kinds[rest % KINDS];
            }
            for (team.micro_batches = 1; team.micro_batches <= 8; team.micro_batches++) {
                (void)check(&team);
                cases++;
            }
        }
    }
    (void)printf("%zu cases of at most 3 workers and 8 micro-batches\n", cases);
}

static void draw_team(struct draws *draws, struct team *team)
{
    *team = (struct team){.count = 1 + draw_below(draws, WORKERS),
                          .micro_batches = 1 + draw_below(draws, 16)};
    for (size_t w = 0; w < team->count; w++) {
        team->worker[w] = (struct worker){
            .before = draw_uniform(draws, 0, 3),
            .each = draw_uniform(draws, 0.3, 3),
            .push = draw_uniform(draws, 0, draw_below(draws, 2) ? 1 : 6),
            .most = draw_below(draws, 4) > 0 ? team->micro_batches : draw_below(draws, 6)};
        team->needed[w] = draw_below(draws, 12) == 0;
    }
}

static void random_cases_equal_trying_all_shares(void **state)
{
    (void)state;
    struct draws draws = draws_of(1, 71);
    size_t impossible = 0;
    for (int i = 0; i < RANDOM_CASES; i++) {
        struct team team;
        draw_team(&draws, &team);
        impossible += !isfinite(check(&team));
    }
    (void)printf("%d random cases, %zu of them without an answer\n", RANDOM_CASES, impossible);
    assert_true(impossible > 0 && impossible < RANDOM_CASES / 4);
}

/* One micro-batch after the other to the worker that ends first with it. */
static double one_by_one(struct team *team)
{
    size_t taken[WORKERS] = {0};
    struct reduce_range share[WORKERS];
    for (size_t n = 0; n < team->micro_batches; n++) {
        size_t best = 0;
        double best_seconds = INFINITY;
        for (size_t w = 0; w < team->count; w++) {
            /* Its range begins where those of the workers before it end. */
            size_t first = 0;
            for (size_t v = 0; v < w; v++) {
                first += taken[v];
            }
            const struct reduce_range with = {first, first + taken[w] + 1};
            const double seconds =
                with.end > team->micro_batches ? INFINITY : team_seconds(team, w, with);
            if (seconds < best_seconds) {
                best = w;
                best_seconds = seconds;
            }
        }
        taken[best]++;
    }
    for (size_t w = 0, first = 0; w < team->count; w++) {
        share[w] = (struct reduce_range){first, first + taken[w]};
        first = share[w].end;
    }
    return slowest(team, share);
}

static void adding_micro_batches_one_by_one_is_worse_in_some_cases(void **state)
{
    (void)state;
    struct draws draws = draws_of(1, 72);
    size_t worse = 0, cases = 0;
    double most = 0;
    for (int i = 0; i < RANDOM_CASES; i++) {
        struct team team;
        struct reduce_range share[WORKERS];
        draw_team(&draws, &team);
        for (size_t w = 0; w < team.count; w++) {
            team.worker[w].most = team.micro_batches;
            team.needed[w] = false;
        }
        const struct shares_problem problem = problem_of(&team, true);
        const double best = shares_solve(&problem, scratch, share);
        const double other = one_by_one(&team);
        assert_true(other >= best);
        cases += team.count > 1 && team.micro_batches > 1;
        worse += other > best * (1 + 1e-9);
        most = other / best > most ? other / best : most;
    }
    (void)printf("one by one is slower in %zu of %zu cases, by up to %.0f %%\n", worse, cases,
                 100 * (most - 1));
    assert_true(worse > cases / 100);
}

/* Eight micro-batches are one block, seven are three. */
static void a_larger_share_can_take_less_time(void **state)
{
    (void)state;
    struct team team = {.count = 2, .micro_batches = 16, .worker = {{0, 1, 9, 16}, {0, 1, 9, 16}}};
    const struct reduce_range seven = {0, 7}, eight = {0, 8};
    struct reduce_range share[2];
    assert_true(team_seconds(&team, 0, eight) < team_seconds(&team, 0, seven));
    const struct shares_problem problem = problem_of(&team, true);
    assert_true(shares_solve(&problem, scratch, share) == 17);
    assert_int_equal(share[0].end, 8);
}

static void a_worker_that_would_only_lengthen_the_step_gets_no_share(void **state)
{
    (void)state;
    struct team team = {.count = 2, .micro_batches = 8, .worker = {{0, 1, 0, 8}, {9, 1, 0, 8}}};
    struct reduce_range share[2];
    struct shares_problem problem = problem_of(&team, true);
    assert_true(shares_solve(&problem, scratch, share) == 8);
    assert_int_equal(share[0].end, 8);
    assert_int_equal(share[1].first, share[1].end);
    team.needed[1] = true;
    assert_true(shares_solve(&problem, scratch, share) == 10);
    assert_true(share[1].end > share[1].first);
}

static void a_limit_leaves_out_slower_answers(void **state)
{
    (void)state;
    struct draws draws = draws_of(1, 73);
    for (int i = 0; i < RANDOM_CASES / 10; i++) {
        struct team team;
        struct reduce_range share[WORKERS];
        draw_team(&draws, &team);
        struct shares_problem problem = problem_of(&team, true);
        const double best = shares_solve(&problem, scratch, share);
        if (!isfinite(best)) {
            continue;
        }
        problem.limit_seconds = best;
        assert_false(isfinite(shares_solve(&problem, scratch, share)));
        problem.limit_seconds = best * 1.001;
        assert_true(shares_solve(&problem, scratch, share) == best);
    }
}

static void a_grain_keeps_shares_at_its_multiples(void **state)
{
    (void)state;
    struct draws draws = draws_of(1, 74);
    for (int i = 0; i < RANDOM_CASES / 10; i++) {
        struct team team;
        struct reduce_range share[WORKERS];
        draw_team(&draws, &team);
        struct shares_problem problem = problem_of(&team, true);
        const double best = shares_solve(&problem, scratch, share);
        problem.grain = 4;
        const double coarse = shares_solve(&problem, scratch, share);
        assert_true(coarse >= best);
        for (size_t w = 0; isfinite(coarse) && w < team.count; w++) {
            assert_true(share[w].first % 4 == 0 || share[w].first == team.micro_batches);
        }
        assert_true(!isfinite(coarse) || share[team.count - 1].end == team.micro_batches);
        assert_true(!isfinite(coarse) || slowest(&team, share) == coarse);
    }
}

static void bounds_save_most_questions_of_a_large_step(void **state)
{
    (void)state;
    struct team team = {.count = WORKERS, .micro_batches = REDUCE_COUNT_MAX};
    struct reduce_range share[WORKERS];
    for (size_t w = 0; w < WORKERS; w++) {
        team.worker[w] = (struct worker){1, 1 + (double)w, 2, REDUCE_COUNT_MAX};
    }
    struct shares_problem problem = problem_of(&team, false);
    const double best = shares_solve(&problem, scratch, share);
    const size_t asked = team.asked;
    team.asked = 0;
    problem = problem_of(&team, true);
    assert_true(shares_solve(&problem, scratch, share) == best);
    (void)printf("%zu micro-batches: asked %zu times, %zu with bounds\n", team.micro_batches, asked,
                 team.asked);
    assert_true(team.asked <= asked);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_small_case_equals_trying_all_shares),
        cmocka_unit_test(random_cases_equal_trying_all_shares),
        cmocka_unit_test(adding_micro_batches_one_by_one_is_worse_in_some_cases),
        cmocka_unit_test(a_larger_share_can_take_less_time),
        cmocka_unit_test(a_worker_that_would_only_lengthen_the_step_gets_no_share),
        cmocka_unit_test(a_limit_leaves_out_slower_answers),
        cmocka_unit_test(a_grain_keeps_shares_at_its_multiples),
        cmocka_unit_test(bounds_save_most_questions_of_a_large_step),
    };
    struct err err = {0};
    if (shares_scratch_new(&scratch, &err) != 0) {
        return 1;
    }
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    shares_scratch_free(&scratch);
    return failed;
}
