#include "tests/support/test.h"

#include <stdbool.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "coordinator/store/state.h"
#include "tests/unit/coordinator_store/state_support.h"

#define VISITED_MAX 64

/* Copies of visited rows; stops after `stop` of them when that is not 0. */
struct visited {
    char id[VISITED_MAX][64];
    char parent[VISITED_MAX][64];
    char document[VISITED_MAX][256];
    size_t document_size[VISITED_MAX];
    int64_t revision[VISITED_MAX], created_ms[VISITED_MAX];
    size_t count, stop;
};

static bool remember(void *arg, const struct state_row *row)
{
    struct visited *visited = arg;
    size_t i = visited->count++;
    assert_in_range(i, 0, VISITED_MAX - 1);
    (void)snprintf(visited->id[i], sizeof(visited->id[i]), "%s", row->id);
    (void)snprintf(visited->parent[i], sizeof(visited->parent[i]), "%s", row->parent);
    (void)snprintf(visited->document[i], sizeof(visited->document[i]), "%.200s", row->document);
    visited->document_size[i] = row->document_size;
    visited->revision[i] = row->revision;
    visited->created_ms[i] = row->created_ms;
    return visited->count != visited->stop;
}

static void put(struct state_store *store, enum state_table table, const char *id,
                const char *parent, const char *document)
{
    struct err err = {0};
    struct state_row row = {id, parent, 1, 1000, document, strlen(document)};
    assert_ok(state_put(store, table, &row, &err), &err);
}

static void begin(struct state_store *store)
{
    struct err err = {0};
    assert_ok(state_begin(store, &err), &err);
}

static void commit(struct state_store *store)
{
    struct err err = {0};
    assert_ok(state_commit(store, &err), &err);
}

/* The ids that were visited, joined by blanks. */
static void assert_ids(const struct visited *visited, const char *expected)
{
    char ids[1024] = "";
    for (size_t i = 0, at = 0; i < visited->count; i++) {
        at += (size_t)snprintf(ids + at, sizeof(ids) - at, "%s%s", i ? " " : "", visited->id[i]);
    }
    assert_string_equal(ids, expected);
}

static void assert_list(struct state_store *store, enum state_table table, const char *parent,
                        const char *after, size_t limit, bool newest_first, const char *expected)
{
    struct err err = {0};
    struct visited visited = {0};
    assert_ok(
        state_list(store, table, parent, after, limit, newest_first, remember, &visited, &err),
        &err);
    assert_ids(&visited, expected);
}

static void every_table_keeps_its_rows_over_a_restart(void **state)
{
    struct state_store *store = open_state(state);
    struct err err = {0};
    char id[32];
    begin(store);
    for (int table = 0; table < STATE_TABLES; table++) {
        (void)snprintf(id, sizeof(id), "row_%d", table);
        put(store, (enum state_table)table, id, "the_parent", "{\"a\":1}");
    }
    commit(store);
    state_close(&store);
    assert_null(store);
    store = open_state(state);
    for (int table = 0; table < STATE_TABLES; table++) {
        struct visited visited = {0};
        (void)snprintf(id, sizeof(id), "row_%d", table);
        assert_ok(state_get(store, (enum state_table)table, id, remember, &visited, &err), &err);
        assert_string_equal(visited.id[0], id);
        assert_string_equal(visited.parent[0], "the_parent");
        assert_string_equal(visited.document[0], "{\"a\":1}");
        assert_int_equal(visited.revision[0], 1);
        assert_int_equal(visited.created_ms[0], 1000);
        assert_list(store, (enum state_table)table, NULL, "", 10, false, id);
        assert_list(store, (enum state_table)table, "the_parent", "", 10, false, id);
        assert_list(store, (enum state_table)table, "another", "", 10, true, "");
    }
    state_close(&store);
}

