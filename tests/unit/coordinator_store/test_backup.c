/* Backups of state directories: made beside an open store, checked, restored. */
#include "tests/support/test.h"

#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "coordinator/store/backup.h"
#include "coordinator/store/snapshot.h"
#include "tests/unit/coordinator_store/blob_support.h"
#include "tests/unit/coordinator_store/state_support.h"

#define BLOBS 3
#define BLOB_BYTES ((1u << 20) + 17)
#define ROOM 0

struct looking {
    const char *directory;
    atomic_bool over;
};

struct place {
    char from[TEST_PATH_MAX + 8], to[TEST_PATH_MAX + 8], file[TEST_PATH_MAX + 8];
};

static struct place place_in(const char *directory)
{
    struct place place;
    (void)snprintf(place.from, sizeof(place.from), "%s/from", directory);
    (void)snprintf(place.to, sizeof(place.to), "%s/to", directory);
    (void)snprintf(place.file, sizeof(place.file), "%s/backup", directory);
    return place;
}

static void put_row(struct state_store *store, enum state_table table, const char *id,
                    const char *document)
{
    struct err err = {0};
    const struct state_row row = {id, "", 1, 1, document, strlen(document)};
    assert_ok(state_begin(store, &err), &err);
    assert_ok(state_put(store, table, &row, &err), &err);
    assert_ok(state_commit(store, &err), &err);
}

/* Rows that name blobs, and a certificate. */
struct original {
    struct state_store *state;
    struct blob_store *blobs;
    char sha256[BLOBS][BLOB_SHA256_SIZE];
};

static struct original make_original(const char *directory)
{
    struct original out = {0};
    struct err err = {0};
    char path[TEST_PATH_MAX + 32];
    assert_ok(state_open(directory, &out.state, &err), &err);
    out.blobs = store_open(directory);
    for (int i = 0; i < BLOBS; i++) {
        char id[16], document[256];
        assert_ok(store_put(out.blobs, (uint64_t)i + 1, BLOB_BYTES, out.sha256[i], &err), &err);
        (void)snprintf(id, sizeof(id), "data-%d", i);
        (void)snprintf(document, sizeof(document), "{\"sha256\":\"%s\"}", out.sha256[i]);
        put_row(out.state, STATE_DATASETS, id, document);
    }
    (void)snprintf(path, sizeof(path), "%s/tls", directory);
    assert_ok(file_make_directory(path, 0700, &err), &err);
    (void)snprintf(path, sizeof(path), "%s/tls/ca.key", directory);
    assert_ok(file_write_atomic(path, "secret", 6, 0600, &err), &err);
    return out;
}

static void close_original(struct original *original)
{
    blob_close(&original->blobs);
    state_close(&original->state);
}

static void change_database(const char *path, const char *sql)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static bool is_there(const char *directory, const char *name)
{
    char path[TEST_PATH_MAX + 64];
    (void)snprintf(path, sizeof(path), "%s/%s", directory, name);
    return access(path, F_OK) == 0;
}

static void a_backup_of_an_open_store_is_restored_with_rows_blobs_and_keys(void **state)
{
    const struct place place = place_in(*state);
    struct original original = make_original(place.from);
    struct backup_report report;
    struct err err = {0};
    assert_ok(backup_make(place.from, place.file, ROOM, &report, &err), &err);
    assert_int_equal(report.blobs, BLOBS);
    assert_int_equal(report.damaged, 0);
    put_row(original.state, STATE_MODELS, "later", "{}");
    assert_ok(backup_check_file(place.file, &report, &err), &err);
    assert_int_equal(report.blobs, BLOBS);
    assert_ok(backup_restore(place.file, place.to, ROOM, &report, &err), &err);
    assert_false(is_there(place.to, "restore.partial"));

    struct state_store *copy = NULL;
    size_t rows = 0;
    assert_ok(state_open(place.to, &copy, &err), &err);
    assert_ok(state_count(copy, STATE_DATASETS, &rows, &err), &err);
    assert_int_equal(rows, BLOBS);
    assert_ok(state_count(copy, STATE_MODELS, &rows, &err), &err);
    assert_int_equal(rows, 0);
    state_close(&copy);
    struct blob_store *blobs = store_open(place.to);
    for (int i = 0; i < BLOBS; i++) {
        assert_true(store_holds(blobs, original.sha256[i], (uint64_t)i + 1, BLOB_BYTES, &err));
    }
    blob_close(&blobs);
    struct stat key;
    char path[TEST_PATH_MAX + 32];
    (void)snprintf(path, sizeof(path), "%s/tls/ca.key", place.to);
    assert_int_equal(stat(path, &key), 0);
    assert_int_equal(key.st_mode & 0777, 0600);
    assert_int_equal(stat(place.file, &key), 0);
    assert_int_equal(key.st_mode & 0777, 0600);
    close_original(&original);
}

