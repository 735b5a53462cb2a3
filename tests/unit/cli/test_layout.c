#include "cli/layout.h"

#include <string.h>

#include "tests/support/test.h"

static const struct column columns[] = {
    {.title = "NAME", .path = "spec/name", .cell = CELL_TEXT},
    {.title = "STATE", .path = "state", .cell = CELL_STATE},
    {.title = "STEP", .path = "progress/step", .cell = CELL_TEXT, .until = "progress/steps"},
    {.title = "TIME", .path = "time", .cell = CELL_SECONDS},
    {.title = "SIZE", .path = "size", .cell = CELL_BYTES, .wide = true},
    {.title = "BUSY", .path = "busy", .cell = CELL_SHARE, .wide = true},
    {.title = "ON", .path = "on", .cell = CELL_DEVICES, .wide = true},
    {.title = "AGE", .path = "at", .cell = CELL_AGE},
};
static const struct layout list = {
    .rows = "items",
    .id = "id",
    .column = columns,
    .column_count = sizeof(columns) / sizeof(columns[0]),
};

#define NOW_MS INT64_C(1769860800000) /* 2026-01-31T12:00:00Z */

static json_t *parsed(const char *text)
{
    json_t *value = NULL;
    struct err err = {0};
    assert_ok(json_parse(text, strlen(text), &value, &err), &err);
    return value;
}

static void check_rows_of(const struct layout *layout, const char *answer,
                          struct layout_style *style, const char *expected)
{
    json_auto_t *value = parsed(answer);
    BUF_AUTO struct buf out;
    struct err err = {0};
    buf_init(&out, 1 << 16);
    assert_ok(layout_rows(layout, value, style, &out, &err), &err);
    assert_string_equal(out.data ? out.data : "", expected);
}

static void check_rows(const char *answer, struct layout_style *style, const char *expected)
{
    check_rows_of(&list, answer, style, expected);
}

static void columns_are_as_wide_as_their_values(void **state)
{
    (void)state;
    struct layout_style style = {.now_ms = NOW_MS};
    check_rows("{\"items\": [{\"spec\": {\"name\": \"fashion\"}, \"state\": \"running\","
               "\"progress\": {\"step\": 46, \"steps\": 93}, \"time\": 0.0352,"
               "\"at\": \"2026-01-31T11:59:25Z\"},"
               "{\"spec\": {\"name\": \"d\\u00e9j\\u00e0\"}, \"state\": \"online\","
               "\"cordoned\": true, \"drained\": true, \"time\": null,"
               "\"at\": \"2026-01-29T11:00:00Z\"}]}",
               &style,
               "NAME     STATE                    STEP   TIME     AGE\n"
               "fashion  running                  46/93  35.2 ms  35s\n"
               "d\xC3\xA9j\xC3\xA0     online,cordoned,drained  -      -        2d\n");
}

static void a_second_page_has_no_titles_and_the_same_columns(void **state)
{
    (void)state;
    struct layout_style style = {.now_ms = NOW_MS};
    check_rows("{\"items\": [{\"spec\": {\"name\": \"a-long-name\"}, \"state\": \"x\"}]}", &style,
               "NAME         STATE  STEP  TIME  AGE\n"
               "a-long-name  x      -     -     -\n");
    check_rows("{\"items\": [{\"spec\": {\"name\": \"b\"}, \"state\": \"y\"}]}", &style,
               "b            y      -     -     -\n");
}

static void a_record_of_a_mix_shows_the_groups_of_its_peers(void **state)
{
    (void)state;
    struct layout_style style = {.now_ms = NOW_MS};
    check_rows_of(
        &layout_mixes,
        "{\"items\": [{\"id\": \"mix_1\", \"created_at\": \"2026-01-31T11:59:25Z\","
        "\"record\": {\"xid\": {\"life\": 9, \"counter\": 7}, \"kind\": \"average\","
        "\"own\": {\"group\": 2}, \"peers\": [{\"group\": 0}, {\"group\": 1}, {\"group\": 3}]}},"
        "{\"id\": \"mix_2\", \"created_at\": \"2026-01-31T11:59:25Z\","
        "\"record\": {\"xid\": {\"life\": 9, \"counter\": 8}, \"kind\": \"pair\","
        "\"own\": {\"group\": 1}, \"peers\": [{\"group\": 0}], \"applied_step\": 12,"
        "\"alpha\": 0.5}}]}",
        &style,
        "MATCH  KIND     GROUP  PEERS  STEP  ALPHA  AGE\n"
        "7      average  2      0-1,3  -     -      35s\n"
        "8      pair     1      0      12    0.5    35s\n");
}

static void wide_adds_columns_and_names_devices(void **state)
{
    (void)state;
    json_auto_t *names = parsed("{\"dev_1\": \"kitchen\"}");
    struct layout_style style = {.now_ms = NOW_MS, .wide = true, .devices = names};
    check_rows("{\"items\": [{\"spec\": {\"name\": \"a\"}, \"size\": 1572864, \"busy\": 0.93,"
               "\"on\": [\"dev_1\", \"dev_2\", {\"id\": \"dev_3\", \"name\": \"attic\"},"
               "{\"device\": \"dev_1\"}]}]}",
               &style,
               "NAME  STATE  STEP  TIME  SIZE     BUSY  ON                           AGE\n"
               "a     -      -     -     1.5 MiB  93 %  kitchen,dev_2,attic,kitchen  -\n");
}

