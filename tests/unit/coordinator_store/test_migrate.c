#include "tests/support/test.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "coordinator/store/migrate.h"
#include "coordinator/store/sql.h"
#include "coordinator/store/state.h"

#define OURS 0x1234

static const struct embedded first_only[] = {
    {"0001_first", "CREATE TABLE a (x INTEGER) STRICT; INSERT INTO a VALUES (7);", 0},
    {NULL, NULL, 0}};
static const struct embedded two[] = {
    {"0001_first", "CREATE TABLE a (x INTEGER) STRICT; INSERT INTO a VALUES (7);", 0},
    {"0002_second", "CREATE TABLE b (x INTEGER) STRICT; UPDATE a SET x = 8;", 0},
    {NULL, NULL, 0}};
static const struct embedded broken[] = {
    {"0001_first", "CREATE TABLE a (x INTEGER) STRICT;", 0},
    {"0002_second", "UPDATE a SET x = 9; CREATE TABLE a (x INTEGER);", 0},
    {NULL, NULL, 0}};

static sqlite3 *open_database(const char *directory, const char *name)
{
    sqlite3 *db = NULL;
    struct err err = {0};
    assert_ok(sql_open(test_path_in(directory, name).text, &db, &err), &err);
    return db;
}

static int64_t integer(sqlite3 *db, const char *text)
{
    int64_t value = 0;
    struct err err = {0};
    assert_ok(sql_integer(db, text, &value, &err), &err);
    return value;
}

static void an_empty_file_gets_every_migration_and_no_backup(void **state)
{
    sqlite3 *db = open_database(*state, "x.db");
    struct err err = {0};
    struct test_path backup = test_path_in(*state, "backup");
    assert_ok(migrate_run(db, two, OURS, backup.text, &err), &err);
    assert_int_equal(integer(db, "PRAGMA user_version"), 2);
    assert_int_equal(integer(db, "PRAGMA application_id"), OURS);
    assert_int_equal(integer(db, "SELECT x FROM a"), 8);
    assert_int_not_equal(access(backup.text, F_OK), 0);
    assert_ok(migrate_run(db, two, OURS, backup.text, &err), &err);
    assert_int_not_equal(access(backup.text, F_OK), 0);
    sql_close(&db);
}

static void an_older_schema_is_backed_up_and_brought_forward(void **state)
{
    sqlite3 *db = open_database(*state, "x.db");
    struct err err = {0};
    struct test_path backup = test_path_in(*state, "backup");
    assert_ok(migrate_run(db, first_only, OURS, backup.text, &err), &err);
    assert_ok(migrate_run(db, two, OURS, backup.text, &err), &err);
    assert_int_equal(integer(db, "SELECT x FROM a"), 8);
    assert_int_equal(integer(db, "SELECT count(*) FROM b"), 0);
    sql_close(&db);
    db = open_database(*state, "backup");
    assert_int_equal(integer(db, "PRAGMA user_version"), 1);
    assert_int_equal(integer(db, "SELECT x FROM a"), 7);
    sql_close(&db);
}

static void a_migration_that_fails_changes_nothing(void **state)
{
    sqlite3 *db = open_database(*state, "x.db");
    struct err err = {0};
    assert_ok(migrate_run(db, first_only, OURS, NULL, &err), &err);
    assert_true(migrate_run(db, broken, OURS, NULL, &err) < 0);
    assert_holds(err.text, "migration 0002_second");
    assert_holds(err.text, "already exists");
    assert_int_equal(integer(db, "PRAGMA user_version"), 1);
    assert_int_equal(integer(db, "SELECT x FROM a"), 7);
    sql_close(&db);
}

static void a_migration_that_fails_undoes_those_before_it(void **state)
{
    const struct embedded three[] = {two[0], two[1], {"0003_third", "CREATE TABLE a (x);", 0}, {0}};
    sqlite3 *db = open_database(*state, "x.db");
    struct err err = {0};
    struct test_path backup = test_path_in(*state, "backup");
    assert_ok(migrate_run(db, first_only, OURS, NULL, &err), &err);
    assert_true(migrate_run(db, three, OURS, backup.text, &err) < 0);
    assert_holds(err.text, "migration 0003_third");
    assert_int_equal(integer(db, "PRAGMA user_version"), 1);
    assert_int_equal(integer(db, "SELECT x FROM a"), 7);
    assert_ok(migrate_run(db, two, OURS, backup.text, &err), &err);
    sql_close(&db);
    db = open_database(*state, "backup"); /* still of the version that the user had */
    assert_int_equal(integer(db, "PRAGMA user_version"), 1);
    sql_close(&db);
}

