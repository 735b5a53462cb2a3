/* stage.h: one running stage of one generation: its arithmetic (libtrain), its protocol
 * (core/pipeline), and the buffers between them and the neighbours. stage_new allocates everything;
 * later calls allocate nothing.
 *
 * Threads: the compute thread makes the stage and runs stage_loop (stage_loop.h); the receiver
 * fills slots (work.h), one sender per direction empties buffers (stage_next_outgoing), the
 * control thread reads (stage_step, stage_measure) and controls (stage_follow ...). One mutex
 * guards pipeline, queues and measurements. A claimed slot belongs to the receiver, a filled one
 * and the buffers to the compute thread, a queued buffer to the sender; so tensors move without the
 * lock. */
#ifndef AGENT_PIPELINE_STAGE_H
#define AGENT_PIPELINE_STAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/core/pipeline.h"
#include "agent/runtime/work.h"

enum stage_direction { STAGE_TO_NEXT, STAGE_TO_PREVIOUS };

struct stage_config {
    struct job_id job;
    int64_t generation;
    size_t index, count; /* this stage; all stages */
    size_t first, end;   /* its units */
    size_t in_flight, previous_in_flight;
    bool strict;         /* as of pipeline_config */
    enum codec codec[2]; /* of the links, by enum stage_direction: both ways */
    int64_t resume_version, total_steps;
    struct early_stop early_stop; /* judged before this generation */
    const struct job_spec *spec;  /* copied; the description is not used */
    struct job_data samples;
    struct work_data data; /* inputs are stage 0's, labels the last stage's, both for training and
                              for the test set; with a view the training labels are stage 0's
                              too */
    size_t threads;
    double slowdown;   /* >= 1 */
    int64_t park_ms;   /* as of struct work */
    bool has_neighbor; /* rounds to a neighbor are opened */
    int room_fd;       /* as of struct work_config */
};

struct stage;

/* model: taken, also on failure. The state of the keeper's units is undefined. ERR_INVALID when the
 * numbers do not fit the model; ERR_MEMORY. The thread that will compute must call it. */
NODISCARD int stage_new(const struct stage_config *config, struct model **model, struct stage **out,
                        struct err *err);
/* Return the stage as a work, for its generation and its receiver. The work counts references. */
struct work *stage_work(struct stage *stage);
void stage_release(struct stage **stage);
struct keeper *stage_keeper(const struct stage *stage);

const struct stage_config *stage_config(const struct stage *stage);

/* ---- the control side; any thread ---- */
/* As pipeline_follow and pipeline_take_rounds. */
void stage_follow(struct stage *stage, const struct orders *orders);
void stage_take_rounds(struct stage *stage, const struct round round[REPLICA_KINDS]);
/* End every wait in the stage. */
void stage_cancel(struct stage *stage);

/* ---- inspection; any thread ---- */
/* Return the last step applied. */
int64_t stage_step(const struct stage *stage);
/* Add step, unit_seconds, update_seconds, stage_seconds, busy_ms and the open rounds. */
void stage_measure(struct stage *stage, struct heartbeat *out);

/* Return the form that a received tensor must have. */
struct work_tensor stage_expect(const struct stage *stage, const struct transfer *transfer);

/* ---- the senders ---- */
/* Create a coder for the sender of that direction. *out NULL: the tensors are not coded. */
NODISCARD int stage_new_coder(const struct stage *stage, enum stage_direction direction,
                              struct coder **out, struct err *err);

struct stage_outgoing {
    struct transfer transfer;
    bool last; /* the stop mark: an empty tensor */
    struct round_mark mark;
    const void *data;
    struct work_tensor tensor;
    size_t output;
};
/* Wait up to wait_ns for a tensor of that direction. false: none; true: one is queued, or the stage
 * was cancelled. */
bool stage_wait_outgoing(struct stage *stage, enum stage_direction direction, int64_t wait_ns);
/* Wait for the next tensor of that direction, in order. false: cancelled. */
bool stage_next_outgoing(struct stage *stage, enum stage_direction direction,
                         struct stage_outgoing *out);
/* Note that the neighbour has the tensor. */
void stage_outgoing_sent(struct stage *stage, const struct stage_outgoing *outgoing);

#endif
