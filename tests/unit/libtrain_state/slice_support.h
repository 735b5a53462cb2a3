/* slice_support.h: divided models with random tensors, for the tests of slim.h and harvest.h: a
 * checkpoint of the stem and one of each group, in memory. Tests only. */
#ifndef TESTS_UNIT_LIBTRAIN_STATE_SLICE_SUPPORT_H
#define TESTS_UNIT_LIBTRAIN_STATE_SLICE_SUPPORT_H

#include "base/buf.h"
#include "base/rng.h"
#include "libtrain/state/harvest.h"

#define SLICES_CLASSES_MAX 32

/* A file in memory. */
struct slice_file {
    struct buf bytes;
    struct checkpoint_file *opened;
};

/* A division of a target, and everything that a harvest of it needs. */
struct slices {
    struct model *target;
    struct slim_group group[SLIM_GROUPS_MAX];
    struct slim_split split;
    uint32_t classes[SLIM_GROUPS_MAX][SLICES_CLASSES_MAX];
    struct model *model[SLIM_GROUPS_MAX];
    struct slice_file stem, file[SLIM_GROUPS_MAX];
    struct harvest_group from[SLIM_GROUPS_MAX];
    struct harvest harvest;
};

/* Divide the target: the classes dealt out in turn, `stem` units shared. unequal: widths and
 * numbers of classes differ as far as channels allow. Takes the target. Returns what slim_check
 * does; with an error slices->model is empty. */
int slices_divide(struct slices *slices, struct model *target, size_t stem, size_t groups,
                  bool unequal, struct err *err);
/* Make the groups' models, and files of random tensors: the same stem in all. `seed` 0: no two
 * numbers of the files are equal, but for the stem's copies; else as in a trained model. */
void slices_fill(struct slices *slices, uint64_t seed);
void slices_done(struct slices *slices);

/* Harvest into `out`, which is initialised here; the caller frees it. */
int slices_harvest(const struct slices *slices, struct buf *out, struct err *err);
int slice_write(void *arg, const void *data, size_t size, struct err *err);
/* Open the bytes of the file. */
void slice_open(struct slice_file *file);
void slice_close(struct slice_file *file);
/* A tensor of the file; fails if it is missing. Borrowed. */
float *slice_tensor(const struct slice_file *file, const char *name, size_t *count);

/* A source of test numbers; each draw moves it on. */
struct slice_draws {
    struct rng_stream stream;
    uint64_t next;
};
/* low to high, both included. */
size_t slice_draw(struct slice_draws *draws, size_t low, size_t high);
/* A random description of 3 to 8 units whose ops can be sliced; NULL: the drawn one is invalid. */
struct model *slices_draw_model(struct slice_draws *draws);

#endif
