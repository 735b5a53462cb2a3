#include "agent/core/metric_queue.h"

#include <string.h>

static size_t less(size_t value, size_t by)
{
    return value - (value < by ? value : by);
}

/* Forget the oldest metrics. */
static void forget(struct metric_queue *queue, size_t count)
{
    queue->sent = less(queue->sent, less(count, queue->answered));
    queue->answered = less(queue->answered, count);
    queue->settling = less(queue->settling, count);
    queue->count -= count;
    queue->first = queue->count > 0 ? (queue->first + count) % METRIC_QUEUE_MAX : 0;
    while (count > 0) {
        struct metric_lot *lot = &queue->lot[0];
        const size_t taken = count < lot->count ? count : lot->count;
        lot->count -= taken;
        count -= taken;
        if (lot->count == 0) {
            queue->lot_count--;
            memmove(queue->lot, queue->lot + 1, queue->lot_count * sizeof(queue->lot[0]));
        }
    }
}

static void lose(struct metric_queue *queue, size_t count)
{
    queue->lost += less(count, queue->answered);
    forget(queue, count);
}

/* Return the lot of the first unacknowledged metric, and the number of unacknowledged metrics in
 * that lot; NULL: there is none. */
static const struct metric_lot *next_lot(const struct metric_queue *queue, size_t *count)
{
    size_t answered = queue->answered;
    for (size_t i = 0; i < queue->lot_count; i++) {
        const struct metric_lot *lot = &queue->lot[i];
        if (answered < lot->count) {
            *count = lot->count - answered;
            return lot;
        }
        answered -= lot->count;
    }
    *count = 0;
    return NULL;
}

static bool is_of(const struct metric_lot *lot, const struct run_name *run)
{
    return lot->generation == run->generation && id_equal(lot->job.text, run->job.text);
}

void metric_queue_name(struct metric_queue *queue, const struct run_name *name)
{
    queue->name[name->serial % RUN_NAMES_MAX] = *name;
}

void metric_queue_add(struct metric_queue *queue, int64_t serial, const struct metric *metric)
{
    const struct run_name *run = &queue->name[serial % RUN_NAMES_MAX];
    if (run->serial != serial) {
        queue->lost++;
        return;
    }
    if (queue->count == METRIC_QUEUE_MAX) {
        lose(queue, 1);
    }
    if (queue->lot_count == 0 || !is_of(&queue->lot[queue->lot_count - 1], run)) {
        if (queue->lot_count == METRIC_LOTS_MAX) {
            lose(queue, queue->lot[0].count);
        }
        queue->lot[queue->lot_count++] =
            (struct metric_lot){.job = run->job, .generation = run->generation};
    }
    queue->item[(queue->first + queue->count) % METRIC_QUEUE_MAX] = *metric;
    queue->count++;
    queue->lot[queue->lot_count - 1].count++;
}

void metric_queue_send(struct metric_queue *queue)
{
    size_t waiting = 0;
    (void)next_lot(queue, &waiting);
    queue->sent = waiting < METRICS_MAX ? waiting : METRICS_MAX;
}

size_t metric_queue_waiting(const struct metric_queue *queue)
{
    return queue->count - queue->answered;
}

bool metric_queue_fits(const struct metric_queue *queue)
{
    size_t waiting = 0;
    (void)next_lot(queue, &waiting);
    return waiting == metric_queue_waiting(queue) && waiting <= METRICS_MAX;
}

void metric_queue_copy(const struct metric_queue *queue, struct heartbeat *out)
{
    size_t waiting = 0;
    const struct metric_lot *lot = next_lot(queue, &waiting);
    out->metric_count = queue->sent;
    if (queue->sent > 0) {
        out->metrics_job = lot->job;
        out->metrics_generation = lot->generation;
    }
    for (size_t i = 0; i < queue->sent; i++) {
        out->metric[i] = queue->item[(queue->first + queue->answered + i) % METRIC_QUEUE_MAX];
    }
}

void metric_queue_acknowledge(struct metric_queue *queue, int64_t now_ms)
{
    queue->answered += queue->sent;
    queue->sent = 0;
    const int64_t passed_ms = now_ms - queue->answered_ms;
    queue->settled_ms += passed_ms < 0                  ? 0
                         : passed_ms < METRIC_ANSWER_MS ? passed_ms
                                                        : METRIC_ANSWER_MS;
    queue->answered_ms = now_ms;
    if (queue->settled_ms >= METRIC_SETTLE_MS) {
        forget(queue, queue->settling);
        queue->settling = queue->answered;
        queue->settled_ms = 0;
    }
}

void metric_queue_return(struct metric_queue *queue)
{
    queue->sent = 0;
}

void metric_queue_resend(struct metric_queue *queue)
{
    queue->answered = queue->settling = queue->sent = 0;
}
