#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#include "schema/device.h"
#include "schema/heartbeat.h"
#include "schema/job.h"
#include "schema/limits.h"
#include "schema/problem.h"
#include "schema/wire.h"

static int read_spec(const char *text, struct record_faults *faults, struct err *err)
{
    struct job_spec spec = job_spec_default;
    int rc = wire_read(&job_spec_record, text, strlen(text), &spec, faults, err);
    if (!rc) {
        record_done(&job_spec_record, &spec);
    }
    return rc;
}

static void a_body_that_is_not_json_is_a_format_error(void **state)
{
    (void)state;
    struct err err = {0};
    struct record_faults faults = {0};
    assert_int_equal(read_spec("{", &faults, &err), ERR_FORMAT);
    assert_int_equal(read_spec("", &faults, &err), ERR_FORMAT);
    assert_int_equal(faults.count, 0);
}

static void a_body_with_faults_is_invalid_and_its_memory_is_released(void **state)
{
    (void)state;
    struct err err = {0};
    struct record_faults faults = {0};
    struct job_spec spec = job_spec_default;
    static const char text[] = "{\"model\": {\"description\": {}}, \"batch\": 0}";
    assert_int_equal(wire_read(&job_spec_record, text, sizeof(text) - 1, &spec, &faults, &err),
                     ERR_INVALID);
    assert_int_equal(faults.count, 2);
    assert_null(spec.model.description);
    assert_holds(err.text, "/dataset: is required");
}

static void a_value_larger_than_the_buffer_is_a_limit_error(void **state)
{
    (void)state;
    struct err err = {0};
    BUF_AUTO struct buf out;
    buf_init(&out, 16);
    struct heartbeat_reply reply = {.interval_ms = 1000};
    assert_int_equal(wire_write(&heartbeat_reply_record, &reply, &out, &err), ERR_LIMIT);
    assert_int_equal(out.size, 0);
}

static int read_protocol(const char *text, int *version, struct err *err)
{
    json_auto_t *document = NULL;
    assert_ok(json_parse(text, strlen(text), &document, err), err);
    return wire_protocol(document, version, err);
}

static void another_protocol_version_is_named_on_both_sides(void **state)
{
    (void)state;
    struct err err = {0};
    char text[64];
    int version = 0;
    for (int spoken = PROTOCOL_VERSION_MIN; spoken <= PROTOCOL_VERSION; spoken++) {
        (void)snprintf(text, sizeof(text), "{\"protocol\": %d}", spoken);
        assert_ok(read_protocol(text, &version, &err), &err);
        assert_int_equal(version, spoken);
    }
    /* Fields of a later version do not hide the known ones. */
    assert_int_equal(read_protocol("{\"protocol\": 7, \"new_field\": true}", &version, &err),
                     ERR_PROTOCOL);
    assert_string_equal(err.text, "the agent speaks protocol 7; this coordinator speaks 1 to 6");
    assert_int_equal(read_protocol("{\"protocol\": 0}", &version, &err), ERR_PROTOCOL);
    static const char *const others[] = {"[]", "{}", "{\"protocol\": \"1\"}"};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        assert_ok(read_protocol(others[i], &version, &err), &err);
        assert_int_equal(version, PROTOCOL_VERSION);
    }
}

static void a_problem_says_code_status_and_every_fault(void **state)
{
    (void)state;
    struct record_faults faults = {0};
    for (int i = 0; i < RECORD_FAULTS_MAX + 1; i++) {
        record_fault(&faults, "/batch", "fault %d", i);
    }
    json_auto_t *problem =
        problem_write(PROBLEM_INVALID_FIELDS, "bad \xff bytes", "/v1/jobs", "00ff", &faults);
    assert_string_equal(json_string_value(json_object_get(problem, "type")),
                        "urn:paceline:problem:invalid_fields");
    assert_string_equal(json_string_value(json_object_get(problem, "code")), "invalid_fields");
    assert_string_equal(json_string_value(json_object_get(problem, "detail")),
                        "bad ? bytes (and at least 16 more, see errors)");
    assert_string_equal(json_string_value(json_object_get(problem, "instance")), "/v1/jobs");
    assert_string_equal(json_string_value(json_object_get(problem, "request_id")), "00ff");
    assert_int_equal(json_integer_value(json_object_get(problem, "status")), 422);
    assert_int_equal(json_array_size(json_object_get(problem, "errors")), RECORD_FAULTS_MAX);
    assert_true(json_is_true(json_object_get(problem, "more_errors")));
}

