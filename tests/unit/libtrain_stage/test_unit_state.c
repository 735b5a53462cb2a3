/* The state of units: initial weights, snapshots and exports. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/stage/stage.h"
#include "tests/unit/libtrain_stage/whole.h"

/* A tensor of a snapshot by name; elements out. */
static float *find(const struct train_stage *stage, size_t unit, unsigned char *blob,
                   const char *name, size_t *count)
{
    const struct safetensors_header *header = &stage->layout[unit]->header;
    const struct safetensors_tensor *tensor = safetensors_find(header, name);
    assert_non_null(tensor);
    *count = (size_t)(tensor->end - tensor->begin) / sizeof(float);
    return (float *)(blob + header->data_offset + tensor->begin);
}

/* ---- initial state ---- */

static void initial_weights_fill_hes_range_and_the_rest_is_zero_or_one(void **state)
{
    struct whole whole = whole_new(state, "resnet8", 2);
    size_t count;
    unsigned char *blob = unit_save(whole.stage, 0);
    float *weight = find(whole.stage, 0, blob, "stem.0.weight", &count);
    double bound = sqrt(6.0 / 9.0); /* 3 x 3 on one channel */
    double largest = 0.0;
    double sum = 0.0;
    for (size_t i = 0; i < count; i++) {
        assert_true(fabs((double)weight[i]) <= bound * (1.0 + 1e-6));
        largest = fmax(largest, fabs((double)weight[i]));
        sum += (double)weight[i];
    }
    assert_true(largest > 0.9 * bound);
    assert_true(fabs(sum) / (double)count < 0.2 * bound);
    static const struct {
        const char *name;
        float value;
    } constants[] = {{"stem.1.weight", 1.0f},          {"stem.1.bias", 0.0f},
                     {"stem.1.running_mean", 0.0f},    {"stem.1.running_var", 1.0f},
                     {"stem.0.weight.momentum", 0.0f}, {"stem.1.weight.momentum", 0.0f}};
    for (size_t k = 0; k < sizeof(constants) / sizeof(constants[0]); k++) {
        float *values = find(whole.stage, 0, blob, constants[k].name, &count);
        for (size_t i = 0; i < count; i++) {
            assert_true(values[i] == constants[k].value);
        }
    }
    free(blob);
    whole_done(&whole);
}

static void initial_weights_depend_on_seed_unit_and_element_alone(void **state)
{
    const struct kernel_pools *pools = *state;
    struct whole whole = whole_new(state, "lenet5", 2);
    struct train_stage_config config = whole.stage->config;
    struct err err = {0};
    for (uint64_t seed = 3; seed < 5; seed++) {
        struct train_stage *part = NULL;
        config.first = 2;
        config.end = 4;
        config.micro_batch = 5;
        config.pool = pools->pool[1];
        config.seed = seed;
        assert_ok(train_stage_new(&config, &part, &err), &err);
        for (size_t unit = 2; unit < 4; unit++) {
            train_unit_initialise(part, unit);
            unsigned char *one = unit_save(whole.stage, unit);
            unsigned char *other = unit_save(part, unit);
            bool same = memcmp(one, other, train_unit_bytes(part, unit)) == 0;
            assert_true(same == (seed == 3));
            free(one);
            free(other);
        }
        train_stage_free(&part);
    }
    whole_done(&whole);
}

static void a_weights_first_draws_lie_in_pytorchs_order(void **state)
{
    struct whole whole = whole_new(state, "lenet5", 2);
    size_t count;
    unsigned char *blob = unit_save(whole.stage, 2);
    float *weight = find(whole.stage, 2, blob, "dense1.1.weight", &count);
    struct rng_stream stream = rng_stream(3, RNG_INITIALISE, 2, 0);
    float bound = (float)sqrt(6.0 / 400.0);
    for (size_t i = 0; i < count; i++) {
        assert_true(weight[i] == (2.0f * rng_uniform(&stream, i) - 1.0f) * bound);
    }
    free(blob);
    whole_done(&whole);
}

