/* Stages of several versions against their reference (versions_trial.h): every state must have the
 * same bits, over random partitions, in-flight limits and restarts.
 *
 *   test_versions [FIRST LAST]     seeds; default: 1 to 30, under a sanitizer or an emulator 10
 */
#include <stdlib.h>
#include <string.h>

#include "libtrain/backend/simd.h"
#include "tests/unit/libtrain_stage/versions_trial.h"

#if defined(SIMD_BASELINE_ONLY) || defined(TEST_EMULATED)
static size_t first_seed = 1, last_seed = 10;
#else
static size_t first_seed = 1, last_seed = 30;
#endif

/* ---- trials ---- */

static unsigned char ***states_new(const struct law *law)
{
    unsigned char ***states = calloc(TRIAL_STEPS + 1, sizeof(void *));
    for (size_t step = 0; step <= TRIAL_STEPS; step++) {
        states[step] = calloc(law->model->unit_count, sizeof(void *));
    }
    return states;
}

static void states_free(const struct law *law, unsigned char ***states)
{
    for (size_t step = 0; step <= TRIAL_STEPS; step++) {
        for (size_t unit = 0; unit < law->model->unit_count; unit++) {
            free(states[step][unit]);
        }
        free(states[step]);
    }
    free(states);
}

/* That all states of the schedule from `first` to `last` are the reference's. */
static void compare(const struct trial *trial, unsigned char ***states, unsigned char ***expected,
                    int64_t first, int64_t last)
{
    for (int64_t step = first; step <= last; step++) {
        for (size_t unit = 0; unit < trial->law->model->unit_count; unit++) {
            if (states[step][unit]) { /* a killed stage did not come that far */
                assert_memory_equal(states[step][unit], expected[step][unit],
                                    train_unit_bytes(trial_stage(trial, unit), unit));
            }
        }
    }
}

static struct trial_plan draw_plan(struct law *law, bool vertical, int64_t aggregate_every,
                                   int64_t restarted)
{
    struct trial_plan plan = {
        .vertical = vertical, .aggregate_every = aggregate_every, .restarted = restarted};
    plan.count = draw_size(&law->draws, 1, TRIAL_STAGES_MAX);
    for (size_t i = 0, unit = 0; i < plan.count; i++) {
        const size_t rest = plan.count - 1 - i;
        unit = rest == 0 ? law->model->unit_count
                         : draw_size(&law->draws, unit + 1, law->model->unit_count - rest);
        plan.end[i] = unit;
    }
    plan.in_flight[plan.count - 1] = 1;
    for (size_t i = plan.count - 1; i-- > 0;) {
        const size_t most = vertical ? plan.count - i : 2 * (plan.count - i);
        plan.in_flight[i] = draw_size(&law->draws, plan.in_flight[i + 1] + 1, most);
    }
    return plan;
}

static const struct optimizer optimizers[] = {
    {.type = OPTIMIZER_SGD, .momentum = 0.9, .weight_decay = 1e-4},
    {.type = OPTIMIZER_SGD, .clip_value = 1e-3},
    {.type = OPTIMIZER_SGD, .momentum = 0.9, .nesterov = true},
    {.type = OPTIMIZER_ADAM, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8},
    {.type = OPTIMIZER_ADAMW, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .weight_decay = 0.1},
};

static struct law draw_law(void **state, size_t seed)
{
    struct draws draws = draws_new(seed);
    struct model *model =
        seed % 3 ? zoo_model("resnet8", 16, 16, 3) : zoo_model("lenet5", 28, 28, 1);
    for (size_t unit = 0; unit + 1 < model->unit_count; unit++) {
        model->unit[unit].frozen = seed % 4 == 0 && draw_size(&draws, 0, 2) == 0;
    }
    struct law law =
        law_with(state, model,
                 (struct law_run){.batch = TRIAL_BATCH, .micro_batches = 1, .steps = TRIAL_STEPS},
                 &optimizers[seed % (sizeof(optimizers) / sizeof(optimizers[0]))]);
    law.draws = draws;
    return law;
}