static void a_plan_shows_the_micro_batches_of_its_workers(void **state)
{
    (void)state;
    json_auto_t *plan = parsed("{\"stages\": ["
                               "{\"device\": \"rack\", \"first\": 0, \"end\": 5},"
                               "{\"device\": \"attic\", \"first\": 5, \"end\": 5,"
                               "\"share\": {\"first\": 2, \"end\": 8}}]}");
    struct layout_style style = {.now_ms = NOW_MS};
    BUF_AUTO struct buf out;
    struct err err = {0};
    buf_init(&out, 1 << 16);
    assert_ok(layout_rows(&layout_plan, plan, &style, &out, &err), &err);
    assert_holds(out.data, "STAGE  DEVICE  FIRST  END  SHARE  IN_FLIGHT");
    assert_holds(out.data, "0      rack    0      5    -      -");
    assert_holds(out.data, "1      attic   5      5    2-7    -");
}

static void texts_of_the_server_cannot_steer_a_terminal(void **state)
{
    (void)state;
    struct layout_style style = {.now_ms = NOW_MS};
    check_rows("{\"items\": [{\"spec\": {\"name\": \"a\\u001b[2J\\nb\\u009b\"}}]}", &style,
               "NAME       STATE  STEP  TIME  AGE\n"
               "a?[2J?b??  -      -     -     -\n");
}

static void answers_of_another_shape_have_no_rows(void **state)
{
    (void)state;
    static const char *const answers[] = {"{}", "[1]", "{\"items\": {\"a\": 1}}", "7"};
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        struct layout_style style = {.now_ms = NOW_MS};
        check_rows(answers[i], &style, "NAME  STATE  STEP  TIME  AGE\n");
    }
    struct layout_style style = {.now_ms = NOW_MS};
    check_rows("{\"items\": [7, null, {\"spec\": []}]}", &style,
               "NAME  STATE  STEP  TIME  AGE\n-     -      -     -     -\n"
               "-     -      -     -     -\n-     -      -     -     -\n");
}

static void an_object_shows_what_it_has(void **state)
{
    (void)state;
    json_auto_t *object = parsed("{\"spec\": {\"name\": \"a\"}, \"time\": 200, \"busy\": 0.5}");
    const struct layout_style style = {.now_ms = NOW_MS};
    BUF_AUTO struct buf out;
    struct err err = {0};
    buf_init(&out, 1 << 16);
    assert_ok(layout_object(&list, object, &style, &out, &err), &err);
    assert_string_equal(out.data, "NAME   a\nTIME   3 min\nBUSY   50 %\n");
}

static void ids_are_one_a_line(void **state)
{
    (void)state;
    json_auto_t *answer = parsed("{\"items\": [{\"id\": \"a\"}, {}, {\"id\": 7}]}");
    BUF_AUTO struct buf out;
    struct err err = {0};
    buf_init(&out, 1 << 16);
    assert_ok(layout_ids(&list, answer, &out, &err), &err);
    assert_string_equal(out.data, "a\n7\n");
}

static void check_preview(const char *answer, const char *expected)
{
    json_auto_t *value = parsed(answer);
    struct layout_style style = {.now_ms = NOW_MS};
    BUF_AUTO struct buf out;
    struct err err = {0};
    buf_init(&out, 1 << 16);
    assert_ok(layout_rows(&layout_preview, value, &style, &out, &err), &err);
    assert_string_equal(out.data, expected);
}

/* Its stages are those of a pipeline, which it is compared with. */
static void a_preview_shows_the_groups_of_a_job_that_consists_of_them(void **state)
{
    (void)state;
    check_preview("{\"starts\": true, \"stages\": [{}], \"gossip\": {\"groups\": [{\"name\": \"a\","
                  "\"samples\": 500, \"samples_per_second\": 100, \"every\": 4, \"slows\": true,"
                  "\"given_bytes_per_second\": 2048, \"taken_bytes_per_second\": 1024,"
                  "\"link_share\": 0.5}], \"total_seconds\": 7, \"fastest\": \"gossip\"}}",
                  "GROUP  DEVICE  SAMPLES  SAMPLES/S  EVERY  GIVES/S  TAKES/S  LINK\n"
                  "0      a       500      100        4      2.0 KiB  1.0 KiB  50 %\n"
                  "\n"
                  "STARTS        yes\n"
                  "TOTAL         7 s\n"
                  "FASTEST       gossip\n");
    check_preview("{\"starts\": true, \"stages\": [{}], \"submodel\": {\"groups\": [{\"group\": 0,"
                  "\"name\": \"a\", \"classes\": [0, 1, 2, 5], \"width\": 0.25, \"samples\": 500,"
                  "\"memory_bytes\": 1024, \"begins_seconds\": 0, \"seconds\": 3}],"
                  "\"total_seconds\": 7}}",
                  "GROUP  DEVICE  CLASSES  WIDTH  SAMPLES  MEMORY   BEGINS  SECONDS\n"
                  "0      a       0-2,5    25 %   500      1.0 KiB  0 s     3 s\n"
                  "\n"
                  "STARTS       yes\n"
                  "TOTAL        7 s\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_as_wide_as_their_values),
        cmocka_unit_test(a_second_page_has_no_titles_and_the_same_columns),
        cmocka_unit_test(a_record_of_a_mix_shows_the_groups_of_its_peers),
        cmocka_unit_test(wide_adds_columns_and_names_devices),
        cmocka_unit_test(a_plan_shows_the_micro_batches_of_its_workers),
        cmocka_unit_test(texts_of_the_server_cannot_steer_a_terminal),
        cmocka_unit_test(answers_of_another_shape_have_no_rows),
        cmocka_unit_test(an_object_shows_what_it_has),
        cmocka_unit_test(ids_are_one_a_line),
        cmocka_unit_test(a_preview_shows_the_groups_of_a_job_that_consists_of_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