/* ---- snapshots ---- */

static void a_snapshot_of_another_unit_is_rejected_and_the_state_stays(void **state)
{
    struct whole whole = whole_new(state, "lenet5", 2);
    struct err err = {0};
    size_t size = train_unit_bytes(whole.stage, 1);
    unsigned char *blob = unit_save(whole.stage, 1);
    unsigned char *broken = unit_save(whole.stage, 1);
    memset(broken + size - 64, 0x11, 64);
    assert_int_equal(train_unit_load(whole.stage, 1, broken, size - 4, &err), ERR_FORMAT);
    assert_holds(err.text, "conv2");
    assert_int_equal(train_unit_load(whole.stage, 1, broken, 0, &err), ERR_FORMAT);
    broken[20] ^= 1; /* in the header */
    assert_int_equal(train_unit_load(whole.stage, 1, broken, size, &err), ERR_FORMAT);
    train_unit_save(whole.stage, 1, broken);
    assert_memory_equal(blob, broken, size);
    free(blob);
    free(broken);
    whole_done(&whole);
}

static void a_snapshot_loads_from_any_address_and_saves_the_same_bytes(void **state)
{
    struct whole whole = whole_new(state, "resnet8", 2);
    struct err err = {0};
    for (size_t unit = 0; unit < whole.model->unit_count; unit++) {
        size_t size = train_unit_bytes(whole.stage, unit);
        size_t data = (size_t)whole.stage->layout[unit]->header.data_offset;
        unsigned char *blob = unit_save(whole.stage, unit);
        unsigned char *moved = malloc(size + 1);
        assert_non_null(moved);
        for (size_t i = data; i < size; i++) {
            blob[i] = (unsigned char)(i * 37 % 101); /* any floats */
        }
        memcpy(moved + 1, blob, size);
        assert_ok(train_unit_load(whole.stage, unit, moved + 1, size, &err), &err);
        train_unit_save(whole.stage, unit, moved);
        assert_memory_equal(moved, blob, size);
        free(blob);
        free(moved);
    }
    whole_done(&whole);
}

static int append_piece(void *arg, const void *data, size_t size, struct err *err)
{
    return buf_append(arg, data, size, err);
}

static int refuse_piece(void *arg, const void *data, size_t size, struct err *err)
{
    (void)arg;
    (void)data;
    (void)size;
    return err_set(err, ERR_FULL, "no more");
}

/* Gradients were 1: those of the units up to `unit` are forgotten. */
static void check_gradients(const struct train_stage *stage, size_t unit)
{
    for (size_t g = 0; g < stage->arena->op_count; g++) {
        const struct arena_op *op = &stage->arena->op[g];
        for (size_t t = 0; t < op->op->tensor_count; t++) {
            const struct op_tensor *tensor = &op->op->tensor[t];
            for (size_t i = 0; tensor->role == TENSOR_PARAMETER && i < tensor->elements; i++) {
                assert_true(stage->gradient[op->tensor[t] + i] == (op->unit > unit ? 1.0f : 0.0f));
            }
        }
    }
}

static void an_export_forgets_all_gradients_of_its_unit(void **state)
{
    struct whole whole = whole_new(state, "resnet8", 2);
    struct err err = {0};
    for (int refused = 0; refused < 2; refused++) {
        for (size_t i = 0; i < whole.stage->arena->trained_floats; i++) {
            whole.stage->gradient[i] = 1.0f;
        }
        for (size_t unit = 0; unit < whole.model->unit_count; unit++) {
            BUF_AUTO struct buf exported;
            buf_init(&exported, SIZE_MAX / 2);
            assert_int_equal(train_unit_export(whole.stage, unit,
                                               refused ? refuse_piece : append_piece, &exported,
                                               &err),
                             refused ? ERR_FULL : 0);
            check_gradients(whole.stage, unit);
        }
    }
    whole_done(&whole);
}

