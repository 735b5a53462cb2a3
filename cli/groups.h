/* groups.h: the parts of a job of sub-models. One thread. */
#ifndef CLI_GROUPS_H
#define CLI_GROUPS_H

#include "cli/session.h"

/* Write the parts of the job, a line each: classes and width of a group, and the progress or the
 * end of the part. */
NODISCARD int groups_show(struct session *session, struct err *err);

#endif
