/* One model: the logits of a harvested file are the groups' log-odds plus their priors, for models
 * of the zoo, a model of branches and random descriptions.
 *
 *   test_one_model [SAMPLES]     the zoo's usual images, equal and unequal widths; default: 5
 * samples of small images, widths unequal for every second number of groups
 */
#include <stdlib.h>
#include <string.h>

#include "libtrain/train.h"
#include "tests/unit/libtrain_description/model_support.h"
#include "tests/unit/libtrain_ops/kernel_support.h"
#include "tests/unit/libtrain_stage/law.h"
#include "tests/unit/libtrain_state/slice_support.h"

#define TOLERANCE 1e-4

static size_t samples = 5;
static bool usual_samples;

/* The scores of a file of the model, [samples][classes]; heap. */
static float *scores_of(void **state, const struct model *model, const struct slice_file *file,
                        const unsigned char *inputs)
{
    const struct kernel_pools *pools = *state;
    const struct train_stage_config config = {.model = model,
                                              .end = model->unit_count,
                                              .micro_batch = samples,
                                              .micro_batches = 1,
                                              .pool = pools->pool[1]};
    struct train_stage *stage = NULL;
    struct err err = {0};
    float *scores = calloc(samples * model->classes, sizeof(float));
    assert_non_null(scores);
    assert_ok(train_stage_new(&config, &stage, &err), &err);
    for (size_t unit = 0; unit < model->unit_count; unit++) {
        struct state_layout *layout AUTO(state_layout_free) = NULL;
        assert_ok(state_layout_new(model, unit, &config.optimizer, &layout, &err), &err);
        unsigned char *blob = malloc((size_t)layout->blob_bytes);
        assert_non_null(blob);
        assert_ok(checkpoint_read_unit(file->opened, model, unit, layout, blob, &err), &err);
        assert_ok(train_unit_load(stage, unit, blob, (size_t)layout->blob_bytes, &err), &err);
        free(blob);
    }
    assert_ok(train_evaluate(stage, samples, inputs, scores, NULL, NULL, NULL, &err), &err);
    train_stage_free(&stage);
    return scores;
}

/* Random samples of the model's dtype; heap. */
static unsigned char *draw_samples(const struct model *model, uint64_t seed)
{
    struct draws draws = draws_new(seed);
    const size_t count = samples * shape_elements(model->input);
    if (model->input_dtype == DTYPE_F32) {
        return (unsigned char *)draw_floats(&draws, count);
    }
    unsigned char *bytes = malloc(count);
    assert_non_null(bytes);
    for (size_t i = 0; i < count; i++) {
        bytes[i] = (unsigned char)draw_size(&draws, 0, 255);
    }
    return bytes;
}

/* Compare the harvest of all groups with the groups. */
static void check_harvest(void **state, struct slices *slices, uint64_t seed)
{
    const size_t classes = slices->target->classes;
    struct slice_file file = {0};
    struct err err = {0};
    slices_fill(slices, seed);
    unsigned char *inputs = draw_samples(slices->target, seed);
    float *expected = calloc(samples * classes, sizeof(float));
    assert_non_null(expected);
    assert_ok(slices_harvest(slices, &file.bytes, &err), &err);
    slice_open(&file);
    float *actual = scores_of(state, slices->target, &file, inputs);
    for (size_t i = 0; i < slices->split.group_count; i++) {
        const size_t own = slices->group[i].classes;
        float *scores = scores_of(state, slices->model[i], &slices->file[i], inputs);
        for (size_t n = 0; n < samples; n++) {
            for (size_t c = 0; c < own; c++) {
                const double odds =
                    (double)scores[n * (own + 1) + c] - (double)scores[n * (own + 1) + own];
                expected[n * classes + slices->classes[i][c]] =
                    (float)(odds + slices->from[i].prior);
            }
        }
        free(scores);
    }
    assert_close(actual, expected, samples * classes, TOLERANCE);
    free(actual);
    free(expected);
    free(inputs);
    slice_close(&file);
}

/* groups_max: as many as channels allow. */
static void check_division(void **state, struct model *target, size_t groups, bool unequal,
                           size_t groups_max)
{
    struct slices slices;
    struct err err = {0};
    int rc = slices_divide(&slices, target, 1, groups, unequal, &err);
    if (groups > groups_max) {
        assert_int_equal(rc, ERR_INVALID);
        assert_holds(err.text, "channels are too few");
    } else {
        assert_ok(rc, &err);
        check_harvest(state, &slices, 10 * groups + (size_t)unequal + 1);
    }
    slices_done(&slices);
}

static void check_model(void **state, struct model *(*make)(const char *), const char *name,
                        size_t groups_max)
{
    for (size_t groups = 2; groups <= 5; groups++) {
        for (size_t unequal = 0; unequal < 2; unequal++) {
            if (usual_samples || unequal == groups % 2) {
                check_division(state, make(name), groups, unequal == 1, groups_max);
            }
        }
    }
}

