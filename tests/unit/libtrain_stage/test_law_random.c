/* The law on random models: chains, residuals and branches of random ops with random fields, some
 * of them frozen, on inputs down to one pixel, one channel and one sample. A model that the
 * description's rules reject is drawn again.
 *
 *   test_law_random [FIRST LAST]     seeds; default: 1 to 400, under a sanitizer 60, an emulator 20
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "libtrain/backend/simd.h"
#include "libtrain/description/description.h"
#include "tests/unit/libtrain_stage/law.h"

#if defined(TEST_EMULATED)
#define SEEDS 20
#elif defined(SIMD_BASELINE_ONLY)
#define SEEDS 60
#else
#define SEEDS 400
#endif
#define DESCRIPTION_BYTES 65536
#define TRIES 1000
#define STEPS 2

/* Set by main, before the tests. */
static size_t first_seed = 1, last_seed = SEEDS;

/* A description in the making. */
struct text {
    struct buf buf;
    struct draws *draws;
};

#define ADD(text, ...) assert_int_equal(buf_printf(&(text)->buf, NULL, __VA_ARGS__), 0)

/* A size that is most often small, and now and then just beyond a vector or a panel. */
static size_t draw_channels(struct draws *draws)
{
    static const size_t usual[] = {1, 2, 3, 5, 8, 15, 16, 17, 32, 33, 48};
    return usual[draw_size(draws, 0, sizeof(usual) / sizeof(usual[0]) - 1)];
}

static void add_window(struct text *text)
{
    ADD(text, ", \"kernel\": [%zu, %zu], \"stride\": %zu, \"padding\": %zu",
        draw_size(text->draws, 1, 4), draw_size(text->draws, 1, 4), draw_size(text->draws, 1, 2),
        draw_size(text->draws, 0, 2));
}

static void add_image_op(struct text *text)
{
    size_t channels = draw_channels(text->draws);
    switch (draw_size(text->draws, 0, 12)) {
    case 0: ADD(text, "{\"type\": \"relu\"}"); break;
    case 11: /* rejected beyond the input's channels */
        ADD(text, "{\"type\": \"select\", \"first\": %zu, \"channels\": %zu}",
            draw_size(text->draws, 0, 7), channels);
        break;
    case 1: ADD(text, "{\"type\": \"relu6\"}"); break;
    case 2: ADD(text, "{\"type\": \"gelu\"}"); break;
    case 3: ADD(text, "{\"type\": \"silu\"}"); break;
    case 4:
        ADD(text, "{\"type\": \"dropout\", \"rate\": 0.%zu}", draw_size(text->draws, 0, 9));
        break;
    case 5:
    case 6: ADD(text, "{\"type\": \"batch_norm\"}"); break;
    case 7:
        ADD(text, "{\"type\": \"%s_pool\"", draw_size(text->draws, 0, 1) ? "max" : "avg");
        add_window(text);
        ADD(text, ", \"ceil_mode\": %s}", draw_size(text->draws, 0, 1) ? "true" : "false");
        break;
    case 8: /* most often a shape for Winograd's algorithm */
        ADD(text, "{\"type\": \"conv2d\", \"filters\": %zu, \"kernel\": 3, \"padding\": 1}",
            (channels + 15) / 16 * 16);
        break;
    case 9: /* depthwise where the channels agree, else in groups or rejected */
        ADD(text,
            "{\"type\": \"conv2d\", \"filters\": %zu, \"kernel\": 3, \"padding\": 1, \"groups\": "
            "%zu}",
            channels, channels);
        break;
    case 10: ADD(text, "{\"type\": \"conv2d\", \"filters\": %zu, \"kernel\": 1}", channels); break;
    default:
        ADD(text, "{\"type\": \"conv2d\", \"filters\": %zu, \"bias\": %s", channels,
            draw_size(text->draws, 0, 1) ? "true" : "false");
        add_window(text);
        ADD(text, "}");
    }
}

static void add_sequence_op(struct text *text)
{
    size_t heads = draw_size(text->draws, 1, 3);
    switch (draw_size(text->draws, 0, 7)) {
    case 0: ADD(text, "{\"type\": \"relu\"}"); break;
    case 1: ADD(text, "{\"type\": \"gelu\"}"); break;
    case 2: ADD(text, "{\"type\": \"silu\"}"); break;
    case 3:
        ADD(text, "{\"type\": \"dropout\", \"rate\": 0.%zu}", draw_size(text->draws, 0, 9));
        break;
    case 4: ADD(text, "{\"type\": \"layer_norm\"}"); break;
    case 5: ADD(text, "{\"type\": \"positions\"}"); break;
    case 6: ADD(text, "{\"type\": \"linear\", \"units\": %zu}", draw_channels(text->draws)); break;
    default:
        ADD(text,
            "{\"type\": \"linear\", \"units\": %zu}, {\"type\": \"attention\", \"heads\": %zu, "
            "\"causal\": %s}",
            3 * heads * draw_size(text->draws, 1, 6), heads,
            draw_size(text->draws, 0, 1) ? "true" : "false");
    }
}

typedef void (*op_fn)(struct text *text);

static void add_chain(struct text *text, op_fn add_op, size_t least)
{
    ADD(text, "[");
    for (size_t i = 0, count = draw_size(text->draws, least, 3); i < count; i++) {
        ADD(text, i > 0 ? ", " : "");
        add_op(text);
    }
    ADD(text, "]");
}

