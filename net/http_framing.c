#include <string.h>
#include <strings.h>

#include "net/http_exchange.h"

/* What matters of the headers to where the request ends and whom it is for. */
struct framing {
    size_t hosts, lengths, encodings;
    bool not_chunked;
    const char *fault;
};

/* RFC 9110, 5.6.2. */
static bool is_token(const char *text, size_t size)
{
    static const char marks[] = "!#$%&'*+-.^_`|~";
    for (size_t i = 0; i < size; i++) {
        const char c = text[i];
        const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!letter && (c == '\0' || !strchr(marks, c))) {
            return false;
        }
    }
    return size > 0;
}

/* RFC 9110, 5.5: no control characters but the tabulator. */
static bool is_value(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        const unsigned char c = (unsigned char)text[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f) {
            return false;
        }
    }
    return true;
}

static bool is_named(const char *name, size_t size, const char *wanted)
{
    return size == strlen(wanted) && strncasecmp(name, wanted, size) == 0;
}

static enum MHD_Result look(void *arg, enum MHD_ValueKind kind, const char *name, size_t name_size, const char *value,
                            size_t value_size)
{
    (void)kind;
    struct framing *framing = arg;
    if (!is_token(name, name_size)) {
        framing->fault = "the name of a header is empty or has a character that none may have";
    } else if (!is_value(value, value_size)) {
        framing->fault = "the value of a header has a control character";
    } else if (is_named(name, name_size, MHD_HTTP_HEADER_HOST)) {
        framing->hosts++;
    } else if (is_named(name, name_size, MHD_HTTP_HEADER_CONTENT_LENGTH)) {
        framing->lengths++;
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
        return framing.hosts ? "the request has more than one Host header" : "the request has no Host header";
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