static void a_put_replaces_the_row_of_the_same_id(void **state)
{
    struct state_store *store = open_state(state);
    struct err err = {0};
    begin(store);
    put(store, STATE_JOBS, "job_1", NULL, "old");
    struct state_row row = {"job_1", "p", 7, 2000, "new and longer", 3};
    assert_ok(state_put(store, STATE_JOBS, &row, &err), &err);
    commit(store);
    struct visited visited = {0};
    assert_ok(state_get(store, STATE_JOBS, "job_1", remember, &visited, &err), &err);
    assert_string_equal(visited.document[0], "new");
    assert_int_equal(visited.document_size[0], 3);
    assert_int_equal(visited.revision[0], 7);
    assert_int_equal(visited.created_ms[0], 2000);
    assert_string_equal(visited.parent[0], "p");
    assert_list(store, STATE_JOBS, "p", "", 10, false, "job_1");
    state_close(&store);
}

static void the_first_record_of_a_mix_stays(void **state)
{
    struct state_store *store = open_state(state);
    struct err err = {0};
    struct visited visited = {0};
    begin(store);
    put(store, STATE_MIXES, "mix_1", "p", "first");
    put(store, STATE_MIXES, "mix_1", "p", "second");
    commit(store);
    assert_ok(state_get(store, STATE_MIXES, "mix_1", remember, &visited, &err), &err);
    assert_string_equal(visited.document[0], "first");
    state_close(&store);
}

static void a_large_document_comes_back_whole(void **state)
{
    struct state_store *store = open_state(state);
    struct err err = {0};
    size_t size = 3u << 20;
    char *document = malloc(size);
    memset(document, 'x', size);
    struct state_row row = {"big", "", 1, 1, document, size};
    begin(store);
    assert_ok(state_put(store, STATE_DESCRIPTIONS, &row, &err), &err);
    commit(store);
    struct visited visited = {0};
    assert_ok(state_get(store, STATE_DESCRIPTIONS, "big", remember, &visited, &err), &err);
    assert_int_equal(visited.document_size[0], size);
    free(document);
    state_close(&store);
}

static void lists_go_in_order_of_ids_in_pages_both_ways(void **state)
{
    struct state_store *store = open_state(state);
    begin(store);
    put(store, STATE_PLANS, "c", "j1", "");
    put(store, STATE_PLANS, "a", "j1", "");
    put(store, STATE_PLANS, "e", "j2", "");
    put(store, STATE_PLANS, "b", "j2", "");
    put(store, STATE_PLANS, "d", "j1", "");
    assert_list(store, STATE_PLANS, NULL, "", 10, false, "a b c d e");
    commit(store);
    assert_list(store, STATE_PLANS, NULL, "", 2, false, "a b");
    assert_list(store, STATE_PLANS, NULL, "b", 2, false, "c d");
    assert_list(store, STATE_PLANS, NULL, "e", 2, false, "");
    assert_list(store, STATE_PLANS, NULL, "", 2, true, "e d");
    assert_list(store, STATE_PLANS, NULL, "d", 9, true, "c b a");
    assert_list(store, STATE_PLANS, "j1", "", 10, false, "a c d");
    assert_list(store, STATE_PLANS, "j1", "a", 1, false, "c");
    assert_list(store, STATE_PLANS, "j1", "", 10, true, "d c a");
    assert_list(store, STATE_PLANS, "j1", "d", 1, true, "c");
    assert_list(store, STATE_PLANS, "", "", 10, false, "");
    assert_list(store, STATE_PLANS, NULL, "", 0, false, "");
    assert_list(store, STATE_PLANS, NULL, NULL, SIZE_MAX, false, "a b c d e");
    state_close(&store);
}

static void assert_plans_of_job(struct state_store *store, const char *job, const char *after,
                                size_t limit, const char *expected)
{
    struct err err = {0};
    struct visited visited = {0};
    const struct state_query query = {
        .after_id = after, .limit = limit, .job = job, .states = "", .name = ""};
    assert_ok(state_search(store, STATE_PLANS, &query, remember, &visited, &err), &err);
    assert_ids(&visited, expected);
}

