#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "coordinator/http/answer.h"
#include "schema/dataset.h"
#include "schema/service.h"
#include "tests/support/test.h"
#include "tests/unit/coordinator_http/desk.h"

/* ---- routes ---- */

static void object(void *context, struct http_exchange *exchange)
{
    (void)context;
    struct dataset dataset = {.name = "digits", .revision = 7, .samples = 3};
    answer_kind(exchange, OBJECT_DATASET, &dataset);
}

static void nothing(void *context, struct http_exchange *exchange)
{
    (void)context;
    struct buf empty;
    buf_init(&empty, 16);
    answer_object(exchange, 204, 0, &empty);
}

static void failure(void *context, struct http_exchange *exchange)
{
    (void)context;
    static const char *const codes[] = {"INVALID", "FORMAT", "LIMIT", "FULL", "STATE", "IO"};
    static const int numbers[] = {ERR_INVALID, ERR_FORMAT, ERR_LIMIT, ERR_FULL, ERR_STATE, ERR_IO};
    struct err err = {0};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        if (strcmp(http_param(exchange, "code"), codes[i]) == 0) {
            assert_int_equal(err_set(&err, numbers[i], "the \"text\" of %s", codes[i]), numbers[i]);
        }
    }
    if (http_query(exchange, "upload")) {
        answer_upload_err(exchange, &err);
    } else {
        answer_err(exchange, &err);
    }
}

static void core_problem(void *context, struct http_exchange *exchange)
{
    (void)context;
    const char *text = http_query(exchange, "text");
    answer_core_problem(
        exchange, http_query(exchange, "other") ? PROBLEM_WRONG_STATE : PROBLEM_INVALID_FIELDS,
        text);
}

static void query(void *context, struct http_exchange *exchange)
{
    (void)context;
    static const char *const allowed[] = {"limit", "cursor", "after", NULL};
    int64_t after, revision;
    if (answer_check_query(exchange, allowed) &&
        answer_query_int(exchange, "after", 0, 100, 42, &after) &&
        answer_if_match(exchange, &revision)) {
        struct service_version version = {.protocol = after, .protocol_min = revision};
        answer_record(exchange, 200, &service_version_record, &version);
    }
}

static void body(void *context, struct http_exchange *exchange)
{
    (void)context;
    struct service_status status = {.status = "default"};
    if (answer_read_body(exchange, &service_status_record, http_query(exchange, "empty") != NULL,
                         &status)) {
        answer_record(exchange, 200, &service_status_record, &status);
    }
}

static void no_body(void *context, struct http_exchange *exchange)
{
    if (answer_no_body(exchange)) {
        nothing(context, exchange);
    }
}

static void upload(void *context, struct http_exchange *exchange)
{
    if (answer_check_upload_type(exchange)) {
        nothing(context, exchange);
    }
}

static const struct http_route routes[] = {
    {.method = "GET", .pattern = "/object", .handle = object},
    {.method = "GET", .pattern = "/nothing", .handle = nothing},
    {.method = "GET", .pattern = "/fail/{code}", .handle = failure},
    {.method = "GET", .pattern = "/core", .handle = core_problem},
    {.method = "GET", .pattern = "/query", .handle = query},
    {.method = "POST", .pattern = "/body", .handle = body, .body_max = 4096},
    {.method = "POST", .pattern = "/no-body", .handle = no_body, .body_max = 4096},
    {.method = "POST", .pattern = "/upload", .handle = upload, .body_max = 4096},
};

/* ---- asking ---- */

struct room {
    struct desk *desk;
};

static int set_up(void **state)
{
    static struct room room;
    room.desk = desk_open(routes, sizeof(routes) / sizeof(routes[0]), NULL);
    *state = &room;
    return 0;
}

static int tear_down(void **state)
{
    struct room *room = *state;
    desk_close(&room->desk);
    return 0;
}

/* The whole answer to one request. */
static const char *tell(struct room *room, const char *request, const char *content)
{
    char whole[1024];
    snprintf(whole, sizeof(whole), "%s\r\nConnection: close", request);
    int fd = desk_send_body(room->desk, whole, content);
    const char *text = desk_read(room->desk, fd, NULL);
    close(fd);
    return text;
}

static const char *ask(struct room *room, const char *request)
{
    return tell(room, request, "");
}

/* ---- tests ---- */

static void an_object_is_answered_with_its_revision(void **state)
{
    const char *text = ask(*state, "GET /object HTTP/1.1");
    assert_holds(text, "200 OK");
    assert_holds(text, "Content-Type: application/json");
    assert_holds(text, "ETag: \"7\"");
    assert_holds(text, "\"name\":\"digits\"");
    text = ask(*state, "GET /nothing HTTP/1.1");
    assert_holds(text, "204 No Content");
    assert_null(strstr(text, "ETag"));
    assert_null(strstr(text, "Content-Type"));
}

