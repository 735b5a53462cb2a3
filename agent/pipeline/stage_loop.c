#include "agent/pipeline/stage_loop.h"

#include <inttypes.h>

#include "agent/core/evaluations.h"
#include "agent/core/pipeline_timing.h"
#include "agent/pipeline/stage_parts.h"
#include "base/assert.h"
#include "base/clock.h"

/* ---- one task ---- */

static void load(struct stage *stage, const struct pipeline_task *task, unsigned char *input)
{
    task_clock_read(&stage->clock);
    samples_inputs(stage->samples, task->step, task->micro_batch * stage->micro_batch,
                   stage->micro_batch, input);
    task_clock_has_read(&stage->clock);
}

static int do_forward(struct stage *stage, const struct pipeline_task *task, struct err *err)
{
    const struct train_position position = {.step = task->step, .micro_batch = task->micro_batch};
    const bool first = stage_is_first(stage);
    const bool last = stage_is_last(stage);
    unsigned char *input = stage->slot[LANE_ACTIVATION][first ? task->slot : task->input];
    if (first) {
        load(stage, task, input);
        if (stage->step_began_seconds == 0) {
            stage->step_began_seconds = clock_now_seconds();
        }
    }
    float *output = last ? NULL : (float *)(void *)stage->buffer[LANE_ACTIVATION][task->output];
    double loss_sum = 0;
    if (last) {
        samples_labels(stage->samples, task->step, task->micro_batch * stage->micro_batch,
                       stage->micro_batch, stage->labels);
    }
    int rc = train_forward(stage->train, task->slot, position, input, output,
                           last ? stage->labels : NULL, last ? &loss_sum : NULL, err);
    stage->loss_sum += loss_sum;
    if (rc == 0 && first && last) {
        samples_note(stage->samples, task->step, task->micro_batch * stage->micro_batch,
                     stage->micro_batch, train_losses(stage->train));
    }
    return rc;
}

static void do_backward(struct stage *stage, const struct pipeline_task *task)
{
    const float *gradient =
        stage_is_last(stage) ? NULL : (float *)(void *)stage->slot[LANE_GRADIENT][task->gradient];
    float *output =
        stage_is_first(stage) ? NULL : (float *)(void *)stage->buffer[LANE_GRADIENT][task->output];
    train_backward(stage->train, task->slot, gradient, output);
}

static int do_evaluate(struct stage *stage, const struct pipeline_task *task, struct err *err)
{
    const bool first = stage_is_first(stage);
    /* On the first stage the slot is free, because no micro-batch is in flight between steps. */
    unsigned char *input = stage->slot[LANE_ACTIVATION][first ? 0 : task->input];
    stage->step_began_seconds =
        0; /* the step after an evaluation is timed from its own beginning */
    if (first) {
        samples_test_inputs(stage->samples, task->micro_batch, input);
    }
    if (stage_is_last(stage)) {
        return samples_evaluate_next(stage->samples, stage->train, task->micro_batch, input,
                                     stage->labels, err);
    }
    const size_t count =
        evaluations_part(&stage->config.samples, stage->micro_batch, task->micro_batch).count;
    float *output = (float *)(void *)stage->buffer[LANE_ACTIVATION][task->output];
    return train_evaluate(stage->train, count, input, output, NULL, NULL, NULL, err);
}

/* Compute the sum of squares from the last stage's units to this one's. On stage 0 it is the
 * total. */
static int do_sum(struct stage *stage, struct err *err)
{
    const enum transfer_lane out = stage_is_first(stage) ? LANE_TOTAL : LANE_NORM;
    const double received = stage_is_last(stage) ? 0 : *stage_number(stage->slot[LANE_NORM]);
    return train_sum_squares(stage->train, received, stage_number(stage->buffer[out]), err);
}

static int do_update(struct stage *stage, const struct pipeline_task *task, struct err *err)
{
    struct mixer *mixer = stage->work.mixer;
    const double rate = mixer ? mixer_rate(mixer)
                              : learning_rate_at(&stage->spec->learning_rate, task->step,
                                                 stage->config.total_steps);
    if (stage->spec->optimizer.clip_norm > 0) {
        unsigned char **lane =
            stage_is_first(stage) ? stage->buffer[LANE_TOTAL] : stage->slot[LANE_TOTAL];
        int rc = train_clip(stage->train, *stage_number(lane), err);
        if (rc != 0) {
            return rc;
        }
    }
    return train_update(stage->train, task->step, rate, err);
}