/* Small images, unless the usual ones are asked for. */
static struct model *make_zoo(const char *name)
{
    static const struct {
        const char *name;
        uint32_t side;
    } small[] = {{"alexnet-cifar", 16}, {"vgg11-bn", 32}, {"resnet8", 12}, {"mobilenetv2", 8}};
    for (size_t i = 0; i < sizeof(small) / sizeof(small[0]) && !usual_samples; i++) {
        if (strcmp(small[i].name, name) == 0) {
            return zoo_model(name, small[i].side, small[i].side, 3);
        }
    }
    return usual_model(name);
}

static struct model *make_branched(const char *name)
{
    (void)name;
    return branched_model();
}

static void harvested_models_of_the_zoo_give_their_groups_log_odds(void **state)
{
    check_model(state, make_zoo, "alexnet-cifar", 5);
    check_model(state, make_zoo, "vgg11-bn", 5);
    check_model(state, make_zoo, "resnet8", 4);
    check_model(state, make_zoo, "dscnn-kws", 5);
    check_model(state, make_zoo, "mobilenetv2", 4);
}

static void a_harvested_model_of_branches_gives_its_groups_log_odds(void **state)
{
    check_model(state, make_branched, "branched", 5);
}

static void harvested_random_models_give_their_groups_log_odds(void **state)
{
    size_t sliced = 0;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        struct slice_draws draws = {.stream = rng_stream(seed, RNG_INITIALISE, 3, 1)};
        struct model *target = slices_draw_model(&draws);
        struct slices slices;
        struct err err = {0};
        if (!target) {
            continue;
        }
        const size_t groups = slice_draw(&draws, 2, 4);
        const size_t stem = slice_draw(&draws, 1, target->unit_count - 2);
        if (slices_divide(&slices, target, stem, groups, seed % 2 == 0, &err) == 0) {
            check_harvest(state, &slices, seed);
            sliced++;
        }
        slices_done(&slices);
    }
    print_message("%zu random models\n", sliced);
    assert_true(sliced >= 20);
}

/* A group's own file is a model by itself: it needs neither the stem's file nor the others. */
static void without_a_group_the_other_logits_stay(void **state)
{
    struct slices slices;
    struct slice_file all = {0}, rest = {0};
    struct err err = {0};
    assert_ok(slices_divide(&slices, make_zoo("resnet8"), 1, 3, true, &err), &err);
    slices_fill(&slices, 5);
    unsigned char *inputs = draw_samples(slices.target, 5);
    assert_ok(slices_harvest(&slices, &all.bytes, &err), &err);
    slices.from[1].file = NULL;
    assert_ok(slices_harvest(&slices, &rest.bytes, &err), &err);
    slice_open(&all);
    slice_open(&rest);
    float *before = scores_of(state, slices.target, &all, inputs);
    float *after = scores_of(state, slices.target, &rest, inputs);
    for (size_t n = 0; n < samples; n++) {
        for (size_t c = 0; c < slices.target->classes; c++) {
            bool missing = false;
            for (size_t i = 0; i < slices.group[1].classes; i++) {
                missing = missing || slices.classes[1][i] == c;
            }
            const float *score = &after[n * slices.target->classes + c];
            if (missing) {
                assert_true(*score == HARVEST_NEVER);
            } else {
                assert_close(score, &before[n * slices.target->classes + c], 1, TOLERANCE);
            }
        }
    }
    free(before);
    free(after);
    free(inputs);
    slice_close(&all);
    slice_close(&rest);
    slices_done(&slices);
}

/* With its frozen stem and its selects. */
static void a_slice_trains_to_the_same_bits_for_any_split(void **state)
{
    static const char *const names[] = {"resnet8", "mobilenetv2"};
    for (size_t i = 0; i < 2; i++) {
        struct slices slices;
        struct model *model = NULL;
        struct err err = {0};
        assert_ok(slices_divide(&slices, zoo_model(names[i], 8, 8, 3), 1, 3, true, &err), &err);
        assert_ok(slim_derive(&slices.split, 1, &model, &err), &err);
        slices_done(&slices);
        struct law law =
            law_new(state, model, (struct law_run){.batch = 6, .micro_batches = 2, .steps = 2});
        law_check_random_partitions(&law, 2);
        law_done(&law);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(harvested_models_of_the_zoo_give_their_groups_log_odds),
        cmocka_unit_test(a_harvested_model_of_branches_gives_its_groups_log_odds),
        cmocka_unit_test(harvested_random_models_give_their_groups_log_odds),
        cmocka_unit_test(without_a_group_the_other_logits_stay),
        cmocka_unit_test(a_slice_trains_to_the_same_bits_for_any_split),
    };
    if (argc == 2) {
        samples = (size_t)strtoul(argv[1], NULL, 10);
        usual_samples = true;
    }
    return cmocka_run_group_tests(tests, kernel_pools_setup, kernel_pools_teardown);
}