static void the_export_of_a_unit_is_the_first_part_of_its_snapshot(void **state)
{
    struct whole whole = whole_new(state, "mobilenetv2", 2);
    struct err err = {0};
    for (size_t unit = 0; unit < whole.model->unit_count; unit++) {
        const struct state_layout *layout = whole.stage->layout[unit];
        unsigned char *blob = unit_save(whole.stage, unit);
        BUF_AUTO struct buf exported;
        buf_init(&exported, SIZE_MAX / 2);
        assert_ok(train_unit_export(whole.stage, unit, append_piece, &exported, &err), &err);
        assert_int_equal(exported.size, layout->export_bytes);
        assert_memory_equal(exported.data, blob + layout->header.data_offset, exported.size);
        assert_int_equal(train_unit_export(whole.stage, unit, refuse_piece, NULL, &err), ERR_FULL);
        free(blob);
    }
    whole_done(&whole);
}

/* As a group that takes over the average of others does. */
static void a_copy_of_the_state_is_exported_and_taken_over(void **state)
{
    struct whole whole = whole_new(state, "mobilenetv2", 2);
    struct train_stage *stage = whole.stage;
    const struct train_state own = train_state(stage);
    const size_t floats = own.parameters + own.statistics;
    float *copy = malloc(floats * sizeof(*copy));
    float *scratch = malloc(train_scratch_floats(stage) * sizeof(*scratch));
    struct err err = {0};
    assert_non_null(copy);
    assert_non_null(scratch);
    assert_true(own.statistics > 0);
    for (size_t i = 0; i < own.statistics; i++) {
        own.statistic[i] = (float)i;
    }
    const struct train_state copied = {copy, copy + own.parameters, own.parameters, own.statistics};
    memcpy(copied.parameter, own.parameter, own.parameters * sizeof(float));
    memcpy(copied.statistic, own.statistic, own.statistics * sizeof(float));
    BUF_AUTO struct buf expected;
    BUF_AUTO struct buf exported;
    buf_init(&expected, SIZE_MAX / 2);
    buf_init(&exported, SIZE_MAX / 2);
    for (size_t unit = 0; unit < whole.model->unit_count; unit++) {
        assert_ok(train_unit_export(stage, unit, append_piece, &expected, &err), &err);
    }
    memset(own.parameter, 0, own.parameters * sizeof(float));
    memset(own.statistic, 0, own.statistics * sizeof(float));
    for (size_t unit = 0; unit < whole.model->unit_count; unit++) {
        size_t count = 0;
        const float *tensor;
        for (size_t i = 0;
             (tensor = train_state_tensor(stage, &copied, unit, i, scratch, &count)) != NULL; i++) {
            assert_ok(buf_append(&exported, tensor, count * sizeof(float), &err), &err);
        }
    }
    assert_int_equal(exported.size, expected.size);
    assert_memory_equal(exported.data, expected.data, expected.size);
    memcpy(own.parameter, copied.parameter, own.parameters * sizeof(float));
    memcpy(own.statistic, copied.statistic, own.statistics * sizeof(float));
    const uint64_t contents = stage->contents;
    train_state_changed(stage);
    assert_true(stage->contents != contents);
    assert_memory_equal(stage->running, copied.statistic, own.statistics * sizeof(float));
    free(copy);
    free(scratch);
    whole_done(&whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(initial_weights_fill_hes_range_and_the_rest_is_zero_or_one),
        cmocka_unit_test(initial_weights_depend_on_seed_unit_and_element_alone),
        cmocka_unit_test(a_weights_first_draws_lie_in_pytorchs_order),
        cmocka_unit_test(a_copy_of_the_state_is_exported_and_taken_over),
        cmocka_unit_test(a_snapshot_of_another_unit_is_rejected_and_the_state_stays),
        cmocka_unit_test(a_snapshot_loads_from_any_address_and_saves_the_same_bytes),
        cmocka_unit_test(an_export_forgets_all_gradients_of_its_unit),
        cmocka_unit_test(the_export_of_a_unit_is_the_first_part_of_its_snapshot),
    };
    return cmocka_run_group_tests(tests, kernel_pools_setup, kernel_pools_teardown);
}
