#include "net/http_head.h"

#include <string.h>

/* The digits of 2^63. */
#define LENGTH_DIGITS_MAX 19

static const char length_name[] = "content-length";

bool http_head_is_token(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("!#$%&'*+-.^_`|~", c));
}

bool http_head_is_value(char c)
{
    return ((unsigned char)c >= 0x20 || c == '\t') && c != 0x7f;
}

static const char *end_line(struct http_head *head)
{
    switch (head->part) {
    case HEAD_START: return NULL;
    case HEAD_METHOD:
    case HEAD_TARGET: return "the request line is not METHOD TARGET HTTP/1.1";
    case HEAD_VERSION:
        if (head->word_size != strlen("HTTP/1.1")) {
            return "the request line does not end with HTTP/1.1";
        }
        head->part = HEAD_LINE;
        return NULL;
    case HEAD_LINE: head->part = HEAD_OVER; return NULL;
    case HEAD_NAME: return "a header has no colon";
    case HEAD_VALUE:
        head->part = HEAD_LINE;
        return head->is_length && (head->digits == 0 || head->digits > LENGTH_DIGITS_MAX)
                   ? "the Content-Length is not a number, or is too large"
                   : NULL;
    case HEAD_OVER: return NULL;
    }
    return NULL;
}

static const char *take_method(struct http_head *head, char c)
{
    const bool begins = head->part == HEAD_START;
    head->part = !begins && c == ' ' ? HEAD_TARGET : HEAD_METHOD;
    return http_head_is_token(c) || head->part == HEAD_TARGET
               ? NULL
               : "the request line does not begin with a method";
}

static const char *take_target(struct http_head *head, char c)
{
    if (c == ' ' && head->word_size > 0) {
        head->part = HEAD_VERSION;
        head->word_size = 0;
        return NULL;
    }
    head->word_size++;
    return http_head_is_value(c) && c != '\t' && c != ' '
               ? NULL
               : "the URL is empty or has a control character";
}

static const char *take_version(struct http_head *head, char c)
{
    static const char form[] = "HTTP/1.";
    const size_t at = head->word_size++;
    const bool fits =
        at < sizeof(form) - 1 ? c == form[at] : at == sizeof(form) - 1 && (c == '0' || c == '1');
    return fits ? NULL : "the version is not HTTP/1.1 or HTTP/1.0, or the URL has a space";
}

static const char *take_name(struct http_head *head, char c)
{
    const bool begins = head->part == HEAD_LINE;
    if (begins && (c == ' ' || c == '\t')) {
        return "a header is folded over several lines";
    }
    if (begins) {
        head->name_size = head->digits = 0;
        head->is_length = true;
        head->lines++;
    }
    if (!begins && c == ':') {
        head->part = HEAD_VALUE;
        head->is_length &= head->name_size == sizeof(length_name) - 1;
        return NULL;
    }
    head->part = HEAD_NAME;
    head->is_length &= head->name_size < sizeof(length_name) - 1 &&
                       (c | 0x20) == (length_name[head->name_size] | 0x20);
    head->name_size++;
    return http_head_is_token(c)
               ? NULL
               : "the name of a header is empty or has a character that none may have";
}

static const char *take_value(struct http_head *head, char c)
{
    const bool digit = c >= '0' && c <= '9';
    head->digits += digit;
    if (head->is_length && !digit && (head->digits > 0 || (c != ' ' && c != '\t'))) {
        return "the Content-Length is not a number";
    }
    return http_head_is_value(c) ? NULL : "the value of a header has a control character";
}

static const char *take(struct http_head *head, char c)
{
    switch (head->part) {
    case HEAD_START:
    case HEAD_METHOD: return take_method(head, c);
    case HEAD_TARGET: return take_target(head, c);
    case HEAD_VERSION: return take_version(head, c);
    case HEAD_LINE:
    case HEAD_NAME: return take_name(head, c);
    case HEAD_VALUE: return take_value(head, c);
    case HEAD_OVER: return NULL;
    }
    return NULL;
}

void http_head_scan(struct http_head *head, const char *data, size_t size)
{
    for (size_t i = 0; i < size && head->part != HEAD_OVER; i++) {
        const char c = data[i];
        const bool after_carriage = head->carriage;
        head->carriage = c == '\r';
        if (++head->size + head->lines * HTTP_HEAD_LINE_EXTRA > HTTP_HEAD_MAX) {
            head->fault = "the header is longer than 28672 bytes, or has too many lines";
        } else if (c == '\n') {
            head->fault = end_line(head); /* a lone line feed ends a line too: RFC 9112, 2.2 */
        } else if (after_carriage) {
            head->fault = "a carriage return is not the end of a line";
        } else if (c != '\r') {
            head->fault = take(head, c);
        }
        if (head->fault) {
            head->part = HEAD_OVER;
        }
    }
}
