/* memory.h: the memory a stage needs, planned before the first step, from the description alone.
 * The planner asks it what fits where; libtrain/stage allocates exactly this (arena.h), so a plan's
 * promise and the arenas are one calculation. With kernels of oneDNN it is an estimate: what the
 * library asks for beyond it is known to the stage alone. Pure. */
#ifndef LIBTRAIN_MEMORY_MEMORY_H
#define LIBTRAIN_MEMORY_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "libtrain/kernels/conv2d_kernel.h"
#include "libtrain/model/model.h"
#include "libtrain/model/recipe.h"

/* Buffers of the stage's runtime at each border, beside in_flight receive slots: one is filled
 * while the other is on its way. */
#define MEMORY_SEND_BUFFERS 2
#define MEMORY_IN_FLIGHT_MAX 65536u
#define MEMORY_THREADS_MAX 256u

struct arena_scratch;

struct memory_request {
    size_t first, end;  /* units [first, end) */
    size_t micro_batch; /* samples, 1 to ARENA_MICRO_BATCH_MAX */
    size_t in_flight;   /* micro-batches between forward and backward, 1 to MEMORY_IN_FLIGHT_MAX */
    size_t threads;     /* compute threads, 1 to MEMORY_THREADS_MAX (workspace is per thread) */
    enum recompute recompute;
    enum conv2d_backend backend;   /* of the device */
    struct arena_scratch *scratch; /* to reckon in (arena.h); NULL: the heap */
};

struct memory_bytes {
    uint64_t parameters; /* parameters and buffers; buffers twice: as of the last step and of the
                            running one */
    uint64_t gradients;
    uint64_t optimizer;
    uint64_t activations; /* all slots */
    uint64_t workspace;   /* scratch of ops, gradients between ops, what is made again */
    uint64_t packed;      /* weights as oneDNN wants them, where its kernels read them */
    uint64_t borders;     /* receive slots and send buffers of the stage's runtime; not allocated by
                             libtrain */
    uint64_t
        snapshot; /* one copy of the stage's state, kept at a stop; not allocated by libtrain */
    uint64_t total;
};

/* ERR_INVALID for a request outside its bounds; ERR_LIMIT when the sum does not fit 64 bits;
 * ERR_MEMORY, never with a scratch. Cost: linear in the ops of the stage, some 0.1 us each: what is
 * alive at a time is of one unit and its neighbours. */
NODISCARD int memory_of_stage(const struct model *model, const struct optimizer *optimizer,
                              const struct memory_request *request, struct memory_bytes *out,
                              struct err *err);

/* The total for any number of threads and of micro-batches in flight. */
struct memory_growth {
    uint64_t base; /* with one of each */
    uint64_t per_thread, per_micro_batch;
    uint64_t snapshot; /* as above, part of the base */
};
/* All of them by one plan: for who asks about many ranges. The request's in_flight and threads are
 * not read. Errors and cost as above. */
NODISCARD int memory_of_range(const struct model *model, const struct optimizer *optimizer,
                              const struct memory_request *request, struct memory_growth *out,
                              struct err *err);

#endif
