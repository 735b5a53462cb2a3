/* memory.h: computes the memory that a stage needs from the description, before the first step. The
 * planner uses it to find the ranges of units that fit a device, and libtrain/stage allocates
 * exactly this (arena.h): plan and allocation are one calculation. With kernels of oneDNN it is an
 * estimate, because only the stage knows the memory that the library needs. Pure. */
#ifndef LIBTRAIN_MEMORY_MEMORY_H
#define LIBTRAIN_MEMORY_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "libtrain/kernels/conv2d_kernel.h"
#include "libtrain/model/model.h"
#include "libtrain/model/recipe.h"
#include "libtrain/model/reduce.h"
#include "libtrain/quant/codec.h"

/* Buffers of the stage's runtime at each boundary, in addition to in_flight receive slots: one is
 * filled while the other is sent. */
#define MEMORY_SEND_BUFFERS 2
#define MEMORY_IN_FLIGHT_MAX 65536u
#define MEMORY_THREADS_MAX 256u

struct arena_scratch;

enum memory_boundary { MEMORY_INPUT, MEMORY_OUTPUT };

struct memory_request {
    size_t first, end;  /* units [first, end) */
    size_t micro_batch; /* samples, 1 to ARENA_MICRO_BATCH_MAX */
    size_t in_flight;   /* micro-batches between forward and backward, 1 to MEMORY_IN_FLIGHT_MAX */
    size_t versions;    /* of the trained parameters, as train_stage_config; 0 counts as 1 */
    size_t tree; /* micro-batches of a step, if they are added by the tree (model/reduce.h); 0: in
                    place */
    struct reduce_range share; /* of these, on this device; empty: it only keeps units for others */
    bool worker;               /* with a share: never updated nor saved, as train_stage_config */
    size_t threads;      /* compute threads, 1 to MEMORY_THREADS_MAX (workspace is per thread) */
    enum codec codec[2]; /* of the links at both boundaries, by enum memory_boundary */
    enum recompute recompute;
    enum conv2d_backend backend;   /* of the device */
    struct arena_scratch *scratch; /* memory for the plan (arena.h); NULL: the heap */
};

struct memory_bytes {
    uint64_t parameters;  /* parameters and buffers; buffers of the last step and of the running
                             one, or with several versions of each batch in flight, with a tree of
                             each micro-batch */
    uint64_t stashed;     /* trained parameters of the other versions */
    uint64_t gradients;   /* with a tree also those that wait for others */
    uint64_t optimizer;   /* none of a worker */
    uint64_t activations; /* all slots */
    uint64_t workspace;   /* scratch of ops, gradients between ops, recomputed activations */
    uint64_t packed;      /* weights in the layouts of oneDNN's kernels */
    uint64_t borders;     /* receive slots, send buffers and coders of the stage's runtime; not
                             allocated by libtrain */
    uint64_t snapshot;    /* one copy of the stage's state, kept at a stop, not by a worker; not
                             allocated    by libtrain */
    uint64_t total;
};

/* Compute the memory of a stage. ERR_INVALID for a request outside its bounds; ERR_LIMIT when the
 * sum does not fit 64 bits; ERR_MEMORY, never with a scratch. Cost: linear in the stage's ops,
 * about 0.1 us each, since only the tensors of one unit and its neighbours are alive at a time. */
NODISCARD int memory_of_stage(const struct model *model, const struct optimizer *optimizer,
                              const struct memory_request *request, struct memory_bytes *out,
                              struct err *err);

/* The total as a linear function of threads, micro-batches in flight and versions. */
struct memory_growth {
    uint64_t base; /* with one thread, one micro-batch and one version */
    uint64_t per_thread, per_micro_batch, per_version;
    uint64_t snapshot; /* as in memory_bytes; included in base */
};
/* Compute it from one plan, for planners that ask about many ranges. The request's in_flight and
 * threads are ignored, and of its versions only counts whether there are several: then
 * per_micro_batch includes the buffers of a batch in flight. Errors and cost as memory_of_stage. */
NODISCARD int memory_of_range(const struct model *model, const struct optimizer *optimizer,
                              const struct memory_request *request, struct memory_growth *out,
                              struct err *err);

#endif
