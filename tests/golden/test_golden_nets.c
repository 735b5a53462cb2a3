/* Whole nets against PyTorch in float64: one step of SGD with momentum, each unit a stage of its
 * own, so that the tensors at every border are seen; initial weights, gradients, updated parameters
 * and running statistics by way of snapshots. Limits: make_fixtures.py. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/stage/stage.h"
#include "tests/golden/fixture.h"
#include "tests/unit/libtrain_stage/pipeline.h"

#define SEED 7
#define RATE 0.05

/* Compare a whole tensor with the elements that the fixture holds of it. */
static void expect(const struct fixture *fixture, const char *kind, const char *name,
                   const float *actual, size_t count)
{
    char key[SAFETENSORS_NAME_MAX];
    size_t samples = 0;
    size_t limit_count = 0;
    (void)snprintf(key, sizeof(key), "%s/%s", kind, name);
    const float *expected = fixture_data(fixture, key, DTYPE_F32, &samples);
    (void)snprintf(key, sizeof(key), "limits/%s/%s", kind, name);
    const double *limits = fixture_data(fixture, key, DTYPE_F64, &limit_count);
    if (!expected || !limits || samples == 0 || samples > count) {
        fail_msg("the fixture has no %s/%s of %zu elements", kind, name, count);
        return;
    }
    double largest = 0.0;
    for (size_t i = 0; i < count; i++) {
        largest = fmax(largest, fabs((double)actual[i]));
    }
    double worst = fabs(largest - limits[0]);
    for (size_t i = 0; i < samples; i++) {
        worst = fmax(worst, fabs((double)actual[i * count / samples] - (double)expected[i]));
        assert_true(isfinite(actual[i * count / samples]));
    }
    if (!(worst <= limits[1])) {
        fail_msg("%s of %s: off by %.3g, allowed %.3g (largest value %.3g)", kind, name, worst,
                 limits[1], limits[0]);
    }
}

/* Parameters, buffers and, in the momentum of a first step, gradients. */
static void expect_state(const struct fixture *fixture, const struct pipeline *pipeline)
{
    for (size_t unit = 0; unit < pipeline->recipe.model->unit_count; unit++) {
        struct train_stage *stage = pipeline->stage[unit];
        const struct state_layout *layout = stage->layout[0];
        unsigned char *blob = unit_save(stage, unit);
        for (size_t i = 0; i < layout->header.tensor_count; i++) {
            static const char *const kinds[] = {[STATE_PARAMETER] = "parameter",
                                                [STATE_BUFFER] = "buffer",
                                                [STATE_OPTIMIZER] = "gradient"};
            const struct safetensors_tensor *tensor = &layout->header.tensor[i];
            char name[SAFETENSORS_NAME_MAX];
            int length = (int)strlen(tensor->name);
            length -= layout->source[i].kind == STATE_OPTIMIZER ? (int)strlen(".momentum") : 0;
            (void)snprintf(name, sizeof(name), "%.*s", length, tensor->name);
            expect(fixture, kinds[layout->source[i].kind], name,
                   (const float *)(blob + layout->header.data_offset + tensor->begin),
                   (size_t)(tensor->end - tensor->begin) / sizeof(float));
        }
        free(blob);
    }
}

static void expect_borders(const struct fixture *fixture, const struct pipeline *pipeline,
                           size_t batch)
{
    const struct model *model = pipeline->recipe.model;
    for (size_t unit = 0; unit + 1 < model->unit_count; unit++) {
        size_t count = batch * shape_elements(model->unit[unit].out);
        expect(fixture, "activation", model->unit[unit].name, pipeline->activation[unit], count);
        expect(fixture, "activation_gradient", model->unit[unit].name, pipeline->gradient[unit],
               count);
    }
}

/* Whether a rectifier follows the op in its own chain. */
static bool is_rectified(const struct unit *unit, size_t op)
{
    const struct op *next = &unit->op[op + 1];
    return op + 1 < unit->op_count && next->input[0] == op + 1 && next->part == unit->op[op].part &&
           (next->type == OP_RELU || next->type == OP_RELU6);
}

