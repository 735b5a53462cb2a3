/* pipeline_parts.h: what pipeline.c (work) and pipeline_offers.c (tensors that come in) share. For
 * these two only. */
#ifndef AGENT_CORE_PIPELINE_PARTS_H
#define AGENT_CORE_PIPELINE_PARTS_H

#include "agent/core/pipeline.h"

enum slot_state { SLOT_FREE, SLOT_RECEIVING, SLOT_FULL };

struct slot {
    enum slot_state state;
    struct transfer key;
    uint64_t claim;
    struct round_mark mark;
};

struct pipeline {
    struct pipeline_config config;
    struct slot *input;    /* [previous_in_flight]: activations and evaluation */
    struct slot *gradient; /* [in_flight] */
    struct slot *sum;      /* [SUM_SLOTS] */
    bool *activation_busy; /* [in_flight]: buffers towards the next stage */
    bool *gradient_busy;   /* [previous_in_flight]: buffers towards the previous stage */
    bool norm_busy;        /* the one towards the previous stage */
    bool total_busy;       /* and towards the next one */
    uint64_t claims;       /* made so far: each has its own number */
    bool running;
    bool held;
    bool stop_asked;
    int64_t stop_version; /* INT64_MAX while not known */
    int64_t version;
    size_t forwards, backwards; /* of step version + 1 */
    bool summed, passed_on;     /* its sum of squares, the total */
    bool evaluating;            /* the version, before the next step begins */
    size_t evaluated;
    bool working; /* a task was given and is not done */
    bool stopped;
    struct round_mark mark; /* of step version + 1, once its first forward pass is given */
    bool away;
    bool paused[REPLICA_KINDS];
    int64_t round[REPLICA_KINDS]; /* stage 0: the open ones, 0: none */
    int64_t committed;            /* stage 0: the newest of this generation, 0: none */
};

static inline bool pipeline_is_first(const struct pipeline *pipeline)
{
    return pipeline->config.index == 0;
}

static inline bool pipeline_is_last(const struct pipeline *pipeline)
{
    return pipeline->config.index + 1 == pipeline->config.count;
}

static inline bool pipeline_evaluation_due(const struct pipeline *pipeline, int64_t version)
{
    const struct pipeline_config *config = &pipeline->config;
    return version > 0 && config->evaluate_every > 0 && config->evaluation_batches > 0 &&
           (version % config->evaluate_every == 0 || version == config->total_steps);
}

/* The slots of its kind. */
static inline struct slot *pipeline_slots_of(const struct pipeline *pipeline,
                                             enum transfer_kind kind)
{
    return transfer_is_sum(kind)       ? pipeline->sum
           : kind == TRANSFER_GRADIENT ? pipeline->gradient
                                       : pipeline->input;
}

/* Where the tensor goes. */
static inline struct slot *pipeline_slot_of(const struct pipeline *pipeline,
                                            const struct transfer *transfer)
{
    struct slot *slots = pipeline_slots_of(pipeline, transfer->kind);
    switch (transfer->kind) {
    case TRANSFER_ACTIVATION:
    case TRANSFER_EVALUATION:
        return &slots[transfer->micro_batch % pipeline->config.previous_in_flight];
    case TRANSFER_GRADIENT: return &slots[transfer->micro_batch % pipeline->config.in_flight];
    case TRANSFER_NORM: return &slots[SUM_SLOT_NORM];
    case TRANSFER_NORM_TOTAL: return &slots[SUM_SLOT_TOTAL];
    }
    return slots;
}

#endif
