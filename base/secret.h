/* secret.h: reads operators' secrets from files, so that they appear in no command line and no
 * environment, and keeps them out of core files. For programs. Any thread. */
#ifndef BASE_SECRET_H
#define BASE_SECRET_H

#include "base/err.h"

#define SECRET_SIZE 257 /* with the NUL */
#define SECRET_LENGTH_MIN 16

/* Read the secret in the first line of a file: SECRET_LENGTH_MIN to SECRET_SIZE - 1 printable ASCII
 * characters without spaces. ERR_INVALID: another form; err does not show the secret. */
NODISCARD int secret_read(const char *path, char out[SECRET_SIZE], struct err *err);

/* Prevent core files of this process, and let only root read its memory. It holds keys, tokens and
 * tickets, also in copies that libraries make. A change of user undoes this: call it afterwards. */
void secret_hide_memory(void);

#endif