static void the_copy_is_for_the_owner_alone_and_whole_or_absent(void **state)
{
    sqlite3 *db = open_database(*state, "x.db");
    struct err err = {0};
    struct stat status;
    struct test_path backup = test_path_in(*state, "backup");
    struct test_path partial = test_path_in(*state, "backup.partial");
    assert_ok(migrate_run(db, first_only, OURS, NULL, &err), &err);
    assert_int_equal(mkdir(backup.text, 0700), 0); /* the rename fails */
    assert_true(migrate_run(db, two, OURS, backup.text, &err) < 0);
    assert_holds(err.text, "back up to");
    assert_int_not_equal(access(partial.text, F_OK), 0);
    assert_int_equal(integer(db, "PRAGMA user_version"), 1);
    assert_int_equal(rmdir(backup.text), 0);
    assert_ok(migrate_run(db, two, OURS, backup.text, &err), &err);
    assert_int_equal(stat(backup.text, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    assert_int_not_equal(access(partial.text, F_OK), 0);
    sql_close(&db);
}

static void a_newer_schema_is_refused(void **state)
{
    sqlite3 *db = open_database(*state, "x.db");
    struct err err = {0};
    assert_ok(migrate_run(db, two, OURS, NULL, &err), &err);
    assert_int_equal(migrate_run(db, first_only, OURS, NULL, &err), ERR_UNSUPPORTED);
    assert_holds(err.text, "schema 2 was made by a newer version");
    sql_close(&db);
}

static void the_database_of_another_program_is_refused(void **state)
{
    sqlite3 *db = open_database(*state, "x.db");
    struct err err = {0};
    assert_ok(sql_exec(db, "CREATE TABLE theirs (x)", &err), &err);
    assert_int_equal(migrate_run(db, two, OURS, NULL, &err), ERR_FORMAT);
    assert_ok(sql_exec(db, "DROP TABLE theirs; PRAGMA application_id = 99", &err), &err);
    assert_int_equal(migrate_run(db, two, OURS, NULL, &err), ERR_FORMAT);
    assert_holds(err.text, "not a Paceline database");
    sql_close(&db);
}

static void a_state_file_of_a_newer_version_is_refused_with_its_path(void **state)
{
    struct state_store *store = NULL;
    struct err err = {0};
    assert_ok(state_open(*state, &store, &err), &err);
    state_close(&store);
    sqlite3 *db = open_database(*state, "state.db");
    assert_ok(sql_exec(db, "PRAGMA user_version = 9999", &err), &err);
    sql_close(&db);
    assert_int_equal(state_open(*state, &store, &err), ERR_UNSUPPORTED);
    assert_holds(err.text, "state.db: schema 9999");
}

static void the_shipped_migrations_are_numbered_without_gaps(void **state)
{
    (void)state;
    const struct embedded *const lists[] = {state_migrations, checkpoint_migrations};
    for (size_t list = 0; list < 2; list++) {
        int count = 0;
        for (const struct embedded *each = lists[list]; each->name; each++) {
            char number[16];
            (void)snprintf(number, sizeof(number), "%04d_", ++count);
            assert_memory_equal(each->name, number, strlen(number));
            assert_true(strlen(each->name) > strlen(number));
        }
        assert_true(count > 0);
    }
}

static bool is_old_job(void *arg, const struct state_row *row)
{
    assert_string_equal(row->id, "job_1");
    assert_string_equal(row->document, "{}");
    *(size_t *)arg += 1;
    return true;
}

static void a_state_file_of_the_first_version_keeps_its_rows_and_learns_of_incidents(void **state)
{
    const struct embedded first[] = {state_migrations[0], {NULL, NULL, 0}};
    struct err err = {0};
    sqlite3 *db = open_database(*state, "state.db");
    struct state_store *store = NULL;
    /* The application id is the store's secret: let it make one file, then begin again under that
     * number. */
    assert_ok(state_open(*state, &store, &err), &err);
    state_close(&store);
    int64_t application_id = integer(db, "PRAGMA application_id");
    sql_close(&db);
    assert_int_equal(unlink(test_path_in(*state, "state.db").text), 0);
    db = open_database(*state, "state.db");
    assert_ok(migrate_run(db, first, (int)application_id, NULL, &err), &err);
    assert_ok(sql_exec(db, "INSERT INTO jobs VALUES ('job_1', '', 3, 5, '{}')", &err), &err);
    sql_close(&db);

    assert_ok(state_open(*state, &store, &err), &err);
    size_t jobs = 0;
    assert_ok(state_list(store, STATE_JOBS, NULL, "", 10, false, is_old_job, &jobs, &err), &err);
    assert_int_equal(jobs, 1);
    assert_ok(state_begin(store, &err), &err);
    struct state_row incident = {"inc_1", "job_1", 1, 6, "{}", 2};
    assert_ok(state_put(store, STATE_INCIDENTS, &incident, &err), &err);
    assert_ok(state_delete(store, STATE_JOBS, "job_1", &err), &err);
    assert_ok(state_commit(store, &err), &err);
    jobs = 0;
    assert_ok(state_list(store, STATE_INCIDENTS, NULL, "", 10, false, is_old_job, &jobs, &err),
              &err);
    assert_int_equal(jobs, 0);
    state_close(&store);
    db = open_database(*state, "state.db.before-upgrade");
    assert_int_equal(integer(db, "PRAGMA user_version"), 1);
    assert_int_equal(integer(db, "SELECT count(*) FROM jobs"), 1);
    sql_close(&db);
}

#define MIGRATIONS_MAX 64

/* state.db as the first `version` migrations leave it, with one job. */
static void make_version(const char *directory, size_t version, int application_id)
{
    struct embedded list[MIGRATIONS_MAX + 1] = {{0}};
    struct err err = {0};
    assert_true(version <= MIGRATIONS_MAX);
    memcpy(list, state_migrations, version * sizeof(list[0]));
    (void)unlink(test_path_in(directory, "state.db").text);
    (void)unlink(test_path_in(directory, "state.db.before-upgrade").text);
    sqlite3 *db = open_database(directory, "state.db");
    assert_ok(migrate_run(db, list, application_id, NULL, &err), &err);
    assert_ok(sql_exec(db, "INSERT INTO jobs VALUES ('job_1', '', 3, 5, '{}')", &err), &err);
    sql_close(&db);
}

static void a_state_file_of_each_version_starts_with_its_rows_and_a_backup(void **state)
{
    struct state_store *store = NULL;
    struct err err = {0};
    assert_ok(state_open(*state, &store, &err), &err);
    state_close(&store);
    sqlite3 *db = open_database(*state, "state.db");
    const int application_id = (int)integer(db, "PRAGMA application_id");
    const size_t newest = (size_t)integer(db, "PRAGMA user_version");
    sql_close(&db);
    assert_true(newest >= 5);
    for (size_t version = 1; version < newest; version++) {
        make_version(*state, version, application_id);
        assert_ok(state_open(*state, &store, &err), &err);
        for (int table = 0; table < STATE_TABLES; table++) {
            size_t count = SIZE_MAX;
            assert_ok(state_count(store, (enum state_table)table, &count, &err), &err);
            assert_int_equal(count, table == STATE_JOBS);
        }
        state_close(&store);
        db = open_database(*state, "state.db.before-upgrade");
        assert_int_equal(integer(db, "PRAGMA user_version"), version);
        sql_close(&db);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_with_directory(an_empty_file_gets_every_migration_and_no_backup),
        test_with_directory(an_older_schema_is_backed_up_and_brought_forward),
        test_with_directory(a_migration_that_fails_changes_nothing),
        test_with_directory(a_migration_that_fails_undoes_those_before_it),
        test_with_directory(the_copy_is_for_the_owner_alone_and_whole_or_absent),
        test_with_directory(a_newer_schema_is_refused),
        test_with_directory(the_database_of_another_program_is_refused),
        test_with_directory(a_state_file_of_a_newer_version_is_refused_with_its_path),
        test_with_directory(
            a_state_file_of_the_first_version_keeps_its_rows_and_learns_of_incidents),
        test_with_directory(a_state_file_of_each_version_starts_with_its_rows_and_a_backup),
        cmocka_unit_test(the_shipped_migrations_are_numbered_without_gaps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
