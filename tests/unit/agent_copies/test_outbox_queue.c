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

static struct replication *make(int64_t resume_version)
{
    const struct replication_config config = {
        .first = FIRST, .end = END, .resume_version = resume_version};
    struct replication *replication = NULL;
    struct err err = {0};
    assert_ok(replication_new(&config, &replication, &err), &err);
    return replication;
}

static void hold_all(struct replication *replication, int64_t version)
{
    for (size_t unit = FIRST; unit < END; unit++) {
        char sha256[SHA256_SIZE];
        (void)snprintf(sha256, sizeof(sha256), "%064lld",
                       (long long)version * 100 + (long long)unit);
        replication_hold(replication, version, unit, sha256, 1000);
    }
}

static void expect_send(const struct replication *replication, int64_t now_ms,
                        enum replica_kind kind, int64_t version, size_t unit, bool whole,
                        struct replication_send *send)
{
    assert_true(replication_next(replication, now_ms, send));
    assert_int_equal(send->kind, kind);
    assert_int_equal(send->version, version);
    assert_int_equal(send->unit, unit);
    assert_int_equal(send->whole, whole);
}

static void numbers_that_make_no_stage_are_refused(void **state)
{
    (void)state;
    struct replication *replication = NULL;
    struct err err = {0};
    const struct replication_config empty = {.first = 3, .end = 3};
    const struct replication_config large = {.first = 0, .end = UNITS_MAX + 1};
    assert_int_equal(replication_new(&empty, &replication, &err), ERR_INVALID);
    assert_int_equal(replication_new(&large, &replication, &err), ERR_INVALID);
}

static void units_are_asked_for_then_sent_one_by_one_as_they_are_hashed(void **state)
{
    (void)state;
    struct replication *replication AUTO(replication_free) = make(0);
    struct replication_send send;
    char sha256[SHA256_SIZE] = "abc";
    assert_false(replication_next(replication, 0, &send));
    replication_take(replication, 50, &to_neighbor);
    assert_false(replication_next(replication, 0, &send));
    replication_hold(replication, 50, 3, sha256, 77);
    expect_send(replication, 0, REPLICA_NEIGHBOR, 50, 3, false, &send);
    assert_string_equal(send.sha256, "abc");
    assert_int_equal(send.bytes, 77);
    replication_unknown(replication, &send);
    expect_send(replication, 0, REPLICA_NEIGHBOR, 50, 3, true, &send);
    replication_sent(replication, &send);
    assert_false(replication_next(replication, 0, &send));
    assert_false(replication_is_whole(replication, REPLICA_NEIGHBOR, 50));
    hold_all(replication, 50);
    expect_send(replication, 0, REPLICA_NEIGHBOR, 50, 2, false, &send);
    replication_sent(replication, &send);
    expect_send(replication, 0, REPLICA_NEIGHBOR, 50, 4, false, &send);
    replication_sent(replication, &send);
    assert_true(replication_is_whole(replication, REPLICA_NEIGHBOR, 50));
    assert_false(replication_is_whole(replication, REPLICA_CENTER, 50));
    assert_false(replication_next(replication, 0, &send));
}

static void a_target_that_fails_waits_longer_and_longer_and_the_other_does_not(void **state)
{
    (void)state;
    struct replication *replication AUTO(replication_free) = make(0);
    struct replication_send send;
    replication_take(replication, 100, &to_both);
    hold_all(replication, 100);
    int64_t now_ms = 1000;
    int64_t before_ms = 0;
    for (int i = 0; i < 12; i++) {
        expect_send(replication, now_ms, REPLICA_NEIGHBOR, 100, 2, false, &send);
        replication_failed(replication, &send, now_ms, 0);
        expect_send(replication, now_ms, REPLICA_CENTER, 100, 2, false, &send);
        replication_failed(replication, &send, now_ms, 2000);
        assert_false(replication_next(replication, now_ms, &send));
        const int64_t wait_ms = replication_due_ms(replication) - now_ms;
        assert_in_range(wait_ms, before_ms > 0 ? before_ms : 1, 2000);
        before_ms = wait_ms;
        now_ms += 2000;
    }
    assert_int_equal(before_ms, 2000);
    expect_send(replication, now_ms, REPLICA_NEIGHBOR, 100, 2, false, &send);
    replication_sent(replication, &send);
    expect_send(replication, now_ms, REPLICA_NEIGHBOR, 100, 3, false, &send);
    replication_failed(replication, &send, now_ms, 0);
    assert_true(replication_due_ms(replication) <= now_ms); /* the center is due */
}

