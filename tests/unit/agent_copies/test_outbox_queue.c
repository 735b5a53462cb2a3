#include "agent/copies/outbox_queue.h"

#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "tests/support/test.h"

#define FIRST 2
#define END 5

static const struct round_mark to_neighbor = {.kinds = REPLICA_MARK(REPLICA_NEIGHBOR)};
static const struct round_mark to_both = {.kinds = REPLICA_MARK(REPLICA_NEIGHBOR) |
                                                   REPLICA_MARK(REPLICA_CENTER)};
static const struct round_mark to_nobody;

static struct outbox_queue *make(int64_t resume_version)
{
    const struct outbox_queue_config config = {
        .first = FIRST, .end = END, .resume_version = resume_version};
    struct outbox_queue *queue = NULL;
    struct err err = {0};
    assert_ok(outbox_queue_new(&config, &queue, &err), &err);
    return queue;
}

static void hold_all(struct outbox_queue *queue, int64_t version)
{
    for (size_t unit = FIRST; unit < END; unit++) {
        char sha256[SHA256_SIZE];
        (void)snprintf(sha256, sizeof(sha256), "%064lld",
                       (long long)version * 100 + (long long)unit);
        outbox_queue_hold(queue, version, unit, sha256, 1000);
    }
}

static void expect_send(const struct outbox_queue *queue, int64_t now_ms, enum replica_kind kind,
                        int64_t version, size_t unit, bool whole, struct outbox_send *send)
{
    assert_true(outbox_queue_next(queue, now_ms, send));
    assert_int_equal(send->kind, kind);
    assert_int_equal(send->version, version);
    assert_int_equal(send->unit, unit);
    assert_int_equal(send->whole, whole);
}

static void numbers_without_a_possible_stage_are_rejected(void **state)
{
    (void)state;
    struct outbox_queue *queue = NULL;
    struct err err = {0};
    const struct outbox_queue_config empty = {.first = 3, .end = 3};
    const struct outbox_queue_config large = {.first = 0, .end = UNITS_MAX + 1};
    assert_int_equal(outbox_queue_new(&empty, &queue, &err), ERR_INVALID);
    assert_int_equal(outbox_queue_new(&large, &queue, &err), ERR_INVALID);
}

static void units_are_asked_for_then_sent_one_by_one_as_they_are_hashed(void **state)
{
    (void)state;
    struct outbox_queue *queue AUTO(outbox_queue_free) = make(0);
    struct outbox_send send;
    char sha256[SHA256_SIZE] = "abc";
    assert_false(outbox_queue_next(queue, 0, &send));
    outbox_queue_take(queue, 50, &to_neighbor);
    assert_false(outbox_queue_next(queue, 0, &send));
    outbox_queue_hold(queue, 50, 3, sha256, 77);
    expect_send(queue, 0, REPLICA_NEIGHBOR, 50, 3, false, &send);
    assert_string_equal(send.sha256, "abc");
    assert_int_equal(send.bytes, 77);
    outbox_queue_unknown(queue, &send);
    expect_send(queue, 0, REPLICA_NEIGHBOR, 50, 3, true, &send);
    outbox_queue_sent(queue, &send);
    assert_false(outbox_queue_next(queue, 0, &send));
    assert_false(outbox_queue_is_whole(queue, REPLICA_NEIGHBOR, 50));
    hold_all(queue, 50);
    expect_send(queue, 0, REPLICA_NEIGHBOR, 50, 2, false, &send);
    outbox_queue_sent(queue, &send);
    expect_send(queue, 0, REPLICA_NEIGHBOR, 50, 4, false, &send);
    outbox_queue_sent(queue, &send);
    assert_true(outbox_queue_is_whole(queue, REPLICA_NEIGHBOR, 50));
    assert_false(outbox_queue_is_whole(queue, REPLICA_CENTER, 50));
    assert_false(outbox_queue_next(queue, 0, &send));
}

