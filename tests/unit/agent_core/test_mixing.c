#include <string.h>

#include "agent/core/mixing.h"
#include "tests/support/test.h"

/* Group 0 in its third generation, after step 10; its peer is group 1. */
static struct mixing mixing;

static struct mix_match pair(int64_t counter)
{
    return (struct mix_match){.xid = {1, counter},
                              .kind = MIX_PAIR,
                              .own = {.group = 0, .generation = 3},
                              .peer = {{.group = 1, .generation = 5}},
                              .peer_count = 1,
                              .alpha = 0.5,
                              .statistics_alpha = 0.5,
                              .rate_step = 40,
                              .deadline_ms = 1000};
}

/* This group computes the average of both. */
static struct mix_match average(int64_t counter, double alpha)
{
    struct mix_match match = pair(counter);
    match.kind = MIX_AVERAGE;
    match.averages = true;
    match.peer[0] = match.own;
    match.peer[1] = (struct mix_member){.group = 1, .generation = 5};
    match.peer_count = 2;
    match.alpha = match.statistics_alpha = alpha;
    return match;
}

static void take(struct mix_match match)
{
    assert_int_equal(mixing_take(&mixing, &match), MIXING_TAKEN);
}

static void expect(enum mixing_work work, enum mixing_place place)
{
    enum mixing_place at = place;
    assert_int_equal(mixing_next(&mixing, &at), work);
    assert_int_equal(at, place);
}

static void copy_at(enum mixing_place place, int64_t version)
{
    expect(MIXING_COPY, place);
    mixing_copied(&mixing, place, version, true);
}

static void fetch(enum mixing_place place, struct mix_member copy, bool finite)
{
    assert_non_null(mixing_fetch(&mixing, place));
    mixing_fetched(&mixing, place, &copy, finite, NULL, 0);
}

static enum mixing_verdict serve(int64_t counter)
{
    enum mixing_place place;
    return mixing_serve(&mixing, (struct mix_xid){1, counter}, false, &place);
}

static enum mixing_verdict serve_average(int64_t counter)
{
    enum mixing_place place;
    return mixing_serve(&mixing, (struct mix_xid){1, counter}, true, &place);
}

static int setup(void **state)
{
    (void)state;
    mixing_init(&mixing, 0, 3, 10);
    return 0;
}

static const struct mix_member peer_copy = {.group = 1, .generation = 5, .version = 7, .mixes = 2};

static void a_pair_mixes_at_step_boundaries(void **state)
{
    (void)state;
    expect(MIXING_GO_ON, MIXING_PAIRS);
    assert_int_equal(serve(1), MIXING_LATER);
    take(pair(1));
    assert_int_equal(serve(1), MIXING_PARK);
    assert_null(mixing_fetch(&mixing, MIXING_PAIRS)); /* its own copy comes first */
    copy_at(MIXING_PAIRS, 12);
    assert_int_equal(serve(1), MIXING_SERVE);
    expect(MIXING_GO_ON, MIXING_PAIRS); /* it trains meanwhile */
    fetch(MIXING_PAIRS, peer_copy, true);
    expect(MIXING_APPLY, MIXING_PAIRS);
    mixing_applied(&mixing, MIXING_PAIRS, 15);
    expect(MIXING_GO_ON, MIXING_PAIRS);
    assert_int_equal(serve(1), MIXING_SERVE); /* a repeat gets the same copy */
    assert_int_equal(mixing.record_count, 1);
    const struct mix_record *record = &mixing.record[0];
    assert_int_equal(record->kind, MIX_PAIR);
    assert_int_equal(record->own.version, 12);
    assert_memory_equal(&record->peer[0], &peer_copy, sizeof(peer_copy));
    assert_int_equal(record->applied_step, 15);
    assert_int_equal(record->rate_step, 40);
    assert_true(record->alpha == 0.5);
    const struct mix_record stored = *record;
    mixing_acknowledge(&mixing, &stored);
    mixing_acknowledge(&mixing, &stored);
    assert_int_equal(mixing.record_count, 0);
}