/* Train from the plan's restart to `last` and on, up to a kill if `killed`, both ways. */
static void check_generation(struct law *law, const struct trial_plan *plan, int64_t last,
                             bool killed, unsigned char ***states, unsigned char ***expected)
{
    struct trial trial = {.law = law, .plan = *plan}, reference = trial;
    /* A killed generation has begun batches that no version holds. */
    const int64_t planned = killed ? TRIAL_STEPS : last;
    const size_t tasks = killed ? draw_size(&law->draws, 0, 3 * TRIAL_STEPS) : SIZE_MAX;
    trial_make(&trial, false);
    trial_make(&reference, true);
    trial_load(&trial, plan->restarted > 0 ? expected[plan->restarted] : NULL);
    trial_load(&reference, plan->restarted > 0 ? expected[plan->restarted] : NULL);
    trial_run(&trial, planned, tasks, states);
    trial_run_reference(&reference, planned, expected);
    compare(&trial, states, expected, plan->restarted + 1, planned);
    if (!killed) {
        assert_non_null(states[last][0]);
    }
    trial_done(&trial);
    trial_done(&reference);
}

/* The version that every stage has, for the next generation to begin after. */
static int64_t last_common(const struct law *law, unsigned char ***states, int64_t from)
{
    for (int64_t version = TRIAL_STEPS - 1; version > from; version--) {
        size_t units = 0;
        for (size_t unit = 0; unit < law->model->unit_count; unit++) {
            units += states[version][unit] != NULL;
        }
        if (units == law->model->unit_count) {
            return version;
        }
    }
    return from;
}

static void forget(const struct law *law, unsigned char ***states, int64_t after)
{
    for (int64_t step = after + 1; step <= TRIAL_STEPS; step++) {
        for (size_t unit = 0; unit < law->model->unit_count; unit++) {
            free(states[step][unit]);
            states[step][unit] = NULL;
        }
    }
}

static void check_seed(void **state, size_t seed)
{
    struct law law = draw_law(state, seed);
    unsigned char ***states = states_new(&law), ***expected = states_new(&law);
    const bool vertical = draw_size(&law.draws, 0, 2) == 0;
    const int64_t every = (int64_t)draw_size(&law.draws, 0, 4);
    int64_t version = 0;
    for (size_t generations = draw_size(&law.draws, 1, 4); generations > 0; generations--) {
        const struct trial_plan plan = draw_plan(&law, vertical, every, version);
        const bool killed = generations > 1;
        check_generation(&law, &plan, TRIAL_STEPS, killed, states, expected);
        if (killed) {
            version = (int64_t)draw_size(&law.draws, (size_t)version,
                                         (size_t)last_common(&law, states, version));
            forget(&law, states, version);
            forget(&law, expected, version);
        }
    }
    states_free(&law, states);
    states_free(&law, expected);
    law_done(&law);
}

static void stages_of_several_versions_equal_a_reference_that_keeps_all(void **state)
{
    for (size_t seed = first_seed; seed <= last_seed; seed++) {
        print_message("seed %zu\n", seed);
        check_seed(state, seed);
    }
}

static void one_stage_gives_the_bits_of_the_synchronous_schedule(void **state)
{
    for (int64_t every = 0; every < 3; every++) {
        struct law law = draw_law(state, 1);
        unsigned char ***states = states_new(&law);
        struct trial trial = {.law = &law,
                              .plan = {.count = 1,
                                       .end = {law.model->unit_count},
                                       .in_flight = {1},
                                       .vertical = every == 2,
                                       .aggregate_every = every}};
        trial_make(&trial, false);
        trial_load(&trial, NULL);
        trial_run(&trial, TRIAL_STEPS, SIZE_MAX, states);
        for (size_t unit = 0, at = 0; unit < law.model->unit_count; unit++) {
            const size_t bytes = train_unit_bytes(trial.stage[0], unit);
            assert_memory_equal(states[TRIAL_STEPS][unit], law.expected + at, bytes);
            at += bytes;
        }
        trial_done(&trial);
        states_free(&law, states);
        law_done(&law);
    }
}

