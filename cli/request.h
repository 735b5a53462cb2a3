/* request.h: the HTTP request that a command line asks for, and the same as a curl command. The
 * names in the command line have been resolved to ids. Reads no file. Pure. */
#ifndef CLI_REQUEST_H
#define CLI_REQUEST_H

#include "base/buf.h"
#include "cli/invocation.h"

#define REQUEST_TARGET_SIZE 4096
#define REQUEST_PAGE_ITEMS 500 /* of a list: as many as the API allows */

struct request {
    const char *method;
    char target[REQUEST_TARGET_SIZE]; /* path and query, percent-encoded */
    const char *file;  /* of the body; "-": standard input; NULL: none, or replaced by fields */
    struct buf fields; /* a JSON body; empty: none */
    const char
        *archive; /* the command that writes the body's archive; NULL: `file` is no directory */
};

/* Build the request. `base`: the content of the JSON file of a command with BODY_FIELDS, or "". It
 * is the body as it stands unless options add fields. request_done is due afterwards. ERR_INVALID:
 * an option does not fit. */
NODISCARD int request_build(const struct invocation *call, const char *base, size_t base_size,
                            struct request *out, struct err *err);
void request_done(struct request *request);
/* Return the file argument of the command, NULL: none was given. */
const char *request_file(const struct invocation *call);
/* Where and as whom a curl command asks. */
struct request_target {
    const char *server;
    bool with_token; /* by name, never by value */
    const char *ca;  /* file of trusted certificates; "": the system's */
};
/* Append "curl" with the options of every request. */
NODISCARD int request_curl_begin(const struct request_target *target, struct buf *out,
                                 struct err *err);
/* Append the curl command, one line. */
NODISCARD int request_curl(const struct request *request, const struct invocation *call,
                           const struct request_target *target, struct buf *out, struct err *err);

#endif
