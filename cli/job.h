/* job.h: the commands about jobs that do more than one request. One thread. */
#ifndef CLI_JOB_H
#define CLI_JOB_H

#include "cli/session.h"

/* Submit the job and write its id; with --wait watch it, with --dry-run show its plan only. */
NODISCARD int job_submit(struct session *session, struct err *err);
NODISCARD int job_clone(struct session *session, struct err *err);
/* Watch the job of the command to its end. */
NODISCARD int job_watch(struct session *session, struct err *err);

#endif
