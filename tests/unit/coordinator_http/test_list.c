#include "coordinator/http/list.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "coordinator/http/answer.h"
#include "tests/support/test.h"
#include "tests/unit/coordinator_http/desk.h"

/* As long as the record of a mix. */
#define MIDDLE_KEY                                                                                 \
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define LONG_KEY                                                                                   \
    MIDDLE_KEY                                                                                     \
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static bool is_lower_case(const char *text)
{
    return text[0] != '\0' && text[strspn(text, "abcdefghijklmnopqrstuvwxyz")] == '\0';
}

/* A list in memory. */
static const struct {
    const char *key, *name;
    int state;
    struct label label[2];
    size_t label_count;
} things[] = {
    {"a", "night-1", 0, {{"room", "kitchen"}, {"gpu", "no"}}, 2},
    {"b", "night-2", 1, {{"room", "kitchen"}}, 1},
    {"c", "day", 1, {{"room", "attic"}, {"gpu", "no"}}, 2},
    {"d", "night", 2, {{"", ""}}, 0},
    {"e", "nightly", 0, {{"room", "cellar"}}, 1},
};
#define THINGS (sizeof(things) / sizeof(things[0]))
static const char *const states[] = {"open", "running", "ended", NULL};
static const struct text_form key = {.valid = is_lower_case, .expected = "letters"};
static const struct list_form whole = {
    .key = &key, .states = states, .names = true, .labels = true};
static const struct list_form plain = {.key = &key, .newest_first = true};

static bool add(struct list *list, size_t at)
{
    char text[16];
    const int length = snprintf(text, sizeof(text), "\"%s\"", things[at].key);
    return !list_reaches(list, things[at].key) ||
           !list_wants(list, things[at].state, things[at].name, things[at].label,
                       things[at].label_count) ||
           list_text(list, things[at].key, text, (size_t)length);
}

static void serve(struct http_exchange *exchange, const struct list_form *form, int64_t revision)
{
    struct list list;
    if (!list_begin(exchange, form, &list)) {
        return;
    }
    list.revision = revision;
    bool room = true;
    for (size_t i = 0; room && i < THINGS; i++) {
        room = add(&list, list.descending ? THINGS - 1 - i : i);
    }
    list_end(exchange, &list);
}

static void serve_whole(void *context, struct http_exchange *exchange)
{
    (void)context;
    serve(exchange, &whole, 7);
}

static void serve_plain(void *context, struct http_exchange *exchange)
{
    (void)context;
    serve(exchange, &plain, 0);
}

static void serve_middle(void *context, struct http_exchange *exchange)
{
    static const char *const keys[] = {MIDDLE_KEY "b", MIDDLE_KEY "c", MIDDLE_KEY "d"};
    static const struct list_form form = {.key = &key};
    struct list list;
    (void)context;
    if (list_begin(exchange, &form, &list)) {
        bool room = true;
        for (size_t i = 0; room && i < sizeof(keys) / sizeof(keys[0]); i++) {
            char text[8];
            const int length = snprintf(text, sizeof(text), "%zu", i);
            room = !list_reaches(&list, keys[i]) || list_text(&list, keys[i], text, (size_t)length);
        }
        list_end(exchange, &list);
    }
}

static const struct http_route routes[] = {
    {.method = "GET", .pattern = "/middle", .handle = serve_middle},
    {.method = "GET", .pattern = "/whole", .handle = serve_whole},
    {.method = "GET", .pattern = "/plain", .handle = serve_plain},
};

static int set_up(void **state)
{
    *state = desk_open(routes, sizeof(routes) / sizeof(routes[0]), NULL);
    return 0;
}

static int tear_down(void **state)
{
    struct desk *desk = *state;
    desk_close(&desk);
    return 0;
}

/* Ask for the path and query; the answer holds `expected`. */
static void assert_answer(void **state, const char *target, const char *expected)
{
    char request[1024];
    struct desk *desk = *state;
    snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nConnection: close", target);
    const int fd = desk_send(desk, request);
    const char *text = desk_read(desk, fd, NULL);
    close(fd);
    if (!strstr(text, expected)) {
        fail_msg("%s: '%s' is missing in: %s", target, expected, text);
    }
}

static void pages_have_a_cursor_to_the_next(void **state)
{
    assert_answer(
        state, "/whole",
        "{\"items\":[\"a\",\"b\",\"c\",\"d\",\"e\"],\"next_cursor\":null,\"revision\":7}");
    assert_answer(state, "/whole?limit=2", "{\"items\":[\"a\",\"b\"],\"next_cursor\":\"b\"");
    assert_answer(state, "/whole?limit=2&cursor=b", "[\"c\",\"d\"],\"next_cursor\":\"d\"");
    assert_answer(state, "/whole?limit=2&cursor=d", "[\"e\"],\"next_cursor\":null");
    assert_answer(state, "/whole?limit=5", "\"e\"],\"next_cursor\":null");
    assert_answer(state, "/whole?cursor=zzz", "{\"items\":[],\"next_cursor\":null");
    assert_answer(state, "/plain?order=asc",
                  "{\"items\":[\"a\",\"b\",\"c\",\"d\",\"e\"],\"next_cursor\":null}");
}