static void failures_become_the_problem_that_fits(void **state)
{
    static const struct {
        const char *request, *status, *code;
    } rows[] = {
        {"GET /fail/INVALID HTTP/1.1", " 400 ", "invalid_parameter"},
        {"GET /fail/FORMAT HTTP/1.1", " 400 ", "invalid_json"},
        {"GET /fail/LIMIT HTTP/1.1", " 413 ", "body_too_large"},
        {"GET /fail/LIMIT?upload=1 HTTP/1.1", " 429 ", "too_many"},
        {"GET /fail/FULL HTTP/1.1", " 507 ", "disk_full"},
        {"GET /fail/STATE HTTP/1.1", " 409 ", "wrong_state"},
        {"GET /fail/IO HTTP/1.1", " 500 ", "internal"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char code[64];
        const char *text = ask(*state, rows[i].request);
        snprintf(code, sizeof(code), "\"code\":\"%s\"", rows[i].code);
        assert_holds(text, rows[i].status);
        assert_holds(text, code);
        assert_holds(text, "Content-Type: application/problem+json");
        assert_holds(text, "\"instance\":\"/fail/");
        assert_holds(text, "\"request_id\":\"");
        assert_holds(text, "the \\\"text\\\" of");
        bool later = strstr(text, "Retry-After: ") != NULL;
        assert_true(later == (strstr(" 429  507 ", rows[i].status) != NULL));
    }
}

static void a_text_of_the_core_that_begins_with_a_pointer_becomes_a_fault_there(void **state)
{
    const char *text = ask(*state, "GET /core?text=/cuts/1%3A%209%20is%20too%20much HTTP/1.1");
    assert_holds(text, "422 ");
    assert_holds(text, "\"errors\":[{\"pointer\":\"/cuts/1\",\"message\":\"9 is too much\"}]");
    text = ask(*state, "GET /core?text=just%20wrong HTTP/1.1");
    assert_holds(text, "\"errors\":[{\"pointer\":\"\",\"message\":\"just wrong\"}]");
    text = ask(*state, "GET /core?other=1&text=/no%3A%20pointer HTTP/1.1");
    assert_holds(text, "409 ");
    assert_null(strstr(text, "errors"));
}

static void parameters_are_read_strictly(void **state)
{
    assert_holds(ask(*state, "GET /query HTTP/1.1"), "\"protocol\":42,\"protocol_min\":0");
    assert_holds(ask(*state, "GET /query?after=100 HTTP/1.1\r\nIf-Match: \"17\""),
                 "\"protocol\":100,\"protocol_min\":17");
    assert_holds(ask(*state, "GET /query HTTP/1.1\r\nIf-Match: *"), "\"protocol_min\":0");
    assert_holds(ask(*state, "GET /query?aftr=1 HTTP/1.1"),
                 "unknown query parameter 'aftr'; did you mean 'after'?");
    assert_holds(ask(*state, "GET /query?after=101 HTTP/1.1"), "invalid_parameter");
    assert_holds(ask(*state, "GET /query?after= HTTP/1.1"), "invalid_parameter");
    assert_holds(ask(*state, "GET /query?after=1x HTTP/1.1"), "invalid_parameter");
    static const char *const bad[] = {
        "17",     "\"\"",     "\"x\"",        "\"0\"",
        "\"-1\"", "W/\"17\"", "\"1\", \"2\"", "\"99999999999999999999999999999999999\""};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char request[128];
        snprintf(request, sizeof(request), "GET /query HTTP/1.1\r\nIf-Match: %s", bad[i]);
        assert_holds(ask(*state, request), "If-Match: expected the ETag");
    }
}

static void bodies_are_json_of_the_right_type(void **state)
{
    static const char post[] = "POST /body HTTP/1.1\r\nContent-Type: application/json";
    assert_holds(tell(*state, post, "{\"status\":\"good\"}"), "{\"status\":\"good\"}");
    assert_holds(tell(*state,
                      "POST /body HTTP/1.1\r\nContent-Type: Application/JSON; charset=utf-8",
                      "{\"status\":\"good\"}"),
                 "good");
    assert_holds(tell(*state, "POST /body HTTP/1.1\r\nContent-Type: application/jsonp", "{}"),
                 "unsupported_media_type");
    assert_holds(tell(*state, "POST /body HTTP/1.1", "{}"), "unsupported_media_type");
    assert_holds(tell(*state, post, "{\"status\":"), "invalid_json");
    assert_holds(tell(*state, post, "{\"state\":1}"), "\"pointer\":\"/state\"");
    assert_holds(tell(*state, post, ""), "invalid_json");
    assert_holds(tell(*state, "POST /body?empty=1 HTTP/1.1", ""), "422");
    char deep[512];
    memset(deep, '[', sizeof(deep) - 1);
    deep[sizeof(deep) - 1] = '\0';
    assert_holds(tell(*state, post, deep), "invalid_json");
}

static void verbs_without_arguments_take_nothing_or_an_empty_object(void **state)
{
    static const char post[] = "POST /no-body HTTP/1.1\r\nContent-Type: application/json";
    assert_holds(tell(*state, "POST /no-body HTTP/1.1", ""), "204");
    assert_holds(tell(*state, post, " {} "), "204");
    assert_holds(tell(*state, post, "{\"now\":true}"), "invalid_fields");
    assert_holds(tell(*state, post, "[]"), "invalid_fields");
    assert_holds(tell(*state, post, "{"), "invalid_json");
    assert_holds(tell(*state, "POST /no-body HTTP/1.1", "{}"), "unsupported_media_type");
}

static void uploads_of_a_type_that_forms_send_are_refused(void **state)
{
    assert_holds(tell(*state, "POST /upload HTTP/1.1", "x"), "204");
    assert_holds(tell(*state, "POST /upload HTTP/1.1\r\nContent-Type: application/x-tar", "x"),
                 "204");
    assert_holds(
        tell(*state, "POST /upload HTTP/1.1\r\nContent-Type: Text/Plain;charset=utf-8", "x"),
        "unsupported_media_type");
    assert_holds(
        tell(*state, "POST /upload HTTP/1.1\r\nContent-Type: multipart/form-data; boundary=b", "x"),
        "unsupported_media_type");
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(an_object_is_answered_with_its_revision),
        TEST(failures_become_the_problem_that_fits),
        TEST(a_text_of_the_core_that_begins_with_a_pointer_becomes_a_fault_there),
        TEST(parameters_are_read_strictly),
        TEST(bodies_are_json_of_the_right_type),
        TEST(verbs_without_arguments_take_nothing_or_an_empty_object),
        TEST(uploads_of_a_type_that_forms_send_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
