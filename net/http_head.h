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
    size_t name_size;  /* of the header at hand */
    bool is_length;    /* it is Content-Length, as far as its name goes */
    size_t digits;     /* of its value */
    bool carriage;     /* the byte before was a CR */
    const char *fault; /* one sentence; NULL: none so far */
};

/* Check the next bytes; all zeroes begin a header. Bytes after its end, or after a fault, are
 * ignored. */
void http_head_scan(struct http_head *head, const char *data, size_t size);

/* RFC 9110, 5.6.2: the characters of names of headers and methods. */
bool http_head_is_token(char c);
/* RFC 9110, 5.5: no control characters but the tabulator. */
bool http_head_is_value(char c);

#endif
