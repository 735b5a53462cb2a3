#include "agent/parameter_server/member_loop.h"

#include <inttypes.h>

#include "agent/parameter_server/member_parts.h"
#include "base/assert.h"
#include "base/clock.h"

/* ---- a worker's tasks ---- */

static struct reduce_range own_block(const struct member *member, size_t block)
{
    return member->block[block].range;
}

/* Release the sums of the previous step, which were acknowledged. */
static void release_sums(struct member *member)
{
    for (size_t b = member->first_block;
         member->sums_held && b < member->blocks && member->block[b].stage == member->index; b++) {
        train_block_release(member->whole.train, own_block(member, b));
    }
    member->sums_held = false;
}

static void load(struct member *member, const struct exchange_task *task)
{
    const size_t samples = (size_t)(member->spec->batch / member->spec->micro_batches);
    const size_t first = task->micro_batch * samples;
    task_clock_read(&member->clock);
    samples_inputs(member->samples, task->step, first, samples, member->input);
    samples_labels(member->samples, task->step, first, samples, member->labels);
    task_clock_has_read(&member->clock);
}

static int do_begin(struct member *member, struct err *err)
{
    struct exchange_segments segments;
    /* Passes that begin later use the parameters that arrive now. */
    train_parameters_changed(member->whole.train);
    (void)pthread_mutex_lock(&member->lock);
    transfers_read_links(member->transfers);
    (void)pthread_mutex_unlock(&member->lock);
    transfers_choose(member->transfers, &segments);
    (void)pthread_mutex_lock(&member->lock);
    const int rc = exchange_begin(member->exchange, &segments, err);
    (void)pthread_mutex_unlock(&member->lock);
    member->segments[0] = segments.push[0].count;
    member->segments[1] = segments.pull.count;
    return rc;
}

static int do_forward(struct member *member, const struct exchange_task *task, struct err *err)
{
    struct train_stage *train = member->whole.train;
    if (task->first == 0) {
        const struct train_position position = {task->step, task->micro_batch};
        if (task->micro_batch == member->share.first) {
            release_sums(member);
        }
        load(member, task);
        int rc = train_forward_begin(train, 0, position, member->input, member->labels, err);
        if (rc != 0) {
            return rc;
        }
    }
    train_forward_layers(train, task->end);
    return task->end < member->layers
               ? 0
               : train_forward_end(train, NULL,
                                   &member->own_losses[task->micro_batch - member->share.first],
                                   err);
}

static void do_backward(struct member *member, const struct exchange_task *task)
{
    member->summing = task->block;
    if (task->micro_batch + 1 == member->share.end) {
        (void)pthread_mutex_lock(&member->lock);
        member->push_began_seconds = clock_now_seconds();
        (void)pthread_mutex_unlock(&member->lock);
    }
    train_backward(member->whole.train, 0, NULL, NULL);
    if (task->block_ends) {
        /* Callers read the memory that the pass has announced, so it must not be written again. */
        ASSERT(member->pushed[task->block] ==
               train_block(member->whole.train, own_block(member, task->block)));
        member->sums_held = task->micro_batch + 1 == member->share.end;
    }
}

static int do_evaluate(struct member *member, const struct exchange_task *task, struct err *err)
{
    transfers_note_evaluation(member->transfers);
    member_pull_began(member, 0);
    samples_test_inputs(member->samples, task->micro_batch, member->input);
    return samples_evaluate(member->samples, member->whole.train, task->micro_batch, member->input,
                            member->labels, member->own_results + task->buffer * member->numbers,
                            err);
}

/* ---- a server's ---- */

/* Compute the sum of squares from the last server's units to this one's. On the lead it is the
 * total. */
static int do_sum(struct member *member, struct err *err)
{
    const bool last = member->index + 1 == member->servers;
    return train_sum_squares(member->kept.train, last ? 0 : member->norm_in,
                             member_is_lead(member) ? &member->total_out : &member->norm_out, err);
}

static int do_update(struct member *member, const struct exchange_task *task, struct err *err)
{
    const double rate =
        learning_rate_at(&member->spec->learning_rate, task->step, member->run->total_steps);
    if (member->spec->optimizer.clip_norm > 0) {
        const double total = member_is_lead(member) ? member->total_out : member->total_in;
        int rc = train_clip(member->kept.train, total, err);
        if (rc != 0) {
            return rc;
        }
    }
    return train_update(member->kept.train, task->step, rate, err);
}

static double do_judge(struct member *member)
{
    tally_begin(member->tally);
    for (size_t i = 0; i < member->evaluation_batches; i++) {
        tally_add(member->tally, member->results + i * member->numbers);
    }
    return member->spec->has_stop ? tally_metric(member->tally, member->spec->stop.metric) : 0;
}

