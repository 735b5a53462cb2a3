/* job.h: the commands about jobs. They write results to out; the caller
 * prints errors. One thread. */
#ifndef CLI_JOB_H
#define CLI_JOB_H

#include <stdbool.h>
#include <stdio.h>

#include "cli/api.h"
#include "schema/id.h"

/* Submit the job that a file describes ("-": standard input) and write its id, one line. */
NODISCARD int job_submit(struct api *api, const char *path, FILE *out, struct job_id *id,
                         struct err *err);
/* Write the job as indented JSON. */
NODISCARD int job_get(struct api *api, const char *id, FILE *out, struct err *err);
/* Write the parts of a job that consists of them, a line each: classes and width of a group, and
 * the progress or the end of the part. */
NODISCARD int job_groups(struct api *api, const char *id, FILE *out, struct err *err);
/* Write a line after each change of the job, until it has ended; on a terminal, overwrite the line.
 * *succeeded: whether the job succeeded. If a coordinator that has answered stops answering, for a
 * restart perhaps, write one line to complaints and retry for some minutes. */
NODISCARD int job_watch(struct api *api, const char *id, FILE *out, FILE *complaints,
                        bool *succeeded, struct err *err);

#endif
