/* Links: estimated from transfers, of the pair, of the devices, and of several devices at a time.
 */
#include <string.h>

#include "coordinator/core/capacity/traffic.h"
#include "coordinator/core/placement/parameter_server.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "libtrain/model/segments.h"
#include "tests/unit/coordinator_core/story.h"

static void a_link_never_used_is_as_slow_as_those_of_both_its_devices(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 100, 5);
    struct core *core = world->core;
    const struct device_slot *slot[3];
    for (size_t i = 0; i < 3; i++) {
        slot[i] = slots_device(core, world->agent[i].id.text);
    }
    struct link_report slow = {.device = world->agent[1].id,
                               .count = 10,
                               .seconds_sum = 10,
                               .bytes_sum = 1e7,
                               .bytes_squared_sum = 1e13,
                               .bytes_seconds_sum = 1e7};
    assert_true(traffic_take(core, slot[0], &slow, (struct link_users){1, 1})); /* a to b: 1 MB/s */
    struct link_speed link = traffic_link(core, slot[0], slot[2]);
    assert_true(link.bytes_per_second == LINK_BYTES_PER_SECOND);
    assert_true(traffic_take(core, slot[2], &slow, (struct link_users){1, 1})); /* c to b */
    link = traffic_link(core, slot[0], slot[2]);
    assert_true(link.bytes_per_second < 2e6);
    assert_true(traffic_link(core, slot[1], slot[0]).bytes_per_second < 2e6);
}

static double seconds_of(const struct link_speed *link, double bytes)
{
    return link->latency_seconds + bytes / link->bytes_per_second;
}

/* Three workers share the link of a server, which alone limits them. */
static void transfers_that_share_a_link_count_as_if_alone(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 100, 5);
    struct core *core = world->core;
    const struct device_slot *server = slots_device(core, world->agent[0].id.text);
    const struct device_slot *worker = slots_device(core, world->agent[1].id.text);
    const struct link_report one = {.device = world->agent[0].id,
                                    .count = 1,
                                    .seconds_sum = 10,
                                    .bytes_sum = 1e7,
                                    .bytes_squared_sum = 1e14,
                                    .bytes_seconds_sum = 1e8};
    struct link_speed link;
    assert_true(traffic_take(core, worker, &one, (struct link_users){1, 3}));
    assert_false(traffic_device_link(core, server, &link)); /* one transfer shows little */
    core->now_ms += 1000;
    assert_true(traffic_take(core, worker, &one, (struct link_users){1, 3}));
    assert_true(traffic_device_link(core, server, &link));
    assert_float_equal(seconds_of(&link, 1e7), 10.0 / 3, 1e-3);
    link = traffic_link(core, server, worker);
    assert_float_equal(seconds_of(&link, 1e7), 10.0 / 3, 1e-3);
    assert_false(traffic_device_link(core, worker, &link)); /* its own link was never full */
    struct link_report slower = one; /* to a third device, as in a pipeline */
    slower.device = world->agent[2].id;
    slower.seconds_sum *= 2;
    slower.bytes_seconds_sum *= 2;
    for (int i = 0; i < 2; i++) {
        assert_true(traffic_take(core, worker, &slower, (struct link_users){1, 1}));
    }
    assert_true(traffic_device_link(core, worker, &link));
    assert_float_equal(seconds_of(&link, 1e7), 10, 1e-2); /* as fast as beside others */
}

static void a_link_that_changed_is_noticed_within_a_few_reports(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 100, 5);
    struct core *core = world->core;
    const struct device_slot *a = slots_device(core, world->agent[0].id.text);
    const struct device_slot *b = slots_device(core, world->agent[1].id.text);
    struct link_report report_of = {
        .device = world->agent[1].id, .count = 10, .bytes_sum = 1e7, .bytes_squared_sum = 1e13};
    for (int i = 0; i < 200; i++) {
        report_of.seconds_sum = i < 195 ? 0.1 : 1; /* 100 MB/s, then 10 */
        report_of.bytes_seconds_sum = 1e6 * report_of.seconds_sum;
        assert_true(traffic_take(core, a, &report_of, (struct link_users){1, 1}));
    }
    const struct link_speed link = traffic_link(core, a, b);
    const double seconds = seconds_of(&link, 1e6);
    assert_true(seconds > 0.08 && seconds < 0.11);
}