static void add_unit(struct text *text, op_fn add_op, size_t number)
{
    ADD(text, "{\"name\": \"u%zu\", ", number);
    switch (draw_size(text->draws, 0, 3)) {
    case 0:
        ADD(text, "\"residual\": {\"body\": ");
        add_chain(text, add_op, 1);
        ADD(text, "}");
        break;
    case 1:
        ADD(text, "\"branches\": [");
        for (size_t i = 0, count = draw_size(text->draws, 2, 3); i < count; i++) {
            ADD(text, i > 0 ? ", " : "");
            add_chain(text, add_op, 0);
        }
        ADD(text, "]");
        break;
    default: ADD(text, "\"ops\": "); add_chain(text, add_op, 1);
    }
    ADD(text, "}, ");
}

/* The model of one try: its units are added one by one, and one that does not fit the model is
 * drawn again. */
static struct model *draw_model(struct draws *draws)
{
    const bool sequence = draw_size(draws, 0, 3) == 0;
    const op_fn add_op = sequence ? add_sequence_op : add_image_op;
    const uint32_t h = (uint32_t)draw_size(draws, 1, 13);
    struct model_fit fit = {.input = {h, 1, 1}, .dtype = DTYPE_U8, .classes = 256, .positions = h};
    if (!sequence) {
        fit.input.w = (uint32_t)draw_size(draws, 1, 13);
        fit.input.c = (uint32_t)draw_size(draws, 1, 17);
        fit.classes = (uint32_t)draw_size(draws, 1, 12);
        fit.positions = 1;
    }
    BUF_AUTO struct buf good;
    buf_init(&good, DESCRIPTION_BYTES);
    assert_int_equal(
        buf_printf(&good, NULL, "%s",
                   sequence
                       ? "{\"name\": \"drawn\", \"input\": {\"scale\": 1}, \"units\": [{\"name\": "
                         "\"embed\", \"ops\": [{\"type\": \"embedding\", \"rows\": 256, \"units\": "
                         "7}]}, "
                       : "{\"name\": \"drawn\", \"input\": {\"scale\": 0.0078125}, \"units\": ["),
        0);
    const char *end =
        sequence
            ? "{\"name\": \"head\", \"ops\": [{\"type\": \"linear\", \"units\": \"classes\"}]}]}"
            : "{\"name\": \"head\", \"ops\": [{\"type\": \"flatten\"}, {\"type\": \"linear\", "
              "\"units\": \"classes\"}]}]}";
    struct model *model = NULL;
    size_t units = draw_size(draws, 1, 7);
    for (size_t tries = 0; tries < TRIES && units > 0; tries++) {
        struct text text = {.draws = draws};
        struct model *next = NULL;
        struct err err = {0};
        buf_init(&text.buf, DESCRIPTION_BYTES);
        ADD(&text, "%s", good.data);
        add_unit(&text, add_op, units);
        size_t kept = text.buf.size;
        ADD(&text, "%s", end);
        if (parse_model(text.buf.data, &fit, &next, NULL, &err) == 0) {
            model_free(&model);
            model = next;
            text.buf.data[kept] = '\0';
            buf_clear(&good);
            assert_int_equal(buf_printf(&good, NULL, "%s", text.buf.data), 0);
            units--;
        }
        buf_done(&text.buf);
    }
    assert_non_null(model);
    return model;
}

/* Every float of the state, after the headers of the units' snapshots. */
static void assert_finite(const struct law *law)
{
    const unsigned char *blob = law->expected;
    for (size_t unit = 0; unit < law->model->unit_count; unit++) {
        struct state_layout *layout = NULL;
        struct err err = {0};
        assert_ok(state_layout_new(law->model, unit, &law->recipe.optimizer, &layout, &err), &err);
        for (size_t at = (size_t)layout->header.data_offset; at < layout->blob_bytes;
             at += sizeof(float)) {
            float value;
            memcpy(&value, blob + at, sizeof(value));
            assert_true(isfinite(value));
        }
        blob += layout->blob_bytes;
        state_layout_free(&layout);
    }
    assert_true(isfinite(law->expected_loss));
}

static void random_models_stay_finite_and_give_the_same_bits_for_any_split(void **state)
{
    for (size_t seed = first_seed; seed <= last_seed; seed++) {
        struct draws draws = draws_new(seed);
        struct model *model = draw_model(&draws);
        for (size_t unit = 0; unit + 1 < model->unit_count; unit++) {
            model->unit[unit].frozen = draw_size(&draws, 0, 5) == 0;
        }
        size_t micro_batches = draw_size(&draws, 1, 3);
        const struct law_run run = {.batch = micro_batches * draw_size(&draws, 1, 3),
                                    .micro_batches = micro_batches,
                                    .steps = STEPS};
        print_message("seed %zu: %zu units, batch %zu in %zu\n", seed, model->unit_count, run.batch,
                      micro_batches);
        struct law law = law_new(state, model, run);
        assert_finite(&law);
        law_check_random_partitions(&law, 1);
        law_done(&law);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_models_stay_finite_and_give_the_same_bits_for_any_split),
    };
    if (argc == 3) {
        first_seed = (size_t)strtoul(argv[1], NULL, 10);
        last_seed = (size_t)strtoul(argv[2], NULL, 10);
    }
    return cmocka_run_group_tests(tests, kernel_pools_setup, kernel_pools_teardown);
}