static void a_match_is_taken_once(void **state)
{
    (void)state;
    const struct mix_match first = pair(5), older = pair(4);
    take(first);
    assert_int_equal(mixing_take(&mixing, &first), MIXING_KNOWN);
    mixing_tick(&mixing, 999);
    expect(MIXING_COPY, MIXING_PAIRS);
    mixing_tick(&mixing, 1000);
    expect(MIXING_GO_ON, MIXING_PAIRS);
    assert_int_equal(mixing_take(&mixing, &first), MIXING_KNOWN);
    assert_int_equal(mixing_take(&mixing, &older), MIXING_KNOWN);
    assert_int_equal(serve(5), MIXING_GONE);
    struct mix_match restarted = pair(1); /* of a later life */
    restarted.xid.life = 2;
    take(restarted);
    copy_at(MIXING_PAIRS, 11);
    take((struct mix_match){.xid = {2, 2}, .own = restarted.own, .peer_count = 1});
    assert_int_equal(serve(5), MIXING_GONE);
    mixing_tick(&mixing, 5000); /* what was copied for another match is not served for this one */
    enum mixing_place place;
    assert_int_equal(mixing_serve(&mixing, (struct mix_xid){2, 2}, false, &place), MIXING_GONE);
    assert_int_equal(mixing.record_count, 0);
}

static void nothing_of_another_incarnation_is_mixed(void **state)
{
    (void)state;
    struct mix_match other = pair(1);
    other.own.generation = 2;
    assert_int_equal(mixing_take(&mixing, &other), MIXING_OTHER);
    other.own = (struct mix_member){.group = 2, .generation = 3};
    assert_int_equal(mixing_take(&mixing, &other), MIXING_OTHER);
    const struct mix_member wrong[] = {{.group = 1, .generation = 4},
                                       {.group = 1, .generation = 6},
                                       {.group = 2, .generation = 5}};
    for (int64_t i = 0; i < 3; i++) {
        take(pair(1 + i));
        copy_at(MIXING_PAIRS, 12);
        fetch(MIXING_PAIRS, wrong[i], true);
        assert_int_equal(mixing.slot[MIXING_PAIRS].state, MIXING_REJECTED);
        expect(MIXING_GO_ON, MIXING_PAIRS);
    }
}

static void a_copy_that_is_not_finite_is_rejected(void **state)
{
    (void)state;
    take(pair(1));
    copy_at(MIXING_PAIRS, 12);
    fetch(MIXING_PAIRS, peer_copy, false);
    assert_int_equal(mixing.slot[MIXING_PAIRS].state, MIXING_REJECTED);
    assert_int_equal(serve(1), MIXING_SERVE); /* the other side may go on */
    mixing_fetched(&mixing, MIXING_PAIRS, &peer_copy, true, NULL, 0);
    expect(MIXING_GO_ON, MIXING_PAIRS);
    assert_int_equal(mixing.record_count, 0);
}

static void a_match_without_the_copy_of_its_peer_ends_alone(void **state)
{
    (void)state;
    mixing_init(&mixing, 0, 3, 10);
    take(pair(1));
    take(average(2, 0));
    copy_at(MIXING_PAIRS, 11);
    mixing_abandon(&mixing, MIXING_PAIRS);
    assert_int_equal(mixing.slot[MIXING_PAIRS].state, MIXING_EXPIRED);
    assert_null(mixing_fetch(&mixing, MIXING_PAIRS));
    assert_int_equal(serve(1), MIXING_SERVE); /* the other one may still take the copy */
    copy_at(MIXING_AVERAGES, 11);
    mixing_abandon(&mixing, MIXING_PAIRS);
    assert_int_equal(mixing.slot[MIXING_AVERAGES].state, MIXING_COPIED);
    take(pair(3));
    expect(MIXING_COPY, MIXING_PAIRS);
}

static void an_average_is_computed_served_and_adopted(void **state)
{
    (void)state;
    take(pair(1));
    copy_at(MIXING_PAIRS, 12);
    struct mix_match weighted = average(2, 1);
    weighted.peer[0].weight = 0.25;
    weighted.peer[1].weight = 0.75;
    take(weighted);
    assert_int_equal(serve_average(2), MIXING_PARK);
    copy_at(MIXING_AVERAGES, 13);
    assert_int_equal(mixing.slot[MIXING_PAIRS].state, MIXING_EXPIRED); /* copied before it */
    const struct mix_match newer = pair(3);
    assert_int_equal(mixing_take(&mixing, &newer), MIXING_BUSY);
    assert_int_equal(serve_average(2), MIXING_PARK);
    assert_int_equal(serve(2), MIXING_SERVE);
    fetch(MIXING_AVERAGES, peer_copy, true); /* the own copy needs no fetching */
    assert_int_equal(serve_average(2), MIXING_SERVE);
    assert_int_equal(mixing.record[0].kind, MIX_AVERAGE);
    assert_int_equal(mixing.record[0].peer_count, 2);
    assert_int_equal(mixing.record[0].peer[0].version, 13);
    assert_int_equal(mixing.record[0].peer[1].version, 7);
    assert_true(mixing.record[0].peer[0].weight == 0.25); /* the shares are those of the match */
    assert_true(mixing.record[0].peer[1].weight == 0.75);
    expect(MIXING_APPLY, MIXING_AVERAGES);
    mixing_applied(&mixing, MIXING_AVERAGES, 16);
    assert_int_equal(mixing.record_count, 2);
    assert_int_equal(mixing.record[1].kind, MIX_ADOPT);
    assert_int_equal(mixing.record[1].own.version, 13);
    assert_int_equal(mixing.record[1].applied_step, 16);
}

