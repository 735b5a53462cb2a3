/* Which devices train which classes where samples stay on devices: rules, exhaustive search, and
 * odd cases. */
#include <math.h>
#include <string.h>
#include <time.h>

#include "base/rng.h"
#include "coordinator/core/submodel/class_owners.h"
#include "tests/support/test.h"

#define CASES 4000
#define SMALL_OWNERS 4
#define SMALL_CLASSES 5

struct table {
    int64_t samples[OWNERS_MAX][OFFER_CLASSES_MAX];
    struct class_owner owner[OWNERS_MAX];
    struct owner_problem problem;
};

static void begin(struct table *table, size_t owners, size_t classes)
{
    memset(table, 0, sizeof(*table));
    for (size_t i = 0; i < owners; i++) {
        table->owner[i] = (struct class_owner){
            .data = {.samples = table->samples[i], .count = classes}, .speed = 1};
    }
    table->problem = (struct owner_problem){.owner = table->owner,
                                            .owner_count = owners,
                                            .class_count = classes,
                                            .replicas = 1,
                                            .groups_max = GROUPS_MAX,
                                            .negatives = 1};
}

static int64_t samples_in(const struct class_owner *owner, size_t class)
{
    return class < owner->data.count ? owner->data.samples[class] : 0;
}

static size_t classes_of(const struct class_owner *owner)
{
    size_t count = 0;
    for (size_t c = 0; c < owner->data.count; c++) {
        count += owner->data.samples[c] > 0;
    }
    return count;
}

/* The rules of class_owners_solve. */
static void assert_owned(const struct owner_problem *problem, const struct class_groups *groups,
                         const size_t *place)
{
    size_t served[OFFER_CLASSES_MAX] = {0};
    assert_in_range(groups->count, 2, GROUPS_MAX);
    for (size_t g = 0; g < groups->count; g++) {
        const struct class_group *group = &groups->group[g];
        const struct class_owner *owner = &problem->owner[place[g]];
        assert_true(group->class_count >= GROUP_CLASSES_MIN);
        assert_true((size_t)group->class_count < classes_of(owner));
        for (size_t other = 0; other < g; other++) {
            assert_int_not_equal(place[other], place[g]);
        }
        for (int64_t c = 0; c < group->class_count; c++) {
            const int64_t class = groups->class_of[group->class_first + c];
            assert_true(samples_in(owner, (size_t) class) > 0);
            assert_true(c == 0 || class > groups->class_of[group->class_first + c - 1]);
            served[class]++;
        }
    }
    for (size_t c = 0; c < problem->class_count; c++) {
        assert_int_equal(served[c], problem->replicas);
    }
}

/* ---- exhaustive search ---- */

struct search {
    const struct owner_problem *problem;
    double least; /* of the slowest group; INFINITY: impossible */
    size_t count[SMALL_OWNERS];
    int64_t own[SMALL_OWNERS];
};

static double load_of(const struct owner_problem *problem, size_t owner, int64_t own)
{
    int64_t all = 0;
    for (size_t c = 0; c < problem->owner[owner].data.count; c++) {
        all += problem->owner[owner].data.samples[c];
    }
    const double others = (double)(all - own);
    return ((double)own + fmin(problem->negatives * (double)own, others)) /
           problem->owner[owner].speed;
}

/* Every set of owners for every class, all of them with a group. */
static void try_class(struct search *search, size_t class)
{
    const struct owner_problem *problem = search->problem;
    if (class == problem->class_count) {
        double slowest = 0;
        for (size_t i = 0; i < problem->owner_count; i++) {
            const bool fits = search->count[i] >= GROUP_CLASSES_MIN &&
                              search->count[i] < classes_of(&problem->owner[i]);
            slowest = fmax(slowest, fits ? load_of(problem, i, search->own[i]) : INFINITY);
        }
        search->least = fmin(search->least, slowest);
        return;
    }
    for (size_t set = 0; set < (size_t)1 << problem->owner_count; set++) {
        if ((size_t)__builtin_popcountll(set) != problem->replicas) {
            continue;
        }
        bool have = true;
        for (size_t i = 0; i < problem->owner_count; i++) {
            have = have && (!(set >> i & 1) || samples_in(&problem->owner[i], class) > 0);
        }
        for (size_t i = 0; have && i < problem->owner_count; i++) {
            search->count[i] += set >> i & 1;
            search->own[i] += set >> i & 1 ? samples_in(&problem->owner[i], class) : 0;
        }
        if (have) {
            try_class(search, class + 1);
        }
        for (size_t i = 0; have && i < problem->owner_count; i++) {
            search->count[i] -= set >> i & 1;
            search->own[i] -= set >> i & 1 ? samples_in(&problem->owner[i], class) : 0;
        }
    }
}

static double slowest_of(const struct owner_problem *problem, const struct class_groups *groups,
                         const size_t *place)
{
    double slowest = 0;
    for (size_t g = 0; g < groups->count; g++) {
        int64_t own = 0;
        for (int64_t c = 0; c < groups->group[g].class_count; c++) {
            own += samples_in(&problem->owner[place[g]],
                              (size_t)groups->class_of[groups->group[g].class_first + c]);
        }
        slowest = fmax(slowest, load_of(problem, place[g], own));
    }
    return slowest;
}

