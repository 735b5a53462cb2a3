/* progress.h: the progress of a stage, and its consequences for tensors: which ones the stage still
 * expects from its neighbours, and which one a task produces for them. Pure; for pipeline.c.
 *
 * A neighbour may be ahead as far as the schedule allows, and may repeat an earlier tensor. A
 * tensor further ahead cannot exist in this generation and is refused; a used one is a
 * duplicate. */
#ifndef AGENT_CORE_PROGRESS_H
#define AGENT_CORE_PROGRESS_H

#include "agent/core/pipeline_task.h"
#include "agent/core/transfer.h"

struct progress {
    struct pipeline_config config;
    int64_t version;
    size_t forwards, backwards; /* micro-batches after step `version`; more than those of a step
                                   where steps overlap */
    bool summed, passed_on;     /* its sum of squares; the total */
    bool evaluating;            /* the version, before the next step begins */
    size_t evaluated;           /* micro-batches */
    bool judging;               /* the version was evaluated, but not judged */
    struct early_stop judged;
};

bool progress_is_first(const struct progress *at);
bool progress_is_last(const struct progress *at);
bool progress_evaluation_due(const struct progress *at, int64_t version);
/* Return the tensor of that kind for the micro-batch `after` places after step `version`. */
struct transfer progress_key(const struct progress *at, enum transfer_kind kind, size_t after);
/* Return the last step of which a forward pass has begun. */
int64_t progress_begun(const struct progress *at);
/* Return the number of micro-batches after step `version` until the pipeline drains, if the job
 * stops at `stop_version`. */
size_t progress_flush(const struct progress *at, int64_t stop_version);
/* Judge a tensor regardless of the slots: TAKE, MARK, DUPLICATE or REFUSE. */
enum transfer_verdict progress_judge(const struct progress *at, const struct transfer *transfer);
/* As pipeline_output. */
bool progress_output(const struct progress *at, const struct pipeline_task *task,
                     struct transfer *out);
/* Advance the progress by a finished task. */
void progress_advance(struct progress *at, const struct pipeline_task *task);

#endif
