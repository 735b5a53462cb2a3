/* Workers and servers of the strategy parameter_server come to the states of one process, whatever
 * the plan, the network and the end of a generation.
 *
 *   test_story_servers [FIRST LAST [trace]]     seeds; default: 1 to 100 */
#include <inttypes.h>
#include <stdlib.h>

#include "tests/sim/stories/hand.h"

enum { GENERATIONS = 12 };

static uint64_t first_seed = 1, last_seed = 100;
static uint64_t seed_at_work; /* 0: none failed */
static struct trace trace;

static void play_jobs(enum hand_ending ending)
{
    for (uint64_t seed = first_seed; seed <= last_seed; seed++) {
        struct hand *hand = hand_new(seed, trace.out ? &trace : NULL);
        seed_at_work = seed;
        int generation = 1;
        while (hand_play(hand, generation < GENERATIONS ? ending : HAND_END)) {
            generation++;
            assert_true(generation <= 2 * GENERATIONS);
        }
        hand_free(hand);
    }
    seed_at_work = 0;
}

static int name_the_seed(void **state)
{
    (void)state;
    if (seed_at_work != 0) {
        print_error("seed %" PRIu64 "\n", seed_at_work);
    }
    seed_at_work = 0;
    return 0;
}

static void a_job_has_the_states_of_one_process_whatever_its_plan(void **state)
{
    (void)state;
    play_jobs(HAND_END);
}

static void a_job_that_stops_at_any_moment_goes_on_from_one_version(void **state)
{
    (void)state;
    play_jobs(HAND_STOP);
}

static void a_lost_worker_loses_no_version(void **state)
{
    (void)state;
    play_jobs(HAND_LOSS);
}

static void marked_snapshots_of_all_servers_are_of_one_version(void **state)
{
    (void)state;
    play_jobs(HAND_CRASH);
}

int main(int argc, char **argv)
{
    if (argc >= 3) {
        first_seed = strtoull(argv[1], NULL, 10);
        last_seed = strtoull(argv[2], NULL, 10);
    }
    trace.out = argc == 4 ? stdout : NULL;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_job_has_the_states_of_one_process_whatever_its_plan,
                                  name_the_seed),
        cmocka_unit_test_teardown(a_job_that_stops_at_any_moment_goes_on_from_one_version,
                                  name_the_seed),
        cmocka_unit_test_teardown(a_lost_worker_loses_no_version, name_the_seed),
        cmocka_unit_test_teardown(marked_snapshots_of_all_servers_are_of_one_version,
                                  name_the_seed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
