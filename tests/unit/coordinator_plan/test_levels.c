#include <math.h>

#include "base/rng.h"
#include "coordinator/plan/levels.h"
#include "tests/support/test.h"

#define TRIALS 300
#define GROUPS LEVELS_GROUPS_MAX

struct trial {
    double speed[GROUPS], seconds[GROUPS * GROUPS], chance[GROUPS * GROUPS];
    struct levels_problem of;
};

/* Links that differ by up to 10^spread. */
static void draw_trial(uint64_t seed, double spread, struct trial *trial)
{
    const struct rng_stream stream = rng_stream(seed, RNG_SIMULATION, 1, 0);
    const size_t count = 2 + (size_t)rng_below(&stream, 0, GROUPS - 1);
    *trial = (struct trial){
        .of = {.count = count, .batch = 32, .speed = trial->speed, .seconds = trial->seconds}};
    for (size_t i = 0; i < count; i++) {
        trial->speed[i] = 1 + 1000 * (double)rng_uniform(&stream, 10 + i);
        for (size_t j = 0; j < i; j++) {
            const double at = (double)rng_uniform(&stream, 100 + i * GROUPS + j);
            trial->seconds[i * count + j] = trial->seconds[j * count + i] =
                0.01 * pow(10, spread * at);
        }
    }
}

static bool is_near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fmax(1, fabs(b));
}

/* ---- levels ---- */

static void the_period_is_a_step_of_the_slowest_group(void **state)
{
    (void)state;
    const double speed[] = {100, 1000, 320},
                 seconds[9] = {1e-3, 1e-3, 1e-3, 1e-3, 1e-3, 1e-3, 1e-3, 1e-3, 1e-3};
    struct levels_problem problem = {.count = 3, .batch = 32, .speed = speed, .seconds = seconds};
    const double period = levels_period(&problem);
    assert_true(is_near(period, 0.32));
    assert_int_equal(levels_steps(100, period, 32), 1);
    assert_int_equal(levels_steps(1000, period, 32), 10);
    assert_int_equal(levels_steps(320, period, 32), 3);
    assert_int_equal(levels_steps(1e-9, period, 32), 1);
    assert_int_equal(levels_steps(1e300, period, 32), 1000000000);
}

static void few_samples_are_not_passed_more_than_four_times(void **state)
{
    (void)state;
    bool slows = true;
    assert_int_equal(levels_every(1000, 0.32, 64, 32, &slows), 8); /* 10 in the period */
    assert_true(slows);
    assert_int_equal(levels_every(800, 0.32, 64, 32, &slows), 8);
    assert_false(slows);
    assert_int_equal(levels_every(1000, 0.32, 96, 32, &slows), 10);
    assert_false(slows);
    assert_int_equal(levels_every(1e300, 0.32, 1, 32, NULL), 4);
    assert_int_equal(levels_every(1, 0.32, 1, 32, NULL), 1);
}

static void neither_copies_nor_matches_come_too_often(void **state)
{
    (void)state;
    double speed[GROUPS], seconds[GROUPS * GROUPS];
    for (size_t i = 0; i < GROUPS * GROUPS; i++) {
        seconds[i] = 1e-6;
        speed[i % GROUPS] = 1e6;
    }
    struct levels_problem problem = {.count = 2, .batch = 1, .speed = speed, .seconds = seconds};
    assert_true(is_near(levels_period(&problem), 0.05));
    problem.count = GROUPS;
    assert_true(is_near(levels_period(&problem), 0.01 * GROUPS));
    seconds[1] = seconds[2] = 3;
    problem.count = 2;
    assert_true(is_near(levels_period(&problem), 6));
}

static void a_group_that_is_nearly_dead_does_not_set_the_period(void **state)
{
    (void)state;
    const double speed[] = {1e-3, 320, 320},
                 seconds[9] = {1e-3, 1e-3, 1e-3, 1e-3, 1e-3, 1e-3, 1e-3, 1e-3, 1e-3};
    struct levels_problem problem = {.count = 3, .batch = 32, .speed = speed, .seconds = seconds};
    assert_true(is_near(levels_period(&problem), 32 / (320.0 / 16)));
}

/* ---- pairs ---- */

static void check_rows(const struct trial *trial)
{
    const size_t count = trial->of.count;
    for (size_t i = 0; i < count; i++) {
        double sum = 0;
        for (size_t j = 0; j < count; j++) {
            const double chance = trial->chance[i * count + j];
            assert_true(i == j ? chance == 0 : chance > 0);
            sum += chance;
        }
        assert_true(is_near(sum, 1));
    }
}

