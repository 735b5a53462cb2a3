#include "agent/core/evaluations.h"
#include "agent/pipeline/stage_parts.h"
#include "agent/runtime/thread.h"
#include "base/assert.h"

/* ---- the receiver ---- */

/* The neighbour at the other end of a transfer. */
static enum stage_direction neighbour_of(const struct transfer *transfer, bool outgoing)
{
    return transfer_info(transfer)->back != outgoing ? STAGE_TO_NEXT : STAGE_TO_PREVIOUS;
}

struct work_tensor stage_tensor_of(const struct stage *stage, const struct transfer *transfer,
                                   bool outgoing)
{
    const struct transfer_info *info = transfer_info(transfer);
    const enum stage_direction neighbour = neighbour_of(transfer, outgoing);
    struct work_tensor tensor = {.samples = stage->micro_batch,
                                 .shape = neighbour == STAGE_TO_NEXT ? stage->output : stage->input,
                                 .codec =
                                     info->coded ? stage->config.codec[neighbour] : CODEC_NONE};
    switch (info->form) {
    case FORM_MICRO_BATCH:
        if (transfer->micro_batch == (size_t)stage->spec->micro_batches) {
            tensor.samples = 0; /* the stop mark */
            tensor.codec = CODEC_NONE;
        }
        break;
    case FORM_TEST:
        tensor.samples =
            evaluations_part(&stage->config.samples, stage->micro_batch, transfer->micro_batch)
                .count;
        break;
    case FORM_NUMBER:
        tensor =
            (struct work_tensor){.samples = 1, .shape = {.h = 1, .w = 1, .c = 1}, .wide = true};
        break;
    }
    return tensor;
}

struct work_tensor stage_expect(const struct stage *stage, const struct transfer *transfer)
{
    return stage_tensor_of(stage, transfer, false);
}

void stage_expects(struct work *work, const struct transfer *transfer, struct work_expected *out)
{
    const struct stage *stage = stage_of(work);
    out->tensor = stage_expect(stage, transfer);
    out->boundary = transfer_info(transfer)->back ? stage->config.end : stage->config.first;
    out->decoder =
        out->tensor.codec == CODEC_NONE ? NULL : stage->decoder[neighbour_of(transfer, false)];
}

enum transfer_verdict stage_offer(struct work *work, const struct transfer *transfer,
                                  struct slot_claim *claim, void **slot)
{
    struct stage *stage = stage_of(work);
    (void)pthread_mutex_lock(&stage->lock);
    enum transfer_verdict verdict = pipeline_offer(stage->pipeline, transfer, claim);
    if (verdict == TRANSFER_FULL) {
        stage->room_wanted = true;
    }
    (void)pthread_mutex_unlock(&stage->lock);
    if (verdict == TRANSFER_TAKE) {
        *slot = stage->slot[transfer_info(transfer)->lane][claim->slot];
    }
    return verdict;
}

bool stage_holds(struct work *work, const struct transfer *transfer, const struct slot_claim *claim)
{
    struct stage *stage = stage_of(work);
    (void)pthread_mutex_lock(&stage->lock);
    bool holds = pipeline_holds(stage->pipeline, transfer, claim);
    (void)pthread_mutex_unlock(&stage->lock);
    return holds;
}

bool stage_received(struct work *work, const struct transfer *transfer,
                    const struct slot_claim *claim)
{
    struct stage *stage = stage_of(work);
    (void)pthread_mutex_lock(&stage->lock);
    bool received = pipeline_received(stage->pipeline, transfer, claim);
    if (received) {
        (void)pthread_cond_signal(&stage->changed);
    }
    (void)pthread_mutex_unlock(&stage->lock);
    return received;
}

void stage_abandon(struct work *work, const struct transfer *transfer,
                   const struct slot_claim *claim)
{
    struct stage *stage = stage_of(work);
    (void)pthread_mutex_lock(&stage->lock);
    pipeline_abandon(stage->pipeline, transfer, claim);
    (void)pthread_mutex_unlock(&stage->lock);
}

void stage_mark(struct work *work, int64_t step)
{
    struct stage *stage = stage_of(work);
    (void)pthread_mutex_lock(&stage->lock);
    pipeline_mark(stage->pipeline, step);
    (void)pthread_cond_signal(&stage->changed);
    (void)pthread_mutex_unlock(&stage->lock);
}

/* ---- the senders ---- */

bool stage_wait_outgoing(struct stage *stage, enum stage_direction direction, int64_t wait_ns)
{
    struct outgoing_queue *queue = &stage->queue[direction];
    (void)pthread_mutex_lock(&stage->lock);
    int failed = 0;
    while (queue->count == 0 && !cancel_is_set(stage->cancel) && failed == 0) {
        failed = thread_condition_wait(&queue->filled, &stage->lock, wait_ns);
    }
    const bool there = queue->count > 0 || cancel_is_set(stage->cancel);
    (void)pthread_mutex_unlock(&stage->lock);
    return there;
}

bool stage_next_outgoing(struct stage *stage, enum stage_direction direction,
                         struct stage_outgoing *out)
{
    struct outgoing_queue *queue = &stage->queue[direction];
    (void)pthread_mutex_lock(&stage->lock);
    while (queue->count == 0 && !cancel_is_set(stage->cancel)) {
        (void)pthread_cond_wait(&queue->filled, &stage->lock);
    }
    const bool found = !cancel_is_set(stage->cancel);
    if (found) {
        *out = queue->item[queue->first];
    }
    (void)pthread_mutex_unlock(&stage->lock);
    return found;
}

void stage_outgoing_sent(struct stage *stage, const struct stage_outgoing *outgoing)
{
    struct outgoing_queue *queue = &stage->queue[stage_direction_of(&outgoing->transfer)];
    (void)pthread_mutex_lock(&stage->lock);
    ASSERT(queue->count > 0);
    queue->first = (queue->first + 1) % queue->capacity;
    queue->count--;
    if (!outgoing->last) {
        pipeline_sent(stage->pipeline, outgoing->transfer.kind, outgoing->output);
        (void)pthread_cond_signal(&stage->changed);
    }
    (void)pthread_mutex_unlock(&stage->lock);
    keeper_add_waiting(stage->work.keeper, -1);
}
