#include "tests/support/test.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "coordinator/store/measurements.h"
#include "coordinator/store/state_store.h"
#include "tests/unit/coordinator_store/state_support.h"

#define MINUTE_MS ((int64_t)60000)
#define HOUR_MS (60 * MINUTE_MS)
/* A full hour. */
#define BEGAN_MS (472222 * HOUR_MS)
#define ROWS_MAX 64

struct row {
    char text[3][32];
    int64_t wall_ms, unit;
    double value;
};
struct rows_seen {
    struct row row[ROWS_MAX];
    size_t count, stop;
};

static struct row *add_row(struct rows_seen *seen)
{
    assert_in_range(seen->count, 0, ROWS_MAX - 1);
    return &seen->row[seen->count++];
}

static bool see_measurement(void *arg, const struct state_measurement *from)
{
    struct rows_seen *seen = arg;
    struct row *row = add_row(seen);
    row->wall_ms = from->wall_ms - BEGAN_MS;
    row->unit = from->unit;
    row->value = from->forward_seconds;
    (void)snprintf(row->text[0], sizeof(row->text[0]), "%s", from->job);
    return seen->count != seen->stop;
}

static bool see_capacity(void *arg, const struct state_capacity *from)
{
    struct row *row = add_row(arg);
    row->wall_ms = from->wall_ms - BEGAN_MS;
    row->unit = (int64_t)from->number_count;
    row->value = from->number_count > 0 ? from->number[from->number_count - 1] : 0;
    (void)snprintf(row->text[0], sizeof(row->text[0]), "%s", from->device);
    return true;
}

static bool see_unit(void *arg, const struct state_unit_time *from)
{
    struct row *row = add_row(arg);
    row->wall_ms = from->wall_ms - BEGAN_MS;
    row->unit = from->shape;
    row->value = from->backward_seconds;
    (void)snprintf(row->text[0], sizeof(row->text[0]), "%s", from->device);
    return true;
}

static bool see_link(void *arg, const struct state_link_time *from)
{
    struct row *row = add_row(arg);
    row->wall_ms = from->wall_ms - BEGAN_MS;
    row->unit = from->kind;
    row->value = from->bytes;
    (void)snprintf(row->text[0], sizeof(row->text[0]), "%s", from->sender);
    (void)snprintf(row->text[1], sizeof(row->text[1]), "%s", from->receiver);
    (void)snprintf(row->text[2], sizeof(row->text[2]), "%s", from->codec);
    return true;
}

static void measure(struct state_store *store, const char *device, int64_t at_ms, int64_t unit,
                    double seconds)
{
    const struct state_measurement row = {.device = device,
                                          .job = "job",
                                          .wall_ms = BEGAN_MS + at_ms,
                                          .unit = unit,
                                          .forward_seconds = seconds};
    struct err err = {0};
    assert_ok(state_put_measurement(store, &row, &err), &err);
}

static struct rows_seen history(struct state_store *store, const char *job, int64_t unit,
                                int64_t since_ms, size_t limit)
{
    struct rows_seen seen = {0};
    struct err err = {0};
    const struct state_measurement after = {
        .wall_ms = BEGAN_MS + since_ms + 1, .job = "", .unit = -1};
    assert_ok(
        state_measurements(store, "device", job, unit, &after, limit, see_measurement, &seen, &err),
        &err);
    return seen;
}

static void trim(struct state_store *store, int64_t minutes_from_ms, int64_t hours_from_ms)
{
    struct err err = {0};
    assert_ok(
        state_trim_measurements(store, BEGAN_MS + minutes_from_ms, BEGAN_MS + hours_from_ms, &err),
        &err);
    flush(store);
}

static void the_last_measurement_of_a_minute_stays(void **state)
{
    struct state_store *store = open_state(state);
    measure(store, "device", 1, 0, 1);
    measure(store, "device", MINUTE_MS - 1, 0, 2);
    flush(store);
    measure(store, "device", 2 * MINUTE_MS - 1, 0, 3);
    measure(store, "other", 1, 0, 4);
    flush(store);
    const struct rows_seen seen = history(store, NULL, -1, -1, ROWS_MAX);
    assert_int_equal(seen.count, 2);
    assert_int_equal(seen.row[0].wall_ms, 0);
    assert_true(seen.row[0].value == 2);
    assert_int_equal(seen.row[1].wall_ms, MINUTE_MS);
    assert_true(seen.row[1].value == 3);
    state_close(&store);
}

static void hours_precede_the_minutes_that_are_left(void **state)
{
    struct state_store *store = open_state(state);
    for (int64_t minute = 0; minute < 180; minute += 30) {
        measure(store, "device", minute * MINUTE_MS, 0, (double)minute);
    }
    flush(store);
    trim(store, 90 * MINUTE_MS, 0);
    const struct rows_seen seen = history(store, NULL, -1, -1, ROWS_MAX);
    static const int64_t minutes[] = {0, 90, 120, 150};
    assert_int_equal(seen.count, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(seen.row[i].wall_ms, minutes[i] * MINUTE_MS);
        assert_true(seen.row[i].value == (double)minutes[i]);
    }
    state_close(&store);
}