static void a_snapshot_keeps_deleted_blobs_readable_until_it_is_closed(void **state)
{
    const struct place place = place_in(*state);
    struct original original = make_original(place.from);
    struct snapshot *snapshot = NULL;
    struct err err = {0};
    size_t count = 0;
    int64_t chunks = 0;
    assert_false(snapshot_is_open(place.from));
    assert_ok(snapshot_open(place.from, &snapshot, &err), &err);
    assert_true(snapshot_is_open(place.from));
    for (int i = 0; i < BLOBS; i++) {
        blob_delete(original.blobs, original.sha256[i]);
    }
    blob_drain(original.blobs);
    uint64_t size = 0;
    assert_int_equal(store_stat(original.blobs, original.sha256[0], &size, &err), ERR_NOT_FOUND);
    const struct snapshot_blob *blob = snapshot_blobs(snapshot, &count);
    assert_int_equal(count, BLOBS);
    for (size_t i = 0; i < count; i++) {
        assert_ok(snapshot_read(snapshot, &blob[i], NULL, NULL, &err), &err);
    }
    snapshot_close(&snapshot);
    assert_false(snapshot_is_open(place.from));
    /* A restart reclaims; so does the open store within a second. */
    close_original(&original);
    original.blobs = store_open(place.from);
    blob_close(&original.blobs);
    sqlite3 *db = NULL;
    sqlite3_stmt *statement = NULL;
    char path[TEST_PATH_MAX + 32];
    (void)snprintf(path, sizeof(path), "%s/checkpoints.db", place.from);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "SELECT count(*) FROM chunks", -1, &statement, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    chunks = sqlite3_column_int64(statement, 0);
    (void)sqlite3_finalize(statement);
    (void)sqlite3_close(db);
    assert_int_equal(chunks, 0);
}

static void a_second_backup_of_a_directory_waits_its_turn(void **state)
{
    const struct place place = place_in(*state);
    struct original original = make_original(place.from);
    struct snapshot *snapshot = NULL;
    struct backup_report report;
    struct err err = {0};
    assert_ok(snapshot_open(place.from, &snapshot, &err), &err);
    assert_int_equal(backup_make(place.from, place.file, ROOM, &report, &err), ERR_STATE);
    assert_holds(err.text, "in use by another backup");
    snapshot_close(&snapshot);
    close_original(&original);
}

static void damage_is_found_and_the_rest_is_kept(void **state)
{
    const struct place place = place_in(*state);
    struct original original = make_original(place.from);
    close_original(&original);
    char path[TEST_PATH_MAX + 32];
    (void)snprintf(path, sizeof(path), "%s/checkpoints.db", place.from);
    change_database(path, "UPDATE chunks SET data = zeroblob(length(data)) "
                          "WHERE id = (SELECT max(id) FROM chunks);"
                          "UPDATE blobs SET sha256 = NULL WHERE id = (SELECT min(id) FROM blobs)");
    struct backup_report report;
    struct err err = {0};
    assert_ok(backup_check_directory(place.from, &report, &err), &err);
    assert_int_equal(report.damaged, 2);
    assert_ok(backup_make(place.from, place.file, ROOM, &report, &err), &err);
    assert_int_equal(report.damaged, 2);
    assert_int_equal(report.blobs, BLOBS - 2);
    assert_ok(backup_check_file(place.file, &report, &err), &err);
    assert_int_equal(report.damaged, 2);
    assert_ok(backup_restore(place.file, place.to, ROOM, &report, &err), &err);
    struct blob_store *blobs = store_open(place.to);
    assert_true(store_holds(blobs, original.sha256[1], 2, BLOB_BYTES, &err));
    blob_close(&blobs);
}

