/* Stages joined by a bad network come to the same. */
#include "tests/unit/agent_core/pipeline_net.h"

#include <string.h>

static void set_up(struct net *net, size_t count, bool clips, uint64_t seed, const uint64_t *states,
                   int64_t resume_version)
{
    memset(net, 0, sizeof(*net));
    net->count = count;
    net->random = rng_stream(seed, RNG_SIMULATION, 0, 0);
    const struct pipeline_config config = {.micro_batches = MICRO_OF_NET,
                                           .resume_version = resume_version,
                                           .total_steps = 9,
                                           .evaluate_every = 3,
                                           .evaluation_batches = 7,
                                           .clips_norm = clips};
    size_t in_flight[STAGES_OF_NET];
    for (size_t i = 0; i < count; i++) {
        /* More in flight than N - i, and less, must both work. */
        in_flight[i] = 1 + (size_t)draw(net, MICRO_OF_NET);
    }
    /* Stages in the strict order must work beside stages in the greedy one. */
    const unsigned strict = (unsigned)draw(net, 2) * (unsigned)draw(net, 1 << STAGES_OF_NET);
    if (strict != 0) {
        draw_limits(net, in_flight);
    }
    start(net, &config, in_flight, strict, states);
}

static void check_same_state(bool clips)
{
    for (size_t count = 1; count <= STAGES_OF_NET; count++) {
        uint64_t expected[STAGES_OF_NET] = {0};
        uint64_t expected_test = 0;
        for (uint64_t seed = 0; seed < 40; seed++) {
            struct net net;
            uint64_t states[STAGES_OF_NET] = {1, 2, 3, 4, 5};
            set_up(&net, count, clips, seed, states, 0);
            assert_int_equal(play(&net, UINT64_MAX), 9);
            uint64_t tested = net.stage[count - 1].tested;
            tear_down(&net, states);
            if (seed == 0) {
                memcpy(expected, states, sizeof(expected));
                expected_test = tested;
            }
            assert_memory_equal(states, expected, sizeof(states));
            assert_int_equal(tested, expected_test);
        }
    }
}

static void joined_stages_always_finish_with_the_same_state(void **state)
{
    (void)state;
    check_same_state(false);
}

static void joined_stages_that_clip_always_finish_with_the_same_state(void **state)
{
    (void)state;
    check_same_state(true);
}

static void check_stops(bool clips)
{
    for (size_t count = 1; count <= STAGES_OF_NET; count++) {
        uint64_t expected[STAGES_OF_NET] = {1, 2, 3, 4, 5};
        struct net net;
        set_up(&net, count, clips, 0, expected, 0);
        (void)play(&net, UINT64_MAX);
        tear_down(&net, expected);
        for (uint64_t seed = 0; seed < 60; seed++) {
            uint64_t states[STAGES_OF_NET] = {1, 2, 3, 4, 5};
            int64_t version = 0;
            for (int generation = 0; generation < 8 && version < 9; generation++) {
                set_up(&net, count, clips, seed * 8 + (uint64_t)generation, states, version);
                int64_t reached = play(&net, generation < 7 ? draw(&net, 400) : UINT64_MAX);
                assert_true(reached >= version);
                version = reached;
                tear_down(&net, states);
            }
            assert_int_equal(version, 9);
            assert_memory_equal(states, expected, sizeof(states));
        }
    }
}

static void joined_stages_stop_at_one_version_and_resume_from_it(void **state)
{
    (void)state;
    check_stops(false);
}

static void joined_stages_that_clip_stop_at_one_version_and_resume_from_it(void **state)
{
    (void)state;
    check_stops(true);
}

/* ---- evaluations that end the job ---- */

static void set_up_judged(struct net *net, size_t count, uint64_t seed, const uint64_t *states,
                          int64_t resume_version, const struct early_stop *judged)
{
    memset(net, 0, sizeof(*net));
    net->count = count;
    net->random = rng_stream(seed, RNG_SIMULATION, 0, 0);
    const struct pipeline_config config = {
        .micro_batches = MICRO_OF_NET,
        .resume_version = resume_version,
        .total_steps = 20,
        .evaluate_every = 2,
        .evaluation_batches = 3,
        .judges = true,
        .stop = {.metric = JUDGED_TEST_LOSS, .patience = 2},
        .judged = *judged,
    };
    size_t in_flight[STAGES_OF_NET];
    for (size_t i = 0; i < count; i++) {
        in_flight[i] = 1 + (size_t)draw(net, MICRO_OF_NET);
    }
    start(net, &config, in_flight, 0, states);
}

/* A stop may end a stage before it judges what the next one has judged. */
static struct early_stop judged_by(const struct net *net)
{
    struct early_stop newest = {0};
    for (size_t i = 0; i < net->count; i++) {
        struct heartbeat beat = {0};
        pipeline_report(net->stage[i].pipeline, &beat);
        newest = beat.early_stop.version > newest.version ? beat.early_stop : newest;
    }
    return newest;
}

