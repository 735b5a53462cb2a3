/* user.h: the user that a program runs as. For the main functions of the programs, before they open
 * files or start threads. */
#ifndef BASE_USER_H
#define BASE_USER_H

#include "base/err.h"

/* As root, become permanently the user and the group that own an existing directory. Files that the
 * program then creates there belong to that user, whose service reads them, and the program has no
 * more rights than the service. Does nothing for other users, for a directory of root, or without a
 * directory. Returns 0; ERR_IO with the reason. */
NODISCARD int user_become_owner(const char *directory, struct err *err);

#endif
