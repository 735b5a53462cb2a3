/* Request targets, Range headers and whole headers under any bytes. Decoded text can be shown,
 * logged and stored; a range lies within its content; a header is judged alike in one piece and in
 * two. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/utf8.h"
#include "net/http_head.h"
#include "net/http_route.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct http_route routes[] = {
    {.method = "GET", .pattern = "/v1/jobs"},
    {.method = "POST", .pattern = "/v1/jobs/{id}/pause"},
    {.method = "GET", .pattern = "/v1/jobs/{id}/plans/{generation}"},
    {.method = "PUT", .pattern = "/{any}/{thing}"},
};
#define ROUTE_COUNT (sizeof(routes) / sizeof(routes[0]))

static void check_text(const char *text)
{
    size_t left = strlen(text);
    while (left > 0) {
        size_t length = utf8_sequence(text, left);
        ASSERT(length > 0 && (uint8_t)*text >= 0x20 && *text != 0x7F);
        text += length;
        left -= length;
    }
}

static void check_url(const struct http_url *url)
{
    static const char *const names[] = {"id", "generation", "any", "thing"};
    check_text(url->path);
    ASSERT(url->segment_count <= HTTP_SEGMENTS_MAX && url->query_count <= HTTP_QUERY_MAX);
    for (size_t i = 0; i < url->segment_count; i++) {
        check_text(url->segment[i]);
    }
    for (size_t i = 0; i < url->query_count; i++) {
        check_text(url->query[i].name);
        check_text(url->query[i].value);
    }
    struct http_match match;
    http_route_find(routes, ROUTE_COUNT, url, "GET", &match);
    for (size_t i = 0; match.route && i < sizeof(names) / sizeof(names[0]); i++) {
        const char *value = http_route_param(match.route->pattern, url, names[i]);
        ASSERT(!value || (value[0] != '\0' && !strchr(value, '/')));
    }
}

static void check_head(const char *data, size_t size)
{
    struct http_head whole = {0};
    struct http_head pieces = {0};
    http_head_scan(&whole, data, size);
    http_head_scan(&pieces, data, size / 3);
    http_head_scan(&pieces, data + size / 3, size - size / 3);
    ASSERT(whole.part == pieces.part && whole.size == pieces.size && whole.fault == pieces.fault);
    ASSERT(whole.size <= size && (!whole.fault || whole.part == HEAD_OVER));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint64_t contents[] = {0, 1, 1000, INT64_MAX};
    char *text = malloc(size + 1);
    struct http_url *url = calloc(1, sizeof(*url));
    ASSERT(text && url);
    if (size > 0) {
        memcpy(text, data, size);
    }
    text[size] = '\0';
    http_url_parse(url, text);
    check_url(url);
    for (size_t i = 0; i < sizeof(contents) / sizeof(contents[0]); i++) {
        uint64_t offset = 0;
        uint64_t length = 0;
        if (http_parse_range(text, contents[i], &offset, &length) >= 0) {
            ASSERT(length > 0 && offset < contents[i] && length <= contents[i] - offset);
        }
    }
    check_head((const char *)data, size);
    free(url);
    free(text);
    return 0;
}
