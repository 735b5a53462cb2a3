/* arena_parts.h: the memory plan under construction, shared by arena.c, arena_graph.c (the tensors
 * and their readers) and arena_passes.c (the place of each write, and the life of each storage).
 * Private to those. One thread. */
#ifndef LIBTRAIN_MEMORY_ARENA_PARTS_H
#define LIBTRAIN_MEMORY_ARENA_PARTS_H

#include "libtrain/memory/arena.h"
#include "libtrain/memory/storage.h"

/* Attributes of a storage apart from its lifetime. */
struct holder {
    enum arena_area area; /* a storage that is neither the caller's nor kept gets its area last: a
                             gap in the slot, or WORKSPACE */
    bool keep;            /* backward reads it: it must not be overwritten */
    bool shared;          /* a tensor on it has several readers */
    size_t readers;       /* gradients: ops whose backward still reads it */
};

/* Training's forward or an evaluation; training's backward with its recompute pass. */
enum pass { PASS_FORWARD, PASS_BACKWARD, PASSES };

/* A tensor between ops, with the data that its op saves. */
struct tensor {
    struct shape shape;
    size_t consumers;
    bool wants; /* has a gradient */
    bool read;  /* some backward reads it */
    bool kept;  /* and it stays in the slot until then */
    size_t storage[PASSES];
    size_t saved[PASSES]; /* storage, or NO_STORAGE */
    size_t gradient;      /* its storage, or NO_STORAGE */
};

/* Tensors are numbered through the stage: 0 is the stage's input, g + 1 the output of op g. Steps
 * count the ops that run in a forward, or in a backward with its recompute pass. */
struct planner {
    struct arena *arena;
    size_t op_count;
    struct tensor *tensor; /* [op_count + 1] */
    size_t *base;          /* [op_count] number of the input tensor of the op's unit */
    struct storage *storage;
    struct holder *holder; /* [storage_capacity] */
    size_t storage_count, storage_capacity;
    size_t backward_first;         /* storages from here on live within a backward */
    struct storage_alive *live[2]; /* [storage_capacity + 1] for placing */
    size_t step;
};

#define NO_STORAGE SIZE_MAX

static inline size_t input_of(const struct planner *planner, size_t g, size_t i)
{
    return planner->base[g] + planner->arena->op[g].op->input[i];
}

static inline bool is_outside(const struct planner *planner, size_t storage)
{
    return planner->holder[storage].area != ARENA_WORKSPACE;
}

static inline struct arena_place place_of(const struct planner *planner, size_t storage)
{
    if (storage == NO_STORAGE) {
        return (struct arena_place){.area = ARENA_NOWHERE};
    }
    return (struct arena_place){.area = planner->holder[storage].area,
                                .offset = planner->storage[storage].offset};
}

/* arena_graph.c: number the tensors; find which ops are fused, which tensors are read or kept, and
 * which ops are recomputed. */
void planner_graph(struct planner *planner);

/* arena_passes.c: a forward of training (with kept tensors) or of an evaluation, from the first
 * storage on; then the gradient that backward begins with; then backward with its recompute
 * pass. */
void planner_forward(struct planner *planner, bool training);
void planner_loss(struct planner *planner);
void planner_backward(struct planner *planner);

#endif