static void draw(struct table *table, const struct rng_stream *stream, uint64_t *at)
{
    const size_t owners = 2 + rng_below(stream, (*at)++, SMALL_OWNERS - 1);
    begin(table, owners, 4 + rng_below(stream, (*at)++, SMALL_CLASSES - 3));
    table->problem.replicas = 1 + rng_below(stream, (*at)++, 2);
    for (size_t i = 0; i < table->problem.owner_count; i++) {
        table->owner[i].speed = 1 + (double)rng_below(stream, (*at)++, 4);
        for (size_t c = 0; c < table->problem.class_count; c++) {
            const bool none = rng_below(stream, (*at)++, 8) == 0;
            table->samples[i][c] = none ? 0 : 20 + (int64_t)rng_below(stream, (*at)++, 20);
        }
    }
}

/* All devices have a group: what exhaustive search finds, and its slowest group at most a half
 * longer, since no samples are less than half of others. */
static void groups_are_found_where_exhaustive_search_finds_some(void **state)
{
    (void)state;
    static struct table table;
    const struct rng_stream stream = rng_stream(7, RNG_DRAWN, 0, 0);
    uint64_t at = 0;
    size_t possible = 0;
    double sum = 0, worst = 1;
    for (size_t i = 0; i < CASES; i++) {
        struct class_groups groups;
        size_t place[GROUPS_MAX];
        struct err err = {0};
        draw(&table, &stream, &at);
        table.problem.group_count = table.problem.owner_count;
        struct search search = {.problem = &table.problem, .least = INFINITY};
        try_class(&search, 0);
        const int rc = class_owners_solve(&table.problem, &groups, place, &err);
        assert_int_equal(rc == 0, isfinite(search.least));
        if (rc == 0) {
            assert_owned(&table.problem, &groups, place);
            assert_int_equal(groups.count, table.problem.owner_count);
            const double ratio = slowest_of(&table.problem, &groups, place) / search.least;
            sum += ratio;
            worst = fmax(worst, ratio);
            possible++;
        } else {
            assert_true(err.text[0] != '\0');
        }
    }
    print_message("%zu of %d cases have groups; the slowest is %.3f times the best, at most %.2f\n",
                  possible, CASES, sum / (double)possible, worst);
    assert_true(possible > CASES / 5 && possible < CASES * 4 / 5);
    assert_true(sum / (double)possible < 1.05 && worst < 1.8);
}

/* ---- rules ---- */

static int solve(const struct table *table, struct class_groups *groups, size_t *place)
{
    struct err err = {0};
    const int rc = class_owners_solve(&table->problem, groups, place, &err);
    if (rc == 0) {
        assert_owned(&table->problem, groups, place);
    }
    return rc;
}

static void a_class_goes_to_a_device_with_many_samples_of_it(void **state)
{
    (void)state;
    static struct table table;
    struct class_groups groups;
    size_t place[GROUPS_MAX];
    begin(&table, 3, 9);
    for (size_t i = 0; i < 3; i++) {
        for (size_t c = 0; c < 9; c++) {
            table.samples[i][c] = c / 3 == i ? 100 : 10;
        }
    }
    table.owner[0].speed = 1000; /* though it would have trained all of them soonest */
    assert_int_equal(solve(&table, &groups, place), 0);
    assert_int_equal(groups.count, 3);
    for (size_t g = 0; g < 3; g++) {
        for (int64_t c = 0; c < 3; c++) {
            assert_int_equal(groups.class_of[groups.group[g].class_first + c] / 3, place[g]);
        }
    }
}

static void equal_devices_share_the_classes_by_speed(void **state)
{
    (void)state;
    static struct table table;
    struct class_groups groups;
    size_t place[GROUPS_MAX];
    begin(&table, 2, 12);
    table.owner[1].speed = 3;
    for (size_t c = 0; c < 12; c++) {
        table.samples[0][c] = table.samples[1][c] = 50;
    }
    assert_int_equal(solve(&table, &groups, place), 0);
    assert_int_equal(groups.count, 2);
    for (size_t g = 0; g < 2; g++) { /* 500 and 100 others, 100 and 100 others */
        assert_int_equal(groups.group[g].class_count, place[g] == 1 ? 10 : 2);
    }
}

