/* The thread that replicates, over a stage of the tiny model and a target that is a table: what is
 * taken is held and arrives, the compute thread never waits for it, memory stays within three sets.
 */
#include "agent/copies/outbox.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "agent/runtime/thread.h"
#include "base/log.h"
#include "tests/support/test.h"
#include "tests/unit/agent/tiny.h"

#define JOB "job_00000000000000000000000001"
#define WAIT_NS INT64_C(20000000000)

static struct holding list[HOLDINGS_MAX];

/* What a target has, and what it answers. */
struct bench {
    struct stage *stage;
    struct snapshot_store *snapshots;
    struct outbox *outbox;
    atomic_bool interrupt;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int refuse;  /* answer of every call, 0: none */
    bool hang;   /* until interrupted */
    int hanging; /* calls that hang */
    size_t asked, sent;
    char has[TINY_UNITS][SHA256_SIZE];
    int64_t collected;
    int failed;
    struct err why;
};

static int send_one(void *arg, const struct outbox_send *send, const struct snapshot *snapshot,
                    int64_t *retry_ms, struct err *err)
{
    struct bench *bench = arg;
    int rc = 0;
    (void)retry_ms;
    assert_string_equal(send->sha256, snapshot->holding.sha256);
    (void)pthread_mutex_lock(&bench->lock);
    bench->hanging += bench->hang;
    (void)pthread_cond_broadcast(&bench->changed);
    while (bench->hang && !atomic_load(&bench->interrupt)) {
        (void)thread_condition_wait(&bench->changed, &bench->lock, 1000000);
    }
    if (atomic_load(&bench->interrupt)) {
        rc = ERR_CANCELLED;
    } else if (bench->refuse != 0) {
        rc = bench->refuse;
    } else if (send->whole) {
        bench->sent++;
        memcpy(bench->has[send->unit], send->sha256, SHA256_SIZE);
    } else {
        bench->asked++;
        rc = strcmp(bench->has[send->unit], send->sha256) == 0 ? 0 : ERR_NOT_FOUND;
    }
    (void)pthread_cond_broadcast(&bench->changed);
    (void)pthread_mutex_unlock(&bench->lock);
    return rc == 0 ? 0 : err_set(err, rc, "the target says no");
}

static void collected(void *arg, int64_t version)
{
    struct bench *bench = arg;
    (void)pthread_mutex_lock(&bench->lock);
    bench->collected = version;
    (void)pthread_cond_broadcast(&bench->changed);
    (void)pthread_mutex_unlock(&bench->lock);
}

static void failed(void *arg, const struct err *why)
{
    struct bench *bench = arg;
    (void)pthread_mutex_lock(&bench->lock);
    bench->failed++;
    bench->why = *why;
    (void)pthread_cond_broadcast(&bench->changed);
    (void)pthread_mutex_unlock(&bench->lock);
}

/* Wait until `done` says so. */
static void wait_until(struct bench *bench, bool (*done)(const struct bench *bench))
{
    int rc = 0;
    (void)pthread_mutex_lock(&bench->lock);
    while (!done(bench) && rc == 0) {
        rc = thread_condition_wait(&bench->changed, &bench->lock, WAIT_NS);
    }
    (void)pthread_mutex_unlock(&bench->lock);
    assert_int_equal(rc, 0);
}

static void open_bench(struct bench *bench, const char *directory)
{
    const struct job_spec spec = tiny_spec();
    struct stage_config config = tiny_whole(&spec);
    struct err err = {0};
    memset(bench, 0, sizeof(*bench));
    (void)pthread_mutex_init(&bench->lock, NULL);
    assert_ok(thread_condition_init(&bench->changed, &err), &err);
    config.job = (struct job_id){JOB};
    config.generation = 4;
    bench->stage = tiny_stage(&config);
    assert_ok(snapshot_store_new(directory, &bench->snapshots, &err), &err);
    snapshot_retain(bench->snapshots);
    const struct outbox_config outbox = {.keeper = stage_keeper(bench->stage),
                                         .snapshots = bench->snapshots,
                                         .send = send_one,
                                         .interrupt = &bench->interrupt,
                                         .collected = collected,
                                         .failed = failed,
                                         .arg = bench};
    assert_ok(outbox_start(&outbox, &bench->outbox, &err), &err);
}

static void close_bench(struct bench *bench)
{
    outbox_cancel(bench->outbox);
    outbox_free(&bench->outbox);
    snapshot_store_free(&bench->snapshots);
    stage_release(&bench->stage);
    (void)pthread_cond_destroy(&bench->changed);
    (void)pthread_mutex_destroy(&bench->lock);
}

static void take(struct bench *bench, int64_t version, unsigned kinds, int64_t keep)
{
    const struct round_mark mark = {.kinds = kinds, .keep = {keep}};
    outbox_take(bench->outbox, version, &mark);
}

static bool all_sent(const struct bench *bench)
{
    return bench->sent == TINY_UNITS;
}

static bool asked_twice(const struct bench *bench)
{
    return bench->asked == (size_t)2 * TINY_UNITS;
}

static bool is_hanging(const struct bench *bench)
{
    return bench->hanging > 0;
}

static bool is_collected(const struct bench *bench)
{
    return bench->collected == 7;
}

static bool has_failed(const struct bench *bench)
{
    return bench->failed == 1;
}

static void drop(struct bench *bench, int64_t below_version)
{
    const struct drop drop = {.job = {JOB}, .below_version = below_version};
    snapshot_drop(bench->snapshots, &drop);
    outbox_drop(bench->outbox, &drop);
}

/* ---- tests ---- */

