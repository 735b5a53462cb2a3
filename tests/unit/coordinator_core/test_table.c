#include "coordinator/core/state/table.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "tests/support/test.h"

struct thing {
    int number;
    char key[16];
};

static struct thing *add(struct table *table, const char *key)
{
    struct thing *thing = table_add(table, key);
    if (thing) {
        (void)snprintf(thing->key, sizeof(thing->key), "%s", key);
    }
    return thing;
}

static void things_are_found_and_listed_in_order(void **state)
{
    (void)state;
    struct table table;
    struct err err = {0};
    assert_ok(table_init(&table, sizeof(struct thing), offsetof(struct thing, key), 3, &err), &err);
    assert_non_null(add(&table, "m"));
    assert_non_null(add(&table, "a"));
    assert_non_null(add(&table, "z"));
    assert_null(add(&table, "q"));
    assert_string_equal(((struct thing *)table_at(&table, 0))->key, "a");
    assert_string_equal(((struct thing *)table_at(&table, 2))->key, "z");
    assert_null(table_find(&table, "q"));
    struct thing *m = table_find(&table, "m");
    m->number = 7;
    table_remove(&table, m);
    assert_null(table_find(&table, "m"));
    assert_int_equal(m->number, 7); /* until the place is taken */
    assert_ptr_equal(add(&table, "q"), m);
    assert_int_equal(m->number, 0);
    table_done(&table);
}

static void any_order_of_adding_and_removing_keeps_the_order(void **state)
{
    (void)state;
    enum { KEYS = 64 };
    struct table table;
    struct err err = {0};
    bool there[KEYS] = {false};
    struct rng_stream stream = rng_stream(3, RNG_SIMULATION, 0, 0);
    assert_ok(table_init(&table, sizeof(struct thing), offsetof(struct thing, key), KEYS, &err),
              &err);
    for (uint64_t i = 0; i < 20000; i++) {
        size_t number = (size_t)rng_below(&stream, i, KEYS);
        char key[16];
        (void)snprintf(key, sizeof(key), "key%02zu", number);
        struct thing *thing = table_find(&table, key);
        assert_int_equal(thing != NULL, there[number]);
        if (thing) {
            table_remove(&table, thing);
        } else {
            assert_non_null(add(&table, key));
        }
        there[number] = !there[number];
        for (size_t k = 1; k < table.count; k++) {
            assert_true(strcmp(((struct thing *)table_at(&table, k - 1))->key,
                               ((struct thing *)table_at(&table, k))->key) < 0);
        }
    }
    table_done(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(things_are_found_and_listed_in_order),
        cmocka_unit_test(any_order_of_adding_and_removing_keeps_the_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