static void a_newer_round_ends_the_sends_of_the_one_before(void **state)
{
    (void)state;
    struct replication *replication AUTO(replication_free) = make(0);
    struct replication_send send;
    replication_take(replication, 100, &to_both);
    hold_all(replication, 100);
    replication_take(replication, 150, &to_neighbor);
    hold_all(replication, 150);
    expect_send(replication, 0, REPLICA_NEIGHBOR, 150, 2, false, &send);
    replication_failed(replication, &send, 0, 0);
    expect_send(replication, 0, REPLICA_CENTER, 100, 2, false, &send);
    replication_drop(replication, 150);
    assert_false(replication_next(replication, 0, &send));
}

static void a_refusal_gives_a_round_up_until_it_is_collected(void **state)
{
    (void)state;
    struct replication *replication AUTO(replication_free) = make(0);
    struct replication_send send;
    replication_take(replication, 100, &to_both);
    hold_all(replication, 100);
    expect_send(replication, 0, REPLICA_NEIGHBOR, 100, 2, false, &send);
    replication_refused(replication, &send);
    expect_send(replication, 0, REPLICA_CENTER, 100, 2, false, &send);
    replication_refused(replication, &send);
    assert_false(replication_next(replication, 0, &send));
    assert_int_equal(replication_due_ms(replication), INT64_MAX);
    replication_take(replication, 103, &to_nobody);
    hold_all(replication, 103);
    assert_false(replication_next(replication, 0, &send));
    replication_collect(replication, 103);
    expect_send(replication, 0, REPLICA_CENTER, 103, 2, false, &send);
}

static void a_version_goes_only_when_a_newer_mark_does_not_name_it(void **state)
{
    (void)state;
    struct replication *replication AUTO(replication_free) = make(40);
    const struct round_mark mark = {.kinds = 1, .keep = {100, 0, 150}};
    assert_false(replication_is_expendable(replication, 90));
    replication_take(replication, 200, &mark);
    assert_false(replication_is_expendable(replication, 40));
    assert_true(replication_is_expendable(replication, 90));
    assert_false(replication_is_expendable(replication, 100));
    assert_true(replication_is_expendable(replication, 140));
    assert_false(replication_is_expendable(replication, 150));
    assert_false(replication_is_expendable(replication, 200));
    assert_false(replication_is_expendable(replication, 210));
    replication_take(replication, 210, &to_nobody);
    assert_false(replication_is_expendable(replication, 200));
}

static void one_set_fits_beside_what_an_earlier_plan_left(void **state)
{
    (void)state;
    assert_true(replication_has_room(2000, 0, 0, 1000));
    assert_true(replication_has_room(2000, 1000, 1000, 1000));
    assert_false(replication_has_room(2000, 1001, 1001, 1000));
    assert_true(replication_has_room(2000, 5000, 0, 1000));
    assert_true(replication_has_room(2000, 5900, 900, 100));
    assert_false(replication_has_room(2000, 6000, 1000, 1));
    assert_false(replication_has_room(0, 0, 0, 1));
}

/* A target with a memory of its own, a network that loses calls and answers, rounds that come and
 * go: what is said to be whole is there, and everything gets there in the end. */
struct target {
    char at[64][END][SHA256_SIZE];
};

