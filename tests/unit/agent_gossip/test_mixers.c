/* Groups that mix over loopback, with real listeners and threads: the arithmetic is that of
 * optim/mix.h on what each had at its step boundaries. */
#include <stdlib.h>

#include "agent/gossip/mixer_parts.h"
#include "base/clock.h"
#include "tests/support/test.h"
#include "tests/unit/agent_gossip/groups.h"

static struct groups groups;

static struct group *group_at(size_t index)
{
    return &groups.item[index];
}

static void a_pair_moves_by_what_both_had_at_the_copy(void **state)
{
    (void)state;
    static const size_t first[] = {0}, second[] = {1};
    groups_open_with(&groups, 2, groups_tell_step);
    struct group *a = group_at(0), *b = group_at(1);
    assert_int_equal(groups_rate_step(a->mixer), 3);
    group_order(a, groups_order(MIX_PAIR, 7, 0.25), second, 1);
    group_boundary(a, 5); /* copies, and asks the other group, which knows no match */
    group_wait(a, MIXING_PAIRS, MIX_COPIED);
    group_order(b, groups_order(MIX_PAIR, 7, 0.75), first, 1);
    float *copy[] = {group_copy(a), group_copy(b)};
    group_boundary(b, 6);
    group_draw(a, 10); /* they train on */
    group_draw(b, 11);
    float *later[] = {group_copy(a), group_copy(b)};
    group_wait(a, MIXING_PAIRS, MIX_FETCHED);
    group_wait(b, MIXING_PAIRS, MIX_FETCHED);
    group_expect(a, later[0]);
    group_boundary(a, 8);
    group_boundary(b, 6);
    group_move(a, 0.25, copy[0], copy[1], later[0]);
    group_move(b, 0.75, copy[1], copy[0], later[1]);
    group_expect(a, later[0]);
    group_expect(b, later[1]);
    assert_int_equal(groups_rate_step(a->mixer), 107);

    struct heartbeat *report = group_report(a);
    assert_int_equal(report->mix.pair.state, MIX_APPLIED);
    assert_int_equal(report->mix.mixes, 1);
    assert_true(report->mix.pair.seconds > 0);
    assert_int_equal(report->mix.record_count, 1);
    const struct mix_record *record = &report->mix.record[0];
    assert_int_equal(record->own.version, 5);
    assert_int_equal(record->peer[0].version, 6);
    assert_int_equal(record->applied_step, 8);
    assert_int_equal(record->rate_step, 107);
    mixer_stored(a->mixer, &report->mix);
    free(report);
    report = group_report(a);
    assert_int_equal(report->mix.record_count, 0);
    free(report);
    group_order(a, groups_order(MIX_PAIR, 7, 0.25), second, 1); /* again: it is known */
    group_boundary(a, 9);
    group_expect(a, later[0]);
    for (size_t i = 0; i < 2; i++) {
        free(copy[i]);
        free(later[i]);
    }
    groups_close(&groups);
}

static void a_group_wants_a_match_after_its_steps(void **state)
{
    (void)state;
    groups_open_with(&groups, 2, groups_tell_step);
    struct group *a = group_at(0);
    group_boundary(a, 9);
    struct heartbeat *report = group_report(a);
    assert_false(report->mix.wants);
    free(report);
    assert_true(mixer_is_due(a->mixer, 10)); /* to say so, once */
    group_boundary(a, 10);
    assert_false(mixer_is_due(a->mixer, 11));
    report = group_report(a);
    assert_true(report->mix.wants);
    assert_int_equal(report->mix.group, 0);
    assert_int_equal(report->mix.generation, GROUPS_GENERATION);
    free(report);
    a->run->mix.every = 30;
    group_forget_orders(a);
    report = group_report(a);
    assert_false(report->mix.wants);
    free(report);
    a->run->mix.every = 5;
    a->run->mix.generation++; /* another incarnation's */
    group_forget_orders(a);
    report = group_report(a);
    assert_false(report->mix.wants);
    free(report);
    groups_close(&groups);
}

/* ---- what must not go on ---- */

