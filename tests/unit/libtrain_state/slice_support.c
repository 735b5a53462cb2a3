#include "tests/unit/libtrain_state/slice_support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/description/description.h"
#include "libtrain/state/state.h"
#include "tests/support/test.h"
#include "tests/unit/libtrain_description/model_support.h"

#define FILE_BYTES_MAX (256u << 20)
#define DESCRIPTION_BYTES 65536

size_t slice_draw(struct slice_draws *draws, size_t low, size_t high)
{
    return low + (size_t)(rng_uniform(&draws->stream, draws->next++) * (float)(high - low + 1)) %
                     (high - low + 1);
}

/* ---- a division ---- */

static void set_groups(struct slices *slices, size_t groups, bool unequal)
{
    const uint32_t classes = slices->target->classes;
    uint32_t least = 0;
    struct err err = {0};
    assert_true(classes <= SLICES_CLASSES_MAX);
    if (slim_least_channels(slices->target, slices->split.stem, &least, &err)) {
        least = 0;
    }
    const double floor_width = least > 0 ? 4.5 / least : 1;
    const bool differ = unequal && (double)groups * floor_width <= 1;
    for (size_t i = 0; i < groups; i++) {
        const double rest = 1 - (double)groups * floor_width;
        const double share = 2.0 * (double)(i + 1) / (double)(groups * (groups + 1));
        slices->group[i].width = differ ? floor_width + rest * share : 1.0 / (double)groups;
    }
    for (uint32_t c = 0; c < classes; c++) {
        /* Unequal: the last group also has the classes after two of each. */
        const size_t i = unequal && c >= 2 * groups ? groups - 1 : c % groups;
        slices->classes[i][slices->group[i].classes++] = c;
    }
}

int slices_divide(struct slices *slices, struct model *target, size_t stem, size_t groups,
                  bool unequal, struct err *err)
{
    *slices = (struct slices){.target = target};
    slices->split = (struct slim_split){
        .target = target, .stem = stem, .group = slices->group, .group_count = groups};
    set_groups(slices, groups, unequal);
    return slim_check(&slices->split, err);
}

/* ---- files ---- */

static int read_buffer(void *arg, uint64_t offset, void *out, size_t size, struct err *err)
{
    const struct buf *bytes = arg;
    if (offset > bytes->size || size > bytes->size - offset) {
        return err_set(err, ERR_IO, "read %zu bytes at %zu", size, (size_t)offset);
    }
    memcpy(out, bytes->data + offset, size);
    return 0;
}

void slice_open(struct slice_file *file)
{
    struct err err = {0};
    checkpoint_file_close(&file->opened);
    assert_ok(checkpoint_file_open(read_buffer, &file->bytes, &file->opened, &err), &err);
}

void slice_close(struct slice_file *file)
{
    checkpoint_file_close(&file->opened);
    buf_done(&file->bytes);
}

int slice_write(void *arg, const void *data, size_t size, struct err *err)
{
    return buf_append(arg, data, size, err);
}

float *slice_tensor(const struct slice_file *file, const char *name, size_t *count)
{
    static struct safetensors_tensor tensor[4096];
    struct safetensors_header header = {.tensor = tensor, .tensor_capacity = 4096};
    uint64_t bytes;
    struct err err = {0};
    assert_ok(safetensors_header_bytes((const uint8_t *)file->bytes.data, &bytes, &err), &err);
    assert_ok(safetensors_parse(file->bytes.data, (size_t)bytes, &header, &err), &err);
    const struct safetensors_tensor *found = safetensors_find(&header, name);
    assert_non_null(found);
    *count = (size_t)(found->end - found->begin) / sizeof(float);
    return (float *)(void *)(file->bytes.data + header.data_offset + found->begin);
}

/* Values as after training: activations neither vanish nor grow. */
static float trained_value(const struct op *op, const struct op_tensor *tensor, float uniform)
{
    const float centred = 2 * uniform - 1;
    if (tensor->rank > 1) {
        return centred * sqrtf(6.0f * (float)tensor->dim[0] / (float)tensor->elements);
    }
    const bool positive = strcmp(tensor->suffix, "running_var") == 0 ||
                          (op->type == OP_BATCH_NORM && strcmp(tensor->suffix, "weight") == 0);
    return positive ? 0.5f + uniform : 0.5f * centred;
}

/* Uniform in [0, 1), fast: models have millions of elements. Source: Vigna, splitmix64. */
static float uniform(uint64_t seed, uint64_t index)
{
    uint64_t x = seed * 0x632be59bd9b4e019u + index * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (float)((x ^ x >> 31) >> 40) * 0x1p-24f;
}

