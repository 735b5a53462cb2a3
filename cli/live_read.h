/* live_read.h: what a live view shows beside the job itself, read from the coordinator. One
 * thread. */
#ifndef CLI_LIVE_READ_H
#define CLI_LIVE_READ_H

#include "cli/api.h"
#include "cli/live.h"

/* Read the losses since the last ones and, if the job has changed by more than progress, its newest
 * incidents. */
NODISCARD int live_read(struct api *api, const struct job *job, bool changed, struct live *live,
                        struct err *err);

#endif