static void joined_stages_end_with_the_same_evaluation_after_any_stops(void **state)
{
    (void)state;
    size_t early = 0;
    for (size_t count = 1; count <= STAGES_OF_NET; count++) {
        uint64_t expected[STAGES_OF_NET] = {1, 2, 3, 4, 5};
        struct early_stop first = {0};
        struct net net;
        set_up_judged(&net, count, 0, expected, 0, &first);
        const int64_t end = play(&net, UINT64_MAX);
        first = judged_by(&net);
        assert_int_equal(early_stop_last(&first, 20), end);
        tear_down(&net, expected);
        early += end < 20;
        for (uint64_t seed = 0; seed < 40; seed++) {
            uint64_t states[STAGES_OF_NET] = {1, 2, 3, 4, 5};
            struct early_stop judged = {0};
            int64_t version = 0;
            for (int generation = 0; generation < 8 && version < end; generation++) {
                set_up_judged(&net, count, seed * 8 + (uint64_t)generation, states, version,
                              &judged);
                version = play(&net, generation < 7 ? draw(&net, 400) : UINT64_MAX);
                const struct early_stop now = judged_by(&net);
                judged = now.version > judged.version ? now : judged;
                tear_down(&net, states);
            }
            assert_int_equal(version, end);
            assert_memory_equal(states, expected, sizeof(states));
        }
    }
    assert_true(early > 0);
}

/* ---- steps that overlap ---- */

enum { ASYNC_STEPS = 23, ASYNC_EVALUATE_EVERY = 9 };

static void set_up_async(struct net *net, const size_t *in_flight, const uint64_t *states,
                         int64_t resume_version)
{
    const struct pipeline_config config = {.async = true,
                                           .micro_batches = 1,
                                           .resume_version = resume_version,
                                           .total_steps = ASYNC_STEPS,
                                           .evaluate_every = ASYNC_EVALUATE_EVERY,
                                           .evaluation_batches = 7};
    start(net, &config, in_flight, 0, states);
}

/* The states after steps (from, to] of a pipeline that is empty at both: forward of step t at a
 * stage uses its version max(from, t - in_flight). */
static void replay(size_t count, const size_t *in_flight, int64_t from, int64_t to,
                   uint64_t *states)
{
    uint64_t version[STAGES_OF_NET][ASYNC_STEPS + 1], kept[STAGES_OF_NET];
    for (size_t i = 0; i < count; i++) {
        version[i][from] = states[i];
    }
    for (int64_t step = from + 1; step <= to; step++) {
        const uint64_t key = mix((uint64_t)step, 0);
        for (size_t i = 0; i < count; i++) {
            const int64_t at = step - (int64_t)in_flight[i];
            kept[i] = mix(version[i][at > from ? at : from], i == 0 ? key : kept[i - 1]);
        }
        uint64_t gradient = key;
        for (size_t i = count; i-- > 0;) {
            gradient = mix(kept[i], gradient);
            version[i][step] = mix(version[i][step - 1], mix(0, gradient));
        }
    }
    for (size_t i = 0; i < count; i++) {
        states[i] = version[i][to];
    }
}

/* Play one generation until it stops, and replay it: evaluations empty the pipeline. */
static int64_t check_generation(struct net *net, const size_t *in_flight, int64_t from,
                                uint64_t stop_turn, uint64_t *states, uint64_t *expected)
{
    set_up_async(net, in_flight, states, from);
    const int64_t reached = play(net, stop_turn);
    tear_down(net, states);
    for (int64_t begin = from; begin < reached;) {
        int64_t end = (begin / ASYNC_EVALUATE_EVERY + 1) * ASYNC_EVALUATE_EVERY;
        end = end < reached ? end : reached;
        replay(net->count, in_flight, begin, end, expected);
        begin = end;
    }
    assert_memory_equal(states, expected, STAGES_OF_NET * sizeof(*states));
    return reached;
}

static void overlapping_steps_follow_from_limits_and_stops_alone(void **state)
{
    (void)state;
    for (size_t count = 1; count <= STAGES_OF_NET; count++) {
        for (uint64_t seed = 0; seed < 100; seed++) {
            struct net net = {.count = count, .random = rng_stream(seed, RNG_SIMULATION, 0, 0)};
            uint64_t states[STAGES_OF_NET] = {1, 2, 3, 4, 5}, expected[STAGES_OF_NET];
            memcpy(expected, states, sizeof(expected));
            int64_t version = 0;
            for (int generation = 0; version < ASYNC_STEPS; generation++) {
                size_t in_flight[STAGES_OF_NET] = {0};
                draw_limits(&net, in_flight);
                memset(net.stage, 0, sizeof(net.stage));
                const uint64_t stop_turn = generation < 7 ? draw(&net, 500) : UINT64_MAX;
                version = check_generation(&net, in_flight, version, stop_turn, states, expected);
            }
            assert_int_equal(version, ASYNC_STEPS);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(overlapping_steps_follow_from_limits_and_stops_alone),
        cmocka_unit_test(joined_stages_always_finish_with_the_same_state),
        cmocka_unit_test(joined_stages_that_clip_always_finish_with_the_same_state),
        cmocka_unit_test(joined_stages_stop_at_one_version_and_resume_from_it),
        cmocka_unit_test(joined_stages_end_with_the_same_evaluation_after_any_stops),
        cmocka_unit_test(joined_stages_that_clip_stop_at_one_version_and_resume_from_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