static void devices_beyond_the_groups_are_those_with_the_fewest_samples(void **state)
{
    (void)state;
    static struct table table;
    struct class_groups groups;
    size_t place[GROUPS_MAX];
    begin(&table, 40, 10);
    for (size_t i = 0; i < 40; i++) {
        for (size_t c = 0; c < 10; c++) {
            table.samples[i][c] = 10 + (int64_t)(i * 7 % 40);
        }
    }
    table.samples[0][3] = table.samples[1][3] = 0; /* others have it */
    assert_int_equal(solve(&table, &groups, place), 0);
    assert_int_equal(groups.count, 5); /* two classes each */
    for (size_t g = 0; g < 5; g++) {
        assert_true(place[g] * 7 % 40 >= 35);
    }
    table.problem.replicas = 2;
    assert_int_equal(solve(&table, &groups, place), 0);
    assert_int_equal(groups.count, 10);
    table.problem.groups_max = 4;
    assert_int_equal(solve(&table, &groups, place), 0);
    assert_int_equal(groups.count, 4);
    table.problem.group_count = 6;
    assert_int_equal(solve(&table, &groups, place), ERR_INVALID);
    table.problem.groups_max = GROUPS_MAX;
    assert_int_equal(solve(&table, &groups, place), 0);
    assert_int_equal(groups.count, 6);
}

/* Device 5 alone has class 9: it has a group, though it has the fewest samples. */
static void the_only_device_with_a_class_has_a_group(void **state)
{
    (void)state;
    static struct table table;
    struct class_groups groups;
    size_t place[GROUPS_MAX];
    bool there = false;
    begin(&table, 6, 10);
    for (size_t i = 0; i < 6; i++) {
        for (size_t c = 0; c < 9; c++) {
            table.samples[i][c] = 100;
        }
    }
    memset(table.samples[5], 0, sizeof(table.samples[5]));
    table.samples[5][7] = table.samples[5][8] = table.samples[5][9] = 2;
    assert_int_equal(solve(&table, &groups, place), 0);
    for (size_t g = 0; g < groups.count; g++) {
        there = there || place[g] == 5;
    }
    assert_true(there);
}

static void assert_fault(const struct table *table, const char *words)
{
    struct class_groups groups;
    size_t place[GROUPS_MAX];
    struct err err = {0};
    assert_int_equal(class_owners_solve(&table->problem, &groups, place, &err), ERR_INVALID);
    assert_holds(err.text, words);
}

static void what_is_impossible_is_said(void **state)
{
    (void)state;
    static struct table table;
    begin(&table, 0, 10);
    assert_fault(&table, "class 0 is on 0 devices");
    begin(&table, 3, 6); /* two classes a device: nothing is left for negatives */
    for (size_t c = 0; c < 6; c++) {
        table.samples[c / 2][c] = 100;
    }
    assert_fault(&table, "class 0 is on 0 devices that have 3 classes or more");
    begin(&table, 3, 6);
    for (size_t i = 0; i < 3; i++) {
        for (size_t c = 0; c < 5 + (i == 0); c++) {
            table.samples[i][c] = 100;
        }
    }
    assert_int_equal(table.problem.replicas, 1);
    table.problem.replicas = 2;
    assert_fault(&table, "class 5 is on 1 devices that have 3 classes or more; 2 must train it");
    table.problem.replicas = 1;
    table.problem.group_count = 4;
    assert_fault(&table, "cannot be divided into 4 groups");
    begin(&table, 1, 10);
    for (size_t c = 0; c < 10; c++) {
        table.samples[0][c] = 100;
    }
    assert_fault(&table, "what 1 devices have cannot be divided");
}

/* All that is searched for when groups are made fewer one by one. Equal devices are the worst order
 * for sorting. */
static void a_thousand_devices_are_divided_in_a_turn(void **state)
{
    (void)state;
    static struct table table;
    struct class_groups groups;
    size_t place[GROUPS_MAX];
    const struct rng_stream stream = rng_stream(11, RNG_DRAWN, 0, 0);
    for (int equal = 0; equal <= 1; equal++) {
        begin(&table, OWNERS_MAX, OFFER_CLASSES_MAX);
        for (size_t i = 0; i < OWNERS_MAX; i++) {
            table.owner[i].speed =
                equal ? (double)(2 * OWNERS_MAX - i) : 1 + (double)rng_below(&stream, i, 10);
            for (size_t c = 0; c < OFFER_CLASSES_MAX; c++) {
                table.samples[i][c] = equal ? 50 : (int64_t)rng_below(&stream, i * 1000 + c, 500);
            }
        }
        const clock_t before = clock();
        for (size_t most = GROUPS_MAX; most >= 2; most--) {
            table.problem.groups_max = most;
            assert_int_equal(solve(&table, &groups, place), 0);
            assert_int_equal(groups.count, most);
        }
        const double seconds = (double)(clock() - before) / CLOCKS_PER_SEC;
        print_message("%s devices: %.3f s\n", equal ? "equal" : "unequal", seconds);
        assert_true(seconds < 3); /* 0.1 to 0.3, with a sanitizer some times as much */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_are_found_where_exhaustive_search_finds_some),
        cmocka_unit_test(a_class_goes_to_a_device_with_many_samples_of_it),
        cmocka_unit_test(equal_devices_share_the_classes_by_speed),
        cmocka_unit_test(devices_beyond_the_groups_are_those_with_the_fewest_samples),
        cmocka_unit_test(the_only_device_with_a_class_has_a_group),
        cmocka_unit_test(what_is_impossible_is_said),
        cmocka_unit_test(a_thousand_devices_are_divided_in_a_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
