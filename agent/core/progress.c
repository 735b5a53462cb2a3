#include "agent/core/progress.h"

bool progress_is_first(const struct progress *at)
{
    return at->config.index == 0;
}

bool progress_is_last(const struct progress *at)
{
    return at->config.index + 1 == at->config.count;
}

bool progress_evaluation_due(const struct progress *at, int64_t version)
{
    const struct pipeline_config *config = &at->config;
    return version > 0 && config->evaluate_every > 0 && config->evaluation_batches > 0 &&
           (version % config->evaluate_every == 0 || version == config->total_steps);
}

struct transfer progress_key(const struct progress *at, enum transfer_kind kind, size_t after)
{
    const size_t micro_batches = at->config.micro_batches;
    return (struct transfer){.kind = kind,
                             .step = at->version + 1 + (int64_t)(after / micro_batches),
                             .micro_batch = after % micro_batches};
}

int64_t progress_begun(const struct progress *at)
{
    return at->forwards == 0 ? at->version
                             : progress_key(at, TRANSFER_ACTIVATION, at->forwards - 1).step;
}

size_t progress_flush(const struct progress *at, int64_t stop_version)
{
    const struct pipeline_config *config = &at->config;
    if (!config->async) {
        return config->micro_batches;
    }
    int64_t border = config->total_steps < stop_version ? config->total_steps : stop_version;
    const int64_t every = config->evaluation_batches > 0 ? config->evaluate_every : 0;
    if (every > 0 && (at->version / every + 1) * every < border) {
        border = (at->version / every + 1) * every;
    }
    return (size_t)(border - at->version);
}

/* Return the position of a micro-batch, counted from the first one after step `version`; negative:
 * before it. */
static int64_t after_version(const struct progress *at, const struct transfer *transfer)
{
    return (transfer->step - at->version - 1) * (int64_t)at->config.micro_batches +
           (int64_t)transfer->micro_batch;
}

/* Return whether the backward pass of a micro-batch is done. */
static bool is_used(const struct progress *at, const struct transfer *transfer)
{
    return after_version(at, transfer) < (int64_t)at->backwards;
}

/* Each kind has its own rule for how far ahead a neighbour may be, and whether the tensor was used
 * already. progress_judge has the common part. */
static enum transfer_verdict judge_activation(const struct progress *at,
                                              const struct transfer *transfer)
{
    const struct pipeline_config *config = &at->config;
    if (transfer->micro_batch > config->micro_batches || transfer->step > config->total_steps) {
        return TRANSFER_REFUSE;
    }
    /* The previous stage may have updated before this stage has. Where steps overlap, it has the
     * gradients of the batches whose backward pass is done here. */
    const size_t ahead =
        config->async ? at->backwards + config->previous_in_flight : 2 * config->micro_batches;
    if (transfer->micro_batch == config->micro_batches) {
        const int64_t most = config->async ? (int64_t)ahead : 1;
        return transfer->step < progress_begun(at) || transfer->step > at->version + most
                   ? TRANSFER_REFUSE
                   : TRANSFER_MARK;
    }
    if (after_version(at, transfer) >= (int64_t)ahead) {
        return TRANSFER_REFUSE;
    }
    return is_used(at, transfer) ? TRANSFER_DUPLICATE : TRANSFER_TAKE;
}

static enum transfer_verdict judge_evaluation(const struct progress *at,
                                              const struct transfer *transfer)
{
    if (transfer->micro_batch >= at->config.evaluation_batches ||
        transfer->step > at->version + 1 || !progress_evaluation_due(at, transfer->step)) {
        return TRANSFER_REFUSE;
    }
    const bool used = transfer->step < at->version ||
                      (transfer->step == at->version &&
                       (!at->evaluating || transfer->micro_batch < at->evaluated));
    return used ? TRANSFER_DUPLICATE : TRANSFER_TAKE;
}

static enum transfer_verdict judge_gradient(const struct progress *at,
                                            const struct transfer *transfer)
{
    if (transfer->micro_batch >= at->config.micro_batches ||
        after_version(at, transfer) >= (int64_t)at->forwards) {
        return TRANSFER_REFUSE;
    }
    return is_used(at, transfer) ? TRANSFER_DUPLICATE : TRANSFER_TAKE;
}

static enum transfer_verdict judge_norm(const struct progress *at, const struct transfer *transfer)
{
    const int64_t current = at->version + 1;
    if (!at->config.clips_norm || transfer->step > current ||
        (transfer->step == current && at->forwards < at->config.micro_batches)) {
        return TRANSFER_REFUSE;
    }
    return transfer->step < current || at->summed ? TRANSFER_DUPLICATE : TRANSFER_TAKE;
}