static void the_rows_of_a_job_include_those_of_its_parts(void **state)
{
    struct state_store *store = open_state(state);
    begin(store);
    put(store, STATE_JOBS, "whole", "", "");
    put(store, STATE_JOBS, "stem", "whole", "");
    put(store, STATE_JOBS, "group", "whole", "");
    put(store, STATE_JOBS, "other", "", "");
    put(store, STATE_PLANS, "a", "group", "");
    put(store, STATE_PLANS, "b", "other", "");
    put(store, STATE_PLANS, "c", "stem", "");
    put(store, STATE_PLANS, "d", "whole", "");
    put(store, STATE_PLANS, "e", "group", "");
    commit(store);
    assert_plans_of_job(store, "whole", "", 10, "a c d e");
    assert_plans_of_job(store, "whole", "", 2, "a c");
    assert_plans_of_job(store, "whole", "c", 10, "d e");
    assert_plans_of_job(store, "group", "", 10, "a e");
    assert_plans_of_job(store, "unknown", "", 10, "");
    state_close(&store);
}

static void a_visitor_may_stop_and_the_list_can_be_asked_again(void **state)
{
    struct state_store *store = open_state(state);
    struct err err = {0};
    begin(store);
    put(store, STATE_EVENTS, "a", "", "");
    put(store, STATE_EVENTS, "b", "", "");
    commit(store);
    for (int i = 0; i < 3; i++) {
        struct visited visited = {.stop = 1};
        assert_ok(state_list(store, STATE_EVENTS, NULL, "", 10, false, remember, &visited, &err),
                  &err);
        assert_int_equal(visited.count, 1);
    }
    /* Not held by the cursor. */
    begin(store);
    put(store, STATE_EVENTS, "c", "", "");
    commit(store);
    assert_list(store, STATE_EVENTS, NULL, "", 10, false, "a b c");
    state_close(&store);
}

static bool look_into_another_table(void *arg, const struct state_row *row)
{
    struct err err = {0};
    struct visited visited = {0};
    assert_ok(state_get(arg, STATE_JOBS, row->parent, remember, &visited, &err), &err);
    return true;
}

static void a_visitor_may_ask_for_other_rows(void **state)
{
    struct state_store *store = open_state(state);
    struct err err = {0};
    begin(store);
    put(store, STATE_JOBS, "j", "", "");
    put(store, STATE_PLANS, "p1", "j", "");
    put(store, STATE_PLANS, "p2", "j", "");
    commit(store);
    assert_ok(
        state_list(store, STATE_PLANS, NULL, "", 10, false, look_into_another_table, store, &err),
        &err);
    state_close(&store);
}

static void a_missing_row_is_not_found(void **state)
{
    struct state_store *store = open_state(state);
    struct err err = {0};
    struct visited visited = {0};
    assert_int_equal(state_get(store, STATE_MODELS, "nothing", remember, &visited, &err),
                     ERR_NOT_FOUND);
    assert_string_equal(err.text, "models has no 'nothing'");
    begin(store);
    assert_ok(state_delete(store, STATE_MODELS, "nothing", &err), &err);
    commit(store);
    state_close(&store);
}

static void rows_are_deleted_alone_by_parent_and_below_an_id(void **state)
{
    struct state_store *store = open_state(state);
    struct err err = {0};
    begin(store);
    for (int i = 1; i <= 5; i++) {
        char id[16], other[16];
        (void)snprintf(id, sizeof(id), "j1/%02d", i);
        (void)snprintf(other, sizeof(other), "j2/%02d", i);
        put(store, STATE_CENTER_UNITS, id, "j1", "");
        put(store, STATE_CENTER_UNITS, other, "j2", "");
    }
    commit(store);
    begin(store);
    assert_ok(state_delete_children(store, STATE_CENTER_UNITS, "j1", "j1/03", &err), &err);
    assert_ok(state_delete(store, STATE_CENTER_UNITS, "j1/05", &err), &err);
    assert_list(store, STATE_CENTER_UNITS, "j1", "", 10, false, "j1/03 j1/04");
    assert_ok(state_delete_children(store, STATE_CENTER_UNITS, "j2", NULL, &err), &err);
    commit(store);
    assert_list(store, STATE_CENTER_UNITS, NULL, "", 10, false, "j1/03 j1/04");
    state_close(&store);
}

