#include "agent/core/metric_queue.h"

#include <string.h>

/* Forget the oldest `count`, which are of one lot. */
static void forget(struct metric_queue *queue, size_t count)
{
    queue->count -= count;
    queue->first = queue->count > 0 ? (queue->first + count) % METRIC_QUEUE_MAX : 0;
    queue->sent -= queue->sent < count ? queue->sent : count;
    queue->lot[0].count -= count;
    if (queue->lot[0].count == 0) {
        queue->lot_count--;
        memmove(queue->lot, queue->lot + 1, queue->lot_count * sizeof(queue->lot[0]));
    }
}

static void lose(struct metric_queue *queue, size_t count)
{
    queue->lost += count;
    forget(queue, count);
}

static bool is_of(const struct metric_lot *lot, const struct job_id *job, int64_t generation)
{
    return lot->generation == generation && strcmp(lot->job.text, job->text) == 0;
}

void metric_queue_add(struct metric_queue *queue, const struct job_id *job, int64_t generation,
                      const struct metric *metric)
{
    if (queue->count == METRIC_QUEUE_MAX) {
        lose(queue, 1);
    }
    if (queue->lot_count == 0 || !is_of(&queue->lot[queue->lot_count - 1], job, generation)) {
        if (queue->lot_count == METRIC_LOTS_MAX) {
            lose(queue, queue->lot[0].count);
        }
        queue->lot[queue->lot_count++] = (struct metric_lot){.job = *job, .generation = generation};
    }
    queue->item[(queue->first + queue->count) % METRIC_QUEUE_MAX] = *metric;
    queue->count++;
    queue->lot[queue->lot_count - 1].count++;
}

void metric_queue_send(struct metric_queue *queue)
{
    const size_t oldest = queue->lot_count > 0 ? queue->lot[0].count : 0;
    queue->sent = oldest < METRICS_MAX ? oldest : METRICS_MAX;
}

bool metric_queue_fits(const struct metric_queue *queue)
{
    return queue->count <= METRICS_MAX && queue->lot_count <= 1;
}

void metric_queue_copy(const struct metric_queue *queue, struct heartbeat *out)
{
    out->metric_count = queue->sent;
    if (queue->sent > 0) {
        memcpy(out->metrics_job, queue->lot[0].job.text, sizeof(out->metrics_job));
        out->metrics_generation = queue->lot[0].generation;
    }
    for (size_t i = 0; i < queue->sent; i++) {
        out->metric[i] = queue->item[(queue->first + i) % METRIC_QUEUE_MAX];
    }
}

void metric_queue_acknowledge(struct metric_queue *queue)
{
    if (queue->sent > 0) {
        forget(queue, queue->sent);
    }
}

void metric_queue_return(struct metric_queue *queue)
{
    queue->sent = 0;
}