/* Batch-norms that keep away from the kinks of rectifiers: make_fixtures.py, set_gates. */
static void set_gates(const struct pipeline *pipeline)
{
    for (size_t u = 0; u < pipeline->recipe.model->unit_count; u++) {
        const struct unit *unit = &pipeline->recipe.model->unit[u];
        struct train_stage *stage = pipeline->stage[u];
        const struct state_layout *layout = stage->layout[0];
        struct err err = {0};
        unsigned char *blob = unit_save(stage, u);
        for (size_t i = 0; i < layout->header.tensor_count; i++) {
            const struct state_source *source = &layout->source[i];
            float *values =
                (float *)(blob + layout->header.data_offset + layout->header.tensor[i].begin);
            if (source->kind != STATE_PARAMETER || unit->op[source->op].type != OP_BATCH_NORM) {
                continue;
            }
            for (size_t c = 0; c < unit->op[source->op].out.c; c++) {
                bool closed = c % 4 == 3 && is_rectified(unit, source->op);
                values[c] = source->tensor == 0 ? 0.25f : closed ? -3.0f : 3.0f;
            }
        }
        assert_ok(train_unit_load(stage, u, blob, train_unit_bytes(stage, u), &err), &err);
        free(blob);
    }
}

/* PyTorch draws other numbers. */
static void disable_dropout(struct model *model)
{
    for (size_t u = 0; u < model->unit_count; u++) {
        for (size_t k = 0; k < model->unit[u].op_count; k++) {
            model->unit[u].op[k].rate = 0.0;
        }
    }
}

static void set_kernels(struct model *model, enum conv2d_kernel kernel)
{
    for (size_t u = 0; u < model->unit_count; u++) {
        for (size_t k = 0; k < model->unit[u].op_count; k++) {
            memset(model->unit[u].op[k].kernels.pass, (int)kernel, CONV2D_PASSES);
        }
    }
}

/* How a net computes its step. */
struct way {
    bool gates;
    enum conv2d_kernel kernel;
    enum reduction reduction;
    size_t micro_batches; /* above 1: of a net without batch-norm */
};

static void check_net_with(void **state, const char *name, struct shape input,
                           const struct way *way)
{
    const struct kernel_pools *pools = *state;
    struct fixture fixture;
    struct draws draws = draws_new(1);
    fixture_open(&fixture, name);
    size_t bytes = 0;
    const unsigned char *inputs = fixture_data(&fixture, "inputs", DTYPE_U8, &bytes);
    size_t label_count = 0;
    const int32_t *labels = fixture_data(&fixture, "labels", DTYPE_I32, &label_count);
    assert_non_null(inputs);
    assert_non_null(labels);
    struct model *model = zoo_model(name, input.h, input.w, input.c);
    disable_dropout(model);
    set_kernels(model, way->kernel);
    const size_t batch = label_count / model->positions;
    assert_int_equal(bytes, batch * shape_elements(model->input));
    const struct pipeline_recipe recipe = {.model = model,
                                           .batch = batch,
                                           .micro_batches = way->micro_batches,
                                           .reduction = way->reduction,
                                           .optimizer = {.type = OPTIMIZER_SGD, .momentum = 0.9},
                                           .learning_rate = RATE,
                                           .seed = SEED};
    size_t end[PIPELINE_STAGES_MAX];
    for (size_t unit = 0; unit < model->unit_count; unit++) {
        end[unit] = unit + 1;
    }
    struct pipeline *pipeline = pipeline_new(&recipe, end, model->unit_count, pools->pool[1]);
    pipeline_initialise(pipeline);
    if (way->gates) {
        set_gates(pipeline);
    }
    pipeline_step(pipeline, 1, inputs, labels, &draws);
    float loss = (float)pipeline->last_loss;
    expect(&fixture, "loss", "sum", &loss, 1);
    expect_borders(&fixture, pipeline, batch);
    expect_state(&fixture, pipeline);
    double evaluation = 0.0;
    uint64_t correct = 0;
    const size_t part = batch / way->micro_batches;
    for (size_t first = 0; first < batch; first += part) {
        double sum = 0.0;
        pipeline_evaluate(pipeline, part, inputs + first * (bytes / batch),
                          labels + first * model->positions, &sum, &correct);
        evaluation += sum;
    }
    loss = (float)evaluation;
    expect(&fixture, "loss", "evaluation", &loss, 1);
    pipeline_free(pipeline);
    model_free(&model);
    fixture_close(&fixture);
}

