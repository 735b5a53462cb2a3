/* The law, in one process: weights and optimizer state after some steps are the same, bit for bit.
 * That holds for every partition, every order of the schedule, every thread count, and if the state
 * moves between partitions meanwhile.
 *
 *   test_law [N]     one in N of the random partitions; default: all */
#include <stdlib.h>
#include <string.h>

#include "libtrain/backend/simd.h"
#include "libtrain/description/description.h"
#include "libtrain/kernels/kernel_table.h"
#include "libtrain/train.h"
#include "tests/unit/libtrain_stage/law.h"

#define BATCH 8
#define MICRO_BATCHES 4
#define STEPS 3
static const struct law_run usual_run = {
    .batch = BATCH, .micro_batches = MICRO_BATCHES, .steps = STEPS};

/* One in how many random partitions is tried, and the images of resnet8 and mobilenetv2: fewer and
 * smaller ones under a sanitizer, where a step takes ten times as long, and under an emulator. */
#if defined(TEST_EMULATED)
#define RESNET8_SIDE 10
#define MOBILENETV2_SIDE 16
static int one_in = 10;
#elif defined(SIMD_BASELINE_ONLY)
#define RESNET8_SIDE 14
#define MOBILENETV2_SIDE 16
static int one_in = 4;
#else
#define RESNET8_SIDE 28
#define MOBILENETV2_SIDE 32
static int one_in = 1;
#endif
#define ONE_IN_MAX 100

#if defined(__SANITIZE_THREAD__) || defined(TEST_EMULATED)
#define TOO_SLOW 1
#elif defined(__has_feature)
#define TOO_SLOW __has_feature(thread_sanitizer)
#else
#define TOO_SLOW 0
#endif

static int partitions(int count)
{
    return one_in == 1 ? count : count / one_in + 1;
}

static struct model *resnet8(void)
{
    return zoo_model("resnet8", RESNET8_SIDE, RESNET8_SIDE, 1);
}

static void check_every_partition(void **state, const char *name)
{
    struct law law = law_new(state, zoo_model(name, 28, 28, 1), usual_run);
    size_t end[PIPELINE_STAGES_MAX];
    for (uint64_t cuts = 0; cuts < UINT64_C(1) << (law.model->unit_count - 1); cuts++) {
        law_check_partition(&law, end, law_partition(cuts, law.model->unit_count, end));
    }
    law_done(&law);
}

static void every_partition_of_lenet5_gives_the_same_bits(void **state)
{
    check_every_partition(state, "lenet5");
}

static void every_partition_of_mlp_gives_the_same_bits(void **state)
{
    check_every_partition(state, "mlp");
}

static void partitions_of_resnet8_give_the_same_bits(void **state)
{
    struct law law = law_new(state, resnet8(), usual_run);
    law_check_random_partitions(&law, partitions(10));
    law_done(&law);
}

static void partitions_of_mobilenetv2_give_the_same_bits(void **state)
{
    if (TOO_SLOW) {
        test_skip(
            "too slow under the thread sanitizer or an emulator; resnet8 takes the same paths");
    }
    struct law law =
        law_new(state, zoo_model("mobilenetv2", MOBILENETV2_SIDE, MOBILENETV2_SIDE, 3), usual_run);
    law_check_random_partitions(&law, partitions(3));
    law_done(&law);
}

static void partitions_of_a_model_with_every_op_give_the_same_bits(void **state)
{
    struct law law =
        law_new(state, good_model(law_everything, &(struct model_fit){{9, 11, 5}, DTYPE_U8, 7, 1}),
                usual_run);
    law_check_random_partitions(&law, partitions(40));
    size_t every[PIPELINE_STAGES_MAX];
    law_check_partition(&law, every, law_partition(UINT64_MAX, law.model->unit_count, every));
    law_done(&law);
}

static void partitions_of_a_sequence_model_give_the_same_bits(void **state)
{
    struct law law =
        law_new(state, good_model(law_sequence, &(struct model_fit){{37, 1, 1}, DTYPE_U8, 200, 37}),
                usual_run);
    law_check_random_partitions(&law, partitions(30));
    size_t every[PIPELINE_STAGES_MAX];
    law_check_partition(&law, every, law_partition(UINT64_MAX, law.model->unit_count, every));
    law_done(&law);
}