static void a_problem_without_details_is_short(void **state)
{
    (void)state;
    struct err err = {0};
    json_auto_t *problem = problem_write(PROBLEM_STOPPING, NULL, NULL, NULL, NULL);
    BUF_AUTO struct buf text;
    buf_init(&text, 4096);
    assert_ok(json_write(problem, &text, &err), &err);
    assert_string_equal(text.data, "{\"type\":\"urn:paceline:problem:stopping\",\"title\":\"The "
                                   "coordinator is shutting down\","
                                   "\"status\":503,\"code\":\"stopping\",\"retryable\":true}");
}

static enum problem_code read_problem(const char *text, char message[MESSAGE_SIZE])
{
    return problem_read(text, strlen(text), message);
}

static void a_problem_is_read_back_for_people_and_programs(void **state)
{
    (void)state;
    char message[MESSAGE_SIZE];
    assert_int_equal(
        read_problem("{\"code\": \"stale_boot\", \"title\": \"T\", \"later\": 1}", message),
        PROBLEM_STALE_BOOT);
    assert_string_equal(message, "T");
    assert_int_equal(
        read_problem(
            "{\"code\": \"invalid_fields\", \"title\": \"T\", \"detail\": \"D\", \"errors\": "
            "[{\"pointer\": \"/batch\", \"message\": \"is wrong\"}]}",
            message),
        PROBLEM_INVALID_FIELDS);
    assert_string_equal(message, "D: /batch: is wrong");
    (void)read_problem(
        "{\"code\": \"invalid_fields\", \"detail\": \"/batch: is wrong\", \"errors\": "
        "[{\"pointer\": \"/batch\", \"message\": \"is wrong\"}]}",
        message);
    assert_string_equal(message, "/batch: is wrong");
}

static void a_body_that_is_not_a_problem_has_no_code(void **state)
{
    (void)state;
    char message[MESSAGE_SIZE];
    static const char *const texts[] = {"",   "<html>",        "[]",
                                        "{}", "{\"code\": 4}", "{\"code\": \"none\"}"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        assert_int_equal(read_problem(texts[i], message), PROBLEM_NONE);
        assert_string_equal(message, "");
    }
    assert_int_equal(read_problem("{\"code\": \"of_the_future\", \"title\": \"T\"}", message),
                     PROBLEM_NONE);
    assert_string_equal(message, "T");
}

static void long_texts_of_problems_are_truncated(void **state)
{
    (void)state;
    char detail[2 * PROBLEM_DETAIL_SIZE];
    memset(detail, 'x', sizeof(detail));
    detail[sizeof(detail) - 1] = '\0';
    json_auto_t *problem = problem_write(PROBLEM_INTERNAL, detail, detail, detail, NULL);
    const char *kept = json_string_value(json_object_get(problem, "detail"));
    assert_int_equal(strlen(kept), PROBLEM_DETAIL_SIZE - 1);
    assert_string_equal(kept + PROBLEM_DETAIL_SIZE - 5, "x...");
    struct err err = {0};
    BUF_AUTO struct buf text;
    buf_init(&text, 8192);
    assert_ok(json_write(problem, &text, &err), &err);
    char message[MESSAGE_SIZE];
    assert_int_equal(problem_read(text.data, text.size, message), PROBLEM_INTERNAL);
    assert_int_equal(strlen(message), MESSAGE_SIZE - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_body_that_is_not_json_is_a_format_error),
        cmocka_unit_test(a_body_with_faults_is_invalid_and_its_memory_is_released),
        cmocka_unit_test(a_value_larger_than_the_buffer_is_a_limit_error),
        cmocka_unit_test(another_protocol_version_is_named_on_both_sides),
        cmocka_unit_test(a_problem_says_code_status_and_every_fault),
        cmocka_unit_test(a_problem_without_details_is_short),
        cmocka_unit_test(a_problem_is_read_back_for_people_and_programs),
        cmocka_unit_test(a_body_that_is_not_a_problem_has_no_code),
        cmocka_unit_test(long_texts_of_problems_are_truncated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