static void others_adopt_with_the_copy_that_they_gave(void **state)
{
    (void)state;
    struct mix_match given = average(2, 1), adopt = pair(2);
    given.averages = false;
    given.peer_count = 0;
    adopt.kind = MIX_ADOPT;
    adopt.alpha = 1;
    take(given);
    copy_at(MIXING_AVERAGES, 13);
    assert_null(mixing_fetch(&mixing, MIXING_AVERAGES)); /* the average is not there yet */
    assert_false(mixing_wants(&mixing, 100, 1));
    take(adopt);
    expect(MIXING_GO_ON, MIXING_PAIRS);
    fetch(MIXING_AVERAGES, peer_copy, true);
    expect(MIXING_APPLY, MIXING_AVERAGES);
    mixing_applied(&mixing, MIXING_AVERAGES, 17);
    assert_int_equal(mixing.record[0].kind, MIX_ADOPT);
    assert_int_equal(mixing.record[0].own.version, 13);
    assert_int_equal(mixing_take(&mixing, &adopt), MIXING_KNOWN);
    assert_int_equal(serve_average(2), MIXING_GONE);
}

static void a_group_that_still_computes_an_average_adopts_that_of_another(void **state)
{
    (void)state;
    struct mix_match adopt = pair(2);
    adopt.kind = MIX_ADOPT;
    adopt.alpha = 1;
    take(average(2, 1));
    copy_at(MIXING_AVERAGES, 13);
    assert_true(mixing_lacks(&mixing) >= 0);
    take(adopt);
    assert_int_equal(mixing_lacks(&mixing), -1);
    fetch(MIXING_AVERAGES, peer_copy, true);
    expect(MIXING_APPLY, MIXING_AVERAGES);
    mixing_applied(&mixing, MIXING_AVERAGES, 17);
    assert_int_equal(mixing.record_count, 1); /* it has computed none */
    assert_int_equal(mixing.record[0].kind, MIX_ADOPT);
    assert_int_equal(mixing.record[0].own.version, 13);
}

/* It missed the average, or has mixed since it gave its copy. */
static void a_late_group_adopts_with_a_new_copy(void **state)
{
    (void)state;
    struct mix_match given = average(2, 1), adopt = pair(2);
    given.averages = false;
    given.peer_count = 0;
    adopt.kind = MIX_ADOPT;
    adopt.alpha = 1;
    for (int64_t i = 0; i < 3; i++) {
        given.xid.counter = adopt.xid.counter = 2 + 2 * i;
        if (i > 0) {
            take(given);
        }
        if (i > 1) {
            copy_at(MIXING_AVERAGES, 19);
            mixing_tick(&mixing, given.deadline_ms);
            take(pair(7)); /* a pair in between makes the average no older */
            copy_at(MIXING_PAIRS, 20);
        }
        take(adopt);
        copy_at(MIXING_AVERAGES, 21);
        fetch(MIXING_AVERAGES, peer_copy, true);
        expect(MIXING_APPLY, MIXING_AVERAGES);
        mixing_applied(&mixing, MIXING_AVERAGES, 22);
        assert_int_equal(mixing.record[i].own.version, 21);
    }
}

/* The coordinator knows then who has given a copy, and names one to compute the average. */
static void a_group_that_gave_its_copy_computes_the_average(void **state)
{
    (void)state;
    for (int64_t adopts = 0; adopts <= 1; adopts++) {
        struct mix_match given = average(2 + adopts, (double)adopts), computes = given;
        given.averages = false;
        given.peer_count = 0;
        take(given);
        copy_at(MIXING_AVERAGES, 13);
        take(computes);
        assert_int_equal(mixing_take(&mixing, &computes), MIXING_KNOWN);
        assert_int_equal(mixing_fetch(&mixing, MIXING_AVERAGES)->group, 1);
        fetch(MIXING_AVERAGES, peer_copy, true);
        mixing_applied(&mixing, MIXING_AVERAGES, 14);
        assert_int_equal(serve_average(2 + adopts), MIXING_SERVE);
    }
    assert_int_equal(mixing.record_count, 3); /* two averages, one of which it adopted */
}

