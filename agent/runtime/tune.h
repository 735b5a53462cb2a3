/* tune.h: measures the fastest kernels on this device before a job that asks for it (ADR 0051):
 * once in the job's first generation, or at the start of `paceline-agent train`. Blocks; one
 * thread. */
#ifndef AGENT_RUNTIME_TUNE_H
#define AGENT_RUNTIME_TUNE_H

#include "agent/runtime/cancel.h"
#include "libtrain/train.h"

/* Choose a kernel for each pass of the convolutions of the units [first, end) that has none. After
 * 20 seconds the rest is chosen by shape. ERR_CANCELLED if `cancel` (may be NULL) was set
 * meanwhile. */
NODISCARD int tune_units(struct train_tuner *tuner, struct model *model, size_t first, size_t end,
                         size_t micro_batch, size_t threads, struct cancel *cancel,
                         struct err *err);

#endif