/* By shape; with oneDNN in the build also with each of its kernels that takes all shapes. */
static void check_net(void **state, const char *name, uint32_t h, uint32_t w, uint32_t c,
                      bool gates)
{
    static const enum conv2d_kernel kernels[] = {CONV2D_BY_SHAPE, CONV2D_ONEDNN_DIRECT,
                                                 CONV2D_ONEDNN_NHWC};
    const size_t count = train_backend() == CONV2D_BACKEND_ONEDNN ? 3 : 1;
    for (size_t i = 0; i < count; i++) {
        const struct way way = {.gates = gates, .kernel = kernels[i], .micro_batches = 1};
        check_net_with(state, name, (struct shape){h, w, c}, &way);
    }
}

static void a_step_added_by_the_tree_is_the_one_pytorch_takes(void **state)
{
    const struct way one = {.reduction = REDUCTION_TREE, .micro_batches = 1};
    const struct way several = {.reduction = REDUCTION_TREE, .micro_batches = 4};
    check_net_with(state, "lenet5", (struct shape){28, 28, 1}, &several);
    check_net_with(state, "resnet8", (struct shape){32, 32, 3}, &one);
}

static void a_step_of_mlp_is_the_one_pytorch_takes(void **state)
{
    check_net(state, "mlp", 28, 28, 1, false);
}

static void a_step_of_lenet5_is_the_one_pytorch_takes(void **state)
{
    check_net(state, "lenet5", 28, 28, 1, false);
}

static void a_step_of_resnet8_is_the_one_pytorch_takes(void **state)
{
    check_net(state, "resnet8", 32, 32, 3, false);
}

static void a_step_of_mobilenetv2_is_the_one_pytorch_takes(void **state)
{
    check_net(state, "mobilenetv2", 16, 16, 3, false);
}

static void a_step_of_alexnet_cifar_is_the_one_pytorch_takes(void **state)
{
    check_net(state, "alexnet-cifar", 32, 32, 3, false);
}

static void a_step_of_vgg11_bn_is_the_one_pytorch_takes(void **state)
{
    check_net(state, "vgg11-bn", 32, 32, 3, true);
}

static void a_step_of_vgg16_bn_is_the_one_pytorch_takes(void **state)
{
    check_net(state, "vgg16-bn", 32, 32, 3, true);
}

static void a_step_of_resnet18_is_the_one_pytorch_takes(void **state)
{
    check_net(state, "resnet18", 16, 16, 3, true);
}

static void a_step_of_resnet50_is_the_one_pytorch_takes(void **state)
{
    check_net(state, "resnet50", 64, 64, 3, true);
}

static void a_step_of_googlenet_is_the_one_pytorch_takes(void **state)
{
    check_net(state, "googlenet", 64, 64, 3, true);
}

static void a_step_of_mobilenetv2_224_is_the_one_pytorch_takes(void **state)
{
    check_net(state, "mobilenetv2-224", 64, 64, 3, true);
}

static void a_step_of_dscnn_kws_is_the_one_pytorch_takes(void **state)
{
    check_net(state, "dscnn-kws", 49, 10, 1, true);
}

static void a_step_of_gpt_mini_is_the_one_pytorch_takes(void **state)
{
    check_net(state, "gpt-mini", 16, 1, 1, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_added_by_the_tree_is_the_one_pytorch_takes),
        cmocka_unit_test(a_step_of_mlp_is_the_one_pytorch_takes),
        cmocka_unit_test(a_step_of_lenet5_is_the_one_pytorch_takes),
        cmocka_unit_test(a_step_of_resnet8_is_the_one_pytorch_takes),
        cmocka_unit_test(a_step_of_mobilenetv2_is_the_one_pytorch_takes),
        cmocka_unit_test(a_step_of_gpt_mini_is_the_one_pytorch_takes),
        cmocka_unit_test(a_step_of_alexnet_cifar_is_the_one_pytorch_takes),
        cmocka_unit_test(a_step_of_vgg11_bn_is_the_one_pytorch_takes),
        cmocka_unit_test(a_step_of_vgg16_bn_is_the_one_pytorch_takes),
        cmocka_unit_test(a_step_of_resnet18_is_the_one_pytorch_takes),
        cmocka_unit_test(a_step_of_resnet50_is_the_one_pytorch_takes),
        cmocka_unit_test(a_step_of_googlenet_is_the_one_pytorch_takes),
        cmocka_unit_test(a_step_of_mobilenetv2_224_is_the_one_pytorch_takes),
        cmocka_unit_test(a_step_of_dscnn_kws_is_the_one_pytorch_takes),
    };
    return cmocka_run_group_tests(tests, kernel_pools_setup, kernel_pools_teardown);
}
