/* The rules of the matches of an assignment. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schema/mix_duty.h"
#include "tests/support/test.h"

/* Group 1 of 3: a pair with group 2, and it computes the average of all. */
static struct mix_duty duty;

static int setup(void **state)
{
    (void)state;
    memset(&duty, 0, sizeof(duty));
    duty.group = 1;
    duty.generation = 4;
    duty.groups = 3;
    duty.order_count = 2;
    duty.order[0] = (struct mix_order){.xid = {1, 7}, .kind = MIX_PAIR, .source_count = 1};
    duty.order[0].source[0].group = 2;
    duty.order[1] =
        (struct mix_order){.xid = {1, 8}, .kind = MIX_AVERAGE, .averages = true, .source_count = 3};
    for (size_t i = 0; i < 3; i++) {
        duty.order[1].source[i].group = (int64_t)i;
        duty.order[1].source[i].generation = 4;
        (void)snprintf(duty.order[1].source[i].peer.url, URL_SIZE, i == 1 ? "" : "http://x");
    }
    (void)snprintf(duty.order[0].source[0].peer.url, URL_SIZE, "http://x");
    return 0;
}

static void expect(const char *fault)
{
    struct err err = {0};
    assert_int_equal(mix_duty_check(&duty, &err), fault ? ERR_INVALID : 0);
    if (fault) {
        assert_holds(err.text, fault);
    }
    (void)setup(NULL);
}

static void matches_name_what_they_need(void **state)
{
    (void)state;
    struct mix_order *pair = &duty.order[0], *average = &duty.order[1];
    expect(NULL);
    duty.group = 3;
    expect("/run/mix/group");
    pair->kind = MIX_START;
    expect("/run/mix/orders/0/kind");
    pair->averages = true;
    expect("/run/mix/orders/0/kind");
    average->xid.counter = 0;
    expect("/run/mix/orders/1/xid/counter");
    average->kind = MIX_PAIR;
    average->averages = false;
    average->source_count = 1;
    average->source[0] = pair->source[0];
    expect("one pair and one average");
    pair->source_count = 0;
    expect("/run/mix/orders/0/sources: expected 1 to 1");
    pair->source_count = 2;
    expect("/run/mix/orders/0/sources: expected 1 to 1");
    pair->source[0].peer.url[0] = '\0';
    expect("/run/mix/orders/0/sources/0: has no url");
    pair->source[0].group = 1;
    expect("/run/mix/orders/0/sources/0: is the group itself");
    pair->source[0].group = 3;
    expect("/run/mix/orders/0/sources/0: groups rise");
}

static void averages_list_their_groups_in_order(void **state)
{
    (void)state;
    struct mix_order *average = &duty.order[1];
    average->averages = false; /* it only gives its copy */
    average->source_count = 0;
    expect(NULL);
    average->averages = false;
    expect("/run/mix/orders/1/sources: expected 0 to 0");
    average->source_count = 0;
    expect("/run/mix/orders/1/sources: expected 1 to 3");
    average->source_count = 4;
    expect("/run/mix/orders/1/sources: expected 1 to 3");
    average->source[1].generation = 3;
    expect("/run/mix/orders/1/sources/1: is the group itself");
    average->source[2].group = 0;
    expect("/run/mix/orders/1/sources/2: groups rise");
    average->kind = MIX_ADOPT;
    average->averages = false;
    average->source_count = 1;
    expect(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(matches_name_what_they_need, setup),
        cmocka_unit_test_setup(averages_list_their_groups_in_order, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
