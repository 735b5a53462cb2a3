/* shares.h: the share of each unit in the measured times of its stage. libtrain has no clock, so a
 * unit's share follows the predicted cost on this device: the larger of arithmetic and memory
 * traffic, by the probe's rates. */
#ifndef AGENT_RUNTIME_SHARES_H
#define AGENT_RUNTIME_SHARES_H

#include <stddef.h>

#include "agent/core/timing.h"
#include "base/err.h"
#include "libtrain/model/model.h"
#include "libtrain/model/recipe.h"
#include "schema/device.h"

/* Shares of the units [first, end): share[i] of unit first + i, each kind sums to 1. The
 * recompute pass belongs to the backward. */
NODISCARD int shares_predict(const struct model *model, size_t first, size_t end,
                             enum recompute recompute, const struct device_probe *probe,
                             struct timing_share *share, struct err *err);

#endif