static int do_task(struct member *member, struct exchange_task *task, struct err *err)
{
    switch (task->work) {
    case EXCHANGE_WAIT:
    case EXCHANGE_STOP: return 0;
    case EXCHANGE_BEGIN: return do_begin(member, err);
    case EXCHANGE_FORWARD: return do_forward(member, task, err);
    case EXCHANGE_BACKWARD: do_backward(member, task); return 0;
    case EXCHANGE_EVALUATE: return do_evaluate(member, task, err);
    case EXCHANGE_ADD:
        train_add(member->kept.train, member->kept.floats, member->sum[task->right],
                  member->sum[task->block]);
        return 0;
    case EXCHANGE_SUM: return do_sum(member, err);
    case EXCHANGE_TOTAL: member->total_out = member->total_in; return 0;
    case EXCHANGE_UPDATE: return do_update(member, task, err);
    case EXCHANGE_JUDGE: task->value = do_judge(member); return 0;
    }
    return 0;
}

/* ---- around it ---- */

static enum timing_work timed_as(const struct member *member, const struct exchange_task *task)
{
    static const enum timing_work timed[] = {
        [EXCHANGE_WAIT] = TIMING_OTHER,        [EXCHANGE_BEGIN] = TIMING_NEXT,
        [EXCHANGE_FORWARD] = TIMING_FORWARD,   [EXCHANGE_BACKWARD] = TIMING_BACKWARD,
        [EXCHANGE_EVALUATE] = TIMING_EVALUATE, [EXCHANGE_ADD] = TIMING_SUM,
        [EXCHANGE_SUM] = TIMING_SUM,           [EXCHANGE_TOTAL] = TIMING_OTHER,
        [EXCHANGE_UPDATE] = TIMING_UPDATE,     [EXCHANGE_JUDGE] = TIMING_OTHER,
        [EXCHANGE_STOP] = TIMING_OTHER,
    };
    /* Parts of a pass count with its last part. A server's step ends with its update. */
    const bool part = task->work == EXCHANGE_FORWARD && task->end < member->layers;
    const bool begins = task->work == EXCHANGE_BEGIN && member->kept.train;
    return part || begins ? TIMING_OTHER : timed[task->work];
}

static enum timing_share share_of(enum exchange_wait wait)
{
    static const enum timing_share shares[] = {
        [EXCHANGE_WAITS_FOR_ORDERS] = TIMING_SHARES, [EXCHANGE_WAITS_FOR_PARAMETERS] = TIMING_INPUT,
        [EXCHANGE_WAITS_FOR_ROOM] = TIMING_ROOM,     [EXCHANGE_WAITS_FOR_BLOCKS] = TIMING_GRADIENT,
        [EXCHANGE_WAITS_FOR_NORM] = TIMING_GRADIENT,
    };
    return shares[wait];
}

static void report_step(struct member *member, const struct work_listener *listener, int64_t step)
{
    double loss = 0;
    for (int64_t m = 0; m < member->spec->micro_batches; m++) {
        loss += member->losses[m];
    }
    work_report(listener, step, METRIC_LOSS, loss / (double)member->spec->batch);
    const double now = clock_now_seconds();
    if (member->step_began_seconds > 0) {
        work_report(listener, step, METRIC_STEP_SECONDS, now - member->step_began_seconds);
    }
    member->step_began_seconds = now;
}

/* Only one worker reports, so that the numbers of a step come from one device. */
static bool tells_transfers(const struct member *member)
{
    return member_works(member) && member->share.first == 0;
}

static void report_segments(struct member *member, const struct work_listener *listener,
                            int64_t step)
{
    static const enum metric_name name[] = {METRIC_SEGMENTS_PUSH, METRIC_SEGMENTS_PULL};
    for (size_t pull = 0; step <= member->run->total_steps && pull < 2; pull++) {
        if (member->told[pull] != member->segments[pull]) {
            work_report(listener, step, name[pull], (double)member->segments[pull]);
            member->told[pull] = member->segments[pull];
        }
    }
}

static void report_pull(struct member *member, const struct work_listener *listener, int64_t step)
{
    (void)pthread_mutex_lock(&member->lock);
    const double began = member->pull_began_seconds;
    (void)pthread_mutex_unlock(&member->lock);
    if (began > 0) {
        work_report(listener, step, METRIC_PULL_SECONDS, clock_now_seconds() - began);
    }
}

/* Report the pushes of an earlier step: the last answer to a step's sums comes after its last
 * task. */
static void report_push(struct member *member, const struct work_listener *listener)
{
    (void)pthread_mutex_lock(&member->lock);
    const int64_t step = member->pushed_step;
    const double seconds = member->push_seconds;
    member->pushed_step = 0;
    (void)pthread_mutex_unlock(&member->lock);
    if (step > 0) {
        work_report(listener, step, METRIC_PUSH_SECONDS, seconds);
    }
}

static void report_transfers(struct member *member, const struct work_listener *listener,
                             const struct exchange_task *task)
{
    report_push(member, listener);
    if (task->work == EXCHANGE_BEGIN) {
        report_segments(member, listener, task->step);
        transfers_log(member->transfers, task->step);
    } else if (task->work == EXCHANGE_FORWARD && task->end == member->layers &&
               task->micro_batch == member->share.first) {
        report_pull(member, listener, task->step);
    }
}

