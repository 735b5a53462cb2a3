#include "agent/core/way_list.h"

#include <stdio.h>

#include "tests/support/test.h"

static const struct device_id peer = {"dev_peer"};
static const struct device_id other = {"dev_other"};

static size_t choose(const struct way_list *list, int64_t now_ms)
{
    return way_list_choose(list, &peer, false, now_ms);
}

static size_t relayed(const struct way_list *list)
{
    struct device_id out[RELAYED_MAX];
    return way_list_relayed(list, out);
}

static void a_peer_is_called_directly_first(void **state)
{
    (void)state;
    struct way_list list = {0};
    way_list_set_relays(&list, 2);
    assert_int_equal(choose(&list, 0), WAY_DIRECT);
    assert_false(way_list_tried(&list, &peer, WAY_DIRECT, WAY_REACHED, 0));
    assert_int_equal(choose(&list, 1), WAY_DIRECT);
    assert_int_equal(list.count, 0);
    assert_int_equal(relayed(&list), 0);
}

static void each_way_that_leads_nowhere_is_followed_by_the_next(void **state)
{
    (void)state;
    struct way_list list = {0};
    way_list_set_relays(&list, 2);
    for (size_t way = 0; way < 6; way++) {
        assert_int_equal(choose(&list, 0), way % 3);
        assert_true(way_list_tried(&list, &peer, way % 3, WAY_MISSED, 0));
        assert_int_equal(relayed(&list), 0);
    }
    assert_int_equal(way_list_choose(&list, &other, false, 0), WAY_DIRECT);
}

static void a_relay_that_leads_to_the_peer_is_kept(void **state)
{
    (void)state;
    struct way_list list = {0};
    struct device_id out[RELAYED_MAX];
    way_list_set_relays(&list, 2);
    assert_true(way_list_tried(&list, &peer, WAY_DIRECT, WAY_MISSED, 10));
    assert_false(way_list_tried(&list, &peer, 1, WAY_REACHED, 11));
    assert_int_equal(choose(&list, 1000000), 1);
    assert_int_equal(way_list_relayed(&list, out), 1);
    assert_string_equal(out[0].text, peer.text);
    /* Its end is followed by the next one, which may be the direct way again. */
    assert_true(way_list_tried(&list, &peer, 1, WAY_MISSED, 12));
    assert_int_equal(choose(&list, 12), 2);
    assert_true(way_list_tried(&list, &peer, 2, WAY_MISSED, 13));
    assert_int_equal(choose(&list, 13), WAY_DIRECT);
    assert_false(way_list_tried(&list, &peer, WAY_DIRECT, WAY_REACHED, 14));
    assert_int_equal(relayed(&list), 0);
}

static void the_first_call_of_a_generation_tries_the_direct_way_now_and_then(void **state)
{
    (void)state;
    struct way_list list = {0};
    way_list_set_relays(&list, 1);
    (void)way_list_tried(&list, &peer, WAY_DIRECT, WAY_MISSED, 0);
    (void)way_list_tried(&list, &peer, 1, WAY_REACHED, 0);
    assert_int_equal(way_list_choose(&list, &peer, true, WAY_DIRECT_MS - 1), 1);
    assert_int_equal(way_list_choose(&list, &peer, false, WAY_DIRECT_MS), 1);
    assert_int_equal(way_list_choose(&list, &peer, true, WAY_DIRECT_MS), WAY_DIRECT);
    assert_true(way_list_tried(&list, &peer, WAY_DIRECT, WAY_MISSED, WAY_DIRECT_MS));
    assert_int_equal(way_list_choose(&list, &peer, true, WAY_DIRECT_MS), 1);
    assert_int_equal(relayed(&list), 1); /* nothing has changed */
}

static void without_relays_nothing_is_remembered(void **state)
{
    (void)state;
    struct way_list list = {0};
    assert_false(way_list_tried(&list, &peer, WAY_DIRECT, WAY_MISSED, 0));
    assert_int_equal(choose(&list, 0), WAY_DIRECT);
    assert_int_equal(list.count, 0);
}

static void relays_that_are_gone_are_not_chosen(void **state)
{
    (void)state;
    struct way_list list = {0};
    way_list_set_relays(&list, 3);
    (void)way_list_tried(&list, &peer, WAY_DIRECT, WAY_MISSED, 0);
    (void)way_list_tried(&list, &peer, 3, WAY_REACHED, 0);
    way_list_set_relays(&list, 1);
    assert_int_equal(choose(&list, 0), 1);
    way_list_set_relays(&list, 0);
    assert_int_equal(choose(&list, 0), WAY_DIRECT);
}

static void the_peer_used_longest_ago_makes_room(void **state)
{
    (void)state;
    struct way_list list = {0};
    way_list_set_relays(&list, 1);
    (void)way_list_tried(&list, &peer, WAY_DIRECT, WAY_MISSED, 0);
    for (int i = 0; i < WAYS_MAX; i++) {
        struct device_id id;
        (void)snprintf(id.text, sizeof(id.text), "dev_%d", i);
        (void)way_list_tried(&list, &id, WAY_DIRECT, WAY_MISSED, 1 + i);
    }
    assert_int_equal(list.count, WAYS_MAX);
    assert_int_equal(choose(&list, 0), WAY_DIRECT);
    assert_int_equal(way_list_choose(&list, &(struct device_id){"dev_0"}, false, 0), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_peer_is_called_directly_first),
        cmocka_unit_test(each_way_that_leads_nowhere_is_followed_by_the_next),
        cmocka_unit_test(a_relay_that_leads_to_the_peer_is_kept),
        cmocka_unit_test(the_first_call_of_a_generation_tries_the_direct_way_now_and_then),
        cmocka_unit_test(without_relays_nothing_is_remembered),
        cmocka_unit_test(relays_that_are_gone_are_not_chosen),
        cmocka_unit_test(the_peer_used_longest_ago_makes_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