static void a_trim_keeps_the_newest(void **state)
{
    struct state_store *store = open_state(state);
    struct err err = {0};
    begin(store);
    for (int i = 0; i < 9; i++) {
        char id[16];
        (void)snprintf(id, sizeof(id), "evt_%d", i);
        put(store, STATE_EVENTS, id, "", "");
        put(store, STATE_REPLAYS, id, "", "");
    }
    assert_ok(state_trim(store, STATE_EVENTS, 3, &err), &err);
    assert_ok(state_trim(store, STATE_EVENTS, 3, &err), &err);
    assert_ok(state_trim(store, STATE_REPLAYS, 100, &err), &err);
    commit(store);
    assert_list(store, STATE_EVENTS, NULL, "", 10, false, "evt_6 evt_7 evt_8");
    assert_list(store, STATE_REPLAYS, NULL, "", 2, true, "evt_8 evt_7");
    begin(store);
    assert_ok(state_trim(store, STATE_EVENTS, 0, &err), &err);
    commit(store);
    assert_list(store, STATE_EVENTS, NULL, "", 10, false, "");
    state_close(&store);
}

static void rolled_back_and_uncommitted_rows_are_absent(void **state)
{
    struct state_store *store = open_state(state);
    assert_false(state_in_transaction(store));
    begin(store);
    assert_true(state_in_transaction(store));
    put(store, STATE_JOBS, "a", "", "");
    state_rollback(store);
    assert_false(state_in_transaction(store));
    assert_list(store, STATE_JOBS, NULL, "", 10, false, "");
    begin(store);
    put(store, STATE_JOBS, "b", "", "");
    state_close(&store);
    store = open_state(state);
    assert_list(store, STATE_JOBS, NULL, "", 10, false, "");
    state_close(&store);
}

static void the_history_of_a_job_goes_with_it(void **state)
{
    struct state_store *store = open_state(state);
    struct err err = {0};
    begin(store);
    put(store, STATE_JOBS, "j1", "", "");
    put(store, STATE_PLANS, "p1", "j1", "");
    put(store, STATE_PLANS, "p2", "j2", "");
    put(store, STATE_INCIDENTS, "i1", "j1", "");
    put(store, STATE_INCIDENTS, "i2", "j2", "");
    commit(store);
    begin(store);
    assert_ok(state_delete(store, STATE_JOBS, "j1", &err), &err);
    commit(store);
    assert_list(store, STATE_PLANS, NULL, "", 10, false, "p2");
    assert_list(store, STATE_INCIDENTS, NULL, "", 10, false, "i2");
    state_close(&store);
}

static void a_second_coordinator_on_the_same_directory_is_refused_by_name(void **state)
{
    struct state_store *store = open_state(state), *second = NULL;
    struct err err = {0};
    char process[64];
    (void)snprintf(process, sizeof(process), "(process %ld)", (long)getpid());
    assert_int_equal(state_open(*state, &second, &err), ERR_STATE);
    assert_null(second);
    assert_holds(err.text, *state);
    assert_holds(err.text, "in use by another coordinator");
    assert_holds(err.text, process);
    state_close(&store);
    store = open_state(state);
    state_close(&store);
}

static void the_files_are_for_the_owner_alone_and_the_reserve_is_allocated(void **state)
{
    struct state_store *store = open_state(state);
    struct stat status;
    begin(store);
    put(store, STATE_META, "ticket_key", "", "secret");
    commit(store);
    static const char *const names[] = {"state.db", "state.db-wal", "state.lock", "state.reserve"};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(stat(test_path_in(*state, names[i]).text, &status), 0);
        assert_int_equal(status.st_mode & 0777, 0600);
    }
    assert_int_equal(status.st_size, 8 << 20);
    assert_true(status.st_blocks * 512 >= 8 << 20);
    state_close(&store);
}

