#include "net/places.h"
#include "tests/support/test.h"

#define PLACES 12

/* 8 places, 4 of them for strangers' requests, 3 for one address; deadlines of a second, 10 s
 * between requests. */
static struct places *eight(void)
{
    const struct places_limits limits = {
        .total = 8,
        .strangers = 4,
        .per_address = 3,
        .stage_ms =
            {[STAGE_QUIET] = 10000, [STAGE_HEAD] = 1000, [STAGE_GUEST] = 1000, [STAGE_BODY] = 1000},
    };
    struct places *places = NULL;
    struct err err = {0};
    assert_ok(places_new(&limits, PLACES, &places, &err), &err);
    return places;
}

static void enter(struct places *places, size_t place, uint64_t address, int64_t now_ms)
{
    assert_int_equal(places_enter(places, place, address, now_ms), PLACE_NONE);
}

static void the_timeout_of_a_header_starts_with_its_first_byte(void **state)
{
    (void)state;
    struct places *places = eight();
    assert_int_equal(places_deadline_ms(places), INT64_MAX);
    enter(places, 3, 1, 100);
    assert_int_equal(places_deadline_ms(places), 1100);
    assert_int_equal(places_overdue(places, 1099), PLACE_NONE);
    assert_int_equal(places_overdue(places, 1100), 3);
    assert_true(places_admit(places, 3, false));
    places_enter_stage(places, 3, STAGE_WAIT, 1000);
    assert_int_equal(places_deadline_ms(places), INT64_MAX);
    places_enter_stage(places, 3, STAGE_QUIET, 5000);
    assert_int_equal(places_deadline_ms(places), 15000);
    places_enter_stage(places, 3, STAGE_HEAD, 14000);
    assert_int_equal(places_overdue(places, 15000), 3);
    places_break_off(places, 3);
    assert_int_equal(places_overdue(places, 99000), PLACE_NONE);
    places_free(&places);
}

static void the_first_to_be_overdue_comes_first_whatever_its_stage(void **state)
{
    (void)state;
    struct places *places = eight();
    for (size_t i = 0; i < 3; i++) {
        enter(places, i, i, (int64_t)i * 10);
    }
    places_know(places, 1, 11);
    places_enter_stage(places, 0, STAGE_BODY, 500);
    assert_int_equal(places_overdue(places, 1015), 1);
    places_enter_stage(places, 1, STAGE_BODY, 1015);
    assert_int_equal(places_deadline_ms(places), 1020);
    assert_int_equal(places_overdue(places, 1020), 2);
    places_leave(places, 2);
    assert_int_equal(places_deadline_ms(places), 1500);
    places_free(&places);
}

static void a_newcomer_takes_the_place_of_the_latest_header(void **state)
{
    (void)state;
    struct places *places = eight();
    for (size_t i = 0; i < 8; i++) {
        enter(places, i, i, (int64_t)i);
    }
    assert_int_equal(places_enter(places, 8, 8, 500), 0);
    assert_int_equal(places_enter(places, 9, 9, 500), 1);
    places_leave(places, 0);
    assert_int_equal(places_enter(places, 0, 10, 500), 2);
    places_free(&places);
}

static void quiet_connections_give_way_before_a_new_header(void **state)
{
    (void)state;
    struct places *places = eight();
    for (size_t i = 0; i < 8; i++) {
        enter(places, i, i, (int64_t)i);
    }
    assert_true(places_admit(places, 5, false));
    places_enter_stage(places, 5, STAGE_WAIT, 20);
    places_enter_stage(places, 5, STAGE_QUIET, 30);
    assert_int_equal(places_enter(places, 8, 8, 40), 5);
    /* A header that is late goes first. */
    places_leave(places, 5);
    places_enter_stage(places, 6, STAGE_QUIET, 50);
    assert_int_equal(places_enter(places, 5, 9, 1000), 0);
    places_free(&places);
}

static void requests_and_known_clients_keep_their_places(void **state)
{
    (void)state;
    struct places *places = eight();
    for (size_t i = 0; i < 8; i++) {
        enter(places, i, i, 0);
        if (i < 4) {
            assert_true(places_admit(places, i, false));
            places_enter_stage(places, i, STAGE_BODY, 0);
        } else {
            places_know(places, i, 0);
            places_enter_stage(places, i, STAGE_QUIET, 0);
        }
    }
    assert_int_equal(places_enter(places, 8, 8, 5000), 8);
    places_free(&places);
}