static void partitions_of_gpt_mini_give_the_same_bits(void **state)
{
#if defined(TEST_EMULATED)
    test_skip("too slow under an emulator; the sequence model has the same ops");
#endif
    struct law law = law_new(state, zoo_model("gpt-mini", 16, 1, 1), usual_run);
    law_check_random_partitions(&law, partitions(6));
    law_done(&law);
}

/* Each step on another partition, from the snapshots of the one before. */
static void check_moves(struct law *law, int times)
{
    for (int i = 0; i < times; i++) {
        unsigned char *blobs = NULL;
        for (int64_t step = 1; step <= STEPS; step++) {
            size_t end[PIPELINE_STAGES_MAX];
            size_t size;
            size_t count = law_draw_partition(law, end);
            size_t threads = draw_size(&law->draws, 0, KERNEL_POOLS - 1);
            struct pipeline *pipeline =
                pipeline_new(&law->recipe, end, count, law->pools->pool[threads]);
            if (blobs) {
                pipeline_load(pipeline, blobs);
            } else {
                pipeline_initialise(pipeline);
            }
            free(blobs);
            law_steps(law, pipeline, step, step);
            blobs = pipeline_save(pipeline, &size);
            if (step == STEPS) {
                law_check_state(law, pipeline);
            }
            pipeline_free(pipeline);
        }
        free(blobs);
    }
}

static void moving_the_state_between_partitions_and_threads_changes_no_bit(void **state)
{
    struct model *const models[] = {zoo_model("lenet5", 28, 28, 1), resnet8()};
    for (size_t n = 0; n < 2; n++) {
        struct law law = law_new(state, models[n], usual_run);
        check_moves(&law, partitions(6));
        law_done(&law);
    }
}

/* ---- optimizers, clipping, smoothing ---- */

#define ADAM .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8
static const struct optimizer optimizers[] = {
    {.type = OPTIMIZER_SGD},
    {.type = OPTIMIZER_SGD, .momentum = 0.9, .clip_value = 1e-3},
    {.type = OPTIMIZER_ADAM, ADAM, .weight_decay = 1e-4},
    {.type = OPTIMIZER_ADAM, ADAM, .clip_value = 1e-3},
    {.type = OPTIMIZER_ADAMW, ADAM, .weight_decay = 0.1},
    {.type = OPTIMIZER_SGD, .momentum = 0.9, .clip_norm = 0.5},
    {.type = OPTIMIZER_ADAMW, ADAM, .weight_decay = 0.1, .clip_norm = 0.1},
};
#define OPTIMIZERS (sizeof(optimizers) / sizeof(optimizers[0]))

static void every_optimizer_gives_the_same_bits_split_and_moved(void **state)
{
    for (size_t i = 0; i < OPTIMIZERS; i++) {
        struct model *model = i % 2 ? zoo_model("lenet5", 28, 28, 1) : resnet8();
        model->label_smoothing = i % 2 ? 0.1 : 0.0;
        struct law law = law_with(state, model, usual_run, &optimizers[i]);
        law_check_random_partitions(&law, partitions(4));
        check_moves(&law, partitions(4));
        law_done(&law);
    }
}

/* ---- frozen units ---- */

/* Bit u of `frozen`: unit u is frozen, if other units are left to train. */
static struct model *with_frozen(struct model *model, uint64_t frozen)
{
    for (size_t unit = 0; unit + 1 < model->unit_count; unit++) {
        model->unit[unit].frozen = frozen >> unit & 1;
    }
    assert_true(model_first_trained(model) < model->unit_count);
    return model;
}

/* After all steps frozen units equal those of version 0, and other units with parameters differ. */
static void check_frozen_state(const struct law *law)
{
    struct pipeline *pipeline =
        pipeline_new(&law->recipe, &law->model->unit_count, 1, law->pools->pool[0]);
    size_t size;
    pipeline_initialise(pipeline);
    unsigned char *start = pipeline_save(pipeline, &size);
    assert_int_equal(size, law->expected_size);
    for (size_t unit = 0, at = 0; unit < law->model->unit_count; unit++) {
        size_t bytes = train_unit_bytes(pipeline->stage[0], unit);
        bool same = memcmp(start + at, law->expected + at, bytes) == 0;
        assert_true(same == !model_trains(law->model, unit));
        at += bytes;
    }
    free(start);
    pipeline_free(pipeline);
}

