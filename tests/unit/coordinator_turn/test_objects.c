#include <string.h>

#include "coordinator/turn/objects.h"
#include "schema/dataset.h"
#include "schema/device.h"
#include "schema/incident.h"
#include "schema/job.h"
#include "schema/plan.h"
#include "tests/support/test.h"

static void every_kind_knows_its_record_and_its_table(void **state)
{
    (void)state;
    bool used[STATE_TABLES] = {false};
    for (int kind = OBJECT_DEVICE; kind <= OBJECT_NOTHING; kind++) {
        const struct object_kind_facts *facts = object_facts((enum object_kind)kind);
        assert_true((facts->record == NULL) == (kind == OBJECT_NOTHING));
        assert_true((facts->row == NULL) == (facts->table == STATE_TABLES));
        if (facts->table != STATE_TABLES) {
            assert_false(used[facts->table]);
            used[facts->table] = true;
        }
    }
    assert_true(used[STATE_DEVICES] && used[STATE_JOBS] && used[STATE_PLANS] &&
                used[STATE_CENTER_UNITS]);
}

static void rows_are_named_after_their_objects(void **state)
{
    (void)state;
    static struct plan plan = {.id = {"plan_1"}, .job = {"job_1"}, .revision = 3, .created_ms = 5};
    struct dataset dataset = {.name = "digits", .revision = 1, .created_ms = 7};
    struct checkpoint checkpoint = {.id = {"ckpt_1"}, .job = {"job_2"}, .revision = 1};
    struct center_unit unit = {.job = {"job_3"}, .version = 12, .unit = 4};
    struct incident incident = {.id = {"inc_1"}, .job = {"job_4"}, .revision = 2, .detected_ms = 9};
    struct object_row row;
    object_describe(OBJECT_PLAN, &plan, &row);
    assert_string_equal(row.id, "plan_1");
    assert_string_equal(row.parent, "job_1");
    assert_int_equal(row.revision, 3);
    assert_int_equal(row.created_ms, 5);
    object_describe(OBJECT_DATASET, &dataset, &row);
    assert_string_equal(row.id, "digits");
    assert_string_equal(row.parent, "");
    object_describe(OBJECT_CHECKPOINT, &checkpoint, &row);
    assert_string_equal(row.parent, "job_2");
    object_describe(OBJECT_CENTER_UNIT, &unit, &row);
    assert_string_equal(row.id, "job_3/0000000000000012/0004");
    assert_string_equal(row.parent, "job_3");
    object_describe(OBJECT_INCIDENT, &incident, &row);
    assert_string_equal(row.id, "inc_1");
    assert_string_equal(row.parent, "job_4");
    assert_int_equal(row.revision, 2);
    assert_int_equal(row.created_ms, 9);
}

static void
center_units_sort_by_version_then_unit_and_a_version_begins_with_its_smallest_id(void **state)
{
    (void)state;
    static const struct {
        int64_t version, unit;
    } rising[] = {{0, -1}, {0, 0},  {0, 255}, {9, -1}, {9, 0},
                  {9, 9},  {9, 10}, {10, -1}, {10, 0}, {1000000000, 3}};
    char last[OBJECT_ROW_ID_SIZE] = "";
    for (size_t i = 0; i < sizeof(rising) / sizeof(rising[0]); i++) {
        char id[OBJECT_ROW_ID_SIZE];
        object_center_unit_id(id, "job_1", rising[i].version, rising[i].unit);
        assert_true(strcmp(last, id) < 0);
        memcpy(last, id, sizeof(last));
    }
}

static void the_boot_of_a_device_is_in_its_row_and_nowhere_else(void **state)
{
    (void)state;
    const struct device device = {
        .id = {"dev_1"}, .name = "one", .boot = "secret", .untried = true};
    struct err err = {0};
    BUF_AUTO struct buf shown, row;
    buf_init(&shown, JSON_BODY_MAX);
    buf_init(&row, JSON_BODY_MAX);
    assert_ok(object_write(OBJECT_DEVICE, &device, &shown, &err), &err);
    assert_ok(object_write_row(OBJECT_DEVICE, &device, &row, &err), &err);
    assert_null(strstr(shown.data, "secret"));
    assert_null(strstr(shown.data, "untried"));
    assert_non_null(strstr(row.data, "\"boot\":\"secret\""));
    assert_non_null(strstr(row.data, "\"untried\":true"));
}

static void objects_are_written_as_their_record_says(void **state)
{
    (void)state;
    struct dataset dataset = {.name = "digits", .revision = 4, .dtype = "U8"};
    struct err err = {0};
    BUF_AUTO struct buf out;
    buf_init(&out, 4096);
    assert_ok(object_write(OBJECT_DATASET, &dataset, &out, &err), &err);
    assert_holds(out.data, "\"name\":\"digits\",\"revision\":4");
    buf_done(&out);
    buf_init(&out, 10);
    assert_int_equal(object_write(OBJECT_DATASET, &dataset, &out, &err), ERR_LIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_knows_its_record_and_its_table),
        cmocka_unit_test(rows_are_named_after_their_objects),
        cmocka_unit_test(
            center_units_sort_by_version_then_unit_and_a_version_begins_with_its_smallest_id),
        cmocka_unit_test(the_boot_of_a_device_is_in_its_row_and_nowhere_else),
        cmocka_unit_test(objects_are_written_as_their_record_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
