/* shards.h: divides the samples of a data set among groups that train apart (strategy gossip). A
 * shard is a number of samples of each class. The samples of a class have an order of their own
 * (shards_order), and each shard has a range of it: first those of shard 0, then those of shard 1.
 * So every sample is in exactly one shard, which the numbers determine. Pure; nothing allocates. */
#ifndef LIBTRAIN_MODEL_SHARDS_H
#define LIBTRAIN_MODEL_SHARDS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "libtrain/model/view.h"

#define SHARDS_MAX 32
#define SHARDS_CLASSES_MAX VIEW_CLASSES_MAX
#define SHARDS_ALPHA_MIN 0.01
#define SHARDS_ALPHA_MAX 100.0

enum shards_split {
    SHARDS_EVEN,      /* equal numbers, with the classes of the whole */
    SHARDS_SPEED,     /* numbers in proportion to speeds */
    SHARDS_DIRICHLET, /* each class divided in proportions drawn from Dirichlet(alpha) */
    SHARDS_BY_CLASS,  /* some classes for each shard */
};
extern const char *const shards_split_names[];

struct shards_problem {
    enum shards_split split;
    const int64_t *count; /* [class_count] samples of each class */
    size_t class_count;   /* 1 to SHARDS_CLASSES_MAX */
    size_t shards;        /* 1 to SHARDS_MAX */
    const double *speed;  /* SPEED: [shards], all above 0 */
    double alpha; /* DIRICHLET; SPEED: of the classes of each shard; 0: classes as in the whole */
    size_t classes_per_shard; /* BY_CLASS: 1 to class_count */
    int64_t least;            /* samples of each shard, at least; above 0 */
    uint64_t seed;
};

/* Divide the samples.
 *
 *     out  [shards][class_count] numbers of samples; the sum over the shards is count
 *
 * With SPEED each shard's number is within one sample of its proportion. Then shards with less than
 * `least` take samples of the largest shard's largest class, as often as needed. The same problem
 * has the same answer on every machine. ERR_INVALID: too few samples for so many shards, or classes
 * that no shard would have. */
NODISCARD int shards_divide(const struct shards_problem *problem, int64_t *out, struct err *err);
/* Return the samples of a shard. */
int64_t shards_size(const int64_t *out, size_t class_count, size_t shard);
/* Return the first sample of a shard in the order of a class. */
int64_t shards_first(const int64_t *out, size_t class_count, size_t shard, size_t class);
/* Put the samples of a class into its order: a permutation that depends on the seed and the class
 * alone.
 *
 *     sample  [count] in the order of the data set; out: in the order of the class */
void shards_order(uint64_t seed, size_t class, uint32_t *sample, size_t count);

#endif
