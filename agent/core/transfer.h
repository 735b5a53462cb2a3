/* transfer.h: the kinds of tensors between two stages, in one table that sender, receiver, path,
 * pipeline and simulator read. Only the rule that judges a tensor (pipeline.c) and the task that
 * produces it (pipeline_output) depend on its kind otherwise. Pure. */
#ifndef AGENT_CORE_TRANSFER_H
#define AGENT_CORE_TRANSFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum transfer_kind {
    TRANSFER_ACTIVATION,
    TRANSFER_GRADIENT,
    TRANSFER_EVALUATION,
    TRANSFER_NORM,       /* the sum of squares of the stages after the receiver */
    TRANSFER_NORM_TOTAL, /* the sum of squares of all stages */
    TRANSFER_JUDGED,     /* the metric of an evaluation that may end the job */
};
#define TRANSFER_KINDS 6

/* Kinds of one lane share the receive slots at one end and the send buffers at the other. */
enum transfer_lane { LANE_ACTIVATION, LANE_GRADIENT, LANE_NORM, LANE_TOTAL, LANE_JUDGED };
#define TRANSFER_LANES 5

/* How many tensors of a kind a step has. */
enum transfer_key { KEY_MICRO_BATCH, KEY_STEP /* one; its micro_batch is 0 */ };

enum transfer_form {
    FORM_MICRO_BATCH, /* float32 [samples][shape at the boundary] */
    FORM_TEST,        /* the same; the last micro-batch of a test set may be short */
    FORM_NUMBER,      /* one float64 */
};

struct transfer_info {
    const char *name; /* the word in the path */
    bool back;        /* to the previous stage; otherwise to the next */
    enum transfer_key key;
    enum transfer_lane lane;
    enum transfer_form form;
    bool measures_link; /* its time counts as a measurement of the link */
    bool coded;         /* travels by the codec of its link, except for the stop mark */
};
extern const struct transfer_info transfer_table[TRANSFER_KINDS];

/* What makes a tensor between two stages unique within a generation. */
struct transfer {
    enum transfer_kind kind;
    int64_t step;       /* evaluation, judged: the version */
    size_t micro_batch; /* evaluation: counts through the test set */
};

static inline const struct transfer_info *transfer_info(const struct transfer *transfer)
{
    return &transfer_table[transfer->kind];
}

/* The receiver's decision on an offered tensor. */
enum transfer_verdict {
    TRANSFER_TAKE,      /* claimed: write into the slot, then report it received */
    TRANSFER_MARK,      /* the stop mark: there is no data */
    TRANSFER_DUPLICATE, /* it has arrived or was used: accept and discard the body */
    TRANSFER_FULL,      /* its slot is still in use: wait */
    TRANSFER_REFUSE,    /* not a tensor of this generation and device */
};

bool transfer_equal(const struct transfer *a, const struct transfer *b);
/* Return the position of a tensor among those of its kind that may be on their way together. Slots
 * and buffers are assigned by it, modulo their number. Steps overlap in the asynchronous schedule,
 * evaluations never do. */
static inline size_t transfer_position(const struct transfer *transfer, bool steps_overlap)
{
    const bool by_step = steps_overlap && transfer->kind != TRANSFER_EVALUATION;
    return by_step ? (size_t)transfer->step : transfer->micro_batch;
}
/* Find the kind with that name; false: unknown. */
bool transfer_find(const char *name, enum transfer_kind *out);

#endif
