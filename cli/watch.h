/* watch.h: a job on its way to its end. One thread. */
#ifndef CLI_WATCH_H
#define CLI_WATCH_H

#include <stdbool.h>
#include <stdio.h>

#include "cli/api.h"
#include "schema/id.h"

/* Write a line after each change of the job, until it has ended; on a terminal, draw a live view.
 * *succeeded: whether the job succeeded; *checkpoint: its model, "" if there is none. If a
 * coordinator that has answered stops answering, for a restart perhaps, write one line to
 * complaints and retry for some minutes. */
NODISCARD int watch_job(struct api *api, const char *id, FILE *out, FILE *complaints,
                        bool *succeeded, struct checkpoint_id *checkpoint, struct err *err);

#endif
