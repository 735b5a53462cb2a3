#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "libtrain/quant/coder.h"
#include "tests/support/no_alloc.h"
#include "tests/support/test.h"
#include "tests/unit/libtrain_quant/slow_coder.h"

#define VALUES 5000

static const enum codec grouped[] = {CODEC_Q8, CODEC_Q6, CODEC_Q4, CODEC_Q3, CODEC_Q2};
#define GROUPED (sizeof(grouped) / sizeof(grouped[0]))

/* The kinds of tensors that occur, and some that should not. */
enum form { NORMAL, RELU, SPARSE, OFFSET, CONSTANT, WIDE, TINY, BROKEN, FORMS };

static float draw(enum form form, const struct rng_stream *stream, uint64_t i)
{
    const float centred = 2 * rng_uniform(stream, 3 * i) - 1;
    const float other = rng_uniform(stream, 3 * i + 1);
    switch (form) {
    case NORMAL: return centred * other;
    case RELU: return centred > 0 ? 7 * centred * other : 0;
    case SPARSE: return other < 0.5f ? 0 : other < 0.55f ? -0.0f : centred;
    case OFFSET: return 1000 + centred / 100;
    case CONSTANT: return i < 300 ? 3.7f : i < 600 ? 0 : i < 1000 ? -1e-30f : -0.1f;
    case WIDE: return ldexpf(centred, (int)(rng_word(stream, 3 * i + 1) % 250) - 125);
    case TINY: return i % 512 < 256 ? ldexpf(centred, -79) : ldexpf(centred, -140);
    case BROKEN:
        return i % 1000 == 3 ? NAN : i % 1000 == 500 ? -INFINITY : i == 2000 ? FLT_MAX : centred;
    case FORMS: break;
    }
    return 0;
}

static void fill(enum form form, uint64_t seed, float *x, size_t n)
{
    const struct rng_stream stream = rng_stream(seed, RNG_SIMULATION, (uint64_t)form, 0);
    for (size_t i = 0; i < n; i++) {
        x[i] = draw(form, &stream, i);
    }
}

static struct coder *make(enum codec codec)
{
    struct coder *coder = NULL;
    struct err err = {0};
    assert_ok(coder_new(codec, VALUES, &coder, &err), &err);
    assert_int_equal(coder_codec(coder), codec);
    return coder;
}

static void check_against_slow(struct coder *coder, unsigned bits, enum coder_data data,
                               const float *x, size_t n)
{
    static unsigned char coded[VALUES * 5];
    static float slow[VALUES], fast[VALUES];
    struct err err = {0};
    const size_t wanted = slow_tensor(x, n, bits, data == CODER_GRADIENT, coded, slow);
    no_alloc_begin();
    const size_t size = coder_encode(coder, data, x, n);
    const int rc = coder_decode(coder, size, fast, n, &err);
    no_alloc_end();
    assert_ok(rc, &err);
    assert_int_equal(size, wanted);
    assert_memory_equal(coder_buffer(coder), coded, size);
    assert_memory_equal(fast, slow, n * sizeof(float));
}

static void codes_are_those_of_the_slow_coder(void **state)
{
    static const size_t sizes[] = {0, 1, 2, 7, 8, 255, 256, 257, 1000, VALUES};
    static float x[VALUES];
    (void)state;
    for (size_t c = 0; c < GROUPED; c++) {
        struct coder *coder = make(grouped[c]);
        for (enum form form = NORMAL; form < FORMS; form++) {
            fill(form, 1 + c, x, VALUES);
            for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
                const unsigned bits = codec_info(grouped[c])->bits;
                check_against_slow(coder, bits, CODER_ACTIVATION, x, sizes[s]);
                check_against_slow(coder, bits, CODER_GRADIENT, x, sizes[s]);
            }
        }
        coder_free(&coder);
    }
}

/* The bound of the format for the group that a value is in: half its scale; 0 if it travels raw. */
static double bound(const unsigned char *table, size_t i)
{
    float scale;
    memcpy(&scale, table + i / CODEC_GROUP * CODEC_ENTRY_BYTES + sizeof(scale), sizeof(scale));
    return scale > 0 ? (double)scale / 2 * (1 + 1e-5) : 0;
}