/* A drain for an evaluation ends in a restart of the same stages. */
static void a_drained_pipeline_goes_on_as_a_new_one_does(void **state)
{
    struct law law = draw_law(state, 2);
    unsigned char ***states = states_new(&law), ***expected = states_new(&law);
    struct trial trial = {.law = &law,
                          .plan = {.count = 2,
                                   .end = {2, law.model->unit_count},
                                   .in_flight = {3, 1},
                                   .aggregate_every = 3}};
    check_generation(&law, &trial.plan, 5, false, expected, states);
    const struct trial_plan after = {.count = 2,
                                     .end = {2, law.model->unit_count},
                                     .in_flight = {3, 1},
                                     .aggregate_every = 3,
                                     .restarted = 5};
    check_generation(&law, &after, TRIAL_STEPS, false, expected, states);
    trial_make(&trial, false);
    trial_load(&trial, NULL);
    trial_run(&trial, 5, SIZE_MAX, states);
    for (size_t i = 0; i < 2; i++) {
        train_restart(trial.stage[i], 5);
    }
    trial.plan.restarted = 5;
    trial_run(&trial, TRIAL_STEPS, SIZE_MAX, states);
    compare(&trial, states, expected, 1, TRIAL_STEPS);
    assert_non_null(states[TRIAL_STEPS][0]);
    trial_done(&trial);
    states_free(&law, states);
    states_free(&law, expected);
    law_done(&law);
}

/* Otherwise the tests above would say nothing about them. */
static void versions_aggregation_and_vertical_sync_change_the_weights(void **state)
{
    struct law law = draw_law(state, 1);
    unsigned char ***states[5];
    for (size_t way = 0; way < 5; way++) {
        struct trial trial = {
            .law = &law,
            .plan = {.count = way == 0 ? 1 : 2,
                     .end = {way == 0 ? law.model->unit_count : 2, law.model->unit_count},
                     .in_flight = {way == 0 ? 1 : 2, 1},
                     .vertical = way > 2,
                     .aggregate_every = way % 2 ? 0 : 4}};
        states[way] = states_new(&law);
        trial_make(&trial, false);
        trial_load(&trial, NULL);
        trial_run(&trial, TRIAL_STEPS, SIZE_MAX, states[way]);
        const size_t last = law.model->unit_count - 1;
        const size_t bytes = train_unit_bytes(trial_stage(&trial, last), last);
        for (size_t other = 0; other < way; other++) {
            assert_memory_not_equal(states[way][TRIAL_STEPS][last],
                                    states[other][TRIAL_STEPS][last], bytes);
        }
        trial_done(&trial);
    }
    for (size_t way = 0; way < 5; way++) {
        states_free(&law, states[way]);
    }
    law_done(&law);
}

static void a_config_that_needs_more_than_it_keeps_is_rejected(void **state)
{
    struct law law = draw_law(state, 1);
    struct train_stage *stage = NULL;
    struct err err = {0};
    const struct train_stage_config good = {.model = law.model,
                                            .end = law.model->unit_count,
                                            .micro_batch = TRIAL_BATCH,
                                            .micro_batches = 1,
                                            .in_flight = 2,
                                            .versions = 2,
                                            .optimizer = optimizers[0],
                                            .pool = law.pools->pool[0]};
    assert_ok(train_stage_new(&good, &stage, &err), &err);
    train_stage_free(&stage);
    struct train_stage_config bad[4] = {good, good, good, good};
    bad[0].in_flight = 3;
    bad[1].micro_batches = 2;
    bad[2].optimizer.clip_norm = 1;
    bad[3].aggregate_every = -1;
    static const char *const words[] = {"in flight", "whole batches", "norm", "every -1"};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(train_stage_new(&bad[i], &stage, &err), ERR_INVALID);
        assert_holds(err.text, words[i]);
        assert_null(stage);
    }
    law_done(&law);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_of_several_versions_equal_a_reference_that_keeps_all),
        cmocka_unit_test(one_stage_gives_the_bits_of_the_synchronous_schedule),
        cmocka_unit_test(a_drained_pipeline_goes_on_as_a_new_one_does),
        cmocka_unit_test(versions_aggregation_and_vertical_sync_change_the_weights),
        cmocka_unit_test(a_config_that_needs_more_than_it_keeps_is_rejected),
    };
    if (argc == 3) {
        first_seed = (size_t)strtoul(argv[1], NULL, 10);
        last_seed = (size_t)strtoul(argv[2], NULL, 10);
    }
    return cmocka_run_group_tests(tests, kernel_pools_setup, kernel_pools_teardown);
}
