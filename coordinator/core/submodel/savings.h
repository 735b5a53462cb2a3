/* savings.h: the operations of a job of sub-models, and the savings against training only the
 * target. A unit counts as three forward passes. A frozen unit counts as two, or as one if no
 * preceding unit is trained. Classes and widths are divided by the same load. Pure; nothing of the
 * core's state. */
#ifndef COORDINATOR_CORE_SUBMODEL_SAVINGS_H
#define COORDINATOR_CORE_SUBMODEL_SAVINGS_H

#include "libtrain/model/model.h"
#include "schema/submodel.h"

/* Return the operations of a training sample in the units [first, end). */
double savings_flops(const struct model *model, size_t first, size_t end);
/* Count operations of a device. */
void savings_add(struct submodel_work *work, const struct device_id *device, double flops);

/* The reference for the comparison. */
struct savings_base {
    double sample_flops; /* of the target */
    double flops;        /* of the target in the epochs of the job */
};
/* Compare the work with the reference. group_flops[group_count]: of a group's sample; 0: not known
 * yet. */
void savings_compare(const struct savings_base *base, const struct submodel_work *work,
                     const double *group_flops, size_t group_count, struct submodel_compute *out);

#endif
