/* Simulates the memory plan of a stage on a map of the memory that records the tensor at each
 * place. Every op of a forward, a backward and an evaluation must find the inputs of its kernels,
 * and writes erase the earlier tensors. */
#include <stdlib.h>
#include <string.h>

#include "libtrain/description/description.h"
#include "libtrain/description/zoo.h"
#include "libtrain/kernels/op_workspace.h"
#include "libtrain/kernels/workspace.h"
#include "libtrain/memory/arena.h"
#include "tests/support/no_alloc.h"
#include "tests/support/test.h"
#include "tests/unit/libtrain_description/model_support.h"

#define PIECES_MAX 4096
#define SAMPLES_MAX 130 /* of a micro-batch */

/* Tensor t's value, its gradient, and the saved data of its op. */
enum content { CONTENT_VALUE, CONTENT_GRADIENT, CONTENT_SAVED };

struct piece {
    struct arena_place place;
    uint64_t bytes;
    enum content content;
    size_t tensor;
};

struct picture {
    const struct arena *arena;
    struct piece piece[PIECES_MAX];
    size_t count;
};

static bool outside(struct arena_place place)
{
    return place.area == ARENA_STAGE_INPUT || place.area == ARENA_OUTPUT_GRADIENT ||
           place.area == ARENA_INPUT_GRADIENT;
}

/* Say that a tensor lies there beside whatever else does: a flatten's output is its input. */
static void lay(struct picture *picture, struct arena_place place, uint64_t bytes,
                enum content content, size_t tensor)
{
    assert_true(place.area != ARENA_NOWHERE);
    assert_true(picture->count < PIECES_MAX);
    picture->piece[picture->count++] =
        (struct piece){.place = place, .bytes = bytes, .content = content, .tensor = tensor};
}

static void wipe(struct picture *picture, struct arena_place place, uint64_t bytes)
{
    size_t kept = 0;
    for (size_t i = 0; i < picture->count; i++) {
        const struct piece *piece = &picture->piece[i];
        bool apart = piece->place.area != place.area ||
                     piece->place.offset >= place.offset + bytes ||
                     place.offset >= piece->place.offset + piece->bytes;
        if (apart) {
            picture->piece[kept++] = *piece;
        }
    }
    picture->count = kept;
}

static void write_tensor(struct picture *picture, struct arena_place place, uint64_t bytes,
                         enum content content, size_t tensor)
{
    const struct arena *arena = picture->arena;
    assert_true(place.area == ARENA_SLOT || place.area == ARENA_WORKSPACE ||
                place.area == ARENA_INPUT_GRADIENT);
    uint64_t limit = place.area == ARENA_SLOT        ? arena->slot_bytes
                     : place.area == ARENA_WORKSPACE ? arena->tensor_bytes
                                                     : UINT64_MAX;
    assert_true(place.offset + bytes <= limit);
    wipe(picture, place, bytes);
    lay(picture, place, bytes, content, tensor);
}

static bool lies(const struct picture *picture, struct arena_place place, enum content content,
                 size_t tensor)
{
    for (size_t i = 0; i < picture->count; i++) {
        const struct piece *piece = &picture->piece[i];
        if (piece->place.area == place.area &&
            (outside(place) || piece->place.offset == place.offset) && piece->content == content &&
            piece->tensor == tensor) {
            return true;
        }
    }
    return false;
}

/* ---- reads and writes of kernels ---- */

static bool reads_input(enum op_type type)
{
    static const enum op_type types[] = {OP_CONV2D, OP_LINEAR, OP_BATCH_NORM, OP_LAYER_NORM,
                                         OP_GELU,   OP_SILU,   OP_EMBEDDING,  OP_ATTENTION};
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (types[i] == type) {
            return true;
        }
    }
    return false;
}

static bool is_relu(const struct arena_op *op)
{
    return op->op->type == OP_RELU || op->op->type == OP_RELU6;
}

static uint64_t saved_bytes(const struct arena *arena, const struct op *op)
{
    uint64_t samples = arena->micro_batch;
    return op->type == OP_BATCH_NORM   ? (uint64_t)4 * op->out.c * sizeof(float)
           : op->type == OP_LAYER_NORM ? 2 * samples * op->out.h * op->out.w * sizeof(float)
           : op->type == OP_MAX_POOL   ? samples * shape_elements(op->out) * sizeof(uint16_t)
                                       : 0;
}

static uint64_t bytes_of(const struct arena *arena, struct shape shape)
{
    return (uint64_t)shape_elements(shape) * arena->micro_batch * sizeof(float);
}

/* The stage's number of the op's input tensor. */
static size_t input_of(const struct arena *arena, size_t g, size_t i)
{
    return g - arena->op[g].index + arena->op[g].op->input[i];
}

static bool same_place(struct arena_place a, struct arena_place b)
{
    return a.area == b.area && a.offset == b.offset;
}

