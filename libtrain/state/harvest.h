/* harvest.h: assembles the slices of a model that groups trained (model/slim.h) into one file of
 * the target: an ordinary trained model (trained.h) with the target's shape. Used by a worker of
 * the coordinator and by tests; one thread. It reads checkpoints, writes the file from its first to
 * its last byte, and holds the tensors of one unit at a time: the target's, and a group's.
 *
 * The stem is copied from its checkpoint. A slice goes to the group's channels; weights between
 * groups are 0. What groups without a checkpoint would have filled is 0, running variances 1.
 *
 * The head folds "other" away. A class c of one group gets, in the group's columns, the row
 * w_c - w_other and the bias b_c - b_other + prior. With replicas (several groups with the class)
 * it gets the mean over those with a checkpoint. So the logits of the file are the groups' log-odds
 * plus the prior. Rows of classes without a group with a checkpoint are 0, with the bias `missing`.
 *
 * Source: our own derivation of the idea of Chen & Qin, "Exploring Decentralized Collaboration in
 * Heterogeneous Edge Training" (SEC 2020), of which only the abstract was available. */
#ifndef LIBTRAIN_STATE_HARVEST_H
#define LIBTRAIN_STATE_HARVEST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "libtrain/model/slim.h"
#include "libtrain/state/checkpoint.h"
#include "libtrain/state/trained.h"

#define HARVEST_NEVER (-1e4f) /* `missing`: the class is never predicted */

/* A group of the split; all is borrowed. */
struct harvest_group {
    struct checkpoint_file *file; /* its trained model, opened; NULL: the group is missing */
    const uint32_t *classes; /* [split.group[k].classes] outputs of the target, in the order of the
                                outputs of its model */
    double prior;            /* harvest_prior */
};

struct harvest {
    struct slim_split split;           /* slim_check holds */
    struct checkpoint_file *stem;      /* has the units of the stem; others are ignored */
    const struct harvest_group *group; /* [split.group_count] */
    float missing;                     /* HARVEST_NEVER, or 0 before more training */
    struct evaluation evaluation;      /* written into the file */
};

/* Return log(negatives own / others), the correction of a group's prior of "other". own, others:
 * training samples of its classes and of all other classes; negatives: drawn samples of others per
 * own sample. 0 if one of the three is 0. */
double harvest_prior(double negatives, uint64_t own, uint64_t others);

/* Check the conditions that need no tensor data: classes below the target's, no class twice in a
 * group, and in each file every tensor of the group's model. A file that describes its model
 * (trained.h) must describe the group's: the same ops, ranges and shapes, and the target's names of
 * the group's classes. ERR_INVALID names the group, or "stem", then the unit and the tensor;
 * ERR_MEMORY; errors of reading. */
NODISCARD int harvest_check(const struct harvest *harvest, struct err *err);

/* Receives the file, piece by piece; its error ends the harvest. */
typedef int (*harvest_write_fn)(void *arg, const void *data, size_t size, struct err *err);
/* Check, and write the file. The stem in a group's file must equal the stem's checkpoint bit for
 * bit: ERR_INVALID names the group and the unit. Other errors as harvest_check, and of `write`. The
 * same inputs give the same bytes. */
NODISCARD int harvest_write(const struct harvest *harvest, harvest_write_fn write, void *arg,
                            struct err *err);

/* Copy the file of a trained model of the target with the head's rows of some classes set to 0 and
 * their biases to HARVEST_NEVER. missing[target->classes]. The target's last op is a linear with a
 * bias. ERR_INVALID if the file has other tensors; else as harvest_write. */
NODISCARD int harvest_drop_classes(const struct model *target, const bool *missing,
                                   struct checkpoint_file *file,
                                   const struct evaluation *evaluation, harvest_write_fn write,
                                   void *arg, struct err *err);

#endif
