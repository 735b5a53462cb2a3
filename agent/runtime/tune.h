/* tune.h: measures which kernels are the fastest on this device, before a job that wants it begins
 * (ADR 0051): once for the job in its first generation, or at the start of `paceline-agent train`.
 * Blocks; one thread. */
#ifndef AGENT_RUNTIME_TUNE_H
#define AGENT_RUNTIME_TUNE_H

#include "agent/runtime/cancel.h"
#include "libtrain/train.h"

/* Name a kernel for each pass of the convolutions of the units [first, end) that has none. What is
 * not measured within 20 seconds is left to the shape. ERR_CANCELLED when `cancel` (may be NULL)
 * was set meanwhile. */
NODISCARD int tune_units(struct train_tuner *tuner, struct model *model, size_t first, size_t end,
                         size_t micro_batch, size_t threads, struct cancel *cancel,
                         struct err *err);

#endif