static void a_damaged_backup_is_named_and_restores_nothing(void **state)
{
    static const char *const faults[] = {
        "UPDATE chunks SET data = zeroblob(length(data)) WHERE id = (SELECT max(id) FROM chunks)",
        "DELETE FROM chunks WHERE id = (SELECT max(id) FROM chunks)",
        "DELETE FROM contents WHERE name = 'state.db'",
        "UPDATE contents SET size = -1",
        "UPDATE contents SET kind = 7",
        "UPDATE contents SET sha256 = 'x'",
        "UPDATE contents SET name = '../../x' WHERE name = 'tls/ca.key'",
        "UPDATE contents SET name = 'tls/.x' WHERE name = 'tls/ca.key'",
        "UPDATE contents SET name = upper(name) WHERE kind = 2",
        "DELETE FROM facts",
        "DROP TABLE chunks",
        "PRAGMA application_id = 7",
        "PRAGMA user_version = 99",
    };
    const struct place place = place_in(*state);
    struct original original = make_original(place.from);
    close_original(&original);
    struct backup_report report;
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        struct err err = {0};
        (void)unlink(place.file);
        assert_ok(backup_make(place.from, place.file, ROOM, &report, &err), &err);
        change_database(place.file, faults[i]);
        const int rc = backup_restore(place.file, place.to, ROOM, &report, &err);
        if (rc != ERR_FORMAT && rc != ERR_UNSUPPORTED && rc != ERR_IO) {
            fail_msg("%s: %d %s", faults[i], rc, err.text);
        }
        assert_false(is_there(place.to, "state.db"));
        assert_false(is_there(place.to, "checkpoints.db"));
        assert_false(is_there(place.to, "tls"));
        assert_false(is_there(place.to, "restore.partial"));
    }
}

static void a_truncated_backup_is_refused(void **state)
{
    const struct place place = place_in(*state);
    struct original original = make_original(place.from);
    close_original(&original);
    struct backup_report report;
    struct err err = {0};
    struct stat whole;
    assert_ok(backup_make(place.from, place.file, ROOM, &report, &err), &err);
    assert_int_equal(stat(place.file, &whole), 0);
    for (off_t size = 0; size < whole.st_size; size += whole.st_size / 7 + 1) {
        (void)unlink(place.file);
        assert_ok(backup_make(place.from, place.file, ROOM, &report, &err), &err);
        assert_int_equal(truncate(place.file, size), 0);
        assert_true(backup_check_file(place.file, &report, &err) < 0);
        assert_true(backup_restore(place.file, place.to, ROOM, &report, &err) < 0);
        assert_false(is_there(place.to, "state.db"));
    }
}

static void state_is_never_overwritten(void **state)
{
    const struct place place = place_in(*state);
    struct original original = make_original(place.from);
    struct backup_report report;
    struct err err = {0};
    assert_ok(backup_make(place.from, place.file, ROOM, &report, &err), &err);
    assert_int_equal(backup_restore(place.file, place.from, ROOM, &report, &err), ERR_STATE);
    close_original(&original);
    assert_int_equal(backup_restore(place.file, place.from, ROOM, &report, &err), ERR_EXISTS);
    assert_holds(err.text, "move the old state away");
    char path[TEST_PATH_MAX + 32];
    (void)snprintf(path, sizeof(path), "%s/state.db", place.from);
    assert_int_equal(backup_make(place.from, path, ROOM, &report, &err), ERR_EXISTS);
    assert_holds(err.text, "is not a backup");
    assert_ok(backup_make(place.from, place.file, ROOM, &report, &err), &err); /* replaced */
}

static void an_interrupted_restore_is_repeated(void **state)
{
    const struct place place = place_in(*state);
    struct original original = make_original(place.from);
    close_original(&original);
    struct backup_report report;
    struct err err = {0};
    char path[TEST_PATH_MAX + 64];
    assert_ok(backup_make(place.from, place.file, ROOM, &report, &err), &err);
    assert_ok(backup_restore(place.file, place.to, ROOM, &report, &err), &err);
    /* As after an end between checkpoints.db and state.db. */
    (void)snprintf(path, sizeof(path), "%s/state.db", place.to);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(backup_restore(place.file, place.to, ROOM, &report, &err), ERR_EXISTS);
    (void)snprintf(path, sizeof(path), "%s/restore.partial", place.to);
    assert_ok(file_make_directory(path, 0700, &err), &err);
    assert_ok(backup_restore(place.file, place.to, ROOM, &report, &err), &err);
    assert_ok(backup_check_directory(place.to, &report, &err), &err);
    assert_int_equal(report.blobs, BLOBS);
    assert_int_equal(report.damaged, 0);
}

