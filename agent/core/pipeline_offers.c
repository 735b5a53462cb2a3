#include "agent/core/pipeline_parts.h"

static bool same(const struct transfer *a, const struct transfer *b)
{
    return a->kind == b->kind && a->step == b->step && a->micro_batch == b->micro_batch;
}

/* Whether such a tensor can exist at all, how far ahead a neighbour may be, and whether it was used
 * already. */
static enum pipeline_verdict judge(const struct pipeline *pipeline, const struct transfer *transfer)
{
    const struct pipeline_config *config = &pipeline->config;
    const int64_t current = pipeline->version + 1;
    const size_t micro_batch = transfer->micro_batch;
    switch (transfer->kind) {
    case TRANSFER_ACTIVATION:
        if (pipeline_is_first(pipeline) || micro_batch > config->micro_batches ||
            transfer->step > config->total_steps) {
            return PIPELINE_REFUSE;
        }
        if (micro_batch == config->micro_batches) {
            return transfer->step < pipeline->version || transfer->step > current ? PIPELINE_REFUSE
                                                                                  : PIPELINE_MARK;
        }
        /* The stage before may have updated while this one still does. */
        if (transfer->step > current + 1) {
            return PIPELINE_REFUSE;
        }
        if (transfer->step < current ||
            (transfer->step == current && micro_batch < pipeline->backwards)) {
            return PIPELINE_DUPLICATE;
        }
        return PIPELINE_TAKE;
    case TRANSFER_EVALUATION:
        if (pipeline_is_first(pipeline) || micro_batch >= config->evaluation_batches ||
            transfer->step > current || !pipeline_evaluation_due(pipeline, transfer->step)) {
            return PIPELINE_REFUSE;
        }
        if (transfer->step < pipeline->version ||
            (transfer->step == pipeline->version &&
             (!pipeline->evaluating || micro_batch < pipeline->evaluated))) {
            return PIPELINE_DUPLICATE;
        }
        return PIPELINE_TAKE;
    case TRANSFER_NORM:
        if (!config->clips_norm || pipeline_is_last(pipeline) || micro_batch != 0 ||
            transfer->step > current ||
            (transfer->step == current && pipeline->forwards < config->micro_batches)) {
            return PIPELINE_REFUSE;
        }
        return transfer->step < current || pipeline->summed ? PIPELINE_DUPLICATE : PIPELINE_TAKE;
    case TRANSFER_NORM_TOTAL:
        if (!config->clips_norm || pipeline_is_first(pipeline) || micro_batch != 0 ||
            transfer->step > current || (transfer->step == current && !pipeline->summed)) {
            return PIPELINE_REFUSE;
        }
        return transfer->step < current ? PIPELINE_DUPLICATE : PIPELINE_TAKE;
    case TRANSFER_GRADIENT:
        if (pipeline_is_last(pipeline) || micro_batch >= config->micro_batches ||
            transfer->step > current ||
            (transfer->step == current && micro_batch >= pipeline->forwards)) {
            return PIPELINE_REFUSE;
        }
        if (transfer->step < current || micro_batch < pipeline->backwards) {
            return PIPELINE_DUPLICATE;
        }
        return PIPELINE_TAKE;
    }
    return PIPELINE_REFUSE;
}

enum pipeline_verdict pipeline_offer(struct pipeline *pipeline, const struct transfer *transfer,
                                     struct pipeline_claim *claim)
{
    enum pipeline_verdict verdict = judge(pipeline, transfer);
    if (verdict == PIPELINE_TAKE && pipeline->stopped) {
        return PIPELINE_DUPLICATE;
    }
    if (verdict != PIPELINE_TAKE) {
        return verdict;
    }
    struct slot *slot = pipeline_slot_of(pipeline, transfer);
    if (slot->state != SLOT_FREE && !same(&slot->key, transfer)) {
        return PIPELINE_FULL;
    }
    if (slot->state == SLOT_FULL) {
        return PIPELINE_DUPLICATE;
    }
    slot->state = SLOT_RECEIVING;
    slot->key = *transfer;
    slot->claim = ++pipeline->claims;
    slot->mark = claim->mark = (struct round_mark){0};
    claim->slot = (size_t)(slot - pipeline_slots_of(pipeline, transfer->kind));
    claim->number = slot->claim;
    return PIPELINE_TAKE;
}

bool pipeline_holds(const struct pipeline *pipeline, const struct transfer *transfer,
                    const struct pipeline_claim *claim)
{
    const struct slot *slot = pipeline_slot_of(pipeline, transfer);
    return slot->state == SLOT_RECEIVING && slot->claim == claim->number;
}

bool pipeline_received(struct pipeline *pipeline, const struct transfer *transfer,
                       const struct pipeline_claim *claim)
{
    if (!pipeline_holds(pipeline, transfer, claim)) {
        return false;
    }
    struct slot *slot = pipeline_slot_of(pipeline, transfer);
    slot->mark = claim->mark;
    /* An evaluation may have been given up while the tensor was on its way. */
    slot->state = judge(pipeline, transfer) == PIPELINE_TAKE ? SLOT_FULL : SLOT_FREE;
    return true;
}

void pipeline_abandon(struct pipeline *pipeline, const struct transfer *transfer,
                      const struct pipeline_claim *claim)
{
    if (pipeline_holds(pipeline, transfer, claim)) {
        pipeline_slot_of(pipeline, transfer)->state = SLOT_FREE;
    }
}

void pipeline_mark(struct pipeline *pipeline, int64_t step)
{
    pipeline->stop_version = step;
}