static void frozen_units_stay_unchanged_and_every_split_gives_the_same_bits(void **state)
{
    static const uint64_t frozen[] = {0x1f, 0x55, 0xaa, 0x30c};
    for (size_t i = 0; i < 4; i++) {
        struct model *model[] = {
            good_model(law_everything, &(struct model_fit){{9, 11, 5}, DTYPE_U8, 7, 1}),
            good_model(law_sequence, &(struct model_fit){{37, 1, 1}, DTYPE_U8, 200, 37}),
            resnet8()};
        for (size_t m = 0; m < 3; m++) {
            struct law law = law_with(state, with_frozen(model[m], frozen[i]), usual_run,
                                      &optimizers[(2 * i + m) % OPTIMIZERS]);
            size_t every[PIPELINE_STAGES_MAX];
            check_frozen_state(&law);
            law_check_partition(&law, every,
                                law_partition(UINT64_MAX, law.model->unit_count, every));
            law_check_random_partitions(&law, partitions(3));
            check_moves(&law, partitions(1));
            law_done(&law);
        }
    }
}

/* Otherwise the test above would say nothing about it. */
static void clipping_and_smoothing_change_the_weights(void **state)
{
    for (size_t i = 0; i < OPTIMIZERS; i++) {
        struct optimizer plain = optimizers[i];
        plain.clip_value = plain.clip_norm = 0;
        struct law law = law_with(state, zoo_model("lenet5", 28, 28, 1), usual_run, &optimizers[i]);
        struct law other = law_with(state, zoo_model("lenet5", 28, 28, 1), usual_run, &plain);
        struct model *model = zoo_model("lenet5", 28, 28, 1);
        model->label_smoothing = 0.1;
        struct law smooth = law_with(state, model, usual_run, &optimizers[i]);
        bool clipped = optimizers[i].clip_value > 0 || optimizers[i].clip_norm > 0;
        assert_int_equal(law.expected_size, other.expected_size);
        assert_true(clipped == (memcmp(law.expected, other.expected, law.expected_size) != 0));
        assert_memory_not_equal(law.expected, smooth.expected, law.expected_size);
        law_done(&law);
        law_done(&other);
        law_done(&smooth);
    }
}

/* Other kernels, other bits: these, too, do not depend on the partition. */
static void kernels_of_a_table_give_the_same_bits_split_and_moved(void **state)
{
    struct law by_shape = law_new(state, zoo_model("resnet8", 28, 28, 1), usual_run);
    struct model *model = zoo_model("resnet8", 28, 28, 1);
    struct err err = {0};
    json_t *table =
        read_json("{\"block1.body.0\": {\"backward_data\": \"columns\"},"
                  " \"block1.body.3\": {\"backward_weights\": \"columns\"},"
                  " \"block3.body.3\": {\"forward\": \"columns\", \"backward_data\": \"columns\"},"
                  " \"block2.shortcut.0\": {\"forward\": \"columns\"}}");
    assert_ok(kernel_table_apply(model, table, NULL, &err), &err);
    json_decref(table);
    struct law law = law_new(state, model, usual_run);
    assert_int_equal(law.expected_size, by_shape.expected_size);
    assert_memory_not_equal(law.expected, by_shape.expected, law.expected_size);
    law_check_random_partitions(&law, partitions(10));
    check_moves(&law, partitions(4));
    law_done(&law);
    law_done(&by_shape);
}

static void a_discarded_half_step_and_an_evaluation_leave_no_trace(void **state)
{
    struct law law = law_new(state, resnet8(), usual_run);
    size_t end[PIPELINE_STAGES_MAX];
    for (int times = 0; times < 3; times++) {
        struct pipeline *pipeline =
            pipeline_new(&law.recipe, end, law_draw_partition(&law, end), law.pools->pool[1]);
        pipeline_initialise(pipeline);
        for (int64_t step = 1; step <= STEPS; step++) {
            size_t size;
            double loss = 0.0;
            uint64_t correct = 0;
            unsigned char *before = pipeline_save(pipeline, &size);
            pipeline_half_step(pipeline, step, law_inputs(&law, STEPS + 1 - step),
                               law_labels(&law, 1), &law.draws);
            pipeline_evaluate(pipeline, 2, law.inputs, law.labels, &loss, &correct);
            unsigned char *after = pipeline_save(pipeline, &size);
            assert_memory_equal(before, after, size);
            free(before);
            free(after);
            for (size_t i = 0; i < pipeline->count; i++) {
                train_discard(pipeline->stage[i]);
            }
            law_steps(&law, pipeline, step, step);
        }
        law_check_state(&law, pipeline);
        pipeline_free(pipeline);
    }
    law_done(&law);
}

