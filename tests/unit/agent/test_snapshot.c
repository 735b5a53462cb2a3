#include "agent/runtime/snapshot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/hash.h"
#include "tests/support/test.h"

static const struct job_id job = {"job_a"};
static const struct job_id other = {"job_b"};

static void keep(struct snapshot_store *store, const struct job_id *of, int64_t version, int64_t unit, const char *text)
{
    struct err err = {0};
    char *data = strdup(text);
    assert_non_null(data);
    assert_ok(snapshot_keep(store, of, version, unit, data, strlen(text), &err), &err);
}

static struct snapshot_store *make(void)
{
    struct snapshot_store *store = NULL;
    struct err err = {0};
    assert_ok(snapshot_store_new(&store, &err), &err);
    return store;
}

static void what_was_kept_is_found_with_its_hash(void **state)
{
    (void)state;
    struct snapshot_store *store AUTO(snapshot_store_free) = make();
    char hash[HASH_TEXT_SIZE];
    keep(store, &job, 3, 1, "weights");
    sha256_text("weights", 7, hash);
    const struct snapshot *snapshot = snapshot_get(store, "job_a", 3, 1);
    assert_non_null(snapshot);
    assert_string_equal(snapshot->holding.sha256, hash);
    assert_int_equal(snapshot->holding.bytes, 7);
    assert_memory_equal(snapshot->data, "weights", 7);
    snapshot_put_back(snapshot);
    assert_null(snapshot_get(store, "job_a", 3, 2));
    assert_null(snapshot_get(store, "job_a", 4, 1));
    assert_null(snapshot_get(store, "job_b", 3, 1));
}

static void a_drop_lets_go_of_older_versions_of_that_job_only(void **state)
{
    (void)state;
    struct snapshot_store *store AUTO(snapshot_store_free) = make();
    static struct holding list[HOLDINGS_MAX];
    keep(store, &job, 3, 0, "a");
    keep(store, &job, 5, 0, "b");
    keep(store, &other, 1, 0, "c");
    snapshot_drop(store, &(struct drop){.job = job, .below_version = 5});
    assert_int_equal(snapshot_list(store, list), 2);
    assert_int_equal(list[0].version, 5);
    assert_string_equal(list[1].job.text, "job_b");
    snapshot_drop(store, &(struct drop){.job = job, .below_version = INT64_MAX});
    assert_int_equal(snapshot_list(store, list), 1);
}

static void one_that_is_being_sent_survives_its_drop(void **state)
{
    (void)state;
    struct snapshot_store *store AUTO(snapshot_store_free) = make();
    keep(store, &job, 3, 0, "still here");
    const struct snapshot *snapshot = snapshot_get(store, "job_a", 3, 0);
    snapshot_drop(store, &(struct drop){.job = job, .below_version = 4});
    assert_null(snapshot_get(store, "job_a", 3, 0));
    assert_memory_equal(snapshot->data, "still here", 10);
    snapshot_put_back(snapshot);
}

static void the_same_snapshot_again_replaces_the_first(void **state)
{
    (void)state;
    struct snapshot_store *store AUTO(snapshot_store_free) = make();
    static struct holding list[HOLDINGS_MAX];
    const uint64_t before = snapshot_revision(store);
    keep(store, &job, 3, 0, "old");
    keep(store, &job, 3, 0, "newer");
    assert_int_equal(snapshot_list(store, list), 1);
    assert_int_equal(list[0].bytes, 5);
    assert_true(snapshot_revision(store) > before);
}

static void a_drop_of_nothing_changes_no_revision(void **state)
{
    (void)state;
    struct snapshot_store *store AUTO(snapshot_store_free) = make();
    keep(store, &job, 3, 0, "x");
    const uint64_t before = snapshot_revision(store);
    snapshot_drop(store, &(struct drop){.job = job, .below_version = 3});
    assert_int_equal(snapshot_revision(store), before);
}

static void there_is_a_bound(void **state)
{
    (void)state;
    struct snapshot_store *store AUTO(snapshot_store_free) = make();
    struct err err = {0};
    for (int64_t unit = 0; unit < HOLDINGS_MAX; unit++) {
        keep(store, &job, 1, unit, "x");
    }
    assert_int_equal(snapshot_keep(store, &job, 1, HOLDINGS_MAX, strdup("x"), 1, &err), ERR_LIMIT);
    keep(store, &job, 1, 7, "still replaced");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_kept_is_found_with_its_hash),
        cmocka_unit_test(a_drop_lets_go_of_older_versions_of_that_job_only),
        cmocka_unit_test(one_that_is_being_sent_survives_its_drop),
        cmocka_unit_test(the_same_snapshot_again_replaces_the_first),
        cmocka_unit_test(a_drop_of_nothing_changes_no_revision),
        cmocka_unit_test(there_is_a_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