static void a_target_that_fails_waits_longer_and_longer_and_the_other_does_not(void **state)
{
    (void)state;
    struct outbox_queue *queue AUTO(outbox_queue_free) = make(0);
    struct outbox_send send;
    outbox_queue_take(queue, 100, &to_both);
    hold_all(queue, 100);
    int64_t now_ms = 1000;
    int64_t before_ms = 0;
    for (int i = 0; i < 12; i++) {
        expect_send(queue, now_ms, REPLICA_NEIGHBOR, 100, 2, false, &send);
        outbox_queue_failed(queue, &send, now_ms, 0);
        expect_send(queue, now_ms, REPLICA_CENTER, 100, 2, false, &send);
        outbox_queue_failed(queue, &send, now_ms, 2000);
        assert_false(outbox_queue_next(queue, now_ms, &send));
        const int64_t wait_ms = outbox_queue_due_ms(queue) - now_ms;
        assert_in_range(wait_ms, before_ms > 0 ? before_ms : 1, 2000);
        before_ms = wait_ms;
        now_ms += 2000;
    }
    assert_int_equal(before_ms, 2000);
    expect_send(queue, now_ms, REPLICA_NEIGHBOR, 100, 2, false, &send);
    outbox_queue_sent(queue, &send);
    expect_send(queue, now_ms, REPLICA_NEIGHBOR, 100, 3, false, &send);
    outbox_queue_failed(queue, &send, now_ms, 0);
    assert_true(outbox_queue_due_ms(queue) <= now_ms); /* the center is due */
}

static void a_newer_round_ends_the_sends_of_the_one_before(void **state)
{
    (void)state;
    struct outbox_queue *queue AUTO(outbox_queue_free) = make(0);
    struct outbox_send send;
    outbox_queue_take(queue, 100, &to_both);
    hold_all(queue, 100);
    outbox_queue_take(queue, 150, &to_neighbor);
    hold_all(queue, 150);
    expect_send(queue, 0, REPLICA_NEIGHBOR, 150, 2, false, &send);
    outbox_queue_failed(queue, &send, 0, 0);
    expect_send(queue, 0, REPLICA_CENTER, 100, 2, false, &send);
    outbox_queue_drop(queue, 150);
    assert_false(outbox_queue_next(queue, 0, &send));
}

static void a_refusal_gives_a_round_up_until_it_is_collected(void **state)
{
    (void)state;
    struct outbox_queue *queue AUTO(outbox_queue_free) = make(0);
    struct outbox_send send;
    outbox_queue_take(queue, 100, &to_both);
    hold_all(queue, 100);
    expect_send(queue, 0, REPLICA_NEIGHBOR, 100, 2, false, &send);
    outbox_queue_refused(queue, &send);
    expect_send(queue, 0, REPLICA_CENTER, 100, 2, false, &send);
    outbox_queue_refused(queue, &send);
    assert_false(outbox_queue_next(queue, 0, &send));
    assert_int_equal(outbox_queue_due_ms(queue), INT64_MAX);
    outbox_queue_take(queue, 103, &to_nobody);
    hold_all(queue, 103);
    assert_false(outbox_queue_next(queue, 0, &send));
    outbox_queue_collect(queue, 103);
    expect_send(queue, 0, REPLICA_CENTER, 103, 2, false, &send);
}

/* The coordinator may have abandoned the round of this version, and then has none of its units. */
static void a_collection_asks_about_the_units_of_its_round_again(void **state)
{
    (void)state;
    struct outbox_queue *queue AUTO(outbox_queue_free) = make(0);
    struct outbox_send sent, late, send;
    outbox_queue_take(queue, 100, &(struct round_mark){.kinds = REPLICA_MARK(REPLICA_CENTER)});
    hold_all(queue, 100);
    expect_send(queue, 0, REPLICA_CENTER, 100, 2, false, &sent);
    outbox_queue_sent(queue, &sent);
    expect_send(queue, 0, REPLICA_CENTER, 100, 3, false, &late);
    outbox_queue_collect(queue, 100);
    outbox_queue_sent(queue, &late);
    for (size_t unit = 2; unit < END; unit++) {
        assert_false(outbox_queue_is_whole(queue, REPLICA_CENTER, 100));
        expect_send(queue, 0, REPLICA_CENTER, 100, unit, false, &send);
        outbox_queue_sent(queue, &send);
    }
    assert_true(outbox_queue_is_whole(queue, REPLICA_CENTER, 100));
}

static void a_version_goes_only_when_a_newer_mark_does_not_name_it(void **state)
{
    (void)state;
    struct outbox_queue *queue AUTO(outbox_queue_free) = make(40);
    const struct round_mark mark = {.kinds = 1, .keep = {100, 0, 150}};
    assert_false(outbox_queue_is_expendable(queue, 90));
    outbox_queue_take(queue, 200, &mark);
    assert_false(outbox_queue_is_expendable(queue, 40));
    assert_true(outbox_queue_is_expendable(queue, 90));
    assert_false(outbox_queue_is_expendable(queue, 100));
    assert_true(outbox_queue_is_expendable(queue, 140));
    assert_false(outbox_queue_is_expendable(queue, 150));
    assert_false(outbox_queue_is_expendable(queue, 200));
    assert_false(outbox_queue_is_expendable(queue, 210));
    outbox_queue_take(queue, 210, &to_nobody);
    assert_false(outbox_queue_is_expendable(queue, 200));
}

