/* tune.h: finds the fastest kernels on this device before a job that requests it (ADR 0051): once
 * in the job's first generation, or at the start of `paceline-agent train`. Blocks; one thread. */
#ifndef AGENT_RUNTIME_TUNE_H
#define AGENT_RUNTIME_TUNE_H

#include "agent/runtime/cancel.h"
#include "libtrain/train.h"

/* Choose a kernel by measurement for each pass without a kernel of the convolutions of the units
 * [first, end). After 20 seconds the remaining kernels are chosen by shape. ERR_CANCELLED if
 * `cancel` (may be NULL) was set meanwhile. */
NODISCARD int tune_units(struct train_tuner *tuner, struct model *model, size_t first, size_t end,
                         size_t micro_batch, size_t threads, struct cancel *cancel,
                         struct err *err);

#endif
