/* groups.h: the parts of a job. One thread. */
#ifndef CLI_GROUPS_H
#define CLI_GROUPS_H

#include "cli/session.h"
#include "schema/groups_view.h"

/* Get the groups of a job. *out is zeroed first; it is large. */
NODISCARD int groups_read(struct api *api, const char *job, struct groups_view *out,
                          struct err *err);

/* Write the parts of the job, a line each: classes and width of a group, and the progress or the
 * end of the part. */
NODISCARD int groups_show(struct session *session, struct err *err);

#endif