static void the_history_is_narrowed_by_job_unit_time_and_number(void **state)
{
    struct state_store *store = open_state(state);
    for (int64_t minute = 0; minute < 3; minute++) {
        measure(store, "device", minute * MINUTE_MS, 0, 1);
        measure(store, "device", minute * MINUTE_MS, 7, 1);
    }
    flush(store);
    assert_int_equal(history(store, "job", -1, -1, ROWS_MAX).count, 6);
    assert_int_equal(history(store, "another", -1, -1, ROWS_MAX).count, 0);
    assert_int_equal(history(store, NULL, 7, -1, ROWS_MAX).count, 3);
    assert_int_equal(history(store, NULL, -1, MINUTE_MS, ROWS_MAX).count, 2);
    assert_int_equal(history(store, NULL, -1, -1, 5).count, 5);

    const struct state_measurement first = {.wall_ms = BEGAN_MS, .job = "job", .unit = 0};
    struct rows_seen stopped = {.stop = 2}, rest = {0};
    struct err err = {0};
    assert_ok(state_measurements(store, "device", NULL, -1, &first, ROWS_MAX, see_measurement,
                                 &stopped, &err),
              &err);
    assert_int_equal(stopped.count, 2);
    assert_ok(state_measurements(store, "device", NULL, -1, &first, ROWS_MAX, see_measurement,
                                 &rest, &err),
              &err);
    assert_int_equal(rest.count, 5); /* unit 7 of the same minute is after it */
    assert_int_equal(history(store, NULL, -1, -1, ROWS_MAX).count, 6);
    state_close(&store);
}

static void rows_replace_those_of_their_key_and_survive_a_restart(void **state)
{
    struct state_store *store = open_state(state);
    struct err err = {0};
    const double numbers[] = {1, 2, 3};
    for (int64_t i = 1; i <= 2; i++) {
        const struct state_capacity capacity = {"device", BEGAN_MS + i, numbers, 1 + (size_t)i};
        const struct state_unit_time unit = {"device", -5, BEGAN_MS + i, 1, (double)i};
        const struct state_link_time link = {.sender = "device",
                                             .receiver = "other",
                                             .codec = "q8",
                                             .kind = 1,
                                             .wall_ms = BEGAN_MS + i,
                                             .bytes = (double)i};
        assert_ok(state_put_capacity(store, &capacity, &err), &err);
        assert_ok(state_put_unit_time(store, &unit, &err), &err);
        assert_ok(state_put_link_time(store, &link, &err), &err);
    }
    state_close(&store); /* writes what waits */
    store = open_state(state);
    struct rows_seen seen = {0};
    assert_ok(state_capacities(store, see_capacity, &seen, &err), &err);
    assert_int_equal(seen.count, 1);
    assert_int_equal(seen.row[0].unit, 3);
    assert_true(seen.row[0].value == 3);
    assert_ok(state_unit_times(store, see_unit, &seen, &err), &err);
    assert_int_equal(seen.count, 2);
    assert_int_equal(seen.row[1].unit, -5);
    assert_true(seen.row[1].value == 2);
    assert_ok(state_link_times(store, "other", see_link, &seen, &err), &err);
    assert_int_equal(seen.count, 3);
    assert_string_equal(seen.row[2].text[2], "q8");
    assert_true(seen.row[2].value == 2);
    assert_ok(state_link_times(store, "stranger", see_link, &seen, &err), &err);
    assert_int_equal(seen.count, 3);
    state_close(&store);
}

static void put_device(struct state_store *store, bool there)
{
    const struct state_row row = {"device", "", 1, 1, "", 0};
    struct err err = {0};
    assert_ok(state_begin(store, &err), &err);
    assert_ok(there ? state_put(store, STATE_DEVICES, &row, &err)
                    : state_delete(store, STATE_DEVICES, "device", &err),
              &err);
    assert_ok(state_commit(store, &err), &err);
}

static void put_all(struct state_store *store)
{
    const double number = 1;
    const struct state_capacity capacity = {"device", BEGAN_MS, &number, 1};
    const struct state_unit_time unit = {"device", 1, BEGAN_MS, 1, 1};
    const struct state_link_time to = {.sender = "other", .receiver = "device", .codec = ""};
    const struct state_link_time from = {.sender = "device", .receiver = "other", .codec = ""};
    struct err err = {0};
    assert_ok(state_put_capacity(store, &capacity, &err), &err);
    assert_ok(state_put_unit_time(store, &unit, &err), &err);
    assert_ok(state_put_link_time(store, &to, &err), &err);
    assert_ok(state_put_link_time(store, &from, &err), &err);
    measure(store, "device", 0, 0, 1);
    flush(store);
}