/* Rows of 10 kB each: some 1000 pages. */
static int64_t pages_after_deletion(struct state_store *store, const char *directory)
{
    char document[10000], id[16];
    struct err err = {0};
    bool left = true;
    memset(document, 'x', sizeof(document) - 1);
    document[sizeof(document) - 1] = '\0';
    begin(store);
    for (int i = 0; i < 400; i++) {
        (void)snprintf(id, sizeof(id), "m%03d", i);
        put(store, STATE_META, id, "", document);
    }
    commit(store);
    begin(store);
    assert_ok(state_trim(store, STATE_META, 1, &err), &err);
    commit(store);
    int steps = 0;
    for (; left; steps++) {
        assert_in_range(steps, 0, 100);
        assert_ok(state_vacuum(store, &left, &err), &err);
    }
    assert_true(steps > 1);
    state_close(&store);
    struct stat status;
    assert_int_equal(stat(test_path_in(directory, "state.db").text, &status), 0);
    return status.st_size / 4096;
}

static void free_pages_are_given_back_piece_by_piece(void **state)
{
    assert_in_range(pages_after_deletion(open_state(state), *state), 1, 400);
}

static void a_file_of_an_earlier_version_is_rewritten_to_do_so(void **state)
{
    struct state_store *store = open_state(state);
    state_close(&store);
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(test_path_in(*state, "state.db").text, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db,
                                  "PRAGMA journal_mode = DELETE; PRAGMA auto_vacuum = NONE; VACUUM",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_in_range(pages_after_deletion(open_state(state), *state), 1, 400);
}

static void a_file_that_is_not_a_database_is_rejected(void **state)
{
    struct err err = {0};
    struct state_store *store = NULL;
    struct test_path path = test_path_in(*state, "state.db");
    char garbage[8192];
    memset(garbage, 'g', sizeof(garbage));
    assert_ok(file_write_atomic(path.text, garbage, sizeof(garbage), 0600, &err), &err);
    assert_int_equal(state_open(*state, &store, &err), ERR_FORMAT);
    assert_holds(err.text, path.text);
    assert_null(store);
}

static void a_directory_that_cannot_be_made_is_an_error_that_names_it(void **state)
{
    struct err err = {0};
    struct state_store *store = NULL;
    struct test_path file = test_path_in(*state, "file");
    assert_ok(file_write_atomic(file.text, "x", 1, 0600, &err), &err);
    assert_true(state_open(test_path_in(file.text, "below").text, &store, &err) < 0);
    assert_holds(err.text, file.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_with_directory(every_table_keeps_its_rows_over_a_restart),
        test_with_directory(a_put_replaces_the_row_of_the_same_id),
        test_with_directory(the_first_record_of_a_mix_stays),
        test_with_directory(a_large_document_comes_back_whole),
        test_with_directory(lists_go_in_order_of_ids_in_pages_both_ways),
        test_with_directory(the_rows_of_a_job_include_those_of_its_parts),
        test_with_directory(a_visitor_may_stop_and_the_list_can_be_asked_again),
        test_with_directory(a_visitor_may_ask_for_other_rows),
        test_with_directory(a_missing_row_is_not_found),
        test_with_directory(rows_are_deleted_alone_by_parent_and_below_an_id),
        test_with_directory(a_trim_keeps_the_newest),
        test_with_directory(rolled_back_and_uncommitted_rows_are_absent),
        test_with_directory(the_history_of_a_job_goes_with_it),
        test_with_directory(a_second_coordinator_on_the_same_directory_is_refused_by_name),
        test_with_directory(the_files_are_for_the_owner_alone_and_the_reserve_is_allocated),
        test_with_directory(free_pages_are_given_back_piece_by_piece),
        test_with_directory(a_file_of_an_earlier_version_is_rewritten_to_do_so),
        test_with_directory(a_file_that_is_not_a_database_is_rejected),
        test_with_directory(a_directory_that_cannot_be_made_is_an_error_that_names_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
