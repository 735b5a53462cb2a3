#include "base/rng.h"

#include "tests/support/test.h"

static void check_block(const uint32_t key[2], const uint32_t counter[4],
                        const uint32_t expected[4])
{
    struct rng_block block = rng_philox(key, counter);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(block.word[i], expected[i]);
    }
}

/* Random123, kat_vectors, philox4x32 with 10 rounds. */
static void philox_gives_the_known_answers(void **state)
{
    (void)state;
    check_block((const uint32_t[2]){0, 0}, (const uint32_t[4]){0, 0, 0, 0},
                (const uint32_t[4]){0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
    check_block((const uint32_t[2]){0xffffffff, 0xffffffff},
                (const uint32_t[4]){0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
                (const uint32_t[4]){0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
    check_block((const uint32_t[2]){0xa4093822, 0x299f31d0},
                (const uint32_t[4]){0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                (const uint32_t[4]){0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

static void a_word_is_the_word_of_its_block(void **state)
{
    (void)state;
    struct rng_stream stream = rng_stream(7, RNG_DROPOUT, 3, 5);
    for (uint64_t index = 0; index < 40; index++) {
        assert_int_equal(rng_word(&stream, index), rng_block(&stream, index / 4).word[index % 4]);
    }
}

static void far_words_use_the_upper_half_of_the_counter(void **state)
{
    (void)state;
    struct rng_stream stream = rng_stream(7, RNG_DROPOUT, 3, 5);
    assert_int_not_equal(rng_word(&stream, 1), rng_word(&stream, (UINT64_C(1) << 34) + 1));
}

static void every_part_of_the_key_changes_the_stream(void **state)
{
    (void)state;
    const struct rng_stream streams[] = {
        rng_stream(1, RNG_SHUFFLE, 2, 3),
        rng_stream(2, RNG_SHUFFLE, 2, 3),
        rng_stream(1 + (UINT64_C(1) << 32), RNG_SHUFFLE, 2, 3),
        rng_stream(1, RNG_AUGMENT, 2, 3),
        rng_stream(1, RNG_SHUFFLE, 4, 3),
        rng_stream(1, RNG_SHUFFLE, 2 + (UINT64_C(1) << 32), 3),
        rng_stream(1, RNG_SHUFFLE, 2, 4),
    };
    const size_t count = sizeof(streams) / sizeof(streams[0]);
    for (size_t i = 0; i < count; i++) {
        for (size_t j = i + 1; j < count; j++) {
            assert_memory_not_equal(&streams[i], &streams[j], sizeof(streams[i]));
            assert_int_not_equal(rng_word(&streams[i], 0), rng_word(&streams[j], 0));
        }
    }
}

/* 64 cells of 1,024 expected draws: chi-square has 63 degrees of freedom, so 120 is beyond the 1 -
 * 1e-5 quantile. The draws are fixed: this fails only when the generator changes. */
static void uniform_numbers_fill_the_unit_interval_evenly(void **state)
{
    (void)state;
    enum { CELLS = 64, DRAWS = 65536 };
    struct rng_stream stream = rng_stream(1, RNG_SIMULATION, 0, 0);
    int cell[CELLS] = {0};
    for (uint64_t i = 0; i < DRAWS; i++) {
        float number = rng_uniform(&stream, i);
        assert_true(number >= 0.0f && number < 1.0f);
        cell[(int)(number * CELLS)]++;
    }
    double chi_square = 0;
    for (int i = 0; i < CELLS; i++) {
        double difference = cell[i] - (double)DRAWS / CELLS;
        chi_square += difference * difference / ((double)DRAWS / CELLS);
    }
    assert_true(chi_square > 25 && chi_square < 120);
}

static void bounded_numbers_stay_below_the_bound_and_reach_every_value(void **state)
{
    (void)state;
    struct rng_stream stream = rng_stream(1, RNG_SIMULATION, 1, 0);
    int seen[7] = {0};
    for (uint64_t i = 0; i < 700; i++) {
        uint64_t number = rng_below(&stream, i, 7);
        assert_in_range(number, 0, 6);
        seen[number]++;
    }
    for (int i = 0; i < 7; i++) {
        assert_in_range(seen[i], 60, 140);
    }
    assert_int_equal(rng_below(&stream, 3, 1), 0);
    assert_true(rng_below(&stream, 5, UINT64_MAX) > UINT32_MAX);
}

static void bounded_numbers_take_two_words_each(void **state)
{
    (void)state;
    struct rng_stream stream = rng_stream(9, RNG_SHUFFLE, 0, 0);
    for (uint64_t i = 0; i < 16; i++) {
        uint64_t pair = (uint64_t)rng_word(&stream, 2 * i + 1) << 32 | rng_word(&stream, 2 * i);
        assert_int_equal(rng_below(&stream, i, UINT64_C(1) << 32), pair >> 32);
    }
}

/* The upper halves of the products of stream 9's numbers and these bounds, by Python's integers. */
static void bounded_numbers_use_every_bit_of_the_product(void **state)
{
    (void)state;
    static const struct {
        uint64_t bound, expected[4];
    } known[] = {
        {UINT64_C(0xffffffffffffffff),
         {UINT64_C(0xeb67c4022ebe413a), UINT64_C(0x7b634a99a173b428), UINT64_C(0xf398937e0b56e081),
          UINT64_C(0x1f15bee31bd80ec1)}},
        {UINT64_C(0x80000000ffffffff),
         {UINT64_C(0x75b3e20202c6e49e), UINT64_C(0x3db1a54d4c1d24ad), UINT64_C(0x79cc49bff94403be),
          UINT64_C(0xf8adf71ad01c643)}},
        {UINT64_C(0x123456789abcdef1),
         {UINT64_C(0x10bd6c5fba819514), UINT64_C(0x8c6351770be45ab), UINT64_C(0x115287a4d6b5653d),
          UINT64_C(0x235e256b132a29b)}},
        {UINT64_C(0x1ffffffff),
         {UINT64_C(0x1d6cf8803), UINT64_C(0xf6c69532), UINT64_C(0x1e73126fb),
          UINT64_C(0x3e2b7dc6)}},
        {UINT64_C(0x3), {UINT64_C(0x2), UINT64_C(0x1), UINT64_C(0x2), UINT64_C(0x0)}},
    };
    struct rng_stream stream = rng_stream(9, RNG_SHUFFLE, 0, 0);
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        for (uint64_t k = 0; k < 4; k++) {
            assert_true(rng_below(&stream, k, known[i].bound) == known[i].expected[k]);
        }
    }
}

/* The order of Fisher and Yates under stream 9, by Python's integers. */
static void a_shuffle_has_the_known_order(void **state)
{
    (void)state;
    static const uint32_t known[] = {5, 8, 6, 11, 1, 4, 10, 0, 3, 9, 2, 7};
    enum { COUNT = sizeof(known) / sizeof(known[0]) };
    uint32_t item[COUNT + 1];
    struct rng_stream stream = rng_stream(9, RNG_SHUFFLE, 0, 0);
    for (uint32_t i = 0; i <= COUNT; i++) {
        item[i] = i;
    }
    rng_shuffle(&stream, item, 0);
    rng_shuffle(&stream, item, 1);
    assert_int_equal(item[0], 0);
    rng_shuffle(&stream, item, COUNT);
    assert_memory_equal(item, known, sizeof(known));
    assert_int_equal(item[COUNT], COUNT);
}

/* 24 orders of 1,000 expected shuffles: chi-square has 23 degrees of freedom, so 60 is beyond the
 * 1 - 1e-4 quantile. */
static void every_order_is_as_likely(void **state)
{
    (void)state;
    enum { ITEMS = 4, ORDERS = 24, SHUFFLES = 24000 };
    int seen[ITEMS * ITEMS * ITEMS] = {0}; /* by the first three items */
    for (uint64_t i = 0; i < SHUFFLES; i++) {
        uint32_t item[ITEMS] = {0, 1, 2, 3};
        struct rng_stream stream = rng_stream(1, RNG_SIMULATION, i, 0);
        rng_shuffle(&stream, item, ITEMS);
        seen[(item[0] * ITEMS + item[1]) * ITEMS + item[2]]++;
    }
    double chi_square = 0;
    int orders = 0;
    for (int i = 0; i < ITEMS * ITEMS * ITEMS; i++) {
        const double difference = seen[i] - (double)SHUFFLES / ORDERS;
        chi_square += seen[i] > 0 ? difference * difference / ((double)SHUFFLES / ORDERS) : 0;
        orders += seen[i] > 0;
    }
    assert_int_equal(orders, ORDERS);
    assert_true(chi_square > 5 && chi_square < 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_gives_the_known_answers),
        cmocka_unit_test(a_word_is_the_word_of_its_block),
        cmocka_unit_test(far_words_use_the_upper_half_of_the_counter),
        cmocka_unit_test(every_part_of_the_key_changes_the_stream),
        cmocka_unit_test(uniform_numbers_fill_the_unit_interval_evenly),
        cmocka_unit_test(bounded_numbers_stay_below_the_bound_and_reach_every_value),
        cmocka_unit_test(bounded_numbers_take_two_words_each),
        cmocka_unit_test(bounded_numbers_use_every_bit_of_the_product),
        cmocka_unit_test(a_shuffle_has_the_known_order),
        cmocka_unit_test(every_order_is_as_likely),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