/* Return the metric to judge: the last stage's, on all stages. */
static double do_judge(struct stage *stage)
{
    const double value = stage_is_last(stage)
                             ? tally_metric(samples_tally(stage->samples), stage->spec->stop.metric)
                             : *stage_number(stage->slot[LANE_JUDGED]);
    *stage_number(stage->buffer[LANE_JUDGED]) = value;
    return value;
}

static int do_task(struct stage *stage, struct pipeline_task *task, struct err *err)
{
    switch (task->work) {
    case PIPELINE_WAIT:
    case PIPELINE_LAST:
    case PIPELINE_STOP: return 0;
    case PIPELINE_FORWARD: return do_forward(stage, task, err);
    case PIPELINE_BACKWARD: do_backward(stage, task); return 0;
    case PIPELINE_SUM: return do_sum(stage, err);
    case PIPELINE_TOTAL:
        *stage_number(stage->buffer[LANE_TOTAL]) = *stage_number(stage->slot[LANE_TOTAL]);
        return 0;
    case PIPELINE_UPDATE: return do_update(stage, task, err);
    case PIPELINE_EVALUATE: return do_evaluate(stage, task, err);
    case PIPELINE_JUDGE: task->value = do_judge(stage); return 0;
    }
    return 0;
}

/* ---- around it ---- */

static void report_step(struct stage *stage, const struct work_listener *listener, int64_t step)
{
    if (stage_is_last(stage)) {
        work_report(listener, step, METRIC_LOSS, stage->loss_sum / (double)stage->spec->batch);
        stage->loss_sum = 0;
    }
    if (stage_is_first(stage)) {
        const double now = clock_now_seconds();
        work_report(listener, step, METRIC_STEP_SECONDS, now - stage->step_began_seconds);
        stage->step_began_seconds = now;
        if (stage->work.mixer) {
            mixer_note_step(stage->work.mixer, now);
        }
    }
    atomic_store(&stage->step, step);
}

static void enqueue(struct stage *stage, enum stage_direction direction,
                    const struct stage_outgoing *outgoing)
{
    struct outgoing_queue *queue = &stage->queue[direction];
    ASSERT(queue->count < queue->capacity);
    queue->item[(queue->first + queue->count++) % queue->capacity] = *outgoing;
    (void)pthread_cond_signal(&queue->filled);
    keeper_add_waiting(stage->work.keeper, 1);
}

/* Hand the task's tensor to its sender. Under the lock. */
static void send(struct stage *stage, const struct pipeline_task *task)
{
    struct stage_outgoing outgoing = {.last = task->announce, .output = task->output};
    if (!pipeline_output(stage->pipeline, task, &outgoing.transfer)) {
        return;
    }
    if (task->work == PIPELINE_FORWARD) {
        outgoing.mark = task->mark;
    }
    outgoing.tensor = stage_tensor_of(stage, &outgoing.transfer, true);
    if (!outgoing.last) {
        outgoing.data = stage->buffer[transfer_info(&outgoing.transfer)->lane][task->output];
    }
    enqueue(stage, stage_direction_of(&outgoing.transfer), &outgoing);
}

static void make_room_known(struct stage *stage)
{
    if (stage->room_wanted) {
        work_has_room(stage->config.room_fd);
        stage->room_wanted = false;
    }
}

static void finish(struct stage *stage, const struct pipeline_task *task)
{
    struct timing_task timed = task_clock_end(&stage->clock);
    timed.work = pipeline_timed_as(task->work);
    timed.unit_seconds = task->work == PIPELINE_BACKWARD
                             ? keeper_backward_seconds(stage->work.keeper)
                             : keeper_forward_seconds(stage->work.keeper);
    (void)pthread_mutex_lock(&stage->lock);
    pipeline_done(stage->pipeline, task);
    send(stage, task);
    timing_add(&stage->timing, &timed);
    make_room_known(stage);
    (void)pthread_mutex_unlock(&stage->lock);
}