/* Op g runs forward in the places of io. `kept`: its statistics are there already. */
static void play_forward(struct picture *picture, size_t g, const struct arena_io *io, bool kept)
{
    const struct arena_op *op = &picture->arena->op[g];
    for (size_t i = 0; i < op->op->input_count; i++) {
        assert_true(lies(picture, io->input[i], CONTENT_VALUE, input_of(picture->arena, g, i)));
    }
    bool pass = op->op->type == OP_FLATTEN || op->fusion == ARENA_DONE_BEFORE;
    if (pass) {
        assert_true(same_place(io->input[0], io->output));
        lay(picture, io->output, bytes_of(picture->arena, op->op->out), CONTENT_VALUE, g + 1);
        return;
    }
    write_tensor(picture, io->output, bytes_of(picture->arena, op->op->out), CONTENT_VALUE, g + 1);
    uint64_t saved = saved_bytes(picture->arena, op->op);
    if (kept && op->op->type == OP_BATCH_NORM) {
        assert_true(lies(picture, io->saved, CONTENT_SAVED, g + 1));
    } else if (saved > 0 && io != &op->evaluate) {
        write_tensor(picture, io->saved, saved, CONTENT_SAVED, g + 1);
    }
}

static void play_backward(struct picture *picture, size_t g)
{
    const struct arena *arena = picture->arena;
    const struct arena_op *op = &arena->op[g];
    bool alone = op->fusion != ARENA_DONE_BEFORE;
    size_t made =
        op->fusion == ARENA_WITH_NEXT ? g + 2 : g + 1; /* the tensor whose gradient comes in */
    assert_true(lies(picture, op->output_gradient, CONTENT_GRADIENT, made));
    for (size_t i = 0; i < op->op->input_count; i++) {
        size_t input = input_of(arena, g, i);
        if (alone && reads_input(op->op->type)) {
            assert_true(lies(picture, op->backward.input[i], CONTENT_VALUE, input));
        }
    }
    if (alone && is_relu(op)) {
        assert_true(lies(picture, op->backward.output, CONTENT_VALUE, g + 1));
    }
    if (saved_bytes(arena, op->op) > 0) {
        assert_true(lies(picture, op->backward.saved, CONTENT_SAVED, g + 1));
    }
    for (size_t i = 0; alone && i < op->op->input_count; i++) {
        struct arena_place place = op->input_gradient[i];
        size_t input = input_of(arena, g, i);
        uint64_t bytes = bytes_of(arena, op->input_shape[i]);
        if (place.area == ARENA_NOWHERE) {
            continue;
        }
        if (op->accumulate[i]) {
            assert_true(lies(picture, place, CONTENT_GRADIENT, input));
        }
        bool pass =
            same_place(place, op->output_gradient) && !op->accumulate[i] &&
            (op->op->type == OP_FLATTEN || op->op->type == OP_ADD || op->op->type == OP_POSITIONS);
        if (pass) {
            lay(picture, place, bytes, CONTENT_GRADIENT, input);
        } else {
            write_tensor(picture, place, bytes, CONTENT_GRADIENT, input);
        }
    }
}

/* ---- a stage's calls ---- */

static void play_training(struct picture *picture)
{
    const struct arena *arena = picture->arena;
    static const struct arena_place everywhere = {.area = ARENA_WORKSPACE};
    uint64_t input_bytes = bytes_of(arena, arena->model->unit[arena->first].in);
    picture->count = 0;
    lay(picture, arena->input, input_bytes, CONTENT_VALUE, 0);
    for (size_t g = 0; g < arena->op_count; g++) {
        play_forward(picture, g, &arena->op[g].forward, false);
    }
    assert_true(lies(picture, arena->output, CONTENT_VALUE, arena->op_count));
    uint64_t output_bytes = bytes_of(arena, arena->op[arena->op_count - 1].op->out);
    if (arena->end == arena->model->unit_count) {
        assert_int_equal(arena->output_gradient.area, ARENA_SLOT);
        write_tensor(picture, arena->output_gradient, output_bytes, CONTENT_GRADIENT,
                     arena->op_count);
    }
    /* Other calls come in between. */
    wipe(picture, everywhere, UINT64_MAX / 2);
    if (arena->end < arena->model->unit_count) {
        lay(picture, arena->output_gradient, output_bytes, CONTENT_GRADIENT, arena->op_count);
    }
    for (size_t end = arena->op_count; end > 0;) {
        size_t begin = end - 1 - arena->op[end - 1].index;
        if (begin == 0 && arena->scale_again) {
            write_tensor(picture, arena->again_input, input_bytes, CONTENT_VALUE, 0);
        }
        for (size_t g = begin; g < end; g++) {
            assert_true(arena->recompute == RECOMPUTE_UNIT || !arena->op[g].again);
            if (arena->op[g].again) {
                play_forward(picture, g, &arena->op[g].backward, true);
            }
        }
        for (size_t g = end; g-- > begin;) {
            if (arena->op[g].output_gradient.area != ARENA_NOWHERE &&
                arena->op[g].fusion != ARENA_DONE_BEFORE) {
                play_backward(picture, g);
            }
        }
        end = begin;
    }
    if (arena->hands_back) {
        assert_true(
            lies(picture, (struct arena_place){.area = ARENA_INPUT_GRADIENT}, CONTENT_GRADIENT, 0));
    }
}

