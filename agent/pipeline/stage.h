/* stage.h: one stage of one generation at work: its arithmetic (libtrain), its protocol
 * (core/pipeline), and the buffers between them and the neighbours. stage_new allocates everything;
 * later calls allocate nothing.
 *
 * Threads: the compute thread makes the stage and runs stage_loop (stage_loop.h); the receiver
 * fills slots (stage_offer ...), one sender per direction empties buffers (stage_next_outgoing),
 * the control thread reads (stage_step, stage_measure) and controls (stage_follow ...). One mutex
 * guards pipeline, queues and measurements. A claimed slot belongs to the receiver, a filled one
 * and the buffers to the compute thread, a queued buffer to the sender; so tensors move without the
 * lock. References are counted: the last release frees the stage. */
#ifndef AGENT_PIPELINE_STAGE_H
#define AGENT_PIPELINE_STAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/core/orders.h"
#include "agent/core/pipeline.h"
#include "agent/runtime/cancel.h"
#include "base/err.h"
#include "libtrain/model/model.h"
#include "libtrain/model/recipe.h"
#include "libtrain/quant/coder.h"
#include "libtrain/state/checkpoint.h"
#include "libtrain/train.h"
#include "schema/device.h"
#include "schema/heartbeat.h"
#include "schema/id.h"
#include "schema/job.h"

/* The samples as stored, one after the other. NULL if the stage does not need them:
 * inputs are stage 0's, labels the last stage's, both for training and for the test set; with a
 * view the training labels are stage 0's too. Borrowed for the life of the stage. */
struct stage_data {
    const unsigned char *train_inputs, *test_inputs;
    const unsigned char *train_labels, *test_labels; /* I32, little-endian, of any alignment */
};

enum stage_direction { STAGE_TO_NEXT, STAGE_TO_PREVIOUS };

struct stage_config {
    struct job_id job;
    int64_t generation;
    size_t index, count; /* this stage of how many */
    size_t first, end;   /* its units */
    size_t in_flight, previous_in_flight;
    bool strict;         /* as of pipeline_config */
    enum codec codec[2]; /* of the links, by enum stage_direction: both ways */
    int64_t resume_version, total_steps;
    struct early_stop early_stop; /* judged before this generation */
    const struct job_spec *spec;  /* copied; the description is not used */
    struct job_data samples;
    struct stage_data data;
    size_t threads;
    double slowdown;   /* >= 1 */
    int64_t park_ms;   /* how long a tensor may wait for its slot: less than its sender's stall
                          timeout */
    bool has_neighbor; /* rounds to a neighbor are opened */
    int room_fd; /* an eventfd, written to when a slot becomes free that a tensor waits for; -1:
                    none */
};

struct stage;

/* model: taken, also on failure. The state of the units is undefined until each was initialised or
 * loaded (stage_load_unit). ERR_INVALID when the numbers do not fit the model; ERR_MEMORY. To be
 * called by the thread that will compute. */
NODISCARD int stage_new(const struct stage_config *config, struct model **model, struct stage **out,
                        struct err *err);
struct stage *stage_retain(struct stage *stage);
void stage_release(struct stage **stage);

/* blob NULL: from the seed. For the compute thread, as the next three. */
NODISCARD int stage_load_unit(struct stage *stage, size_t unit, const void *blob, size_t size,
                              struct err *err);
/* Version 0 of the unit from a checkpoint: its tensors, and a fresh optimizer. As
 * checkpoint_read_unit. */
NODISCARD int stage_start_unit(struct stage *stage, size_t unit, struct checkpoint_file *file,
                               struct err *err);
size_t stage_unit_bytes(const struct stage *stage, size_t unit);
void stage_save_unit(const struct stage *stage, size_t unit, void *out);
/* After the last step. */
NODISCARD int stage_export_unit(struct stage *stage, size_t unit, train_write_fn write, void *arg,
                                struct err *err);

const struct stage_config *stage_config(const struct stage *stage);

/* ---- the control side; any thread ---- */
void stage_follow(struct stage *stage, const struct orders *orders);
/* The coordinator's answer about the reported rounds, by enum replica_kind. */
void stage_take_rounds(struct stage *stage, const struct round round[REPLICA_KINDS]);
/* End every wait in the stage. */
void stage_cancel(struct stage *stage);
struct cancel *stage_cancelled(struct stage *stage);

/* ---- inspection; any thread ---- */
/* The last step applied. */
int64_t stage_step(const struct stage *stage);
/* Add unit_seconds, update_seconds, stage_seconds, busy_ms and the open rounds. */
void stage_measure(struct stage *stage, struct heartbeat *out);

/* ---- the receiver ---- */
struct stage_tensor {
    size_t samples;
    struct shape shape; /* of one sample */
    bool wide;          /* float64 instead of float32: FORM_NUMBER */
    enum codec codec;   /* how it travels */
};
/* The form that a received tensor must have. */
struct stage_tensor stage_expect(const struct stage *stage, const struct transfer *transfer);
/* As pipeline_offer; TAKE: *slot is where its data goes. FULL: the room descriptor will be written
 * to. */
enum transfer_verdict stage_offer(struct stage *stage, const struct transfer *transfer,
                                  struct slot_claim *claim, void **slot);
bool stage_holds(struct stage *stage, const struct transfer *transfer,
                 const struct slot_claim *claim);
bool stage_received(struct stage *stage, const struct transfer *transfer,
                    const struct slot_claim *claim);
void stage_abandon(struct stage *stage, const struct transfer *transfer,
                   const struct slot_claim *claim);
void stage_mark(struct stage *stage, int64_t step);

/* The decoder of received tensors of this form; NULL: they are not coded. The receiver's thread
 * owns it. */
struct coder *stage_decoder(struct stage *stage, const struct transfer *transfer);

/* ---- the senders ---- */
/* A new coder for the tensors of that direction, for its sender; NULL: they are not coded. */
NODISCARD int stage_new_coder(const struct stage *stage, enum stage_direction direction,
                              struct coder **out, struct err *err);

struct stage_outgoing {
    struct transfer transfer;
    bool last; /* the stop mark: an empty tensor */
    struct round_mark mark;
    const void *data;
    struct stage_tensor tensor;
    size_t output;
};
/* Wait up to wait_ns for a tensor of that direction. false: none; true also if cancelled. */
bool stage_wait_outgoing(struct stage *stage, enum stage_direction direction, int64_t wait_ns);
/* Wait for the next tensor of that direction, in order. false: cancelled. */
bool stage_next_outgoing(struct stage *stage, enum stage_direction direction,
                         struct stage_outgoing *out);
/* The neighbour has it. */
void stage_outgoing_sent(struct stage *stage, const struct stage_outgoing *outgoing);
/* Wait up to wait_ns while tensors are being sent or queued. */
void stage_wait_quiet(struct stage *stage, int64_t wait_ns);

#endif
