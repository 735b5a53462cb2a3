#include "libtrain/model/cost.h"

#include "libtrain/description/description.h"
#include "libtrain/description/zoo.h"
#include "libtrain/memory/arena.h"
#include "tests/support/test.h"
#include "tests/unit/libtrain_description/model_support.h"

#define assert_count(actual, expected) assert_int_equal((int64_t)(actual), (int64_t)(expected))

static void lenet5_matches_a_count_by_hand(void **state)
{
    (void)state;
    struct model *model = zoo_model("lenet5", 28, 28, 1);
    struct unit_cost cost[5];
    cost_count(model, cost);
    /* conv 28 x 28 x 6 of 25 weights, bias, relu, then 14 x 14 x 6 maxima of 4. */
    assert_count(cost[0].forward_flops, 2 * 25 * 4704 + 4704 + 4704 + 4 * 1176);
    /* The first convolution has no data gradient; relu and pool hand one back. */
    assert_count(cost[0].backward_flops, 2 * 25 * 4704 + 4704 + 4704 + 1176);
    assert_count(cost[0].parameter_bytes, 4 * (150 + 6));
    assert_count(cost[0].output_bytes, 4 * 1176);
    /* Kept: the image as floats, the output of relu, that of the pool and where its maxima were. */
    assert_count(cost[0].activation_bytes, 4 * 784 + 4 * 4704 + 4 * 1176 + 2 * 1176);
    /* u8 image read, 6 maps written, read and written by relu, read by the pool, pooled maps
     * written. */
    assert_count(cost[0].forward_bytes, 784 + 4 * (4704 * 4 + 1176));
    /* The pool is done again for its winners, so all in front of it is, too. */
    assert_count(cost[0].again_flops, cost[0].forward_flops);
    assert_count(cost[0].again_bytes, cost[0].forward_bytes);

    /* conv 10 x 10 x 16 of 150 weights. */
    assert_count(cost[1].forward_flops, 2 * 150 * 1600 + 1600 + 1600 + 4 * 400);
    assert_count(cost[1].backward_flops, 4 * 150 * 1600 + 1600 + 1600 + 400);

    assert_count(cost[2].forward_flops, 2 * 400 * 120 + 120 + 120);
    assert_count(cost[2].parameter_bytes, 4 * (400 * 120 + 120));
    assert_count(cost[4].forward_flops, 2 * 84 * 10 + 10);
    assert_count(cost[4].backward_flops, 4 * 84 * 10 + 10);
    assert_count(cost[4].output_bytes, 40);
    /* A linear reads its input, which is a border; the relu after the one before, its output,
     * which is one, too. */
    assert_count(cost[3].again_flops + cost[3].again_bytes, 0);
    assert_count(cost[4].again_flops + cost[4].again_bytes, 0);
    model_free(&model);
}

static void an_inverted_residual_block_matches_a_count_by_hand(void **state)
{
    (void)state;
    struct model *model = zoo_model("mobilenetv2", 32, 32, 3);
    struct unit_cost cost[19];
    cost_count(model, cost);
    /* block3: 32 x 32 x 24 -> 144 -> depthwise -> 24, added to its input. */
    const double pixels = 1024;
    const double multiply_adds = pixels * (24 * 144 + 9 * 144 + 144 * 24);
    const double norms = pixels * (144 + 144 + 24);
    const double relus = pixels * (144 + 144);
    assert_count(cost[3].forward_flops, 2 * multiply_adds + 6 * norms + 2 * relus + pixels * 24);
    assert_count(cost[3].backward_flops, 4 * multiply_adds + 10 * norms + 2 * relus + pixels * 24);
    /* Done again: all but the last norm and the sum, which no backward reads. */
    assert_count(cost[3].again_flops, 2 * multiply_adds + 6 * pixels * (144 + 144) + 2 * relus);
    assert_count(cost[3].parameter_bytes,
                 4 * (24 * 144 + 9 * 144 + 144 * 24 + 2 * (144 + 144 + 24)));
    assert_count(cost[3].buffer_bytes, 4 * 2 * (144 + 144 + 24));
    /* Kept: the three convolutions' outputs (inputs of the norms), the two activations, the sum. */
    assert_count(cost[3].activation_bytes, 4 * pixels * (144 + 144 + 24 + 144 + 144 + 24));
    model_free(&model);
}

static void a_layer_of_attention_matches_a_count_by_hand(void **state)
{
    (void)state;
    struct model *model = zoo_model("gpt-mini", 64, 1, 1);
    struct unit_cost cost[10];
    cost_count(model, cost);
    /* attend1: 64 x 128, normed, made 64 x 384, attended by 4 heads, made 64 x 128, added to its
     * input. */
    const double width = 64 * 128;
    const double weights = 128 * 384 + 128 * 128;
    const double pairs = 64 * 65 / 2.0;
    assert_count(cost[1].forward_flops, 2 * 64 * weights + 64 * (384 + 128) + 4 * pairs * 128 +
                                            13 * 4 * pairs + 6 * width + width);
    assert_count(cost[1].backward_flops, 4 * 64 * weights + 64 * (384 + 128) + 10 * pairs * 128 +
                                             18 * 4 * pairs + 14 * width + width);
    assert_count(cost[1].parameter_bytes, 4 * (weights + 384 + 128 + 2 * 128));
    /* Kept: the norm's output and statistics, q, k and v, the heads' outputs, the sum. */
    assert_count(cost[1].activation_bytes, 4 * (width + 2 * 64 + 3 * width + width + width));
    assert_count(cost[0].forward_flops, width);
    assert_count(cost[0].backward_flops, 2 * width);
    model_free(&model);
}

