#include "net/relay_preface.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/assert.h"
#include "base/parse.h"

static const char end_of_preface[] = "\r\n\r\n";
static const char *const verb_names[] = {[RELAY_PARK] = "PARK", [RELAY_CALL] = "CONNECT"};

struct line {
    const char *text;
    size_t size;
};

/* Take off the first line, without its line end. The last line of a preface has a line end too. */
static struct line next_line(const char **at, const char *end)
{
    struct line line = {*at, 0};
    while (line.text + line.size + 1 < end && memcmp(line.text + line.size, "\r\n", 2) != 0) {
        line.size++;
    }
    *at = line.text + line.size + 2;
    return line;
}

/* Take off the text up to a space. */
static struct line next_word(struct line *rest)
{
    struct line word = {rest->text, 0};
    while (word.size < rest->size && word.text[word.size] != ' ') {
        word.size++;
    }
    const size_t used = word.size + (word.size < rest->size);
    *rest = (struct line){rest->text + used, rest->size - used};
    return word;
}

static bool is_text(struct line line, const char *text)
{
    return line.size == strlen(text) && memcmp(line.text, text, line.size) == 0;
}

static bool copy_word(struct line word, const char *alphabet, char *out, size_t size)
{
    if (word.size == 0 || word.size >= size) {
        return false;
    }
    memcpy(out, word.text, word.size);
    out[word.size] = '\0';
    return strspn(out, alphabet) == word.size;
}

static bool read_name(struct line target, enum relay_verb verb, char out[RELAY_NAME_SIZE])
{
    const char *port = verb == RELAY_CALL ? memchr(target.text, ':', target.size) : NULL;
    if (port) {
        target.size = (size_t)(port - target.text);
    }
    return (port || verb == RELAY_PARK) &&
           copy_word(target, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-",
                     out, RELAY_NAME_SIZE);
}

static bool read_request(struct line line, struct relay_preface *out)
{
    const struct line method = next_word(&line), target = next_word(&line);
    if (is_text(method, verb_names[RELAY_PARK])) {
        out->verb = RELAY_PARK;
    } else if (is_text(method, verb_names[RELAY_CALL])) {
        out->verb = RELAY_CALL;
    } else {
        return false;
    }
    return (is_text(line, "HTTP/1.1") || is_text(line, "HTTP/1.0")) &&
           read_name(target, out->verb, out->name);
}

/* The ticket of a header line; false: another header. */
static bool read_ticket(struct line line, char out[HASH_TEXT_SIZE])
{
    static const char header[] = "Proxy-Authorization: Bearer ";
    const size_t size = sizeof(header) - 1;
    if (line.size <= size || strncasecmp(line.text, header, size) != 0) {
        return false;
    }
    return copy_word((struct line){line.text + size, line.size - size}, "0123456789abcdef", out,
                     HASH_TEXT_SIZE);
}

int relay_preface_read(const char *bytes, size_t size, struct relay_preface *out, struct err *err)
{
    /* Read no further than the longest preface, so that the result does not depend on the pieces
     * in which the bytes arrive. */
    const size_t most = size < RELAY_PREFACE_BYTES ? size : RELAY_PREFACE_BYTES;
    const char *blank = memmem(bytes, most, end_of_preface, sizeof(end_of_preface) - 1);
    if (!blank) {
        return size < RELAY_PREFACE_BYTES
                   ? 0
                   : err_set(err, ERR_LIMIT, "no end within %d bytes", RELAY_PREFACE_BYTES);
    }
    const char *at = bytes, *end = blank + 2;
    struct relay_preface preface = {.ticket = ""};
    if (memchr(bytes, '\0', size) || !read_request(next_line(&at, end), &preface)) {
        return err_set(err, ERR_FORMAT, "expected PARK NAME or CONNECT NAME:PORT");
    }
    bool found = false;
    while (!found && at < end) {
        found = read_ticket(next_line(&at, end), preface.ticket);
    }
    if (!found) {
        return err_set(err, ERR_FORMAT, "expected 'Proxy-Authorization: Bearer TICKET'");
    }
    *out = preface;
    return (int)(blank - bytes) + (int)(sizeof(end_of_preface) - 1);
}

size_t relay_preface_park(const char *name, const char *ticket, char out[RELAY_PREFACE_BYTES])
{
    const int size = snprintf(out, RELAY_PREFACE_BYTES,
                              "%s %s HTTP/1.1\r\nProxy-Authorization: Bearer %s\r\n\r\n",
                              verb_names[RELAY_PARK], name, ticket);
    ASSERT(size > 0 && size < RELAY_PREFACE_BYTES);
    return (size_t)size;
}

void relay_key(const uint8_t secret[HASH_SIZE], const char *plan, uint8_t out[HASH_SIZE])
{
    char text[RELAY_NAME_SIZE + 16], hex[HASH_TEXT_SIZE];
    const int size = snprintf(text, sizeof(text), "relay|%s", plan);
    ASSERT(size > 0 && (size_t)size < sizeof(text));
    hmac_text(secret, text, hex);
    ASSERT(parse_hex(hex, out, HASH_SIZE, NULL) == 0);
}

void relay_ticket(const uint8_t key[HASH_SIZE], enum relay_verb verb, const char *name,
                  char out[HASH_TEXT_SIZE])
{
    char text[RELAY_NAME_SIZE + 16];
    const int size = snprintf(text, sizeof(text), "%s|%s", verb_names[verb], name);
    ASSERT(size > 0 && (size_t)size < sizeof(text));
    hmac_text(key, text, out);
}
