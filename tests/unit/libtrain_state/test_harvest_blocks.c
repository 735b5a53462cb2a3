/* A model's own slices, taken element by element, harvested: its diagonal blocks, bit for bit. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/state/harvest.h"
#include "tests/support/test.h"
#include "tests/unit/libtrain_description/model_support.h"
#include "tests/unit/libtrain_state/slice_support.h"

/* ---- the oracle: a group's channels of each tensor, element by element ---- */

/* Elements of a tensor, in PyTorch's order. */
struct list {
    bool whole;
    uint32_t *item;
    size_t count;
};

static void list_add(struct list *list, uint32_t item)
{
    if ((list->count & (list->count - 1)) == 0) { /* a power of two: full */
        list->item = realloc(list->item, (2 * list->count + 1) * sizeof(list->item[0]));
        assert_non_null(list->item);
    }
    list->item[list->count++] = item;
}

static struct list naive_all(uint32_t channels)
{
    struct list list = {.whole = true};
    for (uint32_t c = 0; c < channels; c++) {
        list_add(&list, c);
    }
    return list;
}

/* [floor(R A_k), floor(R A_k+1)), to multiples of 4 if some group has 16 or more */
static struct list naive_range(const struct slim_split *split, uint32_t channels, size_t group)
{
    struct list list = {0};
    uint32_t limit[SLIM_GROUPS_MAX + 1] = {0};
    bool wide = false;
    double sum = 0;
    for (size_t i = 0; i < split->group_count; i++) {
        sum += split->group[i].width;
        limit[i + 1] =
            i + 1 == split->group_count ? channels : (uint32_t)floor(channels * sum + 1e-6);
        wide = wide || limit[i + 1] - limit[i] >= 16;
    }
    for (size_t i = 1; i < split->group_count && wide; i++) {
        limit[i] = limit[i] / 4 * 4;
    }
    for (uint32_t c = limit[group]; c < limit[group + 1]; c++) {
        list_add(&list, c);
    }
    return list;
}

static struct list naive_copy(const struct list *from)
{
    struct list list = {.whole = from->whole};
    for (size_t i = 0; i < from->count; i++) {
        list_add(&list, from->item[i]);
    }
    return list;
}

/* An input that must be divided. */
static struct list naive_divided(const struct slim_split *split, const struct list *from,
                                 size_t group)
{
    return from->whole ? naive_range(split, (uint32_t)from->count, group) : naive_copy(from);
}

static struct list naive_concat(const struct slim_split *split, const struct unit *unit, size_t k,
                                const struct list *tensor, size_t group)
{
    const struct op *op = &unit->op[k];
    struct list list = {.whole = true};
    uint32_t base = 0;
    for (size_t i = 0; i < op->input_count; i++) {
        list.whole = list.whole && tensor[op->input[i]].whole;
    }
    for (size_t i = 0; i < op->input_count; i++) {
        const uint16_t from = op->input[i];
        struct list part =
            list.whole ? naive_copy(&tensor[from]) : naive_divided(split, &tensor[from], group);
        for (size_t x = 0; x < part.count; x++) {
            list_add(&list, base + part.item[x]);
        }
        free(part.item);
        base += from == 0 ? unit->in.c : unit->op[from - 1].out.c;
    }
    return list;
}

static struct list naive_expand(struct list from, uint32_t each)
{
    struct list list = {.whole = from.whole};
    for (size_t i = 0; i < from.count; i++) {
        for (uint32_t x = 0; x < each; x++) {
            list_add(&list, from.item[i] * each + x);
        }
    }
    free(from.item);
    return list;
}