/* A part of it would be a cursor before it: the next page would begin with it again. */
static void a_long_key_is_a_whole_cursor(void **state)
{
    assert_answer(state, "/middle?limit=1", "{\"items\":[0],\"next_cursor\":\"" MIDDLE_KEY "b\"}");
    assert_answer(state, "/middle?limit=1&cursor=" MIDDLE_KEY "b",
                  "{\"items\":[1],\"next_cursor\":\"" MIDDLE_KEY "c\"}");
}

static void a_falling_order_has_the_last_key_first(void **state)
{
    assert_answer(state, "/whole?order=desc&limit=2", "[\"e\",\"d\"],\"next_cursor\":\"d\"");
    assert_answer(state, "/whole?order=desc&limit=2&cursor=d",
                  "[\"c\",\"b\"],\"next_cursor\":\"b\"");
    assert_answer(state, "/whole?order=desc&cursor=b", "[\"a\"],\"next_cursor\":null");
    assert_answer(state, "/plain", "[\"e\",\"d\",\"c\",\"b\",\"a\"]");
}

static void filters_keep_what_matches_all_of_them(void **state)
{
    assert_answer(state, "/whole?state=running", "[\"b\",\"c\"]");
    assert_answer(state, "/whole?state=running,ended", "[\"b\",\"c\",\"d\"]");
    assert_answer(state, "/whole?state=open&limit=1", "[\"a\"],\"next_cursor\":\"a\"");
    assert_answer(state, "/whole?state=open&limit=1&cursor=a", "[\"e\"],\"next_cursor\":null");
    assert_answer(state, "/whole?name=night", "[\"d\"]");
    assert_answer(state, "/whole?name=night*", "[\"a\",\"b\",\"d\",\"e\"]");
    assert_answer(state, "/whole?name=night-*&state=running", "[\"b\"]");
    assert_answer(state, "/whole?label=room=kitchen", "[\"a\",\"b\"]");
    assert_answer(state, "/whole?label=gpu=no,room=attic", "[\"c\"]");
    assert_answer(state, "/whole?label=gpu=no,", "{\"items\":[],\"next_cursor\":null");
    assert_answer(state, "/whole?label=gpu=no,,room=attic", "{\"items\":[],\"next_cursor\":null");
    assert_answer(state, "/whole?label=gpu=yes", "{\"items\":[],\"next_cursor\":null");
    assert_answer(state, "/whole?label=gpu=no&order=desc&state=open,running", "[\"c\",\"a\"]");
}

static void wrong_queries_are_rejected_with_the_remedy(void **state)
{
    static const struct {
        const char *target, *answer;
    } cases[] = {
        {"/whole?limit=0", "invalid_parameter"},
        {"/whole?limit=501", "invalid_parameter"},
        {"/whole?cursor=" LONG_KEY, "is not a cursor of this list"},
        {"/whole?cursor=B", "'B' is not a cursor of this list"},
        {"/whole?cursor=", "is not a cursor of this list"},
        {"/whole?order=up", "'up' is not 'desc' or 'asc'"},
        {"/whole?state=runing", "'runing' is not a state; did you mean 'running'?"},
        {"/whole?state=", "'' is not a state"},
        {"/whole?state=open,", "'' is not a state"},
        {"/whole?name=Night", "'Night' is not a name"},
        {"/whole?name=*", "'*' is not a name"},
        {"/whole?name=a*b", "is not a name"},
        {"/whole?name=[a-z]*", "is not a name"},
        {"/whole?name=" LONG_KEY, "is not a name"},
        {"/whole?label=room", "'room' is not KEY=VALUE"},
        {"/whole?label=room=", "is not KEY=VALUE"},
        {"/whole?label==x", "is not KEY=VALUE"},
        {"/whole?label=A=b", "is not KEY=VALUE"},
        {"/whole?label=a=b%20c", "is not KEY=VALUE"},
        {"/whole?label=a=b,C=d", "is not KEY=VALUE"},
        {"/whole?label=a=" LONG_KEY, "is not KEY=VALUE"},
        {"/whole?label=a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=1,i=1,j=1,k=1,l=1,m=1,n=1,o=1,p=1,q=1,r=1",
         "is not KEY=VALUE"},
        {"/whole?view=short", "unknown query parameter 'view'"},
        {"/whole?wait=1", "unknown query parameter 'wait'"},
        {"/plain?state=open", "unknown query parameter 'state'"},
        {"/plain?name=x", "unknown query parameter 'name'"},
        {"/plain?label=a=b", "unknown query parameter 'label'"},
        {"/whole?stat=open", "did you mean 'state'?"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_answer(state, cases[i].target, "400 Bad Request");
        assert_answer(state, cases[i].target, cases[i].answer);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(pages_have_a_cursor_to_the_next),
        TEST(a_long_key_is_a_whole_cursor),
        TEST(a_falling_order_has_the_last_key_first),
        TEST(filters_keep_what_matches_all_of_them),
        TEST(wrong_queries_are_rejected_with_the_remedy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