/* What the writer of blobs does while it has something to delete. */
static void *look_for_snapshots(void *arg)
{
    struct looking *looking = arg;
    while (!atomic_load(&looking->over)) {
        (void)snapshot_is_open(looking->directory);
    }
    return NULL;
}

static void looking_for_a_backup_never_refuses_one(void **state)
{
    const struct place place = place_in(*state);
    struct original original = make_original(place.from);
    close_original(&original);
    struct looking looking = {.directory = place.from};
    struct err err = {0};
    pthread_t thread;
    assert_false(snapshot_is_open(place.from));
    assert_int_equal(pthread_create(&thread, NULL, look_for_snapshots, &looking), 0);
    int rc = 0;
    for (int i = 0; rc == 0 && i < 50; i++) {
        struct snapshot *snapshot = NULL;
        rc = snapshot_open(place.from, &snapshot, &err);
        assert_true(rc != 0 || snapshot_is_open(place.from));
        snapshot_close(&snapshot);
    }
    atomic_store(&looking.over, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_ok(rc, &err);
    assert_false(snapshot_is_open(place.from));
}

static void a_row_that_is_not_json_is_named(void **state)
{
    const struct place place = place_in(*state);
    struct original original = make_original(place.from);
    put_row(original.state, STATE_CHECKPOINTS, "ckpt_1", "{\"sha256\":");
    close_original(&original);
    struct backup_report report;
    struct err err = {0};
    assert_int_equal(backup_make(place.from, place.file, ROOM, &report, &err), ERR_FORMAT);
    assert_holds(err.text, "row 'ckpt_1' of checkpoints is not JSON");
    assert_false(is_there(*state, "backup"));
}

static void what_is_no_state_is_said(void **state)
{
    const struct place place = place_in(*state);
    struct backup_report report;
    struct err err = {0};
    assert_int_equal(backup_make(place.from, place.file, ROOM, &report, &err), ERR_NOT_FOUND);
    assert_holds(err.text, "give the coordinator's --state-dir");
    assert_false(is_there(*state, "from"));
    assert_int_equal(backup_check_file(place.file, &report, &err), ERR_NOT_FOUND);
    struct original original = make_original(place.from);
    close_original(&original);
    char path[TEST_PATH_MAX + 32];
    (void)snprintf(path, sizeof(path), "%s/state.db", place.from);
    change_database(path, "PRAGMA user_version = 9999");
    assert_int_equal(backup_make(place.from, place.file, ROOM, &report, &err), ERR_UNSUPPORTED);
    assert_holds(err.text, "newer version");
}

static void a_disk_without_room_is_left_alone(void **state)
{
    const struct place place = place_in(*state);
    struct original original = make_original(place.from);
    close_original(&original);
    struct backup_report report;
    struct err err = {0};
    assert_int_equal(backup_make(place.from, place.file, UINT64_MAX / 2, &report, &err), ERR_FULL);
    assert_holds(err.text, "--min-free");
    assert_false(is_there(*state, "backup"));
    assert_ok(backup_make(place.from, place.file, ROOM, &report, &err), &err);
    assert_int_equal(backup_restore(place.file, place.to, UINT64_MAX / 2, &report, &err), ERR_FULL);
    assert_false(is_there(place.to, "checkpoints.db"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_with_directory(a_backup_of_an_open_store_is_restored_with_rows_blobs_and_keys),
        test_with_directory(a_snapshot_keeps_deleted_blobs_readable_until_it_is_closed),
        test_with_directory(a_second_backup_of_a_directory_waits_its_turn),
        test_with_directory(damage_is_found_and_the_rest_is_kept),
        test_with_directory(a_damaged_backup_is_named_and_restores_nothing),
        test_with_directory(a_truncated_backup_is_refused),
        test_with_directory(state_is_never_overwritten),
        test_with_directory(an_interrupted_restore_is_repeated),
        test_with_directory(looking_for_a_backup_never_refuses_one),
        test_with_directory(a_row_that_is_not_json_is_named),
        test_with_directory(what_is_no_state_is_said),
        test_with_directory(a_disk_without_room_is_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