/* The output of op k, and what it reads of its first input. */
static struct list naive_op(const struct slim_split *split, const struct unit *unit, size_t k,
                            const struct list *tensor, size_t group, struct list *reads)
{
    const struct op *op = &unit->op[k];
    const struct list *in = &tensor[op->input[0]];
    const bool depthwise = op->type == OP_CONV2D && op->groups > 1;
    bool divided = depthwise || op->type == OP_BATCH_NORM;
    for (size_t i = 0; i < op->input_count && op->type == OP_ADD; i++) {
        divided = divided || !tensor[op->input[i]].whole;
    }
    *reads = divided ? naive_divided(split, in, group) : naive_copy(in);
    if (depthwise) {
        return naive_expand(naive_copy(reads), op->out.c / op->in.c);
    }
    if (op->type == OP_CONV2D || op->type == OP_LINEAR) {
        return naive_range(split, op->out.c, group);
    }
    return op->type == OP_CONCAT    ? naive_concat(split, unit, k, tensor, group)
           : op->type == OP_FLATTEN ? naive_expand(naive_copy(reads), op->in.h * op->in.w)
                                    : naive_copy(reads);
}

/* ---- own slices ---- */

/* The dense model that slices of the target make: its diagonal blocks, and how often each of its
 * elements is in a slice. */
struct diagonal {
    const struct slices *slices;
    struct slice_file dense; /* a copy of the target's file */
    unsigned char *times;    /* [floats of the file's data] */
    const char *data;
};

/* Copy the target's elements to the slice, and count them. rows: elements of dimension 0. */
static void gather(struct diagonal *diagonal, const struct op *op, const struct op_tensor *tensor,
                   size_t group, const struct list *rows, const struct list *columns)
{
    const struct slice_file *file = &diagonal->slices->file[group];
    char name[SAFETENSORS_NAME_MAX];
    size_t count, own_count, at = 0;
    (void)snprintf(name, sizeof(name), "%s.%s", op->name, tensor->suffix);
    const float *from = slice_tensor(&diagonal->dense, name, &count);
    float *to = slice_tensor(file, name, &own_count);
    const size_t inner = tensor->rank == 4 ? (size_t)op->kernel.h * op->kernel.w : 1;
    const size_t row = tensor->elements / tensor->dim[0];
    for (size_t r = 0; r < rows->count; r++) {
        for (size_t c = 0; c < columns->count; c++) {
            for (size_t x = 0; x < inner; x++) {
                const size_t place = rows->item[r] * row + columns->item[c] * inner + x;
                assert_true(place < count && at < own_count);
                to[at++] = from[place];
                diagonal->times[(const char *)(from + place) - diagonal->data]++;
            }
        }
    }
    if (own_count > at) { /* the head's row of "other" */
        assert_string_equal(
            op->name,
            diagonal->slices->target->unit[diagonal->slices->target->unit_count - 1]
                .op[diagonal->slices->target->unit[diagonal->slices->target->unit_count - 1]
                        .op_count -
                    1]
                .name);
        memset(to + at, 0, (own_count - at) * sizeof(float));
    }
}

static void gather_unit(struct diagonal *diagonal, size_t index, size_t group, struct list *border)
{
    const struct slices *slices = diagonal->slices;
    const struct unit *unit = &slices->target->unit[index];
    struct list tensor[MODEL_UNIT_OPS_MAX + 1] = {*border};
    const struct list one = {.item = &(uint32_t){0}, .count = 1};
    for (size_t k = 0; k < unit->op_count; k++) {
        const struct op *op = &unit->op[k];
        struct list reads;
        tensor[k + 1] = naive_op(&slices->split, unit, k, tensor, group, &reads);
        if (index + 1 == slices->target->unit_count && k + 1 == unit->op_count) {
            free(tensor[k + 1].item);
            tensor[k + 1] = (struct list){0};
            for (uint32_t c = 0; c < slices->group[group].classes; c++) {
                list_add(&tensor[k + 1], slices->classes[group][c]);
            }
        }
        for (size_t i = 0; i < op->tensor_count; i++) {
            const bool alone = op->tensor[i].rank == 1 || op->groups > 1;
            gather(diagonal, op, &op->tensor[i], group, &tensor[k + 1], alone ? &one : &reads);
        }
        free(reads.item);
    }
    *border = naive_copy(&tensor[unit->op_count]);
    for (size_t t = 0; t <= unit->op_count; t++) {
        free(tensor[t].item);
    }
}

