#include "net/http_route.h"

#include <string.h>

#include "tests/support/test.h"

static const struct http_route routes[] = {
    {.method = "GET", .pattern = "/"},
    {.method = "GET", .pattern = "/v1/jobs"},
    {.method = "POST", .pattern = "/v1/jobs"},
    {.method = "GET", .pattern = "/v1/jobs/{id}"},
    {.method = "DELETE", .pattern = "/v1/jobs/{id}"},
    {.method = "GET", .pattern = "/v1/jobs/{id}/plans/{generation}"},
    {.method = "HEAD", .pattern = "/v1/models"},
    {.method = "GET", .pattern = "/v1/models"},
    {.method = "PUT",
     .pattern = "/peer/v1/{job}/{generation}/{step}/{micro_batch}/{boundary}/{kind}"},
};
#define ROUTE_COUNT (sizeof(routes) / sizeof(routes[0]))

static struct http_match find(const char *method, const char *target, struct http_url *url)
{
    struct http_match match;
    http_url_parse(url, target);
    assert_null(url->fault);
    http_route_find(routes, ROUTE_COUNT, url, method, &match);
    return match;
}

static void a_route_is_found_by_method_and_pattern(void **state)
{
    (void)state;
    static const struct {
        const char *method, *target;
        int index; /* -1: none */
    } cases[] = {
        {"GET", "/", 0},
        {"GET", "/?a=1", 0},
        {"GET", "/v1/jobs", 1},
        {"POST", "/v1/jobs?dry_run=true", 2},
        {"GET", "/v1/jobs/job_1", 3},
        {"DELETE", "/v1/jobs/job_1", 4},
        {"GET", "/v1/jobs/job_1/plans/7", 5},
        {"GET", "/v1/%6aobs/x", 3},
        {"HEAD", "/v1/jobs", 1},
        {"HEAD", "/v1/models", 6},
        {"PUT", "/peer/v1/job_1/7/1200/3/2/activation", 8},
        {"GET", "/v1/jobs/", -1},
        {"GET", "/v1/jobs//plans/7", -1},
        {"GET", "/v1/jobs/a%2Fb", -1},
        {"GET", "//v1/jobs", -1},
        {"GET", "/v1", -1},
        {"GET", "/v1/jobs/job_1/plans", -1},
        {"GET", "/V1/jobs", -1},
        {"get", "/v1/jobs", -1},
        {"HEAD", "/peer/v1/job_1/7/1200/3/2/activation", -1},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct http_url url;
        struct http_match match = find(cases[i].method, cases[i].target, &url);
        const struct http_route *expected = cases[i].index < 0 ? NULL : &routes[cases[i].index];
        assert_ptr_equal(match.route, expected);
    }
}

static void the_methods_of_a_known_path_are_named(void **state)
{
    (void)state;
    struct http_url url;
    struct http_match match = find("PATCH", "/v1/jobs/x", &url);
    assert_null(match.route);
    assert_string_equal(match.allow, "GET, HEAD, DELETE");
    match = find("PATCH", "/v1/nothing", &url);
    assert_null(match.route);
    assert_string_equal(match.allow, "");
}

static void params_are_decoded_texts_of_the_path(void **state)
{
    (void)state;
    struct http_url url;
    struct http_match match = find("GET", "/v1/jobs/gr%C3%BC%20%41+b/plans/7?generation=9", &url);
    const char *pattern = match.route->pattern;
    assert_string_equal(http_route_param(pattern, &url, "id"), "gr\xc3\xbc A+b");
    assert_string_equal(http_route_param(pattern, &url, "generation"), "7");
    assert_null(http_route_param(pattern, &url, "plans"));
    assert_null(http_route_param(pattern, &url, "i"));
    assert_string_equal(url.path, "/v1/jobs/gr%C3%BC%20%41+b/plans/7");
}

static void queries_are_split_into_decoded_names_and_values(void **state)
{
    (void)state;
    struct http_url url;
    http_url_parse(&url, "/x?after=3&&wait=30&flag&empty=&a%26b=c%3Dd+e&q=1=2");
    assert_null(url.fault);
    static const char *const expected[][2] = {
        {"after", "3"}, {"wait", "30"}, {"flag", ""}, {"empty", ""}, {"a&b", "c=d e"}, {"q", "1=2"},
    };
    assert_int_equal(url.query_count, sizeof(expected) / sizeof(expected[0]));
    for (size_t i = 0; i < url.query_count; i++) {
        assert_string_equal(url.query[i].name, expected[i][0]);
        assert_string_equal(url.query[i].value, expected[i][1]);
    }
    http_url_parse(&url, "/x?");
    assert_null(url.fault);
    assert_int_equal(url.query_count, 0);
}

