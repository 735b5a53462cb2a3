/* Workers and servers joined by a bad network come to the state of one process.
 *
 *   test_agent_exchange_net [FIRST LAST]     seeds; default: 1 to 500 */
#include <inttypes.h>
#include <stdlib.h>

#include "tests/unit/agent_core/exchange_net.h"

enum { GENERATIONS = 12 };

static uint64_t first_seed = 1, last_seed = 500;
static uint64_t seed_at_work; /* 0: none failed */

static void draw_job(uint64_t seed, struct reference *job)
{
    struct rng_stream random = rng_stream(seed, RNG_SIMULATION, 1, 0);
    *job = (struct reference){
        .layers = 1 + (size_t)rng_below(&random, 0, REFERENCE_LAYERS),
        .micro_batches =
            NET_DEVICES + (size_t)rng_below(&random, 1, REFERENCE_MICRO - NET_DEVICES + 1),
        .tests = (size_t)rng_below(&random, 2, REFERENCE_TESTS + 1),
        .steps = 1 + (int64_t)rng_below(&random, 3, REFERENCE_STEPS),
        .evaluate_every = (int64_t)rng_below(&random, 4, 4),
        .clips = rng_below(&random, 5, 2) == 0,
        .judges = rng_below(&random, 6, 2) == 0,
        .stop = {.metric = JUDGED_TEST_LOSS, .patience = 2},
    };
    reference_run(job);
}

/* How generations end. */
enum ending { END_OF_JOB, STOPS, LOSSES, CRASHES, ENDINGS };

static void draw_course(struct exchange_net *net, enum ending ending, struct net_course *course)
{
    *course = (struct net_course){UINT64_MAX, UINT64_MAX, UINT64_MAX};
    const uint64_t turn = net_draw(net, 400);
    if (ending == STOPS) {
        course->stop_turn = turn;
    } else if (ending == LOSSES) {
        course->lose_turn = turn;
    } else if (ending == CRASHES) {
        course->crash_turn = turn;
    }
}

/* A stop at the last version of a job may come before its evaluation. */
static bool has_ended(const struct exchange_net *net, int64_t version,
                      const struct early_stop *judged)
{
    const struct reference *job = net->job;
    struct heartbeat beat = {0};
    exchange_report(net->device[0].exchange, &beat);
    return version == job->last && !net->failed && !beat.unevaluated &&
           (job->last == job->steps || judged->met);
}

/* A job in generations, each with another plan. The states are compared at each update. */
static void play_job(struct exchange_net *net, uint64_t seed, enum ending ending)
{
    struct reference job;
    struct early_stop judged = {0};
    draw_job(seed, &job);
    int64_t version = 0;
    bool ended = false;
    for (uint64_t generation = 0; !ended; generation++) {
        struct net_course course;
        assert_true(generation < GENERATIONS);
        const bool last = generation + 1 == GENERATIONS;
        net_start(net, &job, seed * GENERATIONS + generation, version, &judged);
        draw_course(net, last ? END_OF_JOB : ending, &course);
        const int64_t reached = net_play(net, &course, &judged);
        assert_true(reached >= version);
        version = reached;
        ended = has_ended(net, version, &judged);
        net_end(net);
    }
    assert_int_equal(judged.version, job.judged.version);
    assert_int_equal(judged.best_version, job.judged.best_version);
    assert_int_equal(judged.met, job.judged.met);
}

static void play_jobs(enum ending ending)
{
    struct exchange_net *net = malloc(sizeof(*net));
    assert_non_null(net);
    for (uint64_t seed = first_seed; seed <= last_seed; seed++) {
        seed_at_work = seed;
        play_job(net, seed, ending);
    }
    seed_at_work = 0;
    free(net);
}

static int name_the_seed(void **state)
{
    (void)state;
    if (seed_at_work != 0) {
        print_message("seed %" PRIu64 "\n", seed_at_work);
    }
    seed_at_work = 0;
    return 0;
}

static void a_job_has_the_states_of_one_process_whatever_its_plan(void **state)
{
    (void)state;
    play_jobs(END_OF_JOB);
}

static void a_job_that_stops_at_any_moment_goes_on_from_one_version(void **state)
{
    (void)state;
    play_jobs(STOPS);
}

static void a_lost_worker_loses_no_version(void **state)
{
    (void)state;
    play_jobs(LOSSES);
}

static void marked_snapshots_of_all_servers_are_of_one_version(void **state)
{
    (void)state;
    play_jobs(CRASHES);
}

int main(int argc, char **argv)
{
    if (argc == 3) {
        first_seed = strtoull(argv[1], NULL, 10);
        last_seed = strtoull(argv[2], NULL, 10);
    }
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