static enum transfer_verdict judge_total(const struct progress *at, const struct transfer *transfer)
{
    const int64_t current = at->version + 1;
    if (!at->config.clips_norm || transfer->step > current ||
        (transfer->step == current && !at->summed)) {
        return TRANSFER_REFUSE;
    }
    return transfer->step < current ? TRANSFER_DUPLICATE : TRANSFER_TAKE;
}

static enum transfer_verdict judge_judged(const struct progress *at,
                                          const struct transfer *transfer)
{
    const bool early = transfer->step == at->version && at->evaluating;
    if (!at->config.judges || transfer->step > at->version || early ||
        !progress_evaluation_due(at, transfer->step)) {
        return TRANSFER_REFUSE;
    }
    return transfer->step < at->version || !at->judging ? TRANSFER_DUPLICATE : TRANSFER_TAKE;
}

enum transfer_verdict progress_judge(const struct progress *at, const struct transfer *transfer)
{
    static enum transfer_verdict (*const rule[TRANSFER_KINDS])(const struct progress *at,
                                                               const struct transfer *transfer) = {
        [TRANSFER_ACTIVATION] = judge_activation, [TRANSFER_GRADIENT] = judge_gradient,
        [TRANSFER_EVALUATION] = judge_evaluation, [TRANSFER_NORM] = judge_norm,
        [TRANSFER_NORM_TOTAL] = judge_total,      [TRANSFER_JUDGED] = judge_judged,
    };
    const struct transfer_info *info = transfer_info(transfer);
    const bool no_sender = info->back ? progress_is_last(at) : progress_is_first(at);
    const bool unknown = info->key == KEY_STEP && transfer->micro_batch != 0;
    return no_sender || unknown || !rule[transfer->kind] ? TRANSFER_REFUSE
                                                         : rule[transfer->kind](at, transfer);
}

bool progress_output(const struct progress *at, const struct pipeline_task *task,
                     struct transfer *out)
{
    const bool first = progress_is_first(at);
    const bool last = progress_is_last(at);
    *out = (struct transfer){.step = task->step, .micro_batch = task->micro_batch};
    switch (task->work) {
    case PIPELINE_WAIT:
    case PIPELINE_UPDATE: return false;
    case PIPELINE_FORWARD: out->kind = TRANSFER_ACTIVATION; return !last;
    case PIPELINE_EVALUATE: out->kind = TRANSFER_EVALUATION; return !last;
    case PIPELINE_BACKWARD: out->kind = TRANSFER_GRADIENT; return !first;
    case PIPELINE_SUM:
        out->kind = first ? TRANSFER_NORM_TOTAL : TRANSFER_NORM;
        return !first || !last;
    case PIPELINE_TOTAL: out->kind = TRANSFER_NORM_TOTAL; return true;
    case PIPELINE_JUDGE: out->kind = TRANSFER_JUDGED; return !first;
    case PIPELINE_LAST:
    case PIPELINE_STOP:
        out->kind = TRANSFER_ACTIVATION;
        out->micro_batch = at->config.micro_batches;
        return task->announce;
    }
    return false;
}

/* Judge the evaluation. If the stop rule is met, the job ends at this version; all stages reach the
 * same result. */
static void judge(struct progress *at, double value)
{
    early_stop_judge(&at->config.stop, at->version, value, &at->judged);
    at->config.total_steps = early_stop_last(&at->judged, at->config.total_steps);
    at->judging = false;
}

void progress_advance(struct progress *at, const struct pipeline_task *task)
{
    switch (task->work) {
    case PIPELINE_WAIT:
    case PIPELINE_LAST:
    case PIPELINE_STOP: break;
    case PIPELINE_FORWARD: at->forwards++; break;
    case PIPELINE_BACKWARD: at->backwards++; break;
    case PIPELINE_SUM: at->summed = true; break;
    case PIPELINE_TOTAL: at->passed_on = true; break;
    case PIPELINE_UPDATE:
        at->version++;
        at->summed = at->passed_on = false;
        at->forwards -= at->config.micro_batches;
        at->backwards -= at->config.micro_batches;
        at->evaluating = progress_evaluation_due(at, at->version);
        at->evaluated = 0;
        break;
    case PIPELINE_JUDGE: judge(at, task->value); break;
    case PIPELINE_EVALUATE:
        at->evaluated++;
        at->evaluating = !task->evaluation_ends;
        at->judging = task->evaluation_ends && at->config.judges;
        break;
    }
}
