/* http_route.h: splits a request's URL into decoded path segments and query parameters, and finds
 * its route. For net only (and its tests and fuzzers). Pure; any thread.
 *
 * Every decoded text is valid UTF-8 without control characters: it can be shown, logged and stored
 * unchanged. */
#ifndef NET_HTTP_ROUTE_H
#define NET_HTTP_ROUTE_H

#include <stdbool.h>
#include <stddef.h>

#include "net/http_server.h"

#define HTTP_URL_MAX 2048 /* bytes of path and query, with the NUL */
#define HTTP_SEGMENTS_MAX 16
#define HTTP_QUERY_MAX 16
#define HTTP_ALLOW_MAX 64

struct http_url {
    char path[HTTP_URL_MAX]; /* as sent, without the query; unprintable bytes are '?' */
    char text[HTTP_URL_MAX]; /* segments and parameters, decoded in place */
    const char *segment[HTTP_SEGMENTS_MAX];
    size_t segment_count;
    struct {
        const char *name, *value;
    } query[HTTP_QUERY_MAX];
    size_t query_count;
    char fault_text[96];
    const char *fault; /* NULL, or why the request is answered by `bad_request` */
};

/* Parse a request target. After a fault `path` is usable and the rest is empty. */
void http_url_parse(struct http_url *url, const char *target);

/* The route for a URL and a method. A GET route also serves HEAD, unless HEAD has a route of its
 * own. */
struct http_match {
    const struct http_route *route; /* NULL: none */
    char allow[HTTP_ALLOW_MAX];     /* methods of the matching routes; "": no pattern matches */
};
void http_route_find(const struct http_route *routes, size_t route_count,
                     const struct http_url *url, const char *method, struct http_match *out);

/* Return the value of {name} in the pattern, which must match. NULL: the pattern has no {name}. */
const char *http_route_param(const char *pattern, const struct http_url *url, const char *name);

#endif
