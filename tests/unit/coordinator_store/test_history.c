/* What the measurements of many devices take of the disk. */
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "coordinator/store/measurements.h"
#include "coordinator/store/state.h"
#include "tests/unit/coordinator_store/state_support.h"

#define MINUTE_MS 60000
#define DAY_MS (24 * INT64_C(3600000))
#define NUMBERS 400
#define MB 1000000

static void measure(struct state_store *store, const char *device, int64_t wall_ms, int64_t unit,
                    double seconds)
{
    struct err err = {0};
    const struct state_measurement row = {.device = device,
                                          .job = "job_1",
                                          .wall_ms = wall_ms,
                                          .unit = unit,
                                          .forward_seconds = seconds,
                                          .backward_seconds = 2 * seconds};
    assert_ok(state_put_measurement(store, &row, &err), &err);
}

static void put_capacity(struct state_store *store, const char *device, int64_t wall_ms)
{
    static const double number[NUMBERS] = {1};
    struct err err = {0};
    const struct state_capacity row = {
        .device = device, .wall_ms = wall_ms, .number = number, .number_count = NUMBERS};
    assert_ok(state_put_capacity(store, &row, &err), &err);
}

static bool count_capacity(void *arg, const struct state_capacity *row)
{
    assert_int_equal(row->number_count, NUMBERS);
    ++*(int *)arg;
    return true;
}

static int capacities(struct state_store *store)
{
    struct err err = {0};
    int count = 0;
    assert_ok(state_capacities(store, count_capacity, &count, &err), &err);
    return count;
}

static int64_t bytes_of(const char *directory)
{
    static const char *const names[] = {"state.db", "state.db-wal"};
    int64_t bytes = 0;
    for (size_t i = 0; i < 2; i++) {
        struct stat file = {0};
        assert_int_equal(stat(test_path_in(directory, names[i]).text, &file), 0);
        bytes += file.st_size;
    }
    return bytes;
}

/* One minute of a device in a long pipeline: its numbers, its units, four links. */
static void put_minute(struct state_store *store, int number, int64_t wall_ms)
{
    struct err err = {0};
    char device[32], other[32];
    (void)snprintf(device, sizeof(device), "dev_%026d", number);
    (void)snprintf(other, sizeof(other), "dev_%026d", number + 1);
    put_capacity(store, device, wall_ms);
    for (int64_t unit = 0; unit < 20; unit++) {
        const struct state_unit_time time = {.device = device,
                                             .shape = unit * 1000003,
                                             .wall_ms = wall_ms,
                                             .forward_seconds = 1,
                                             .backward_seconds = 2};
        measure(store, device, wall_ms, number * 20 + unit, 1);
        assert_ok(state_put_unit_time(store, &time, &err), &err);
    }
    for (int64_t kind = 0; kind < 4; kind++) {
        const struct state_link_time link = {.sender = device,
                                             .receiver = other,
                                             .codec = "none",
                                             .kind = kind,
                                             .wall_ms = wall_ms,
                                             .count = 1};
        assert_ok(state_put_link_time(store, &link, &err), &err);
    }
}

static void an_hour_of_100_devices_adds_less_than_50_mb(void **state)
{
    struct state_store *store = open_state(state);
    const int64_t before = bytes_of(*state);
    for (int64_t minute = 0; minute < 60; minute++) {
        for (int device = 0; device < 100; device++) {
            put_minute(store, device, DAY_MS + minute * MINUTE_MS);
            if (device % 20 == 19) {
                flush(store);
            }
        }
    }
    const int64_t bytes = bytes_of(*state) - before;
    assert_true(bytes < 50 * (int64_t)MB);
    assert_int_equal(capacities(store), 100);
    state_close(&store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_with_directory(an_hour_of_100_devices_adds_less_than_50_mb),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