static void a_value_is_off_by_at_most_half_a_scale(void **state)
{
    static float x[VALUES], back[VALUES];
    static const enum form forms[] = {NORMAL, RELU, SPARSE, OFFSET, CONSTANT, WIDE, TINY};
    (void)state;
    for (size_t c = 0; c < GROUPED; c++) {
        struct coder *coder = make(grouped[c]);
        for (size_t f = 0; f < 2 * sizeof(forms) / sizeof(forms[0]); f++) {
            struct err err = {0};
            fill(forms[f / 2], 40 + f, x, VALUES);
            const size_t size =
                coder_encode(coder, f % 2 ? CODER_ACTIVATION : CODER_GRADIENT, x, VALUES);
            assert_ok(coder_decode(coder, size, back, VALUES, &err), &err);
            for (size_t i = 0; i < VALUES; i++) {
                assert_true(fabs((double)x[i] - (double)back[i]) <= bound(coder_buffer(coder), i));
            }
        }
        coder_free(&coder);
    }
}

static void assert_equal_or_zero(enum form form, bool zeros_only, enum coder_data data)
{
    static float x[VALUES], back[VALUES];
    for (size_t c = 0; c < GROUPED; c++) {
        struct coder *coder = make(grouped[c]);
        struct err err = {0};
        fill(form, 9, x, VALUES);
        const size_t size = coder_encode(coder, data, x, VALUES);
        assert_ok(coder_decode(coder, size, back, VALUES, &err), &err);
        for (size_t i = 0; i < VALUES; i++) {
            assert_true((zeros_only && fabsf(x[i]) > 0) || fabsf(x[i] - back[i]) <= 0);
        }
        coder_free(&coder);
    }
}

static void zeros_stay_zero(void **state)
{
    (void)state;
    assert_equal_or_zero(RELU, true, CODER_ACTIVATION);
    assert_equal_or_zero(SPARSE, true, CODER_ACTIVATION);
    assert_equal_or_zero(SPARSE, true, CODER_GRADIENT);
    assert_equal_or_zero(RELU, true, CODER_GRADIENT);
}

/* Values 256 to 511 and 768 to 1023 of CONSTANT have a step in their group. */
static void a_constant_group_is_exact(void **state)
{
    static const float values[] = {3.7f, 0.0f, -0.0f, -1e-30f, 1e-40f, 1e37f, -FLT_MAX};
    (void)state;
    for (size_t c = 0; c < GROUPED; c++) {
        struct coder *coder = make(grouped[c]);
        for (size_t v = 0; v < sizeof(values) / sizeof(values[0]); v++) {
            float x[300], back[300];
            struct err err = {0};
            for (size_t i = 0; i < 300; i++) {
                x[i] = values[v];
            }
            const size_t size = coder_encode(coder, CODER_GRADIENT, x, 300);
            assert_ok(coder_decode(coder, size, back, 300, &err), &err);
            for (size_t i = 0; i < 300; i++) {
                assert_true(back[i] >= x[i] && back[i] <= x[i]);
            }
        }
        coder_free(&coder);
    }
}

static void a_group_with_nan_or_inf_travels_raw_and_the_others_do_not(void **state)
{
    static float x[VALUES], back[VALUES];
    (void)state;
    struct coder *coder = make(CODEC_Q4);
    struct err err = {0};
    fill(NORMAL, 5, x, VALUES);
    x[10] = NAN;
    x[4 * CODEC_GROUP] = INFINITY;
    x[VALUES - 1] = -INFINITY; /* in a short group of 136 values */
    const size_t size = coder_encode(coder, CODER_ACTIVATION, x, VALUES);
    assert_int_equal(size, codec_bytes(CODEC_Q4, VALUES) + 2 * (1024 - 128) + 136 * 4 - 136 / 2);
    assert_ok(coder_decode(coder, size, back, VALUES, &err), &err);
    assert_memory_equal(back, x, CODEC_GROUP * sizeof(float));
    assert_memory_equal(back + 4 * CODEC_GROUP, x + 4 * CODEC_GROUP, CODEC_GROUP * sizeof(float));
    assert_memory_equal(back + VALUES - 136, x + VALUES - 136, 136 * sizeof(float));
    coder_free(&coder);
}