static void a_group_whose_own_copy_is_spoiled_says_so(void **state)
{
    (void)state;
    struct mix_match alone = average(2, 1);
    alone.peer_count = 1;
    take(alone);
    mixing_copied(&mixing, MIXING_AVERAGES, 13, false);
    assert_int_equal(mixing.slot[MIXING_AVERAGES].state, MIXING_REJECTED);
    assert_int_equal(mixing_lacks(&mixing), 0);
    assert_int_equal(mixing.record_count, 0); /* there is no average */
    struct mix_match computes = average(3, 1), given = computes;
    given.averages = false;
    given.peer_count = 0;
    take(given);
    mixing_copied(&mixing, MIXING_AVERAGES, 14, false);
    assert_int_equal(mixing.slot[MIXING_AVERAGES].state, MIXING_COPIED); /* others reject it */
    take(computes);
    assert_int_equal(mixing.slot[MIXING_AVERAGES].state, MIXING_REJECTED);
    take(average(4, 1)); /* its next copy may be good */
    copy_at(MIXING_AVERAGES, 15);
    assert_int_equal(mixing_lacks(&mixing), 1);
}

static void a_copy_for_an_average_that_nobody_computes_expires(void **state)
{
    (void)state;
    static struct mix_duty duty;
    struct mix_match given = average(2, 1);
    given.averages = false;
    given.peer_count = 0;
    take(given);
    copy_at(MIXING_AVERAGES, 13);
    duty = (struct mix_duty){.order_count = 1};
    duty.order[0].xid = given.xid;
    mixing_stand(&mixing, &duty);
    assert_int_equal(mixing.slot[MIXING_AVERAGES].state, MIXING_COPIED);
    assert_false(mixing_wants(&mixing, 100, 1));
    duty.order_count = 0;
    mixing_stand(&mixing, &duty);
    assert_int_equal(mixing.slot[MIXING_AVERAGES].state, MIXING_EXPIRED);
    assert_true(mixing_wants(&mixing, 100, 1)); /* it does not wait for the deadline */
    take(average(3, 1));
    copy_at(MIXING_AVERAGES, 14);
    mixing_stand(&mixing, &duty); /* it computes this one itself */
    assert_int_equal(mixing.slot[MIXING_AVERAGES].state, MIXING_COPIED);
}

static void an_average_that_is_not_adopted_leaves_pairs_open(void **state)
{
    (void)state;
    struct mix_match given = average(2, 0);
    given.averages = false;
    given.peer_count = 0;
    take(pair(1));
    copy_at(MIXING_PAIRS, 12);
    take(given);
    copy_at(MIXING_AVERAGES, 12);
    assert_int_equal(serve(2), MIXING_SERVE);
    fetch(MIXING_PAIRS, peer_copy, true);
    mixing_applied(&mixing, MIXING_PAIRS, 12);
    assert_int_equal(mixing.record_count, 1);
    assert_true(mixing_wants(&mixing, 14, 2));
    take(average(3, 0)); /* whoever computes it records that, and moves nothing */
    copy_at(MIXING_AVERAGES, 14);
    fetch(MIXING_AVERAGES, peer_copy, true);
    mixing_applied(&mixing, MIXING_AVERAGES, 15);
    assert_int_equal(mixing.record_count, 2);
    assert_int_equal(mixing.mixes, 1);
    assert_int_equal(serve_average(3), MIXING_SERVE);
    assert_int_equal(serve_average(2), MIXING_GONE);
}

/* It gave its copy, missed the order to give one, or knows of the average from this order alone. */
static void an_average_is_fetched_for_an_evaluation_without_a_move(void **state)
{
    (void)state;
    struct mix_match given = average(2, 0), visit = pair(2);
    given.averages = false;
    given.peer_count = 0;
    visit.kind = MIX_ADOPT;
    visit.alpha = visit.statistics_alpha = 0;
    take(pair(1));
    copy_at(MIXING_PAIRS, 12);
    for (int64_t i = 0; i < 3; i++) {
        given.xid.counter = visit.xid.counter = 2 + i;
        if (i < 2) {
            take(given);
        }
        if (i == 0) {
            copy_at(MIXING_AVERAGES, 12);
        }
        take(visit);
        if (i > 0) {
            copy_at(MIXING_AVERAGES, 13);
        }
        assert_int_equal(serve(2 + i), MIXING_SERVE); /* the copy stays for others */
        fetch(MIXING_AVERAGES, peer_copy, true);
        expect(MIXING_APPLY, MIXING_AVERAGES);
        mixing_applied(&mixing, MIXING_AVERAGES, 14);
        assert_int_equal(mixing_take(&mixing, &visit), MIXING_KNOWN);
    }
    assert_int_equal(mixing.slot[MIXING_PAIRS].state, MIXING_COPIED); /* the pair is open still */
    assert_int_equal(mixing.record_count, 0);
    assert_int_equal(mixing.mixes, 0);
    assert_int_equal(mixing.applied_step, 10);
}