static void a_slow_reader_keeps_the_copy_until_its_match_is_over(void **state)
{
    (void)state;
    static const size_t second[] = {1};
    groups_open_with(&groups, 2, groups_tell_step);
    struct group *a = group_at(0);
    struct mix_order order = groups_order(MIX_PAIR, 7, 0.5);
    order.left_ms = 300;
    group_order(a, order, second, 1);
    float *copy = group_copy(a);
    group_boundary(a, 5);
    struct mixer_reply reply;
    assert_int_equal(mixer_serve(a->mixer, (struct mix_xid){1, 7}, false, 0, &reply), MIXING_SERVE);
    group_wait(a, MIXING_PAIRS, MIX_EXPIRED);
    float *read = group_copy(a);
    assert_int_equal(reply.bytes, group_floats(a) * sizeof(float));
    group_draw(a, 70);
    /* Nobody needs the place yet. */
    assert_true(mixer_read(a->mixer, &reply, 0, read, reply.bytes));
    assert_memory_equal(read, copy, reply.bytes);
    group_order(a, groups_order(MIX_PAIR, 8, 0.5), second, 1);
    assert_false(mixer_is_due(a->mixer, 6));
    group_boundary(a, 6);
    group_wait(a, MIXING_PAIRS, MIX_MATCHED);
    assert_false(mixer_read(a->mixer, &reply, 0, read, reply.bytes));
    mixer_end_reply(a->mixer, &reply);
    assert_true(mixer_is_due(a->mixer, 7));
    group_boundary(a, 7);
    group_wait(a, MIXING_PAIRS, MIX_COPIED);
    free(copy);
    free(read);
    groups_close(&groups);
}

static void a_match_ends_at_its_deadline(void **state)
{
    (void)state;
    static const size_t second[] = {1};
    groups_open_with(&groups, 2, groups_tell_step);
    struct group *a = group_at(0);
    struct mix_order order = groups_order(MIX_PAIR, 7, 0.5);
    order.left_ms = 200;
    group_order(a, order, second, 1); /* the other one never hears of it */
    group_boundary(a, 5);
    float *own = group_copy(a);
    group_wait(a, MIXING_PAIRS, MIX_EXPIRED);
    group_boundary(a, 6);
    group_expect(a, own);
    struct heartbeat *report = group_report(a);
    assert_int_equal(report->mix.record_count, 0);
    assert_true(report->mix.pair.copied);
    free(report);
    free(own);
    groups_close(&groups);
}

static void a_cancelled_group_waits_for_nobody(void **state)
{
    (void)state;
    static const size_t second[] = {1};
    groups_open_with(&groups, 2, groups_tell_step);
    group_order(group_at(0), groups_order(MIX_PAIR, 7, 0.5), second, 1);
    group_boundary(group_at(0), 5); /* its request is parked there */
    const int64_t began_ms = clock_now_ms();
    group_cancel(group_at(0));
    assert_true(clock_now_ms() - began_ms < GROUPS_STEP_LEFT_MS / 2);
    group_cancel(group_at(1));
    groups_close(&groups);
}

/* The buffers of six groups, of which one fetches several copies at once. */
static void no_buffer_takes_memory_that_is_not_counted(void **state)
{
    (void)state;
    groups_open(&groups, 6);
    const struct mixer *mixer = group_at(0)->mixer;
    const uint64_t floats = group_floats(group_at(0)) * sizeof(float);
    uint64_t bytes = sizeof(*mixer) + mix_states(6, floats) * floats + sizeof(*mixer->served) +
                     mixer->served_text.limit + 1 + RECEIVES_MAX * MIX_BODY_KEPT_MAX;
    assert_int_equal(mixer->workers, MIXER_WORKERS_MAX);
    for (size_t w = 0; w < mixer->workers; w++) {
        const struct mixer_worker *worker = &mixer->worker[w];
        bytes += sizeof(*worker->note) + worker->head.limit + 1 + worker->text.limit + 1;
    }
    assert_true(bytes <= mixer_bytes(keeper_model(mixer->config.keeper), &group_at(0)->run->mix));
    groups_close(&groups);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pair_moves_by_what_both_had_at_the_copy),
        cmocka_unit_test(a_group_wants_a_match_after_its_steps),
        cmocka_unit_test(a_slow_reader_keeps_the_copy_until_its_match_is_over),
        cmocka_unit_test(a_match_ends_at_its_deadline),
        cmocka_unit_test(a_cancelled_group_waits_for_nobody),
        cmocka_unit_test(no_buffer_takes_memory_that_is_not_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