static void a_snapshot_is_held_and_sent_and_bytes_that_are_there_are_not_sent_again(void **state)
{
    const char *directories[] = {NULL, *state};
    for (size_t i = 0; i < 2; i++) {
        struct bench bench;
        struct err err = {0};
        open_bench(&bench, directories[i]);
        take(&bench, 5, REPLICA_MARK(REPLICA_NEIGHBOR), 0);
        wait_until(&bench, all_sent);
        assert_int_equal(snapshot_holdings(bench.snapshots, list), TINY_UNITS);
        for (size_t unit = 0; unit < TINY_UNITS; unit++) {
            assert_int_equal(list[unit].version, 5);
            assert_int_equal(list[unit].generation, 4);
            assert_string_equal(bench.has[list[unit].unit], list[unit].sha256);
        }
        /* The state is the same at the next stop: asked, not sent. */
        assert_ok(outbox_keep(bench.outbox, 6, &err), &err);
        assert_int_equal(snapshot_holdings(bench.snapshots, list), 2 * TINY_UNITS);
        take(&bench, 6, REPLICA_MARK(REPLICA_NEIGHBOR), 5);
        wait_until(&bench, asked_twice);
        assert_int_equal(bench.sent, TINY_UNITS);
        drop(&bench, INT64_MAX);
        close_bench(&bench);
    }
}

static void a_target_that_hangs_delays_neither_the_compute_thread_nor_a_stop(void **state)
{
    (void)state;
    struct bench bench;
    struct err err = {0};
    open_bench(&bench, NULL);
    bench.hang = true;
    take(&bench, 5, REPLICA_MARK(REPLICA_NEIGHBOR), 0);
    wait_until(&bench, is_hanging);
    take(&bench, 6, REPLICA_MARK(REPLICA_NEIGHBOR), 0);
    assert_ok(outbox_keep(bench.outbox, 7, &err), &err);
    const size_t count = snapshot_holdings(bench.snapshots, list);
    assert_int_equal(list[count - 1].version, 7);
    close_bench(&bench);
}

static int64_t memory_of(struct bench *bench)
{
    return snapshot_count_bytes(bench->snapshots, SNAPSHOT_OWN, true, &(struct job_id){JOB}, 4)
        .held;
}

static void rounds_that_are_abandoned_do_not_fill_the_memory(void **state)
{
    (void)state;
    struct bench bench;
    struct err err = {0};
    open_bench(&bench, NULL);
    int64_t set_bytes = 0;
    for (size_t unit = 0; unit < TINY_UNITS; unit++) {
        set_bytes += (int64_t)keeper_unit_bytes(stage_keeper(bench.stage), unit);
    }
    bench.refuse = ERR_NETWORK;
    for (int64_t version = 1; version <= 200; version++) {
        take(&bench, version, REPLICA_MARK(REPLICA_NEIGHBOR),
             version > 3 ? 3 : 0); /* only 3 was ever committed */
        assert_true(memory_of(&bench) <= 3 * set_bytes);
    }
    assert_ok(outbox_keep(bench.outbox, 201, &err), &err);
    assert_true(memory_of(&bench) <= 4 * set_bytes);
    bool there = false;
    const size_t count = snapshot_holdings(bench.snapshots, list);
    for (size_t i = 0; i < count; i++) {
        there = there || list[i].version == 201;
    }
    assert_true(there);
    assert_true(outbox_skipped(bench.outbox) < 200);
    close_bench(&bench);
}

static void the_last_version_is_collected_and_a_refusal_is_reported(void **state)
{
    (void)state;
    struct bench bench;
    struct err err = {0};
    open_bench(&bench, NULL);
    assert_ok(outbox_keep(bench.outbox, 7, &err), &err);
    outbox_collect(bench.outbox, 7);
    wait_until(&bench, is_collected);
    assert_int_equal(bench.sent, TINY_UNITS);
    close_bench(&bench);
    open_bench(&bench, NULL);
    bench.refuse = ERR_PROTOCOL;
    assert_ok(outbox_keep(bench.outbox, 7, &err), &err);
    outbox_collect(bench.outbox, 7);
    wait_until(&bench, has_failed);
    assert_holds(bench.why.text, "says no");
    close_bench(&bench);
}

static void a_collection_of_a_dropped_version_fails(void **state)
{
    (void)state;
    struct bench bench;
    struct err err = {0};
    open_bench(&bench, NULL);
    assert_ok(outbox_keep(bench.outbox, 7, &err), &err);
    snapshot_drop(bench.snapshots, &(struct drop){.job = {JOB}, .below_version = INT64_MAX});
    outbox_collect(bench.outbox, 7);
    wait_until(&bench, has_failed);
    assert_holds(bench.why.text, "no longer held");
    close_bench(&bench);
}

static void a_cancelled_stop_returns(void **state)
{
    (void)state;
    struct bench bench;
    struct err err = {0};
    open_bench(&bench, NULL);
    outbox_cancel(bench.outbox);
    assert_int_equal(outbox_keep(bench.outbox, 7, &err), ERR_CANCELLED);
    close_bench(&bench);
}

static int prepare(void **state)
{
    (void)state;
    log_set_level(LOG_LEVEL_ERROR);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_with_directory(
            a_snapshot_is_held_and_sent_and_bytes_that_are_there_are_not_sent_again),
        cmocka_unit_test(a_target_that_hangs_delays_neither_the_compute_thread_nor_a_stop),
        cmocka_unit_test(rounds_that_are_abandoned_do_not_fill_the_memory),
        cmocka_unit_test(the_last_version_is_collected_and_a_refusal_is_reported),
        cmocka_unit_test(a_collection_of_a_dropped_version_fails),
        cmocka_unit_test(a_cancelled_stop_returns),
    };
    return cmocka_run_group_tests(tests, prepare, NULL);
}
