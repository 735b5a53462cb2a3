#include "base/secret.h"

#include <string.h>
#include <sys/prctl.h>

#include "base/file.h"

int secret_read(const char *path, char out[SECRET_SIZE], struct err *err)
{
    BUF_AUTO struct buf text;
    buf_init(&text, 2 * SECRET_SIZE);
    const int rc = file_read(path, &text, err);
    if (rc) {
        return rc;
    }
    const char *secret = text.data ? text.data : "";
    const size_t length = strcspn(secret, "\r\n");
    const size_t rest = strspn(secret + length, "\r\n");
    if (length + rest != text.size || length < SECRET_LENGTH_MIN || length >= SECRET_SIZE) {
        return err_set(err, ERR_INVALID,
                       "'%s': expected one line of %d to %d characters; make one with 'openssl "
                       "rand -hex 32'",
                       path, SECRET_LENGTH_MIN, SECRET_SIZE - 1);
    }
    for (size_t i = 0; i < length; i++) {
        if (secret[i] <= ' ' || secret[i] > '~') {
            return err_set(err, ERR_INVALID,
                           "'%s': character %zu is not printable ASCII; spaces are not allowed",
                           path, i + 1);
        }
    }
    memcpy(out, secret, length);
    out[length] = '\0';
    return 0;
}

void secret_hide_memory(void)
{
    /* Fails for values other than 0 and 1 only. */
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}
