/* unit_work.h: the work of a unit for a micro-batch. It determines the time of the unit on a
 * device, independently of the job. Units of equal shape share their measurements. Pure. */
#ifndef COORDINATOR_CORE_STATE_UNIT_WORK_H
#define COORDINATOR_CORE_STATE_UNIT_WORK_H

#include <stddef.h>
#include <stdint.h>

#include "coordinator/plan/latency.h"
#include "libtrain/kernels/conv2d_kernel.h"
#include "libtrain/model/cost.h"

enum unit_pass { UNIT_FORWARD, UNIT_BACKWARD };
#define UNIT_PASSES 2

/* How a model is computed. */
struct unit_setting {
    const struct model *model;
    const struct unit_cost *cost; /* [unit_count], of cost_count */
    int64_t samples;              /* of a micro-batch */
    enum recompute recompute;
    enum conv2d_backend backend;
};

#define UNIT_SHAPE_NONE 0 /* of a unit that no device has run */

struct unit_work {
    uint64_t shape; /* hash of the ops with their shapes and kernels, and of the setting */
    double flops[UNIT_PASSES], bytes[UNIT_PASSES]; /* of a micro-batch; 0 flops: nothing to do */
    double features[UNIT_PASSES][LATENCY_FEATURES];
    double trained_bytes, op_count;
    double again; /* part of a forward pass that the backward pass recomputes; not counted above */
};

/* Compute the work of a unit. */
void unit_work_of(const struct unit_setting *setting, size_t unit, struct unit_work *out);
/* Predict the seconds of a pass from rates alone: the sum of computing, of moving bytes, and of a
 * small time for each op. */
double unit_work_seconds(const struct unit_work *work, enum unit_pass pass, double flops_per_second,
                         double bytes_per_second);

#endif