static void a_tensor_without_raw_groups_has_the_stated_size(void **state)
{
    static float x[VALUES];
    (void)state;
    fill(NORMAL, 5, x, VALUES);
    for (enum codec codec = CODEC_BFLOAT16; codec <= CODEC_Q2; codec++) {
        struct coder *coder = make(codec);
        for (size_t n = 0; n < 600; n++) {
            assert_int_equal(coder_encode(coder, CODER_GRADIENT, x, n), codec_bytes(codec, n));
        }
        coder_free(&coder);
    }
}

static void bfloat16_rounds_to_nearest_even(void **state)
{
    static const struct {
        uint32_t in, out;
    } cases[] = {
        {0x3f800000, 0x3f800000}, {0x3f808000, 0x3f800000}, {0x3f808001, 0x3f810000},
        {0x3f818000, 0x3f820000}, {0xbf808001, 0xbf810000}, {0x7f7fffff, 0x7f800000},
        {0x7f800000, 0x7f800000}, {0xff800000, 0xff800000}, {0x7f800001, 0x7fc00000},
        {0xffffffff, 0xffff0000}, {0x00000001, 0x00000000}, {0x80000000, 0x80000000},
    };
    enum { COUNT = sizeof(cases) / sizeof(cases[0]) };
    float x[COUNT], back[COUNT];
    (void)state;
    struct coder *coder = make(CODEC_BFLOAT16);
    struct err err = {0};
    for (size_t i = 0; i < COUNT; i++) {
        memcpy(&x[i], &cases[i].in, sizeof(x[i]));
    }
    const size_t size = coder_encode(coder, CODER_ACTIVATION, x, COUNT);
    assert_ok(coder_decode(coder, size, back, COUNT, &err), &err);
    for (size_t i = 0; i < COUNT; i++) {
        assert_memory_equal(&back[i], &cases[i].out, sizeof(back[i]));
    }
    coder_free(&coder);
}

static void zstd_shrinks_what_it_can_and_changes_no_value(void **state)
{
    enum { MANY = 200000 };
    float *x = calloc(MANY, sizeof(*x)), *plain = calloc(MANY, sizeof(*x)),
          *squeezed = calloc(MANY, sizeof(*x));
    (void)state;
    assert_true(x && plain && squeezed);
    if (!codec_available(CODEC_Q4_ZSTD)) {
        free(x);
        free(plain);
        free(squeezed);
        test_skip("this build has no zstd");
    }
    for (enum codec codec = CODEC_BFLOAT16_ZSTD; codec < CODECS; codec++) {
        /* Raw groups are larger than the scratch of codes. */
        static const enum form forms[] = {NORMAL, RELU, BROKEN};
        for (size_t f = 0; f < sizeof(forms) / sizeof(forms[0]); f++) {
            struct coder *coder[2];
            struct err err = {0};
            assert_ok(coder_new(codec_info(codec)->plain, MANY, &coder[0], &err), &err);
            assert_ok(coder_new(codec, MANY, &coder[1], &err), &err);
            fill(forms[f], 3, x, MANY);
            const size_t plain_size = coder_encode(coder[0], CODER_ACTIVATION, x, MANY);
            no_alloc_begin();
            const size_t size = coder_encode(coder[1], CODER_ACTIVATION, x, MANY);
            const int rc = coder_decode(coder[1], size, squeezed, MANY, &err);
            no_alloc_end();
            assert_ok(rc, &err);
            assert_ok(coder_decode(coder[0], plain_size, plain, MANY, &err), &err);
            assert_memory_equal(plain, squeezed, MANY * sizeof(*x));
            assert_true(forms[f] == RELU ? size < plain_size : size <= plain_size);
            coder_free(&coder[0]);
            coder_free(&coder[1]);
        }
    }
    free(x);
    free(plain);
    free(squeezed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_are_those_of_the_slow_coder),
        cmocka_unit_test(a_value_is_off_by_at_most_half_a_scale),
        cmocka_unit_test(zeros_stay_zero),
        cmocka_unit_test(a_constant_group_is_exact),
        cmocka_unit_test(a_group_with_nan_or_inf_travels_raw_and_the_others_do_not),
        cmocka_unit_test(a_tensor_without_raw_groups_has_the_stated_size),
        cmocka_unit_test(bfloat16_rounds_to_nearest_even),
        cmocka_unit_test(zstd_shrinks_what_it_can_and_changes_no_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