static void append_tensor(struct buf *out, const struct op *op, const struct op_tensor *tensor,
                          uint64_t seed, uint64_t *next)
{
    struct err err = {0};
    const size_t bytes = tensor->elements * sizeof(float);
    char *place = buf_reserve(out, bytes, &err);
    assert_non_null(place);
    for (size_t i = 0; i < tensor->elements; i++, (*next)++) {
        const float value =
            seed == 0 ? (float)(*next + 1) : trained_value(op, tensor, uniform(seed, *next));
        memcpy(place + i * sizeof(value), &value, sizeof(value));
    }
    out->size += bytes;
}

/* Append the tensors of units [first, end) of the model. */
static void append_units(struct buf *out, const struct model *model, size_t first, size_t end,
                         uint64_t seed, uint64_t *next)
{
    for (size_t unit = first; unit < end; unit++) {
        for (size_t k = 0; k < model->unit[unit].op_count; k++) {
            const struct op *op = &model->unit[unit].op[k];
            for (size_t i = 0; i < op->tensor_count; i++) {
                append_tensor(out, op, &op->tensor[i], seed, next);
            }
        }
    }
}

static void begin_file(struct slice_file *file, const struct model *model)
{
    const struct evaluation evaluation = {.micro_batch = EVALUATION_MICRO_BATCH};
    struct err err = {0};
    buf_init(&file->bytes, FILE_BYTES_MAX);
    assert_ok(trained_header(model, &evaluation, &file->bytes, &err), &err);
}

void slices_fill(struct slices *slices, uint64_t seed)
{
    struct err err = {0};
    const size_t stem = slices->split.stem;
    uint64_t next = 0;
    begin_file(&slices->stem, slices->target);
    append_units(&slices->stem.bytes, slices->target, 0, slices->target->unit_count, seed, &next);
    slice_open(&slices->stem);
    for (size_t i = 0; i < slices->split.group_count; i++) {
        uint64_t start = 0;
        assert_ok(slim_derive(&slices->split, i, &slices->model[i], &err), &err);
        begin_file(&slices->file[i], slices->model[i]);
        append_units(&slices->file[i].bytes, slices->model[i], 0, stem, seed, &start);
        append_units(&slices->file[i].bytes, slices->model[i], stem, slices->model[i]->unit_count,
                     seed, &next);
        slice_open(&slices->file[i]);
        slices->from[i] = (struct harvest_group){.file = slices->file[i].opened,
                                                 .classes = slices->classes[i],
                                                 .prior = seed == 0 ? 0 : 0.25 * (double)i - 0.3};
    }
    slices->harvest = (struct harvest){.split = slices->split,
                                       .stem = slices->stem.opened,
                                       .group = slices->from,
                                       .missing = HARVEST_NEVER,
                                       .evaluation = {.micro_batch = EVALUATION_MICRO_BATCH}};
}

void slices_done(struct slices *slices)
{
    for (size_t i = 0; i < SLIM_GROUPS_MAX; i++) {
        model_free(&slices->model[i]);
        slice_close(&slices->file[i]);
    }
    slice_close(&slices->stem);
    model_free(&slices->target);
}

int slices_harvest(const struct slices *slices, struct buf *out, struct err *err)
{
    buf_init(out, FILE_BYTES_MAX);
    return harvest_write(&slices->harvest, slice_write, out, err);
}

/* ---- random descriptions ---- */

#define ADD(text, ...) assert_int_equal(buf_printf(text, NULL, __VA_ARGS__), 0)

static size_t draw_channels(struct slice_draws *draws)
{
    static const size_t usual[] = {8, 12, 13, 16, 20, 24, 30, 33, 48, 64};
    return usual[slice_draw(draws, 0, sizeof(usual) / sizeof(usual[0]) - 1)];
}

/* An op after `*channels` channels; it keeps height and width unless `shrinks`. */
static void add_op(struct buf *text, struct slice_draws *draws, size_t *channels, bool shrinks)
{
    switch (slice_draw(draws, 0, shrinks ? 9 : 7)) {
    case 0: ADD(text, "{\"type\":\"relu\"}"); break;
    case 1: ADD(text, "{\"type\":\"batch_norm\"}"); break;
    case 2: ADD(text, "{\"type\":\"silu\"}"); break;
    case 3:
        ADD(text, "{\"type\":\"%s_pool\",\"kernel\":3,\"stride\":1,\"padding\":1}",
            slice_draw(draws, 0, 1) ? "max" : "avg");
        break;
    case 4:
        ADD(text, "{\"type\":\"conv2d\",\"filters\":%zu,\"kernel\":3,\"padding\":1,\"groups\":%zu}",
            *channels, *channels);
        break;
    case 5:
        ADD(text,
            "{\"type\":\"conv2d\",\"filters\":%zu,\"kernel\":1,\"groups\":%zu,\"bias\":false}",
            2 * *channels, *channels);
        *channels *= 2;
        break;
    case 8: ADD(text, "{\"type\":\"max_pool\",\"kernel\":2,\"padding\":1}"); break;
    case 9: ADD(text, "{\"type\":\"dropout\",\"rate\":0.5}"); break;
    default:
        *channels = draw_channels(draws);
        ADD(text, "{\"type\":\"conv2d\",\"filters\":%zu,\"kernel\":%s}", *channels,
            slice_draw(draws, 0, 1) ? "1" : "3,\"padding\":1");
    }
}