/* The next task; WAIT when cancelled. */
static enum pipeline_work next(struct stage *stage, struct pipeline_task *task)
{
    (void)pthread_mutex_lock(&stage->lock);
    struct mixer *mixer = stage->work.mixer;
    enum pipeline_work work = PIPELINE_WAIT;
    task_clock_wait(&stage->clock);
    while (!cancel_is_set(stage->cancel)) {
        pipeline_rest(stage->pipeline, mixer && mixer_holds(mixer, stage_step(stage)));
        work = pipeline_next(stage->pipeline, task);
        if (work != PIPELINE_WAIT) {
            break;
        }
        /* A stage that waits only for orders is at a step boundary. */
        if (mixer && mixer_is_due(mixer, stage_step(stage))) {
            (void)pthread_mutex_unlock(&stage->lock);
            stage_mix(stage, stage_step(stage));
            (void)pthread_mutex_lock(&stage->lock);
            continue;
        }
        if (pipeline_waits(stage->pipeline) == PIPELINE_WAITS_FOR_ORDERS) {
            stage->step_began_seconds = 0; /* the wait is no part of the next step */
        }
        const double began = clock_now_seconds();
        (void)pthread_cond_wait(&stage->changed, &stage->lock);
        timing_wait(&stage->timing, pipeline_share_of(pipeline_waits(stage->pipeline)),
                    clock_now_seconds() - began);
        task_clock_free(&stage->clock);
    }
    (void)pthread_mutex_unlock(&stage->lock);
    return work;
}

static const char *work_name(enum pipeline_work work)
{
    static const char *const names[] = {
        [PIPELINE_WAIT] = "wait",         [PIPELINE_FORWARD] = "forward",
        [PIPELINE_BACKWARD] = "backward", [PIPELINE_SUM] = "sum",
        [PIPELINE_TOTAL] = "total",       [PIPELINE_UPDATE] = "update",
        [PIPELINE_EVALUATE] = "evaluate", [PIPELINE_JUDGE] = "judge",
        [PIPELINE_LAST] = "last",         [PIPELINE_STOP] = "stop",
    };
    return names[work];
}

/* Begin after an empty pipeline, where no later batch uses a version before this one. */
static void begin_after(struct stage *stage, int64_t version)
{
    if (stage->versions > 1) {
        train_restart(stage->train, version);
    }
}

static void end_evaluation(struct stage *stage, const struct work_listener *listener,
                           int64_t version)
{
    if (stage_is_last(stage)) {
        tally_report(samples_tally(stage->samples), listener, version);
    }
    begin_after(stage, version);
}

int stage_loop(struct stage *stage, const struct work_listener *listener, int64_t *version,
               struct err *err)
{
    struct pipeline_task task;
    task_clock_free(&stage->clock);
    begin_after(stage, stage->config.resume_version);
    for (;;) {
        const enum pipeline_work work = next(stage, &task);
        if (work == PIPELINE_WAIT) {
            train_discard(stage->train);
            return err_set(err, ERR_CANCELLED, "cancelled");
        }
        if (task.opens_round && listener->round_opened) {
            listener->round_opened(listener->arg);
        }
        task_clock_begin(&stage->clock);
        const int rc = do_task(stage, &task, err);
        if (rc != 0) {
            train_discard(stage->train);
            return err_wrap(err, "step %" PRId64 " %s", task.step, work_name(work));
        }
        task_clock_rest(&stage->clock);
        if (work == PIPELINE_UPDATE) {
            if (task.mark.kinds != 0 && listener->snapshot) {
                listener->snapshot(listener->arg, task.step, &task.mark);
                task_clock_free(&stage->clock);
            }
            report_step(stage, listener, task.step);
        } else if (work == PIPELINE_EVALUATE && task.evaluation_ends) {
            end_evaluation(stage, listener, task.step);
        }
        finish(stage, &task);
        if (work == PIPELINE_UPDATE) {
            stage_mix(stage, task.step);
        }
        if (work == PIPELINE_STOP) {
            stage_settle(stage, task.step);
            if (cancel_is_set(stage->cancel)) {
                return err_set(err, ERR_CANCELLED, "cancelled");
            }
            task_clock_wait(&stage->clock);
            *version = task.step;
            return 0;
        }
    }
}
