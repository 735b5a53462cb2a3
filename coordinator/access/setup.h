/* setup.h: makes the first tokens of a state directory while no coordinator runs on it. For the
 * program's commands. */
#ifndef COORDINATOR_ACCESS_SETUP_H
#define COORDINATOR_ACCESS_SETUP_H

#include "base/err.h"
#include "schema/token.h"

#define SETUP_JOIN_USES 16 /* of the first join token */

/* Make an admin token that does not expire. Its name is "admin" or, while a token of that name is
 * active, "admin-2" and so on. join: also make a join token for a day; NULL: none. From the next
 * start on requests need a token. The caller shows the secrets once: only their hashes are stored.
 * ERR_STATE: a coordinator runs on the directory. */
NODISCARD int access_make_tokens(const char *state_dir, char admin[TOKEN_TEXT_SIZE],
                                 char join[TOKEN_TEXT_SIZE], struct err *err);

#endif