static void add_chain(struct buf *text, struct slice_draws *draws, size_t least, size_t *channels,
                      bool shrinks)
{
    ADD(text, "[");
    for (size_t i = 0, count = slice_draw(draws, least, 3); i < count; i++) {
        ADD(text, i > 0 ? "," : "");
        add_op(text, draws, channels, shrinks);
    }
    ADD(text, "]");
}

/* Mostly with a last convolution that gives the body the shortcut's channels. */
static void add_residual(struct buf *text, struct slice_draws *draws, size_t *channels)
{
    size_t body = *channels, shortcut = *channels;
    BUF_AUTO struct buf chain;
    buf_init(&chain, DESCRIPTION_BYTES);
    add_chain(&chain, draws, 1, &body, false);
    ADD(text, "\"residual\":{\"shortcut\":");
    add_chain(text, draws, 0, &shortcut, false);
    ADD(text, ",\"body\":%s", chain.data);
    if (body != shortcut) {
        text->data[--text->size] = '\0';
        ADD(text, ",{\"type\":\"conv2d\",\"filters\":%zu,\"kernel\":1}]", shortcut);
    }
    ADD(text, "}");
    *channels = shortcut;
}

static void add_branches(struct buf *text, struct slice_draws *draws, size_t *channels)
{
    size_t sum = 0;
    ADD(text, "\"branches\":[");
    for (size_t i = 0, count = slice_draw(draws, 2, 3); i < count; i++) {
        size_t branch = *channels;
        ADD(text, i > 0 ? "," : "");
        add_chain(text, draws, i > 0, &branch, false);
        sum += branch;
    }
    ADD(text, "]");
    *channels = sum;
}

static void add_unit(struct buf *text, struct slice_draws *draws, size_t number, size_t *channels)
{
    ADD(text, "{\"name\":\"u%zu\",", number);
    switch (slice_draw(draws, 0, 3)) {
    case 0: add_residual(text, draws, channels); break;
    case 1: add_branches(text, draws, channels); break;
    default: ADD(text, "\"ops\":"); add_chain(text, draws, 1, channels, true);
    }
    ADD(text, "},");
}

struct model *slices_draw_model(struct slice_draws *draws)
{
    const struct model_fit fit = {{(uint32_t)slice_draw(draws, 2, 6),
                                   (uint32_t)slice_draw(draws, 2, 6),
                                   (uint32_t)slice_draw(draws, 1, 3)},
                                  DTYPE_U8,
                                  (uint32_t)slice_draw(draws, 4, 9),
                                  1};
    size_t channels = draw_channels(draws);
    struct model *model = NULL;
    struct err err = {0};
    BUF_AUTO struct buf text;
    buf_init(&text, DESCRIPTION_BYTES);
    ADD(&text, "{\"name\":\"drawn\",\"units\":[");
    ADD(&text, "{\"name\":\"stem\",\"ops\":[{\"type\":\"conv2d\",\"filters\":%zu,\"kernel\":1}]},",
        channels);
    for (size_t i = 1, units = slice_draw(draws, 1, 5); i <= units; i++) {
        add_unit(&text, draws, i, &channels);
    }
    if (slice_draw(draws, 0, 1)) {
        ADD(&text,
            "{\"name\":\"wide\",\"ops\":[{\"type\":\"flatten\"},{\"type\":\"linear\","
            "\"units\":%zu},{\"type\":\"relu\"}]},",
            draw_channels(draws));
        ADD(&text, "{\"name\":\"head\",\"ops\":[");
    } else {
        ADD(&text, "{\"name\":\"head\",\"ops\":[{\"type\":\"%s\"},",
            slice_draw(draws, 0, 1) ? "flatten" : "global_avg_pool");
    }
    ADD(&text, "{\"type\":\"linear\",\"units\":\"classes\"}]}]}");
    return parse_model(text.data, &fit, &model, NULL, &err) == 0 ? model : NULL;
}
