/* watch.h: a job on its way to its end. One thread. */
#ifndef CLI_WATCH_H
#define CLI_WATCH_H

#include <stdbool.h>
#include <stdio.h>

#include "cli/api.h"

/* Write a line after each change of the job, until it has ended; on a terminal, overwrite the line.
 * *succeeded: whether the job succeeded. If a coordinator that has answered stops answering, for a
 * restart perhaps, write one line to complaints and retry for some minutes. */
NODISCARD int watch_job(struct api *api, const char *id, FILE *out, FILE *complaints,
                        bool *succeeded, struct err *err);

#endif
