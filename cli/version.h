/* version.h: the versions of both sides. */
#ifndef CLI_VERSION_H
#define CLI_VERSION_H

#include "cli/session.h"

/* Show the version of this program, and that of the coordinator if it answers. */
NODISCARD int version_show(struct session *session, struct err *err);

#endif