static void evaluation_gives_the_same_bits_for_every_partition_and_thread_count(void **state)
{
    struct law law = law_new(state, resnet8(), usual_run);
    double first_loss = 0.0;
    uint64_t first_correct = 0;
    for (int times = 0; times < 8; times++) {
        size_t end[PIPELINE_STAGES_MAX];
        size_t count = times == 0 ? law_partition(0, law.model->unit_count, end)
                                  : law_draw_partition(&law, end);
        struct pipeline *pipeline =
            pipeline_new(&law.recipe, end, count, law.pools->pool[times % KERNEL_POOLS]);
        pipeline->poison = true;
        pipeline_load(pipeline, law.expected);
        double loss = 0.0;
        uint64_t correct = 0;
        for (size_t from = 0; from < 2 * BATCH; from += 2) {
            pipeline_evaluate(pipeline, 2, law.inputs + from * law.batch_bytes / BATCH,
                              law.labels + from, &loss, &correct);
        }
        pipeline_evaluate(pipeline, 1, law.inputs, law.labels, &loss, &correct); /* a partial one */
        if (times == 0) {
            first_loss = loss;
            first_correct = correct;
        }
        assert_true(loss == first_loss && loss > 0.0);
        assert_int_equal(correct, first_correct);
        pipeline_free(pipeline);
    }
    law_done(&law);
}

/* Without batch-norm the micro-batches only change the order of sums. */
static void micro_batches_change_the_result_within_rounding(void **state)
{
    static const char *const names[] = {"lenet5", "mlp"};
    for (size_t n = 0; n < 2; n++) {
        struct law whole =
            law_new(state, zoo_model(names[n], 28, 28, 1),
                    (struct law_run){.batch = BATCH, .micro_batches = 1, .steps = STEPS});
        struct law parts = law_new(state, zoo_model(names[n], 28, 28, 1), usual_run);
        size_t first = 0;
        assert_int_equal(whole.expected_size, parts.expected_size);
        struct pipeline *pipeline =
            pipeline_new(&whole.recipe, &whole.model->unit_count, 1, whole.pools->pool[0]);
        for (size_t unit = 0; unit < whole.model->unit_count; unit++) {
            size_t size = train_unit_bytes(pipeline->stage[0], unit);
            uint64_t header;
            memcpy(&header, whole.expected + first, sizeof(header));
            size_t data = first + 8 + (size_t)header;
            assert_memory_equal(whole.expected + first, parts.expected + first, 8 + (size_t)header);
            assert_close((const float *)(whole.expected + data),
                         (const float *)(parts.expected + data),
                         (first + size - data) / sizeof(float), 1e-5);
            first += size;
        }
        pipeline_free(pipeline);
        law_done(&whole);
        law_done(&parts);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_partition_of_lenet5_gives_the_same_bits),
        cmocka_unit_test(every_partition_of_mlp_gives_the_same_bits),
        cmocka_unit_test(partitions_of_resnet8_give_the_same_bits),
        cmocka_unit_test(partitions_of_mobilenetv2_give_the_same_bits),
        cmocka_unit_test(partitions_of_a_model_with_every_op_give_the_same_bits),
        cmocka_unit_test(partitions_of_a_sequence_model_give_the_same_bits),
        cmocka_unit_test(partitions_of_gpt_mini_give_the_same_bits),
        cmocka_unit_test(moving_the_state_between_partitions_and_threads_changes_no_bit),
        cmocka_unit_test(every_optimizer_gives_the_same_bits_split_and_moved),
        cmocka_unit_test(clipping_and_smoothing_change_the_weights),
        cmocka_unit_test(frozen_units_stay_unchanged_and_every_split_gives_the_same_bits),
        cmocka_unit_test(kernels_of_a_table_give_the_same_bits_split_and_moved),
        cmocka_unit_test(a_discarded_half_step_and_an_evaluation_leave_no_trace),
        cmocka_unit_test(evaluation_gives_the_same_bits_for_every_partition_and_thread_count),
        cmocka_unit_test(micro_batches_change_the_result_within_rounding),
    };
    if (argc > 1) {
        const long given = strtol(argv[1], NULL, 10);
        if (given < 1 || given > ONE_IN_MAX) {
            print_error("usage: test_law [N from 1 to %d]\n", ONE_IN_MAX);
            return 2;
        }
        one_in = (int)given;
    }
    return cmocka_run_group_tests(tests, kernel_pools_setup, kernel_pools_teardown);
}