/* Report an update before it is done for the protocol, so that the reports are in order. */
static void after_update(struct member *member, const struct work_listener *listener,
                         const struct exchange_task *task)
{
    if (task->mark.kinds != 0 && listener->snapshot) {
        listener->snapshot(listener->arg, task->step, &task->mark);
    }
    if (member_is_lead(member)) {
        report_step(member, listener, task->step);
    }
}

/* Transfers overlap with the whole time of a pass, including stops by a quota or other programs. So
 * note the times of the layers with the stops added. */
static void note_pass(struct member *member, const struct exchange_task *task,
                      const struct timing_task *timed)
{
    const struct keeper *keeper = member->work.keeper;
    const bool forward = task->work == EXCHANGE_FORWARD;
    if (!forward && task->work != EXCHANGE_BACKWARD) {
        return;
    }
    member->pass_seconds += timed->seconds;
    member->pass_stopped_seconds += timed->stopped_seconds;
    if (forward && task->end < member->layers) {
        return;
    }
    const double stops =
        member->pass_seconds > 0 ? member->pass_stopped_seconds / member->pass_seconds : 0;
    transfers_note_pass(member->transfers, forward,
                        forward ? keeper_layer_forward_seconds(keeper)
                                : keeper_layer_backward_seconds(keeper),
                        timed->scale * (1 + stops));
    member->pass_seconds = member->pass_stopped_seconds = 0;
}

static void finish(struct member *member, const struct exchange_task *task)
{
    struct timing_task timed = task_clock_end(&member->clock);
    timed.work = timed_as(member, task);
    timed.unit_seconds = task->work == EXCHANGE_BACKWARD
                             ? keeper_backward_seconds(member->work.keeper)
                             : keeper_forward_seconds(member->work.keeper);
    note_pass(member, task, &timed);
    (void)pthread_mutex_lock(&member->lock);
    exchange_done(member->exchange, task);
    timing_add(&member->timing, &timed);
    member_settle(member);
    (void)pthread_mutex_unlock(&member->lock);
}

/* The next task; WAIT when cancelled. */
static enum exchange_work next(struct member *member, struct exchange_task *task)
{
    (void)pthread_mutex_lock(&member->lock);
    enum exchange_work work = EXCHANGE_WAIT;
    task_clock_wait(&member->clock);
    while (!cancel_is_set(member->cancel)) {
        work = exchange_next(member->exchange, task);
        if (work != EXCHANGE_WAIT) {
            break;
        }
        const double began = clock_now_seconds();
        (void)pthread_cond_wait(&member->changed, &member->lock);
        timing_wait(&member->timing, share_of(exchange_waits(member->exchange)),
                    clock_now_seconds() - began);
        task_clock_free(&member->clock);
    }
    (void)pthread_mutex_unlock(&member->lock);
    return work;
}

static const char *work_name(enum exchange_work work)
{
    static const char *const names[] = {
        [EXCHANGE_WAIT] = "wait",         [EXCHANGE_BEGIN] = "begin",
        [EXCHANGE_FORWARD] = "forward",   [EXCHANGE_BACKWARD] = "backward",
        [EXCHANGE_EVALUATE] = "evaluate", [EXCHANGE_ADD] = "add",
        [EXCHANGE_SUM] = "sum",           [EXCHANGE_TOTAL] = "total",
        [EXCHANGE_UPDATE] = "update",     [EXCHANGE_JUDGE] = "judge",
        [EXCHANGE_STOP] = "stop",
    };
    return names[work];
}

/* Return twice the bytes that arrive here in a step: sums of all blocks, and the parameters. */
static int64_t moves_of_step(const struct member *member)
{
    const size_t floats = member->kept.floats * member->blocks + member->whole.floats;
    return (int64_t)(2 * floats * sizeof(float));
}

/* At the end, leave the step in progress untouched: receiver and callers still use its sums, and no
 * state contains any part of it. */
int member_loop(struct member *member, const struct work_listener *listener, int64_t *version,
                struct err *err)
{
    struct exchange_task task;
    task_clock_free(&member->clock);
    for (;;) {
        atomic_store(&member->moves_left, moves_of_step(member));
        const enum exchange_work work = next(member, &task);
        if (work == EXCHANGE_WAIT) {
            return err_set(err, ERR_CANCELLED, "cancelled");
        }
        if (task.opens_round && listener->round_opened) {
            listener->round_opened(listener->arg);
        }
        task_clock_begin(&member->clock);
        const int rc = do_task(member, &task, err);
        if (rc != 0) {
            return err_wrap(err, "step %" PRId64 " %s", task.step, work_name(work));
        }
        task_clock_rest(&member->clock);
        if (tells_transfers(member)) {
            report_transfers(member, listener, &task);
        }
        if (work == EXCHANGE_UPDATE) {
            after_update(member, listener, &task);
        } else if (work == EXCHANGE_JUDGE) {
            tally_report(member->tally, listener, task.step);
            member->step_began_seconds = 0; /* the next step contains the evaluation */
        }
        task_clock_free(&member->clock);
        finish(member, &task);
        if (work == EXCHANGE_STOP) {
            task_clock_wait(&member->clock);
            *version = task.step;
            return 0;
        }
    }
}
