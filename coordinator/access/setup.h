/* setup.h: the first token of a state directory, made while no coordinator runs on it. For the
 * program's commands. */
#ifndef COORDINATOR_ACCESS_SETUP_H
#define COORDINATOR_ACCESS_SETUP_H

#include "base/err.h"
#include "schema/token.h"

/* Make an admin token that does not expire, named "admin", or "admin-2" and so on while tokens of
 * these names are active. From the next start on requests need a token. The caller shows the secret
 * once: only its hash is stored. ERR_STATE: a coordinator runs on the directory. */
NODISCARD int access_make_admin(const char *state_dir, char secret[TOKEN_TEXT_SIZE],
                                struct err *err);

#endif