/* A copy of a group, which is alone in its report. */
static void take_copies(struct core *core, const struct device_slot *from,
                        const struct device_slot *to, int count, double seconds)
{
    const struct link_report one = {.device = to->device.id,
                                    .kind = LINK_FETCH,
                                    .count = 1,
                                    .seconds_sum = seconds,
                                    .bytes_sum = 1e6,
                                    .bytes_squared_sum = 1e12,
                                    .bytes_seconds_sum = 1e6 * seconds};
    for (int i = 0; i < count; i++) {
        assert_true(traffic_take(core, from, &one, (struct link_users){1, 1}));
    }
}

static void single_transfers_show_a_change_when_three_in_turn_are_late(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 100, 5);
    struct core *core = world->core;
    const struct device_slot *a = slots_device(core, world->agent[0].id.text);
    const struct device_slot *b = slots_device(core, world->agent[1].id.text);
    take_copies(core, a, b, 100, 0.1);
    take_copies(core, a, b, 2, 1);
    take_copies(core, a, b, 1, 0.1);
    take_copies(core, a, b, 2, 1);
    struct link_speed link = traffic_link(core, a, b);
    assert_true(seconds_of(&link, 1e6) < 0.15);
    take_copies(core, a, b, 4, 1);
    link = traffic_link(core, a, b);
    assert_true(seconds_of(&link, 1e6) > 0.7);
}

/* After a restart, too. */
static void rows_tell_shared_links_from_those_of_one(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 100, 5);
    struct core *core = world->core;
    const struct device_slot *server = slots_device(core, world->agent[0].id.text);
    const struct device_slot *worker = slots_device(core, world->agent[1].id.text);
    const struct link_users users = {1, 3};
    const struct link_report two = {.device = world->agent[0].id,
                                    .count = 2,
                                    .seconds_sum = 20,
                                    .bytes_sum = 2e7,
                                    .bytes_squared_sum = 2e14,
                                    .bytes_seconds_sum = 2e8};
    struct link_row row;
    struct link_speed link;
    assert_true(traffic_take(core, worker, &two, users));
    assert_true(traffic_write(core, worker, &two, users, &row));
    assert_int_equal(row.kind, LINK_SHARED);
    traffic_forget(core, server);
    traffic_forget(core, worker);
    assert_false(traffic_device_link(core, server, &link));
    traffic_restore(core, &row);
    assert_true(traffic_device_link(core, server, &link));
    assert_float_equal(seconds_of(&link, 1e7), 10.0 / 3, 1e-3);
    assert_false(traffic_device_link(core, worker, &link));
    struct link_report claimed = two;
    claimed.kind = LINK_SHARED; /* an agent does not know it */
    assert_false(traffic_take(core, worker, &claimed, users));
}

/* Stage 0 only serves, stage 1 serves and works, stage 2 only works. */
static void a_measured_transfer_has_the_users_of_both_links(void **state)
{
    (void)state;
    static struct job_slot job;
    static const struct plan_stage stages[] = {
        {.end = 2}, {.first = 2, .end = 3, .share_end = 2}, {.share_first = 2, .share_end = 4}};
    static const struct {
        int transfers;
        size_t from, to, own, other;
    } cases[] = {
        {SEGMENTS_OPTIMAL, 2, 0, 1, 2},
        {SEGMENTS_OPTIMAL, 1, 0, 1, 2},
        {SEGMENTS_OPTIMAL, 2, 1, 1, 1}, /* stage 1 uses no link for its own layers */
        {SEGMENTS_STREAM, 2, 0, 2, 2},
        {SEGMENTS_STREAM, 1, 0, 1, 2},
        {TRANSFERS_AUTO, 2, 1, 2, 1},
        {SEGMENTS_LAYER_WINDOW, 2, 0, SEGMENTS_WINDOW, 2 * SEGMENTS_WINDOW},
        {SEGMENTS_STREAM, 0, 2, 1, 1}, /* a notice */
        {SEGMENTS_STREAM, 1, 1, 1, 1},
    };
    memcpy(job.plan.stage, stages, sizeof(stages));
    job.plan.stage_count = 3;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        job.job.spec.parameter_server.transfers = cases[i].transfers;
        const struct link_users users =
            parameter_server_strategy.link_users(&job, cases[i].from, cases[i].to);
        assert_int_equal(users.own, cases[i].own);
        assert_int_equal(users.other, cases[i].other);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(a_link_never_used_is_as_slow_as_those_of_both_its_devices),
        STORY(transfers_that_share_a_link_count_as_if_alone),
        STORY(a_link_that_changed_is_noticed_within_a_few_reports),
        STORY(single_transfers_show_a_change_when_three_in_turn_are_late),
        STORY(rows_tell_shared_links_from_those_of_one),
        cmocka_unit_test(a_measured_transfer_has_the_users_of_both_links),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
