#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/utf8.h"

/* The text is built beside err and moved in at the end: the arguments may point into err->text. */
static void PRINTF_LIKE(3, 0)
    set_text(struct err *err, const char *tail, const char *format, va_list arguments)
{
    char text[ERR_TEXT_MAX];
    int length = vsnprintf(text, sizeof(text), format, arguments);
    if (length < 0) {
        length = snprintf(text, sizeof(text), "%s", format);
    }
    if (tail && (size_t)length < sizeof(text)) {
        length += snprintf(text + length, sizeof(text) - (size_t)length, ": %s", tail);
    }
    if ((size_t)length >= sizeof(text)) {
        utf8_mark_cut(text, sizeof(text));
    }
    utf8_repair_line(text);
    memcpy(err->text, text, sizeof(text));
}

/* The parentheses keep the names apart from the macros that the analyser sees. */
int(err_set)(struct err *err, int code, const char *format, ...)
{
    ASSERT(code < 0);
    if (err) {
        va_list arguments;
        va_start(arguments, format);
        err->code = code;
        set_text(err, NULL, format, arguments);
        va_end(arguments);
    }
    return code;
}

int(err_wrap)(struct err *err, const char *format, ...)
{
    ASSERT(err && err->code < 0);
    va_list arguments;
    va_start(arguments, format);
    set_text(err, err->text, format, arguments);
    va_end(arguments);
    return err->code;
}

int err_from_errno(int errno_value)
{
    switch (errno_value) {
    case ENOSPC:
    case EDQUOT: return ERR_FULL;
    case ENOENT: return ERR_NOT_FOUND;
    case ENOMEM: return ERR_MEMORY;
    default: return ERR_IO;
    }
}

const char *err_name(int code)
{
    static const char *const names[] = {
        [0] = "ok",
        [-ERR_INVALID] = "invalid",
        [-ERR_FORMAT] = "format",
        [-ERR_LIMIT] = "limit",
        [-ERR_NOT_FOUND] = "not_found",
        [-ERR_EXISTS] = "exists",
        [-ERR_STATE] = "state",
        [-ERR_MEMORY] = "memory",
        [-ERR_IO] = "io",
        [-ERR_FULL] = "full",
        [-ERR_NETWORK] = "network",
        [-ERR_TIMEOUT] = "timeout",
        [-ERR_PROTOCOL] = "protocol",
        [-ERR_STALE] = "stale",
        [-ERR_CANCELLED] = "cancelled",
        [-ERR_DIVERGED] = "diverged",
        [-ERR_UNSUPPORTED] = "unsupported",
    };
    const int count = (int)(sizeof(names) / sizeof(names[0]));
    return code <= 0 && code > -count ? names[-code] : "unknown";
}
