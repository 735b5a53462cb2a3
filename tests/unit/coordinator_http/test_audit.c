#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "coordinator/http/audit.h"
#include "coordinator/http/edge.h"

#define ROWS_MOST 110000 /* of docs/security.md, and a tenth */
#define ROWS_LEAST 100000
#define BATCH 5000 /* in one transaction */
#define DAY_MS (24ll * 3600 * 1000)

struct room {
    struct edge edge;
    struct coordinator coordinator;
};

static const struct audit_entry origin = {
    .token_name = "ci", .address = "192.0.2.7:4711", .method = "POST", .path = "/v1/jobs"};

static void open_room(struct room *room, const char *directory)
{
    struct err err = {0};
    *room = (struct room){0};
    room->coordinator.edge = &room->edge;
    assert_ok(state_open(directory, &room->coordinator.state, &err), &err);
    assert_ok(audit_open(&room->coordinator, 7, &err), &err);
}

static void add(struct room *room, size_t rows)
{
    struct err err = {0};
    assert_ok(state_begin(room->coordinator.state, &err), &err);
    for (size_t i = 0; i < rows; i++) {
        assert_ok(audit_add(&room->coordinator, NULL, &origin, "job_1", 0, &err), &err);
    }
    assert_ok(state_commit(room->coordinator.state, &err), &err);
}

static size_t count(struct room *room)
{
    struct err err = {0};
    size_t rows = 0;
    assert_ok(state_count(room->coordinator.state, STATE_AUDIT, &rows, &err), &err);
    return rows;
}

static bool copy_id(void *arg, const struct state_row *row)
{
    snprintf(arg, ID_SIZE, "%s", row->id);
    return false;
}

static void the_newest_rows_are_kept_up_to_a_bound(void **state)
{
    struct room room;
    struct err err = {0};
    char newest[ID_SIZE] = "", after[ID_SIZE] = "";
    open_room(&room, *state);
    for (size_t added = 0; added < ROWS_MOST + 3 * BATCH; added += BATCH) {
        add(&room, BATCH);
        assert_true(count(&room) <= ROWS_MOST);
    }
    assert_true(count(&room) >= ROWS_LEAST);
    assert_ok(
        state_list(room.coordinator.state, STATE_AUDIT, NULL, "", 1, true, copy_id, newest, &err),
        &err);
    state_close(&room.coordinator.state);
    open_room(&room, *state);
    add(&room, 1); /* a restart begins with the rows beyond the bound */
    assert_int_equal(count(&room), ROWS_LEAST);
    assert_ok(
        state_list(room.coordinator.state, STATE_AUDIT, NULL, "", 1, true, copy_id, after, &err),
        &err);
    assert_true(strcmp(after, newest) > 0);
    state_close(&room.coordinator.state);
}

static void rows_older_than_a_year_go_with_the_first_change_of_a_day(void **state)
{
    struct room room;
    struct err err = {0};
    open_room(&room, *state);
    assert_ok(state_begin(room.coordinator.state, &err), &err);
    for (int days = 360; days < 370; days++) {
        char id[ID_SIZE];
        const int64_t wall_ms = clock_wall_ms() - days * DAY_MS + DAY_MS / 2;
        id_make(id, "aud_", wall_ms, (struct rng_block){{1}});
        const struct state_row row = {id, "", 1, wall_ms, "{}", 2};
        assert_ok(state_put(room.coordinator.state, STATE_AUDIT, &row, &err), &err);
    }
    assert_ok(state_commit(room.coordinator.state, &err), &err);
    add(&room, 1);
    assert_int_equal(count(&room), 7 + 1); /* 360 to 366 days, and the new one */
    state_close(&room.coordinator.state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_with_directory(the_newest_rows_are_kept_up_to_a_bound),
        test_with_directory(rows_older_than_a_year_go_with_the_first_change_of_a_day),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
