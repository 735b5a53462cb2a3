/* reduce.h: the order in which the gradients of a step's micro-batches are added where several
 * devices compute parts of one batch. The sum of micro-batches [0, count) is
 *
 *     tree(a, b) = tree(a, m) + tree(m, b),  m - a the largest power of two below b - a
 *
 * in float32, each gradient starting from zero. The bits depend on the count alone: any device may
 * add any part of the tree, at any time, and the sum is the same. A device that computes
 * micro-batches [first, end) sends one sum for each of its blocks: the fewest complete nodes of the
 * tree that make up its share. Our own derivation. Pure; nothing allocates. */
#ifndef LIBTRAIN_MODEL_REDUCE_H
#define LIBTRAIN_MODEL_REDUCE_H

#include <stdbool.h>
#include <stddef.h>

#define REDUCE_COUNT_MAX 1024 /* micro-batches of a step */
/* No share has more than 2 log2(count) blocks. */
#define REDUCE_BLOCKS_MAX 20

enum reduction {
    REDUCTION_IN_PLACE, /* each micro-batch adds to one gradient, in order */
    REDUCTION_TREE,     /* the tree above */
};

/* Micro-batches [first, end). */
struct reduce_range {
    size_t first, end;
};

/* Write the blocks of a share of `count` micro-batches, in order. Return how many there are: 0 for
 * an empty share. */
size_t reduce_blocks(size_t count, struct reduce_range share,
                     struct reduce_range out[REDUCE_BLOCKS_MAX]);
/* Return the end of the first part of a node of at least two micro-batches: m of its sum. */
size_t reduce_middle(struct reduce_range node);
/* Return whether the range is a node of the tree. */
bool reduce_is_node(size_t count, struct reduce_range range);
/* Return the node whose sum the range is a part of, and write the other part. The range is a node
 * other than [0, count). */
struct reduce_range reduce_parent(size_t count, struct reduce_range range,
                                  struct reduce_range *sibling);

/* A sum and the number of its buffer, which the owner chooses. */
struct reduce_sum {
    struct reduce_range range;
    size_t buffer;
};

/* The sums of a step that wait for their siblings. */
struct reduce_sums {
    size_t count;           /* micro-batches of the step */
    struct reduce_sum *sum; /* [capacity], the owner's: one for each block of the step is enough */
    size_t capacity, waiting;
};

/* Take a sum of this step, of a node that has not been taken. true: its sibling was waiting and is
 * removed. *sum is then the sum of their parent: the owner adds the buffer *added to sum->buffer
 * and calls this again. false: the sum waits, or its range is the whole step. */
bool reduce_put(struct reduce_sums *sums, struct reduce_sum *sum, size_t *added);
/* Return the most sums that wait while the micro-batches of a share arrive in order, including its
 * blocks: log2(count), rounded down, for a share of all micro-batches. */
size_t reduce_waiting_max(size_t count, struct reduce_range share);

#endif
