/* secret.h: secrets of operators, which come in files, so that they are in no command line and no
 * environment, and are kept out of what a crash leaves. For programs. Any thread. */
#ifndef BASE_SECRET_H
#define BASE_SECRET_H

#include "base/err.h"

#define SECRET_SIZE 257 /* with the NUL */
#define SECRET_LENGTH_MIN 16

/* Read the secret of a file: its first line, SECRET_LENGTH_MIN to SECRET_SIZE - 1 printable ASCII
 * characters without spaces. ERR_INVALID: it has another form; the text does not show it. */
NODISCARD int secret_read(const char *path, char out[SECRET_SIZE], struct err *err);

/* From now on no core file of this process is written, and only root can read its memory: keys,
 * tokens and tickets are in it, also in the copies of libraries. A change of user undoes it: call
 * it after. */
void secret_hide_memory(void);

#endif
