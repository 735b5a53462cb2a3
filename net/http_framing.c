#include "net/http_framing.h"

#include <string.h>
#include <strings.h>

#include "base/parse.h"
#include "net/http_head.h"

/* Counts of the headers that decide where the request ends, which host it addresses and who sends
 * it. */
struct framing {
    size_t hosts, lengths, encodings, authorizations;
    bool not_chunked;
    const char *fault;
};

static bool consists_of(const char *text, size_t size, bool (*is)(char c))
{
    for (size_t i = 0; i < size; i++) {
        if (!is(text[i])) {
            return false;
        }
    }
    return true;
}

static bool is_named(const char *name, size_t size, const char *wanted)
{
    return size == strlen(wanted) && strncasecmp(name, wanted, size) == 0;
}

static enum MHD_Result look(void *arg, enum MHD_ValueKind kind, const char *name, size_t name_size,
                            const char *value, size_t value_size)
{
    (void)kind;
    struct framing *framing = arg;
    if (name_size == 0 || !consists_of(name, name_size, http_head_is_token)) {
        framing->fault = "the name of a header is empty or has a character that none may have";
    } else if (!consists_of(value, value_size, http_head_is_value)) {
        framing->fault = "the value of a header has a control character";
    } else if (is_named(name, name_size, MHD_HTTP_HEADER_HOST)) {
        framing->hosts++;
    } else if (is_named(name, name_size, MHD_HTTP_HEADER_AUTHORIZATION)) {
        framing->authorizations++;
    } else if (is_named(name, name_size, MHD_HTTP_HEADER_CONTENT_LENGTH)) {
        framing->lengths++;
        int64_t length;
        if (parse_i64(value, 0, INT64_MAX, &length, NULL)) {
            framing->fault = "the Content-Length is not a number, or is too large";
        }
    } else if (is_named(name, name_size, MHD_HTTP_HEADER_TRANSFER_ENCODING)) {
        framing->encodings++;
        framing->not_chunked = !is_named(value, value_size, "chunked");
    }
    return framing->fault ? MHD_NO : MHD_YES;
}

const char *http_framing_fault(struct MHD_Connection *connection, const char *version)
{
    struct framing framing = {0};
    (void)MHD_get_connection_values_n(connection, MHD_HEADER_KIND, look, &framing);
    if (framing.fault) {
        return framing.fault;
    }
    if (framing.hosts > 1 || (framing.hosts == 0 && strcmp(version, MHD_HTTP_VERSION_1_0) != 0)) {
        return framing.hosts ? "the request has more than one Host header"
                             : "the request has no Host header";
    }
    if (framing.authorizations > 1) {
        return "the request has more than one Authorization header";
    }
    if (framing.lengths > 1 || (framing.lengths > 0 && framing.encodings > 0)) {
        return framing.encodings ? "the request has a Content-Length and a Transfer-Encoding"
                                 : "the request has more than one Content-Length";
    }
    if (framing.encodings > 1 || framing.not_chunked) {
        return "the Transfer-Encoding is not 'chunked'";
    }
    return NULL;
}