static void play_evaluation(struct picture *picture)
{
    const struct arena *arena = picture->arena;
    picture->count = 0;
    lay(picture, arena->evaluate_input, bytes_of(arena, arena->model->unit[arena->first].in),
        CONTENT_VALUE, 0);
    for (size_t g = 0; g < arena->op_count; g++) {
        assert_true(arena->op[g].evaluate.output.area != ARENA_SLOT);
        play_forward(picture, g, &arena->op[g].evaluate, false);
    }
    assert_true(lies(picture, arena->evaluate_output, CONTENT_VALUE, arena->op_count));
}

/* Every other plan is made in reserved memory: it is equal and allocates nothing. */
static void check_stages(const struct model *model)
{
    static struct picture picture;
    struct arena_scratch *scratch = NULL;
    struct err scratch_err = {0};
    assert_ok(arena_scratch_new(&scratch, &scratch_err), &scratch_err);
    for (size_t first = 0; first < model->unit_count; first++) {
        for (size_t end = first + 1; end <= model->unit_count; end++) {
            for (int recompute = RECOMPUTE_NONE; recompute <= RECOMPUTE_UNIT; recompute++) {
                struct arena *arena = NULL;
                struct err err = {0};
                const struct arena_request request = {
                    first, end, 3, recompute, CONV2D_BACKEND_OWN, end % 2 ? scratch : NULL};
                if (request.scratch) {
                    no_alloc_begin();
                }
                int rc = arena_new(model, &request, &arena, &err);
                if (request.scratch) {
                    no_alloc_end();
                }
                assert_ok(rc, &err);
                picture.arena = arena;
                play_training(&picture);
                play_evaluation(&picture);
                arena_free(&arena);
            }
        }
    }
    arena_scratch_free(&scratch);
}

static void every_op_finds_its_inputs_in_every_stage_of_the_zoo(void **state)
{
    (void)state;
    for (size_t i = 0; zoo_name(i); i++) {
        struct model *model = usual_model(zoo_name(i));
        check_stages(model);
        model_free(&model);
    }
}

/* Units that begin or end with every kind of op, read their input twice, pass it on, or have no
 * parameters. */
static void every_op_finds_its_inputs_in_odd_units(void **state)
{
    (void)state;
    static const char text[] =
        "{\"name\": \"odd\", \"input\": {\"shape\": [8, 8, 4], \"dtype\": \"uint8\", \"scale\": "
        "0.5}, \"units\": ["
        "{\"name\": \"a\", \"ops\": [{\"type\": \"relu\"}, {\"type\": \"max_pool\", \"kernel\": 2, "
        "\"stride\": 1}]},"
        "{\"name\": \"b\", \"residual\": {\"body\": [{\"type\": \"batch_norm\"}, {\"type\": "
        "\"relu\"}]}},"
        "{\"name\": \"c\", \"residual\": {\"body\": [{\"type\": \"relu\"}]}, \"then\": [{\"type\": "
        "\"relu6\"}]},"
        "{\"name\": \"d\", \"ops\": [{\"type\": \"dropout\", \"rate\": 0.5}, {\"type\": "
        "\"relu\"}]},"
        "{\"name\": \"e\", \"branches\": [[{\"type\": \"silu\"}], [], [{\"type\": \"dropout\", "
        "\"rate\": 0.5},"
        " {\"type\": \"batch_norm\"}], [{\"type\": \"max_pool\", \"kernel\": 3, \"stride\": 1, "
        "\"padding\": 1},"
        " {\"type\": \"gelu\"}]], \"then\": [{\"type\": \"relu\"}, {\"type\": \"batch_norm\"}]},"
        "{\"name\": \"f\", \"ops\": [{\"type\": \"max_pool\", \"kernel\": 2}, {\"type\": "
        "\"relu\"}]},"
        "{\"name\": \"s\", \"residual\": {\"body\": [{\"type\": \"conv2d\", \"filters\": 5, "
        "\"kernel\": 1}], \"shortcut\": [{\"type\": \"select\", \"first\": 3, \"channels\": 5}]}},"
        "{\"name\": \"g\", \"ops\": [{\"type\": \"conv2d\", \"filters\": 4, \"kernel\": 1}, "
        "{\"type\": \"relu\"},"
        " {\"type\": \"flatten\"}]},"
        "{\"name\": \"h\", \"ops\": [{\"type\": \"flatten\"}, {\"type\": \"relu\"}, {\"type\": "
        "\"dropout\", \"rate\":"
        " 0.5}, {\"type\": \"linear\", \"units\": 6}, {\"type\": \"batch_norm\"}]},"
        "{\"name\": \"i\", \"ops\": [{\"type\": \"linear\", \"units\": 10}, {\"type\": "
        "\"relu\"}]}],"
        " \"loss\": {\"type\": \"softmax_cross_entropy\"}}";
    struct model *model = good_model(text, &(struct model_fit){{8, 8, 4}, DTYPE_U8, 10, 1});
    check_stages(model);
    model_free(&model);
}