static void a_flatten_moves_nothing(void **state)
{
    (void)state;
    struct model *model = zoo_model("mlp", 8, 8, 1);
    struct unit_cost cost[3];
    cost_count(model, cost);
    assert_count(cost[0].forward_flops, 2 * 64 * 256 + 256 + 256);
    assert_count(cost[0].backward_flops, 2 * 64 * 256 + 256 + 256);
    assert_count(cost[0].activation_bytes, 4 * 64 + 4 * 256);
    model_free(&model);
}

static void frozen_units_cost_only_the_passes_through_them(void **state)
{
    (void)state;
    struct model *model = zoo_model("lenet5", 28, 28, 1);
    struct unit_cost plain[5], front[5], middle[5];
    cost_count(model, plain);
    model->unit[0].frozen = model->unit[1].frozen = true;
    cost_count(model, front);
    for (size_t u = 0; u < 5; u++) {
        assert_count(front[u].forward_flops, plain[u].forward_flops);
        assert_count(front[u].parameter_bytes, plain[u].parameter_bytes);
        assert_count(front[u].trained_bytes, u < 2 ? 0 : plain[u].parameter_bytes);
        assert_count(plain[u].trained_bytes, plain[u].parameter_bytes);
    }
    assert_count(front[0].backward_flops, 0);
    assert_count(front[1].backward_flops, 0);
    assert_count(front[1].backward_bytes, 0);
    assert_count(front[0].activation_bytes, 0);
    assert_count(front[1].activation_bytes,
                 4 * 400); /* its output alone, which the next unit reads */
    /* The first unit that is trained hands nothing back, as the first of a model. */
    assert_count(front[2].backward_flops, 2 * 400 * 120 + 120 + 120);
    assert_count(front[3].backward_flops, plain[3].backward_flops);

    model->unit[0].frozen = false;
    cost_count(model, middle);
    assert_count(middle[0].backward_flops, plain[0].backward_flops);
    assert_count(middle[1].backward_flops,
                 2 * 150 * 1600 + 1600 + 400); /* data gradient, relu, pool */
    assert_count(middle[2].backward_flops, plain[2].backward_flops);
    assert_count(middle[1].activation_bytes, plain[1].activation_bytes);
    model_free(&model);
}

/* Statistics of a micro-batch, which do not count per sample. */
static uint64_t statistics_bytes(const struct arena *arena)
{
    uint64_t bytes = 0;
    for (size_t g = 0; g < arena->op_count; g++) {
        const struct op *op = arena->op[g].op;
        bytes += op->type == OP_BATCH_NORM && arena->op[g].backward.saved.area == ARENA_SLOT
                     ? workspace_align((uint64_t)BATCH_NORM_SAVED * op->out.c * sizeof(float))
                     : 0;
    }
    return bytes;
}

static void check_kept(struct model *model)
{
    struct unit_cost cost[MODEL_UNITS_MAX];
    /* So that every tensor ends where the next may begin. */
    const struct arena_request request = {.end = model->unit_count, .micro_batch = 32};
    ARENA_AUTO struct arena *arena = NULL;
    struct err err = {0};
    uint64_t bytes = 0;
    cost_count(model, cost);
    for (size_t u = 0; u < model->unit_count; u++) {
        bytes += cost[u].activation_bytes;
    }
    assert_ok(arena_new(model, &request, &arena, &err), &err);
    assert_count(request.micro_batch * bytes + statistics_bytes(arena), arena->slot_bytes);
}

static void the_kept_tensors_are_those_of_the_memory_plan(void **state)
{
    (void)state;
    for (size_t i = 0; zoo_name(i); i++) {
        struct model *model = usual_model(zoo_name(i));
        check_kept(model);
        for (size_t u = 0; 2 * u < model->unit_count; u++) {
            model->unit[u].frozen = true;
        }
        check_kept(model);
        model_free(&model);
    }
    /* The result of a batch_norm is kept only if a backward reads it: no backward reads a mean's
     * input. */
    static const struct model_fit fit = {{8, 8, 16}, DTYPE_F32, 10, 1};
    struct model *model = good_model("{\"name\":\"m\",\"units\":[{\"name\":\"a\",\"ops\":[{"
                                     "\"type\":\"conv2d\",\"filters\":16,\"kernel\":1},"
                                     "{\"type\":\"batch_norm\"},{\"type\":\"relu\"},{\"type\":"
                                     "\"global_avg_pool\"},{\"type\":\"linear\",\"units\":"
                                     "10}]}]}",
                                     &fit);
    struct unit_cost cost;
    cost_count(model, &cost);
    check_kept(model);
    assert_count(cost.activation_bytes,
                 4 * (64 * 16 + 16 + 10)); /* the convolution's output, the means, the gradient */
    model_free(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lenet5_matches_a_count_by_hand),
        cmocka_unit_test(an_inverted_residual_block_matches_a_count_by_hand),
        cmocka_unit_test(a_layer_of_attention_matches_a_count_by_hand),
        cmocka_unit_test(a_flatten_moves_nothing),
        cmocka_unit_test(the_kept_tensors_are_those_of_the_memory_plan),
        cmocka_unit_test(frozen_units_cost_only_the_passes_through_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
