/* user.h: the user that a program runs as. For the main functions of the programs, before they open
 * files or start threads. */
#ifndef BASE_USER_H
#define BASE_USER_H

#include "base/err.h"

/* Started by root, become the user and the group that own an existing directory, for good: what the
 * program then makes there belongs to that user, whose service reads it, and the program has no
 * more rights than the service. Does nothing for other users, for a directory of root's, and if
 * there is no directory yet. Returns 0; ERR_IO with the reason. */
NODISCARD int user_become_owner(const char *directory, struct err *err);

#endif