/* A target with a memory of its own, a network that loses calls and answers, rounds that come and
 * go: a set reported as whole is there, and everything gets there in the end. */
struct target {
    char at[64][END][SHA256_SIZE];
};

static void play(uint64_t seed)
{
    const struct rng_stream random = rng_stream(seed, RNG_SIMULATION, 0, 0);
    uint64_t draws = 0;
    struct outbox_queue *queue AUTO(outbox_queue_free) = make(0);
    static struct target target[REPLICA_KINDS];
    memset(target, 0, sizeof(target));
    int64_t version = 0;
    int64_t recent[OUTBOX_SETS_MAX] = {0};
    int64_t now_ms = 0;
    size_t hashed = END;
    for (int turn = 0; turn < 400; turn++) {
        struct outbox_send send;
        const bool quiet = turn > 250;
        now_ms += (int64_t)rng_below(&random, draws++, quiet ? 3000 : 40);
        if (!quiet && hashed == END && version < 60 && rng_below(&random, draws++, 12) == 0) {
            struct round_mark mark = {.kinds = 1 + (unsigned)rng_below(&random, draws++, 3)};
            version += 1 + (int64_t)rng_below(&random, draws++, 2);
            outbox_queue_take(queue, version, &mark);
            memmove(recent + 1, recent, sizeof(recent) - sizeof(recent[0]));
            recent[0] = version;
            hashed = FIRST;
        }
        if (hashed < END) {
            char sha256[SHA256_SIZE];
            const bool frozen = hashed == FIRST;
            (void)snprintf(sha256, sizeof(sha256), "%lld",
                           frozen ? 7LL : (long long)version * 10 + (long long)hashed);
            outbox_queue_hold(queue, version, hashed++, sha256, 10);
        }
        if (!quiet && rng_below(&random, draws++, 30) == 0) {
            memset(&target[rng_below(&random, draws++, REPLICA_KINDS)], 0,
                   sizeof(target[0])); /* it restarts */
        }
        if (!outbox_queue_next(queue, now_ms, &send)) {
            continue;
        }
        assert_int_equal(send.version, outbox_queue_newest(queue, send.kind));
        char(*at)[END][SHA256_SIZE] = target[send.kind].at;
        const uint64_t fate = quiet ? 9 : rng_below(&random, draws++, 10);
        bool known = send.whole;
        for (size_t v = 0; v < 64 && !known; v++) {
            known = strcmp(at[v][send.unit], send.sha256) == 0;
        }
        if (fate == 0) {
            outbox_queue_failed(queue, &send, now_ms, 0);
            continue;
        }
        if (known) {
            memcpy(at[send.version][send.unit], send.sha256, SHA256_SIZE);
        }
        if (fate == 1) {
            outbox_queue_failed(queue, &send, now_ms, 0); /* the answer is lost */
        } else if (known) {
            outbox_queue_sent(queue, &send);
        } else {
            outbox_queue_unknown(queue, &send);
        }
    }
    for (int kind = 0; kind < REPLICA_KINDS; kind++) {
        const int64_t newest = outbox_queue_newest(queue, (enum replica_kind)kind);
        /* An older set than these has made room. */
        assert_true(newest == 0 || newest < recent[OUTBOX_SETS_MAX - 1] ||
                    outbox_queue_is_whole(queue, (enum replica_kind)kind, newest));
    }
}

static void all_tensors_arrive_over_a_faulty_network(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 5000; seed++) {
        play(seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_without_a_possible_stage_are_rejected),
        cmocka_unit_test(units_are_asked_for_then_sent_one_by_one_as_they_are_hashed),
        cmocka_unit_test(a_target_that_fails_waits_longer_and_longer_and_the_other_does_not),
        cmocka_unit_test(a_newer_round_ends_the_sends_of_the_one_before),
        cmocka_unit_test(a_refusal_gives_a_round_up_until_it_is_collected),
        cmocka_unit_test(a_collection_asks_about_the_units_of_its_round_again),
        cmocka_unit_test(a_version_goes_only_when_a_newer_mark_does_not_name_it),
        cmocka_unit_test(all_tensors_arrive_over_a_faulty_network),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