static void play(uint64_t seed)
{
    const struct rng_stream random = rng_stream(seed, RNG_SIMULATION, 0, 0);
    uint64_t draws = 0;
    struct replication *replication AUTO(replication_free) = make(0);
    static struct target target[REPLICA_KINDS];
    memset(target, 0, sizeof(target));
    int64_t version = 0;
    int64_t recent[REPLICATION_SETS_MAX] = {0};
    int64_t now_ms = 0;
    size_t hashed = END;
    for (int turn = 0; turn < 400; turn++) {
        struct replication_send send;
        const bool quiet = turn > 250;
        now_ms += (int64_t)rng_below(&random, draws++, quiet ? 3000 : 40);
        if (!quiet && hashed == END && version < 60 && rng_below(&random, draws++, 12) == 0) {
            struct round_mark mark = {.kinds = 1 + (unsigned)rng_below(&random, draws++, 3)};
            version += 1 + (int64_t)rng_below(&random, draws++, 2);
            replication_take(replication, version, &mark);
            memmove(recent + 1, recent, sizeof(recent) - sizeof(recent[0]));
            recent[0] = version;
            hashed = FIRST;
        }
        if (hashed < END) {
            char sha256[SHA256_SIZE];
            const bool frozen = hashed == FIRST;
            (void)snprintf(sha256, sizeof(sha256), "%lld",
                           frozen ? 7LL : (long long)version * 10 + (long long)hashed);
            replication_hold(replication, version, hashed++, sha256, 10);
        }
        if (!quiet && rng_below(&random, draws++, 30) == 0) {
            memset(&target[rng_below(&random, draws++, REPLICA_KINDS)], 0,
                   sizeof(target[0])); /* it restarts */
        }
        if (!replication_next(replication, now_ms, &send)) {
            continue;
        }
        assert_int_equal(send.version, replication_newest(replication, send.kind));
        char(*at)[END][SHA256_SIZE] = target[send.kind].at;
        const uint64_t fate = quiet ? 9 : rng_below(&random, draws++, 10);
        bool known = send.whole;
        for (size_t v = 0; v < 64 && !known; v++) {
            known = strcmp(at[v][send.unit], send.sha256) == 0;
        }
        if (fate == 0) {
            replication_failed(replication, &send, now_ms, 0);
            continue;
        }
        if (known) {
            memcpy(at[send.version][send.unit], send.sha256, SHA256_SIZE);
        }
        if (fate == 1) {
            replication_failed(replication, &send, now_ms, 0); /* the answer is lost */
        } else if (known) {
            replication_sent(replication, &send);
        } else {
            replication_unknown(replication, &send);
        }
    }
    for (int kind = 0; kind < REPLICA_KINDS; kind++) {
        const int64_t newest = replication_newest(replication, (enum replica_kind)kind);
        /* An older set than these has made room. */
        assert_true(newest == 0 || newest < recent[REPLICATION_SETS_MAX - 1] ||
                    replication_is_whole(replication, (enum replica_kind)kind, newest));
    }
}

static void everything_gets_there_whatever_the_network_does(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 5000; seed++) {
        play(seed);
    }
}

static void a_version_is_whole_with_as_many_units_as_the_newest_one_before_it(void **state)
{
    (void)state;
    static const struct {
        int64_t version;
        bool of_this_job;
    } order[] = {{5, false}, {3, true}, {1, true}, {2, true}, {2, true},
                 {4, true},  {1, true}, {4, true}, {4, true}};
    struct holding of = {.version = 4, .job.text = "job_a"};
    struct replication_units units = {.of = &of};
    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
        struct holding other = {.version = order[i].version};
        (void)snprintf(other.job.text, sizeof(other.job.text), "%s",
                       order[i].of_this_job ? "job_a" : "job_b");
        replication_units_count(&units, &other);
    }
    assert_int_equal(units.before, 3);
    assert_true(replication_units_are_whole(&units));
    struct holding another = {.version = 3, .job.text = "job_a"};
    for (size_t i = 0; i < 3; i++) {
        replication_units_count(&units, &another);
    }
    assert_false(replication_units_are_whole(&units));
    struct holding first = {.version = 0, .job.text = "job_b"};
    units = (struct replication_units){.of = &first};
    assert_true(replication_units_are_whole(&units));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_that_make_no_stage_are_refused),
        cmocka_unit_test(units_are_asked_for_then_sent_one_by_one_as_they_are_hashed),
        cmocka_unit_test(a_target_that_fails_waits_longer_and_longer_and_the_other_does_not),
        cmocka_unit_test(a_newer_round_ends_the_sends_of_the_one_before),
        cmocka_unit_test(a_refusal_gives_a_round_up_until_it_is_collected),
        cmocka_unit_test(a_version_goes_only_when_a_newer_mark_does_not_name_it),
        cmocka_unit_test(one_set_fits_beside_what_an_earlier_plan_left),
        cmocka_unit_test(everything_gets_there_whatever_the_network_does),
        cmocka_unit_test(a_version_is_whole_with_as_many_units_as_the_newest_one_before_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
