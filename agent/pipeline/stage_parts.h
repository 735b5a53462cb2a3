/* stage_parts.h: shared by stage.c (memory, the control side), stage_ports.c (neighbours),
 * stage_loop.c (the compute thread) and pipeline_work.c (the row of the strategy). For these
 * only. */
#ifndef AGENT_PIPELINE_STAGE_PARTS_H
#define AGENT_PIPELINE_STAGE_PARTS_H

#include <pthread.h>
#include <stdatomic.h>

#include "agent/core/timing.h"
#include "agent/runtime/samples.h"
#include "agent/runtime/task_clock.h"
#include "agent/gossip/mixer.h"
#include "agent/pipeline/stage.h"
#include "libtrain/train.h"

/* A bounded queue. Each tensor in it holds a buffer, so its length is at most the number of buffers
 * plus one sum, one metric and one mark. */
struct outgoing_queue {
    struct stage_outgoing *item;
    size_t capacity, first, count;
    pthread_cond_t filled;
};

struct stage {
    struct work work;            /* first: the row's functions get a pointer to it */
    const struct job_spec *spec; /* the keeper's, as the next two */
    struct cancel *cancel;
    struct train_stage *train;
    struct stage_config config;
    atomic_int_least64_t step;
    size_t micro_batch;         /* samples */
    size_t sample_bytes;        /* as stored */
    size_t label_count;         /* of a sample: the model's positions */
    size_t versions;            /* of its parameters: job_versions */
    size_t evaluation_batches;  /* micro-batches of an evaluation */
    struct shape input, output; /* of the stage */

    /* the compute thread's */
    struct samples *samples;   /* of stage 0 and of the last one */
    double loss_sum;           /* of the step */
    double step_began_seconds; /* stage 0; 0: not known */
    struct task_clock clock;

    /* tensors: pointers into the arena */
    unsigned char *arena;
    unsigned char **slot[TRANSFER_LANES];   /* received; stage 0: LANE_ACTIVATION [in_flight] holds
                                               its own samples */
    unsigned char **buffer[TRANSFER_LANES]; /* to be sent */
    struct coder
        *decoder[2]; /* of received tensors, by the neighbour's direction; the receiver's */
    int32_t *labels; /* [micro_batch][label_count] of the last stage */

    pthread_mutex_t lock;
    pthread_cond_t changed; /* something changed for the compute thread */
    struct pipeline *pipeline;
    struct outgoing_queue queue[2];
    bool room_wanted; /* a received tensor waits for a slot */
    struct timing timing;
    struct sender *sender[2]; /* of its row; NULL: not started */
};

static inline bool stage_is_first(const struct stage *stage)
{
    return stage->config.index == 0;
}

static inline bool stage_is_last(const struct stage *stage)
{
    return stage->config.index + 1 == stage->config.count;
}

/* Return the number in a slot or buffer of LANE_NORM, LANE_TOTAL or LANE_JUDGED. */
static inline double *stage_number(unsigned char *const *lane)
{
    return (double *)(void *)lane[0];
}

static inline enum stage_direction stage_direction_of(const struct transfer *transfer)
{
    return transfer_info(transfer)->back ? STAGE_TO_PREVIOUS : STAGE_TO_NEXT;
}

/* Return the form of a tensor that the stage receives, or (outgoing) sends. */
struct work_tensor stage_tensor_of(const struct stage *stage, const struct transfer *transfer,
                                   bool outgoing);

/* ---- a group of a gossip job: it has a mixer (stage_mix.c) ---- */
NODISCARD int stage_make_mixer(struct stage *stage, const struct work_config *config,
                               struct err *err);
/* Do the mixer's work on the compute thread at the boundary after `version`. */
void stage_mix(struct stage *stage, int64_t version);
/* Serve copies after the stop at this version until the records of the group's moves are stored, or
 * until the stage is cancelled. */
void stage_settle(struct stage *stage, int64_t version);
/* Continue the mixer's work at the boundary of the last step until the stage is cancelled. */
void stage_linger(struct work *work);

/* ---- parts of the row, as in work.h ---- */
void stage_free(struct work *work);
void stage_expects(struct work *work, const struct transfer *transfer, struct work_expected *out);
enum transfer_verdict stage_offer(struct work *work, const struct transfer *transfer,
                                  struct slot_claim *claim, void **slot);
bool stage_holds(struct work *work, const struct transfer *transfer,
                 const struct slot_claim *claim);
bool stage_received(struct work *work, const struct transfer *transfer,
                    const struct slot_claim *claim);
void stage_abandon(struct work *work, const struct transfer *transfer,
                   const struct slot_claim *claim);
void stage_mark(struct work *work, int64_t step);

/* Return the stage of a work of that row. */
static inline struct stage *stage_of(struct work *work)
{
    return (struct stage *)(void *)work;
}

#endif
