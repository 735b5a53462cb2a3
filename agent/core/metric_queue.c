#include "agent/core/metric_queue.h"

void metric_queue_clear(struct metric_queue *queue)
{
    queue->first = 0;
    queue->count = 0;
    queue->sent = 0;
}

void metric_queue_add(struct metric_queue *queue, const struct metric *metric)
{
    if (queue->count == METRIC_QUEUE_MAX) {
        queue->first = (queue->first + 1) % METRIC_QUEUE_MAX;
        queue->count--;
        queue->sent -= queue->sent > 0;
        queue->lost++;
    }
    queue->item[(queue->first + queue->count) % METRIC_QUEUE_MAX] = *metric;
    queue->count++;
}

void metric_queue_send(struct metric_queue *queue)
{
    queue->sent = queue->count < METRICS_MAX ? queue->count : METRICS_MAX;
}

size_t metric_queue_copy(const struct metric_queue *queue, struct metric out[METRICS_MAX])
{
    for (size_t i = 0; i < queue->sent; i++) {
        out[i] = queue->item[(queue->first + i) % METRIC_QUEUE_MAX];
    }
    return queue->sent;
}

void metric_queue_acknowledge(struct metric_queue *queue)
{
    queue->first = (queue->first + queue->sent) % METRIC_QUEUE_MAX;
    queue->count -= queue->sent;
    queue->sent = 0;
}

void metric_queue_return(struct metric_queue *queue)
{
    queue->sent = 0;
}