static void diagonal_of(struct diagonal *diagonal, struct slices *slices)
{
    struct err err = {0};
    *diagonal = (struct diagonal){.slices = slices};
    buf_init(&diagonal->dense.bytes, slices->stem.bytes.limit);
    assert_ok(
        buf_append(&diagonal->dense.bytes, slices->stem.bytes.data, slices->stem.bytes.size, &err),
        &err);
    diagonal->data = diagonal->dense.bytes.data;
    diagonal->times = calloc(1, slices->stem.bytes.size);
    assert_non_null(diagonal->times);
    for (size_t group = 0; group < slices->split.group_count; group++) {
        struct list border = naive_all(slices->target->unit[slices->split.stem].in.c);
        for (size_t unit = slices->split.stem; unit < slices->target->unit_count; unit++) {
            gather_unit(diagonal, unit, group, &border);
        }
        free(border.item);
        slices->from[group].prior = 0;
    }
}

/* Compare the harvested file with the target: the stem, and each element once or zero. */
static void assert_diagonal(struct diagonal *diagonal, const struct buf *harvested)
{
    const struct slices *slices = diagonal->slices;
    size_t zeros = 0;
    assert_int_equal(harvested->size, diagonal->dense.bytes.size);
    const struct slice_file file = {.bytes = *harvested};
    for (size_t unit = 0; unit < slices->target->unit_count; unit++) {
        for (size_t k = 0; k < slices->target->unit[unit].op_count; k++) {
            const struct op *op = &slices->target->unit[unit].op[k];
            for (size_t i = 0; i < op->tensor_count; i++) {
                char name[SAFETENSORS_NAME_MAX];
                size_t count;
                (void)snprintf(name, sizeof(name), "%s.%s", op->name, op->tensor[i].suffix);
                const float *expected = slice_tensor(&diagonal->dense, name, &count);
                const float *actual = slice_tensor(&file, name, &count);
                for (size_t x = 0; x < count; x++) {
                    const size_t at = (size_t)((const char *)(expected + x) - diagonal->data);
                    const unsigned times = unit < slices->split.stem ? 1 : diagonal->times[at];
                    const float value = times ? expected[x] : 0.0f;
                    assert_in_range(times, 0, 1);
                    assert_memory_equal(&actual[x], &value, sizeof(value));
                    zeros += times == 0;
                }
            }
        }
    }
    assert_true(zeros > 0);
}

static void check_own_slices(struct slices *slices)
{
    struct diagonal diagonal;
    struct err err = {0};
    BUF_AUTO struct buf harvested;
    slices_fill(slices, 0);
    diagonal_of(&diagonal, slices);
    assert_ok(slices_harvest(slices, &harvested, &err), &err);
    assert_diagonal(&diagonal, &harvested);
    buf_done(&diagonal.dense.bytes);
    free(diagonal.times);
}

static void a_models_own_slices_give_its_diagonal_blocks_bit_for_bit(void **state)
{
    (void)state;
    static const char *const names[] = {"alexnet-cifar", "vgg11-bn", "resnet8", "dscnn-kws",
                                        "mobilenetv2"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct slices slices;
        struct err err = {0};
        assert_ok(slices_divide(&slices, usual_model(names[i]), 1, 2 + i % 3, i % 2 == 1, &err),
                  &err);
        check_own_slices(&slices);
        slices_done(&slices);
    }
}

static void every_element_of_random_descriptions_is_written_once(void **state)
{
    (void)state;
    size_t sliced = 0;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct slice_draws draws = {.stream = rng_stream(seed, RNG_INITIALISE, 2, 1)};
        struct model *target = slices_draw_model(&draws);
        struct slices slices;
        struct err err = {0};
        if (!target) {
            continue;
        }
        const size_t groups = slice_draw(&draws, 2, 4);
        const size_t stem = slice_draw(&draws, 1, target->unit_count - 2);
        if (slices_divide(&slices, target, stem, groups, seed % 2 == 0, &err) == 0) {
            check_own_slices(&slices);
            sliced++;
        }
        slices_done(&slices);
    }
    print_message("%zu descriptions\n", sliced);
    assert_true(sliced >= 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_models_own_slices_give_its_diagonal_blocks_bit_for_bit),
        cmocka_unit_test(every_element_of_random_descriptions_is_written_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