static void a_broken_url_is_a_fault_with_a_path_to_show(void **state)
{
    (void)state;
    static const struct {
        const char *target, *fault, *path;
    } cases[] = {
        {"*", "not a path", "*"},
        {"http://host/x", "not a path", "http://host/x"},
        {"", "not a path", ""},
        {"/a%", "path is not percent-encoded", "/a%"},
        {"/a%4", "path is not percent-encoded", "/a%4"},
        {"/a%zz", "path is not percent-encoded", "/a%zz"},
        {"/a%00b", "path is not percent-encoded", "/a%00b"},
        {"/a%0Ab", "path is not percent-encoded", "/a%0Ab"},
        {"/a%7F", "path is not percent-encoded", "/a%7F"},
        {"/a%FF", "path is not percent-encoded", "/a%FF"},
        {"/a\xff", "path is not percent-encoded", "/a?"},
        {"/a\x01", "path is not percent-encoded", "/a?"},
        {"/a?limit=1&limit=600", "given twice", "/a"},
        {"/a?b=1&%62", "given twice", "/a"},
        {"/a?=1", "has no name", "/a"},
        {"/a b", "has a space", "/a b"},
        {"/a?b= c", "has a space", "/a"},
        {"/a?b=%C3", "query is not percent-encoded", "/a"},
        {"/a?%C3=b", "query is not percent-encoded", "/a"},
        {"/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17", "too many segments",
         "/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17"},
        {"/a?1&2&3&4&5&6&7&8&9&10&11&12&13&14&15&16&17", "too many parameters", "/a"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct http_url url;
        http_url_parse(&url, cases[i].target);
        assert_non_null(url.fault);
        assert_holds(url.fault, cases[i].fault);
        assert_string_equal(url.path, cases[i].path);
        assert_int_equal(url.segment_count, 0);
        assert_int_equal(url.query_count, 0);
    }
}

static void the_length_of_a_url_is_bounded(void **state)
{
    (void)state;
    char target[HTTP_URL_MAX + 100];
    memset(target, 'a', sizeof(target));
    target[0] = '/';
    struct http_url url;
    target[HTTP_URL_MAX - 1] = '\0';
    http_url_parse(&url, target);
    assert_null(url.fault);
    assert_string_equal(url.segment[0], target + 1);

    target[HTTP_URL_MAX - 1] = 'a';
    target[sizeof(target) - 1] = '\0';
    http_url_parse(&url, target);
    assert_holds(url.fault, "longer than 2047 bytes");
    assert_int_equal(strlen(url.path), HTTP_URL_MAX - 1);
}

static void ranges_are_clamped_to_the_content(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        uint64_t size;
        int verdict;
        uint64_t offset, length;
    } cases[] = {
        {NULL, 100, 0, 0, 100},
        {NULL, 0, 0, 0, 0},
        {"bytes=0-0", 100, 1, 0, 1},
        {"bytes=0-99", 100, 1, 0, 100},
        {"bytes=10-19", 100, 1, 10, 10},
        {"bytes=90-", 100, 1, 90, 10},
        {"bytes=90-1000", 100, 1, 90, 10},
        {"bytes=99-9223372036854775807", 100, 1, 99, 1},
        {"bytes=-10", 100, 1, 90, 10},
        {"bytes=-1000", 100, 1, 0, 100},
        {"bytes=100-", 100, -1, 0, 0},
        {"bytes=0-", 0, -1, 0, 0},
        {"bytes=-1", 0, -1, 0, 0},
        {"bytes=-0", 100, -1, 0, 0},
        {"bytes=20-10", 100, -1, 0, 0},
        {"bytes=-", 100, -1, 0, 0},
        {"bytes=", 100, -1, 0, 0},
        {"bytes=1", 100, -1, 0, 0},
        {"bytes=a-b", 100, -1, 0, 0},
        {"bytes=1-2,4-5", 100, -1, 0, 0},
        {"bytes= 1-2", 100, -1, 0, 0},
        {"bytes=1-2 ", 100, -1, 0, 0},
        {"bytes=18446744073709551615-", 100, -1, 0, 0},
        {"bytes=99999999999999999999999-", 100, -1, 0, 0},
        {"bytes=0-99999999999999999999999", 100, -1, 0, 0},
        {"items=0-1", 100, -1, 0, 0},
        {"", 100, -1, 0, 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint64_t offset = 0;
        uint64_t length = 0;
        assert_int_equal(http_parse_range(cases[i].header, cases[i].size, &offset, &length),
                         cases[i].verdict);
        assert_int_equal(offset, cases[i].offset);
        assert_int_equal(length, cases[i].length);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_route_is_found_by_method_and_pattern),
        cmocka_unit_test(the_methods_of_a_known_path_are_named),
        cmocka_unit_test(params_are_decoded_texts_of_the_path),
        cmocka_unit_test(queries_are_split_into_decoded_names_and_values),
        cmocka_unit_test(a_broken_url_is_a_fault_with_a_path_to_show),
        cmocka_unit_test(the_length_of_a_url_is_bounded),
        cmocka_unit_test(ranges_are_clamped_to_the_content),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