static void rows_add_up_and_the_gap_is_half_of_the_uniform_one(void **state)
{
    (void)state;
    static struct trial trial;
    size_t more = 0;
    for (uint64_t seed = 1; seed <= TRIALS; seed++) {
        draw_trial(seed, (double)(seed % 6), &trial);
        const double uniform = levels_chances(&trial.of, trial.chance);
        const double gap = 1 - levels_second_eigenvalue(trial.of.count, trial.chance);
        check_rows(&trial);
        assert_true(uniform >= 0.3 && uniform <= 1);
        assert_true(gap >= 0.5 / (double)(trial.of.count - 1) - 1e-9);
        more += uniform > 0.3;
    }
    assert_true(more > 0 && more < TRIALS);
}

/* Chances by the links alone, so that some groups hardly meet. */
static void draw_chances(uint64_t seed, double spread, struct trial *trial)
{
    draw_trial(seed, spread, trial);
    const size_t count = trial->of.count;
    for (size_t i = 0; i < count; i++) {
        double sum = 0;
        for (size_t j = 0; j < count; j++) {
            sum += i == j ? 0 : 1 / trial->seconds[i * count + j];
        }
        for (size_t j = 0; j < count; j++) {
            trial->chance[i * count + j] = i == j ? 0 : 1 / trial->seconds[i * count + j] / sum;
        }
    }
}

static void a_matrix_has_the_gap_that_its_eigenvalue_leaves(void **state)
{
    (void)state;
    static struct trial trial;
    double least = 1;
    for (uint64_t seed = 1; seed <= TRIALS; seed++) {
        draw_chances(seed, (double)(seed % 4), &trial);
        const double gap = 1 - levels_second_eigenvalue(trial.of.count, trial.chance);
        assert_true(levels_has_gap(trial.of.count, trial.chance, gap - 1e-10));
        assert_false(levels_has_gap(trial.of.count, trial.chance, gap + 1e-10));
        least = fmin(least, gap * (double)trial.of.count);
    }
    assert_true(least < 0.3);
}

static void a_faster_link_is_chosen_more_often(void **state)
{
    (void)state;
    static struct trial trial;
    draw_trial(1, 0, &trial);
    trial.of.count = 3;
    const double seconds[] = {0, 0.1, 1, 0.1, 0, 1, 1, 1, 0};
    trial.of.seconds = seconds;
    const double uniform = levels_chances(&trial.of, trial.chance);
    assert_true(is_near(trial.chance[1], (1 - uniform) * 10 / 11 + uniform / 2));
    assert_true(is_near(trial.chance[2], (1 - uniform) * 1 / 11 + uniform / 2));
    trial.of.uniform = true;
    assert_true(levels_chances(&trial.of, trial.chance) == 1);
    assert_true(is_near(trial.chance[1], 0.5) && is_near(trial.chance[2], 0.5));
}

/* Two and n groups with equal links, and two pairs that hardly meet. */
static void eigenvalues_are_those_of_known_matrices(void **state)
{
    (void)state;
    double chance[16] = {0, 1, 1, 0};
    assert_true(is_near(levels_second_eigenvalue(2, chance), 0));
    for (size_t count = 3; count <= 4; count++) {
        for (size_t i = 0; i < count * count; i++) {
            chance[i] = i % (count + 1) == 0 ? 0 : 1.0 / (double)(count - 1);
        }
        assert_true(
            is_near(levels_second_eigenvalue(count, chance), 1 - 1.0 / (double)(count - 1)));
    }
    const double rare = 0.01; /* the variance between the pairs shrinks by 2 rare / n */
    const double pairs[16] = {0,        1 - rare, rare / 2, rare / 2, 1 - rare, 0,
                              rare / 2, rare / 2, rare / 2, rare / 2, 0,        1 - rare,
                              rare / 2, rare / 2, 1 - rare, 0};
    assert_true(is_near(levels_second_eigenvalue(4, pairs), 1 - 2 * rare / 4));
    assert_true(levels_has_gap(4, pairs, 2 * rare / 4 - 1e-12));
    assert_false(levels_has_gap(4, pairs, 2 * rare / 4 + 1e-12));
}

