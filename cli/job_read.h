/* job_read.h: a job and its present plan, read for commands that show progress. One thread. */
#ifndef CLI_JOB_READ_H
#define CLI_JOB_READ_H

#include "cli/api.h"
#include "cli/progress.h"
#include "schema/job.h"

/* Get the job when its revision is above `after` (-1: at once), at the latest after wait_seconds.
 * job_release is due afterwards, also after an error. */
NODISCARD int job_read(struct api *api, const char *id, int64_t after, int wait_seconds,
                       struct job *out, struct err *err);
void job_release(struct job *job);
/* Get the stages of the job's present plan. */
NODISCARD int job_read_shares(struct api *api, const struct job *job, struct progress_shares *out,
                              struct err *err);

#endif
