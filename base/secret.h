/* secret.h: a secret of an operator in a file, so that it is in no command line and no environment.
 * For programs. Any thread. */
#ifndef BASE_SECRET_H
#define BASE_SECRET_H

#include "base/err.h"

#define SECRET_SIZE 257 /* with the NUL */
#define SECRET_LENGTH_MIN 16

/* Read the secret of a file: its first line, SECRET_LENGTH_MIN to SECRET_SIZE - 1 printable ASCII
 * characters without spaces. ERR_INVALID: it has another form; the text does not show it. */
NODISCARD int secret_read(const char *path, char out[SECRET_SIZE], struct err *err);

#endif