/* ---- kept tensors ---- */

static const char kept[] =
    "{\"name\": \"m\", \"input\": {\"shape\": [8, 8, 16], \"dtype\": \"float32\", \"scale\": 1}, "
    "\"units\": ["
    "{\"name\": \"a\", \"ops\": [{\"type\": \"conv2d\", \"filters\": 16, \"kernel\": 3, "
    "\"padding\": 1},"
    " {\"type\": \"relu\"}, {\"type\": \"conv2d\", \"filters\": 16, \"kernel\": 1, \"bias\": "
    "false},"
    " {\"type\": \"batch_norm\"}, {\"type\": \"relu6\"}, {\"type\": \"max_pool\", \"kernel\": 2}]},"
    "{\"name\": \"b\", \"ops\": [{\"type\": \"global_avg_pool\"},"
    " {\"type\": \"linear\", \"units\": 10}]}], \"loss\": {\"type\": \"softmax_cross_entropy\"}}";
#define PLANE (8 * 8 * 16 * 4 * sizeof(float))
#define STATISTICS (BATCH_NORM_SAVED * 16 * sizeof(float))
#define LOSS 192 /* 4 times 10 floats, aligned */

static uint64_t slot_bytes(enum recompute recompute)
{
    struct model *model = good_model(kept, &(struct model_fit){{8, 8, 16}, DTYPE_F32, 10, 1});
    struct arena *arena = NULL;
    struct err err = {0};
    const struct arena_request request = {0, 2, 4, recompute, CONV2D_BACKEND_OWN, NULL};
    assert_ok(arena_new(model, &request, &arena, &err), &err);
    assert_false(arena->scale_input);
    uint64_t bytes = arena->slot_bytes;
    arena_free(&arena);
    model_free(&model);
    return bytes;
}

static void rectifiers_and_batch_norms_cost_no_extra_memory(void **state)
{
    (void)state;
    /* Kept: the first relu's output (also the second convolution's input), the batch-norm's input,
     * the pool's winners, the linear's input, the batch-norm's statistics, the loss's gradient.
     * relu6's output can be made of the batch-norm's input. */
    assert_int_equal(slot_bytes(RECOMPUTE_NONE),
                     2 * PLANE + PLANE / 8 + 16 * 4 * 4 + STATISTICS + LOSS);
}

static void recompute_keeps_only_boundaries_and_statistics(void **state)
{
    (void)state;
    /* The second unit's linear gets its input by a repeated pooling of the tensor at the
     * boundary. */
    assert_int_equal(slot_bytes(RECOMPUTE_UNIT), PLANE / 4 + STATISTICS + LOSS);
}

/* An evaluation of fewer samples than the micro-batch plans its work again, in the scratch of the
 * whole one. */
static void fewer_samples_need_no_more_scratch(void **state)
{
    static const char *const names[] = {"resnet8",  "mobilenetv2", "alexnet-cifar", "vgg11-bn",
                                        "resnet18", "resnet50",    "googlenet",     "dscnn-kws",
                                        "gpt-mini", "lenet5"};
    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct model *model = usual_model(names[i]);
        for (size_t u = 0; u < model->unit_count; u++) {
            for (size_t k = 0; k < model->unit[u].op_count; k++) {
                struct workspace_bytes most = {0};
                for (size_t N = 1; N <= SAMPLES_MAX; N++) {
                    struct workspace_bytes bytes =
                        op_workspace(&model->unit[u].op[k], N, CONV2D_BACKEND_OWN);
                    assert_true(bytes.shared >= most.shared && bytes.worker >= most.worker);
                    most = bytes;
                }
            }
        }
        model_free(&model);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fewer_samples_need_no_more_scratch),
        cmocka_unit_test(every_op_finds_its_inputs_in_every_stage_of_the_zoo),
        cmocka_unit_test(every_op_finds_its_inputs_in_odd_units),
        cmocka_unit_test(rectifiers_and_batch_norms_cost_no_extra_memory),
        cmocka_unit_test(recompute_keeps_only_boundaries_and_statistics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
