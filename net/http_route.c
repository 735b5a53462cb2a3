#include "net/http_route.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "base/utf8.h"

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    char lower = (char)(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

static bool is_clean(const char *text)
{
    size_t left = strlen(text);
    while (left > 0) {
        size_t size = utf8_sequence(text, left);
        if (size == 0 || (unsigned char)*text < 0x20 || *text == 0x7f) {
            return false;
        }
        text += size;
        left -= size;
    }
    return true;
}

/* Undo percent-encoding in place. False for a broken escape, a control character or
 * invalid UTF-8. */
static bool decode(char *text, bool plus_is_space)
{
    char *to = text;
    for (const char *from = text; *from; from++) {
        char c = *from;
        if (c == '+' && plus_is_space) {
            c = ' ';
        } else if (c == '%') {
            int high = hex_digit(from[1]);
            int low = high < 0 ? -1 : hex_digit(from[2]);
            if (low < 0 || (high == 0 && low == 0)) {
                return false;
            }
            c = (char)(high << 4 | low);
            from += 2;
        }
        *to++ = c;
    }
    *to = '\0';
    return is_clean(text);
}

/* End the text before the next `separator` and return what follows it, or NULL. */
static char *cut(char *text, char separator)
{
    char *end = strchr(text, separator);
    if (!end) {
        return NULL;
    }
    *end = '\0';
    return end + 1;
}

static const char *parse_path(struct http_url *url, char *path)
{
    if (path[0] != '/') {
        return "the request target is not a path";
    }
    for (char *segment = path + 1; segment;) {
        char *next = cut(segment, '/');
        if (url->segment_count == HTTP_SEGMENTS_MAX) {
            return "the path has too many segments";
        }
        if (!decode(segment, false)) {
            return "the path is not percent-encoded UTF-8";
        }
        url->segment[url->segment_count++] = segment;
        segment = next;
    }
    return NULL;
}

static bool is_asked(const struct http_url *url, const char *name)
{
    for (size_t i = 0; i < url->query_count; i++) {
        if (strcmp(url->query[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

static const char *parse_query(struct http_url *url, char *query)
{
    for (char *name = query; name;) {
        char *next = cut(name, '&');
        char *value = cut(name, '=');
        if (name[0] != '\0' || value) {
            if (url->query_count == HTTP_QUERY_MAX) {
                return "the query has too many parameters";
            }
            if (!decode(name, true) || (value && !decode(value, true))) {
                return "the query is not percent-encoded UTF-8";
            }
            if (name[0] == '\0') {
                return "a query parameter has no name";
            }
            if (is_asked(url, name)) {
                (void)snprintf(url->fault_text, sizeof(url->fault_text),
                               "query parameter '%.60s' is given twice", name);
                utf8_repair_line(url->fault_text);
                return url->fault_text;
            }
            url->query[url->query_count].name = name;
            url->query[url->query_count].value = value ? value : name + strlen(name);
            url->query_count++;
        }
        name = next;
    }
    return NULL;
}

void http_url_parse(struct http_url *url, const char *target)
{
    url->segment_count = 0;
    url->query_count = 0;
    size_t size = strlen(target);
    size_t shown = strcspn(target, "?");
    shown = shown < HTTP_URL_MAX ? shown : HTTP_URL_MAX - 1;
    memcpy(url->path, target, shown);
    url->path[shown] = '\0';
    utf8_repair_line(url->path);
    if (size >= HTTP_URL_MAX) {
        url->fault = "the URL is longer than 2047 bytes";
        return;
    }
    if (strchr(target, ' ')) {
        url->fault = "the URL has a space";
        return;
    }
    memcpy(url->text, target, size + 1);
    char *query = cut(url->text, '?');
    url->fault = parse_path(url, url->text);
    if (!url->fault) {
        url->fault = parse_query(url, query);
    }
    if (url->fault) {
        url->segment_count = 0;
        url->query_count = 0;
    }
}

/* One segment of a pattern: the text between two slashes. */
struct part {
    const char *text;
    size_t size;
};

/* The pattern's next segment; false after the last. *rest starts at the pattern's first slash. */
static bool next_part(const char **rest, struct part *out)
{
    if (**rest != '/') {
        return false;
    }
    out->text = *rest + 1;
    out->size = strcspn(out->text, "/");
    *rest = out->text + out->size;
    return true;
}

static bool is_param(struct part part)
{
    return part.size > 2 && part.text[0] == '{' && part.text[part.size - 1] == '}';
}

static bool part_matches(struct part part, const char *segment)
{
    if (is_param(part)) {
        return segment[0] != '\0' && !strchr(segment, '/');
    }
    return strlen(segment) == part.size && memcmp(segment, part.text, part.size) == 0;
}

static bool pattern_matches(const char *pattern, const struct http_url *url)
{
    size_t index = 0;
    for (struct part part; next_part(&pattern, &part); index++) {
        if (index == url->segment_count || !part_matches(part, url->segment[index])) {
            return false;
        }
    }
    return index == url->segment_count;
}

static void allow(struct http_match *match, const char *method)
{
    size_t used = strlen(match->allow);
    int size =
        snprintf(match->allow + used, sizeof(match->allow) - used, used ? ", %s" : "%s", method);
    if (size < 0 || (size_t)size >= sizeof(match->allow) - used) {
        match->allow[used] = '\0';
    }
}

void http_route_find(const struct http_route *routes, size_t route_count,
                     const struct http_url *url, const char *method, struct http_match *out)
{
    *out = (struct http_match){0};
    const struct http_route *get = NULL;
    for (size_t i = 0; i < route_count; i++) {
        if (!pattern_matches(routes[i].pattern, url)) {
            continue;
        }
        if (strcmp(routes[i].method, method) == 0) {
            out->route = &routes[i];
            return;
        }
        allow(out, routes[i].method);
        if (strcmp(routes[i].method, "GET") == 0) {
            get = get ? get : &routes[i];
            allow(out, "HEAD");
        }
    }
    if (get && strcmp(method, "HEAD") == 0) {
        out->route = get;
    }
}

const char *http_route_param(const char *pattern, const struct http_url *url, const char *name)
{
    size_t size = strlen(name);
    size_t index = 0;
    for (struct part part; next_part(&pattern, &part) && index < url->segment_count; index++) {
        if (is_param(part) && part.size == size + 2 && memcmp(part.text + 1, name, size) == 0) {
            return url->segment[index];
        }
    }
    return NULL;
}

/* "A-B", "A-" or "-N" in decimal digits. UINT64_MAX: the number is missing. */
static bool parse_span(const char *text, uint64_t *first, uint64_t *last)
{
    uint64_t number[2] = {UINT64_MAX, UINT64_MAX};
    for (int i = 0; i < 2; i++) {
        char digits[20];
        size_t size = strspn(text, "0123456789");
        if (size >= sizeof(digits)) {
            return false;
        }
        memcpy(digits, text, size);
        digits[size] = '\0';
        int64_t value = 0;
        if (size > 0 && parse_i64(digits, 0, INT64_MAX, &value, NULL)) {
            return false;
        }
        number[i] = size > 0 ? (uint64_t)value : UINT64_MAX;
        text += size;
        if (*text != (i == 0 ? '-' : '\0')) {
            return false;
        }
        text += i == 0;
    }
    *first = number[0];
    *last = number[1];
    return *first != UINT64_MAX || *last != UINT64_MAX;
}

int http_parse_range(const char *header, uint64_t size, uint64_t *offset, uint64_t *length)
{
    static const char unit[] = "bytes=";
    uint64_t first = 0;
    uint64_t last = 0;
    if (!header) {
        *offset = 0;
        *length = size;
        return 0;
    }
    if (strncmp(header, unit, sizeof(unit) - 1) != 0 ||
        !parse_span(header + sizeof(unit) - 1, &first, &last)) {
        return -1;
    }
    if (first == UINT64_MAX) {
        /* The last N bytes. */
        if (last == 0 || size == 0) {
            return -1;
        }
        *length = last < size ? last : size;
        *offset = size - *length;
        return 1;
    }
    if (first >= size || last < first) {
        return -1;
    }
    *offset = first;
    *length = (last < size ? last + 1 : size) - first;
    return 1;
}