static size_t count_all(struct state_store *store)
{
    struct rows_seen seen = history(store, NULL, -1, -1, ROWS_MAX);
    struct err err = {0};
    assert_ok(state_capacities(store, see_capacity, &seen, &err), &err);
    assert_ok(state_unit_times(store, see_unit, &seen, &err), &err);
    assert_ok(state_link_times(store, NULL, see_link, &seen, &err), &err);
    return seen.count;
}

static void the_rows_of_a_deleted_device_are_gone_and_those_of_a_changed_one_stay(void **state)
{
    struct state_store *store = open_state(state);
    put_device(store, true);
    put_all(store);
    put_device(store, true);
    assert_int_equal(count_all(store), 5);
    put_device(store, false);
    assert_int_equal(count_all(store), 0);
    state_close(&store);
}

/* They waited in memory when it was deleted. */
static void a_trim_drops_rows_written_after_their_device_was_deleted(void **state)
{
    struct state_store *store = open_state(state);
    put_all(store);
    assert_int_equal(count_all(store), 5);
    trim(store, HOUR_MS, 2 * HOUR_MS);
    assert_int_equal(count_all(store), 0);
    state_close(&store);
}

static int count_work(void *arg)
{
    ++*(size_t *)arg;
    return 0;
}

/* A trim of the whole history at once would hold up the loop. */
static void a_trim_and_a_page_read_no_more_than_they_need(void **state)
{
    enum { DEVICES = 3, MINUTES = 600, UNITS = 10 };
    struct state_store *store = open_state(state);
    for (int device = 0; device < DEVICES; device++) {
        static const char *const names[DEVICES] = {"another", "device", "other"};
        for (int minute = 0; minute < MINUTES; minute++) {
            for (int unit = 0; unit < UNITS; unit++) {
                measure(store, names[device], minute * MINUTE_MS, unit, 1);
            }
        }
        flush(store);
    }
    size_t operations = 0;
    sqlite3_progress_handler(store->db, 1, count_work, &operations);
    trim(store, MINUTE_MS, 0);
    assert_in_range(operations, 1, 100 * DEVICES * UNITS);
    operations = 0;
    const struct rows_seen seen = history(store, NULL, -1, -1, ROWS_MAX);
    assert_int_equal(seen.count, ROWS_MAX);
    assert_int_equal(seen.row[0].wall_ms, MINUTE_MS);
    assert_in_range(operations, 1, 100 * ROWS_MAX);
    state_close(&store);
}

/* A write that fails takes the history first. */
static void a_flush_that_fails_drops_the_history_and_keeps_capacities(void **state)
{
    struct state_store *store = open_state(state);
    const double number = 1;
    const struct state_capacity capacity = {"device", BEGAN_MS, &number, 1};
    struct err err = {0};
    measure(store, "device", 0, 0, 1);
    assert_ok(state_put_capacity(store, &capacity, &err), &err);
    assert_int_equal(sqlite3_exec(store->db, "PRAGMA query_only = ON", NULL, NULL, NULL), 0);
    assert_true(state_flush(store, &err) != 0);
    assert_int_equal(sqlite3_exec(store->db, "PRAGMA query_only = OFF", NULL, NULL, NULL), 0);
    flush(store);
    struct rows_seen seen = history(store, NULL, -1, -1, ROWS_MAX);
    assert_int_equal(seen.count, 0);
    assert_ok(state_capacities(store, see_capacity, &seen, &err), &err);
    assert_int_equal(seen.count, 1);
    state_close(&store);
}

static void rows_wait_in_bounded_memory(void **state)
{
    struct state_store *store = open_state(state);
    const struct state_unit_time unit = {"device", 1, BEGAN_MS, 1, 1};
    struct err err = {0};
    int rc = 0;
    for (int i = 0; rc == 0 && i < 1000000; i++) {
        rc = state_put_unit_time(store, &unit, &err);
    }
    assert_int_equal(rc, ERR_LIMIT);
    measure(store, "device", 0, 0, 1); /* dropped without an error */
    flush(store);
    assert_int_equal(history(store, NULL, -1, -1, ROWS_MAX).count, 0);
    measure(store, "device", 0, 0, 1);
    flush(store);
    assert_int_equal(history(store, NULL, -1, -1, ROWS_MAX).count, 1);
    state_close(&store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_with_directory(the_last_measurement_of_a_minute_stays),
        test_with_directory(hours_precede_the_minutes_that_are_left),
        test_with_directory(the_history_is_narrowed_by_job_unit_time_and_number),
        test_with_directory(rows_replace_those_of_their_key_and_survive_a_restart),
        test_with_directory(the_rows_of_a_deleted_device_are_gone_and_those_of_a_changed_one_stay),
        test_with_directory(a_trim_drops_rows_written_after_their_device_was_deleted),
        test_with_directory(a_trim_and_a_page_read_no_more_than_they_need),
        test_with_directory(a_flush_that_fails_drops_the_history_and_keeps_capacities),
        test_with_directory(rows_wait_in_bounded_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
