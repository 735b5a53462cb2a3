#include <stdint.h>
#include <string.h>

#include "base/sort.h"
#include "tests/support/test.h"

#define COUNT_MAX 200

struct item {
    uint32_t key;
    char rest[90]; /* larger than one swap */
};

static int compare(const void *left, const void *right)
{
    const struct item *a = left, *b = right;
    return a->key < b->key ? -1 : a->key > b->key;
}

static void fill(struct item *item, uint32_t key)
{
    item->key = key;
    memset(item->rest, (int)(key & 0xff), sizeof(item->rest));
}

static void check(struct item *item, size_t count, uint64_t sum)
{
    sort_in_place(item, count, sizeof(*item), compare);
    for (size_t i = 0; i < count; i++) {
        assert_true(i == 0 || item[i - 1].key <= item[i].key);
        assert_int_equal((unsigned char)item[i].rest[89], item[i].key & 0xff);
        sum -= item[i].key;
    }
    assert_true(sum == 0);
}

static void every_count_and_order_is_sorted(void **state)
{
    (void)state;
    static struct item item[COUNT_MAX];
    for (size_t count = 0; count <= COUNT_MAX; count++) {
        for (uint64_t order = 0; order < 4; order++) {
            uint64_t sum = 0;
            for (size_t i = 0; i < count; i++) {
                const uint32_t word = (uint32_t)((count + 1) * 2654435761u * (i + 1));
                const uint32_t keys[] = {word, word % 4, (uint32_t)i, (uint32_t)(count - i)};
                fill(&item[i], keys[order]);
                sum += keys[order];
            }
            check(item, count, sum);
        }
    }
}

static void a_median_of_an_even_number_is_the_mean_of_both_in_the_middle(void **state)
{
    (void)state;
    double value[] = {7, 1, 4, 2, 100};
    assert_true(sort_median(value, 1) == 7);
    assert_true(sort_median(value, 2) == 4);
    assert_true(value[0] == 1 && value[1] == 7); /* sorted */
    assert_true(sort_median(value, 3) == 4);
    assert_true(sort_median(value, 4) == 3);
    assert_true(sort_median(value, 5) == 4);
}

static void inserted_keys_fall_and_equal_ones_keep_their_order(void **state)
{
    (void)state;
    const double keys[] = {2, 5, 2, 0, 5, 7};
    const size_t expected[] = {5, 1, 4, 0, 2, 3};
    size_t order[6];
    double key[6];
    for (size_t i = 0; i < 6; i++) {
        sort_insert(order, key, i, keys[i]);
    }
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(order[i], expected[i]);
        assert_true(key[i] == keys[expected[i]]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_count_and_order_is_sorted),
        cmocka_unit_test(a_median_of_an_even_number_is_the_mean_of_both_in_the_middle),
        cmocka_unit_test(inserted_keys_fall_and_equal_ones_keep_their_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