static void strangers_leave_the_reserved_share_free(void **state)
{
    (void)state;
    struct places *places = eight();
    for (size_t i = 0; i < 7; i++) {
        enter(places, i, i, 0);
        assert_int_equal(places_admit(places, i, false), i < 4);
    }
    assert_true(places_admit(places, 4, true));
    places_know(places, 5, 0);
    assert_true(places_admit(places, 5, false));
    assert_false(places_admit(places, 6, false));
    /* A request that is over, a stranger that became known and one that left make room. */
    places_enter_stage(places, 0, STAGE_QUIET, 1);
    assert_true(places_admit(places, 6, false));
    assert_false(places_admit(places, 0, false));
    places_know(places, 1, 2);
    assert_true(places_admit(places, 0, false));
    places_leave(places, 2);
    enter(places, 2, 9, 3);
    assert_true(places_admit(places, 2, false));
    enter(places, 7, 10, 3);
    assert_false(places_admit(places, 7, false));
    places_free(&places);
}

static void a_guest_in_the_reserved_share_gives_way(void **state)
{
    (void)state;
    struct places *places = eight();
    for (size_t i = 0; i < 8; i++) {
        enter(places, i, i, 0);
        assert_true(places_admit(places, i, true));
        places_enter_stage(places, i, STAGE_GUEST, (int64_t)i);
    }
    assert_int_equal(places_enter(places, 8, 8, 10), 0);
    places_know(places, 1, 10);
    places_enter_stage(places, 8, STAGE_WAIT, 10);
    assert_int_equal(places_enter(places, 9, 9, 10), 2);
    places_free(&places);
}

static void an_unread_response_gives_way_in_the_reserved_share(void **state)
{
    (void)state;
    struct places *places = eight();
    for (size_t i = 0; i < 8; i++) {
        enter(places, i, i, 0);
        assert_true(places_admit(places, i, i >= 4));
        places_enter_stage(places, i, STAGE_REPLY, (int64_t)i);
    }
    assert_int_equal(places_enter(places, 8, 8, 10), 4);
    /* A request in the share of strangers keeps its place until its reply is sent. */
    for (size_t i = 5; i < 8; i++) {
        places_know(places, i, 10);
    }
    assert_int_equal(places_enter(places, 9, 9, 10), 8);
    assert_int_equal(places_enter(places, 10, 10, 10), 9);
    assert_true(places_admit(places, 10, true));
    places_enter_stage(places, 10, STAGE_WAIT, 10);
    assert_int_equal(places_enter(places, 11, 11, 10), 11);
    places_free(&places);
}

static void strangers_of_one_address_share_a_bound(void **state)
{
    (void)state;
    struct places *places = eight();
    for (size_t i = 0; i < 3; i++) {
        enter(places, i, 7, 0);
        places_enter_stage(places, i, STAGE_BODY, 0);
        assert_true(places_admit(places, i, false));
    }
    /* None of them loses its place: the next connects only to read its rejection, and the one after
     * it takes its place. */
    enter(places, 3, 7, 1);
    assert_false(places_admit(places, 3, false));
    assert_true(places_admit(places, 3, true));
    enter(places, 4, 8, 1);
    assert_true(places_admit(places, 4, false));
    assert_int_equal(places_enter(places, 5, 7, 2), 3);
    /* Known clients do not count. */
    for (size_t i = 0; i < 3; i++) {
        places_know(places, i, 3);
    }
    enter(places, 6, 7, 4);
    assert_true(places_admit(places, 6, false));
    places_free(&places);
}

static void places_are_used_again_without_end(void **state)
{
    (void)state;
    struct places *places = eight();
    for (int64_t round = 0; round < 1000; round++) {
        for (size_t i = 0; i < 8; i++) {
            enter(places, i, (uint64_t)round << (i * 4) | i, round * 100);
            assert_int_equal(places_admit(places, i, i % 2), i % 2 || i < 8);
            places_enter_stage(places, i, i % 2 ? STAGE_GUEST : STAGE_WAIT, round * 100);
        }
        for (size_t i = 0; i < 8; i++) {
            places_leave(places, (i * 3) % 8);
        }
        assert_int_equal(places_deadline_ms(places), INT64_MAX);
    }
    places_free(&places);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_timeout_of_a_header_starts_with_its_first_byte),
        cmocka_unit_test(the_first_to_be_overdue_comes_first_whatever_its_stage),
        cmocka_unit_test(a_newcomer_takes_the_place_of_the_latest_header),
        cmocka_unit_test(quiet_connections_give_way_before_a_new_header),
        cmocka_unit_test(requests_and_known_clients_keep_their_places),
        cmocka_unit_test(strangers_leave_the_reserved_share_free),
        cmocka_unit_test(a_guest_in_the_reserved_share_gives_way),
        cmocka_unit_test(an_unread_response_gives_way_in_the_reserved_share),
        cmocka_unit_test(strangers_of_one_address_share_a_bound),
        cmocka_unit_test(places_are_used_again_without_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
