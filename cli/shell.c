#include "cli/shell.h"

#include <string.h>

int shell_add_word(struct buf *out, const char *text, struct err *err)
{
    size_t plain = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "-_./:@%+,");
    if (text[plain] == '\0' && plain > 0) {
        return buf_printf(out, err, " %s", text);
    }
    int rc = buf_printf(out, err, " '");
    for (; !rc && *text; text++) {
        rc = *text == '\'' ? buf_printf(out, err, "'\\''") : buf_append(out, text, 1, err);
    }
    return rc ? rc : buf_printf(out, err, "'");
}