static void a_group_wants_a_match_after_its_steps(void **state)
{
    (void)state;
    assert_false(mixing_wants(&mixing, 13, 4));
    assert_true(mixing_wants(&mixing, 14, 4));
    take(pair(1));
    assert_false(mixing_wants(&mixing, 14, 4));
    mixing_tick(&mixing, 5000);
    assert_true(mixing_wants(&mixing, 14, 4));
}

static void no_match_is_taken_without_room_for_its_records(void **state)
{
    (void)state;
    static struct mix_record record[MIXING_RECORDS_MAX];
    for (size_t i = 0; i < MIXING_RECORDS_MAX; i++) {
        record[i] = (struct mix_record){.xid = {1, 100 + (int64_t)i}, .own = {.group = 4}};
    }
    take(pair(1));
    copy_at(MIXING_PAIRS, 12);
    assert_int_equal(mixing_room(&mixing, record, MIXING_RECORDS_MAX).needed, MIXING_RECORDS_MAX);
    assert_int_equal(mixing_room(&mixing, record, 0).available, MIXING_RECORDS_MAX - 3);
    mixing_fetched(&mixing, MIXING_PAIRS, &peer_copy, true, record, MIXING_RECORDS_MAX);
    assert_int_equal(mixing.slot[MIXING_PAIRS].state, MIXING_REJECTED);
    take(pair(2));
    copy_at(MIXING_PAIRS, 12);
    mixing_fetched(&mixing, MIXING_PAIRS, &peer_copy, true, record, MIXING_RECORDS_MAX - 3);
    mixing_applied(&mixing, MIXING_PAIRS, 13);
    assert_int_equal(mixing.record_count, MIXING_RECORDS_MAX - 2);
    const struct mix_match more = pair(3);
    assert_int_equal(mixing_take(&mixing, &more), MIXING_FULL);
    assert_false(mixing_wants(&mixing, 100, 1));
    mixing_acknowledge(&mixing, &record[0]);
    assert_int_equal(mixing_take(&mixing, &more), MIXING_TAKEN);
    copy_at(MIXING_PAIRS, 14); /* what is known already needs no room */
    mixing_fetched(&mixing, MIXING_PAIRS, &peer_copy, true, &record[1], 40);
    assert_int_equal(mixing.slot[MIXING_PAIRS].state, MIXING_FETCHED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_group_whose_own_copy_is_spoiled_says_so, setup),
        cmocka_unit_test_setup(a_copy_for_an_average_that_nobody_computes_expires, setup),
        cmocka_unit_test_setup(a_pair_mixes_at_step_boundaries, setup),
        cmocka_unit_test_setup(a_match_is_taken_once, setup),
        cmocka_unit_test_setup(nothing_of_another_incarnation_is_mixed, setup),
        cmocka_unit_test_setup(a_copy_that_is_not_finite_is_rejected, setup),
        cmocka_unit_test_setup(a_match_without_the_copy_of_its_peer_ends_alone, setup),
        cmocka_unit_test_setup(an_average_is_computed_served_and_adopted, setup),
        cmocka_unit_test_setup(others_adopt_with_the_copy_that_they_gave, setup),
        cmocka_unit_test_setup(a_group_that_still_computes_an_average_adopts_that_of_another,
                               setup),
        cmocka_unit_test_setup(a_late_group_adopts_with_a_new_copy, setup),
        cmocka_unit_test_setup(a_group_that_gave_its_copy_computes_the_average, setup),
        cmocka_unit_test_setup(an_average_that_is_not_adopted_leaves_pairs_open, setup),
        cmocka_unit_test_setup(an_average_is_fetched_for_an_evaluation_without_a_move, setup),
        cmocka_unit_test_setup(a_group_wants_a_match_after_its_steps, setup),
        cmocka_unit_test_setup(no_match_is_taken_without_room_for_its_records, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
