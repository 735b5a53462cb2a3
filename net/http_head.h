/* http_head.h: checks that the bytes of a request's header follow RFC 9112, in pieces and before
 * libmicrohttpd reads them. libmicrohttpd ends a header at an empty name, truncates values at a
 * NUL, joins folded lines, and answers invalid requests with a page of its own. For net only (and
 * its tests and fuzzers). Pure; any thread. */
#ifndef NET_HTTP_HEAD_H
#define NET_HTTP_HEAD_H

#include <stdbool.h>
#include <stddef.h>

/* Request line and headers, plus libmicrohttpd's own memory for every header: they fit into the 32
 * KiB of a connection and leave room for the reply's headers. */
#define HTTP_HEAD_MAX ((size_t)28 << 10)
#define HTTP_HEAD_LINE_EXTRA 64

enum http_head_part {
    HEAD_START,  /* empty lines may precede the request line */
    HEAD_METHOD, /* the parts of the request line */
    HEAD_TARGET,
    HEAD_VERSION,
    HEAD_LINE, /* the first byte of a line */
    HEAD_NAME,
    HEAD_VALUE,
    HEAD_OVER, /* complete, or at fault */
};

struct http_head {
    enum http_head_part part;
    size_t size;       /* bytes seen */
    size_t word_size;  /* of the target, then of the version */
    size_t lines;      /* headers begun */
    size_t name_size;  /* of the present header */
    bool is_length;    /* its name so far is that of Content-Length */
    size_t digits;     /* of its value */
    bool carriage;     /* the byte before was a CR */
    const char *fault; /* one sentence; NULL: none so far */
};

/* Check the next bytes. An all-zero struct begins a header. Bytes after the header's end, or after
 * a fault, are ignored. */
void http_head_scan(struct http_head *head, const char *data, size_t size);

/* Return whether names of headers and methods may have the character (RFC 9110, 5.6.2). */
bool http_head_is_token(char c);
/* Return whether a value may have the character: no control character except the tab (RFC 9110,
 * 5.5). */
bool http_head_is_value(char c);

#endif