static void partners_are_drawn_by_their_chances_among_the_free(void **state)
{
    (void)state;
    const double row[] = {0, 0.5, 0.25, 0.25};
    bool free[] = {true, true, true, true};
    size_t drawn[4] = {0};
    for (int i = 0; i < 1000; i++) {
        drawn[levels_partner(row, free, 4, i / 1000.0)]++;
    }
    assert_int_equal(drawn[0], 0);
    assert_int_equal(drawn[1], 500);
    assert_int_equal(drawn[2], 250);
    assert_int_equal(drawn[3], 250);
    free[1] = false;
    assert_int_equal(levels_partner(row, free, 4, 0.49), 2);
    assert_int_equal(levels_partner(row, free, 4, 0.51), 3);
    free[2] = free[3] = false;
    assert_int_equal(levels_partner(row, free, 4, 0), 4); /* never itself */
}

/* ---- averages ---- */

static void the_fastest_of_the_well_connected_groups_averages(void **state)
{
    (void)state;
    const double speed[] = {400, 300, 200, 100};
    const double seconds[] = {0, 5, 5, 5, 5, 0, 1, 2, 5, 1, 0, 1, 5, 2, 1, 0};
    const struct levels_problem problem = {.count = 4, .speed = speed, .seconds = seconds};
    bool member[] = {true, true, true, true}, may[] = {true, true, true, true};
    /* 15 s of copies for group 0, 8 for 1, 7 for 2, 8 for 3 */
    assert_int_equal(levels_averager(&problem, member, may), 1);
    may[1] = false;
    assert_int_equal(levels_averager(&problem, member, may), 2);
    member[0] = false; /* its copies took most of the time: 3, 2 and 3 s for the others */
    may[0] = may[2] = false;
    assert_int_equal(levels_averager(&problem, member, may), 3);
    may[3] = false;
    assert_int_equal(levels_averager(&problem, member, may), 4);
}

/* ---- how far each side moves ---- */

static void check_alphas(enum levels_weights weights, struct levels_side a, struct levels_side b,
                         double expected)
{
    const struct levels_side side[] = {a, b}, swapped[] = {b, a};
    double alpha[2], other[2];
    levels_alphas(weights, side, alpha);
    levels_alphas(weights, swapped, other);
    assert_true(is_near(alpha[0], expected));
    assert_true(alpha[0] + alpha[1] == 1 && is_near(alpha[0], other[1]));
}

static void both_sides_reach_the_same_point(void **state)
{
    (void)state;
    const struct levels_side small = {.samples = 100, .loss = 2}, large = {300, 1, 0, false};
    check_alphas(LEVELS_EQUAL, small, large, 0.5);
    check_alphas(LEVELS_SAMPLES, small, large, 0.75);
    check_alphas(LEVELS_ACCURACY, small, large, 0.8); /* bounded */
    const struct levels_side near = {.samples = 1, .loss = 1.05};
    check_alphas(LEVELS_ACCURACY, near, large, 1 / (1 + exp(-0.5)));
}

static void a_stale_side_counts_little(void **state)
{
    (void)state;
    const struct levels_side fresh = {.samples = 1, .missed_periods = LEVELS_STALE_PERIODS};
    for (int weights = LEVELS_EQUAL; weights <= LEVELS_ACCURACY; weights++) {
        const struct levels_side stale = {.samples = 1, .missed_periods = 100};
        check_alphas((enum levels_weights)weights, stale, fresh, 0.96);
        check_alphas((enum levels_weights)weights, stale, stale, 0.5);
        check_alphas((enum levels_weights)weights, fresh, fresh, 0.5);
        const struct levels_side new = {.samples = 1, .successor = true};
        check_alphas((enum levels_weights)weights, new, fresh, 1);
        check_alphas((enum levels_weights)weights, new, stale, 1);
        check_alphas((enum levels_weights)weights, new, new, 0.5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_period_is_a_step_of_the_slowest_group),
        cmocka_unit_test(few_samples_are_not_passed_more_than_four_times),
        cmocka_unit_test(neither_copies_nor_matches_come_too_often),
        cmocka_unit_test(a_group_that_is_nearly_dead_does_not_set_the_period),
        cmocka_unit_test(rows_add_up_and_the_gap_is_half_of_the_uniform_one),
        cmocka_unit_test(a_matrix_has_the_gap_that_its_eigenvalue_leaves),
        cmocka_unit_test(a_faster_link_is_chosen_more_often),
        cmocka_unit_test(eigenvalues_are_those_of_known_matrices),
        cmocka_unit_test(partners_are_drawn_by_their_chances_among_the_free),
        cmocka_unit_test(the_fastest_of_the_well_connected_groups_averages),
        cmocka_unit_test(both_sides_reach_the_same_point),
        cmocka_unit_test(a_stale_side_counts_little),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
