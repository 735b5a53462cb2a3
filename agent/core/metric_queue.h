/* metric_queue.h: metrics on their way to the coordinator: kept until the heartbeat that carried them was answered; the
 * oldest make room when there are too many. Part of a session's state. Pure. */
#ifndef AGENT_CORE_METRIC_QUEUE_H
#define AGENT_CORE_METRIC_QUEUE_H

#include <stddef.h>
#include <stdint.h>

#include "schema/heartbeat.h"

#define METRIC_QUEUE_MAX 8192

struct metric_queue {
    struct metric item[METRIC_QUEUE_MAX]; /* a ring */
    size_t first, count;
    size_t sent;   /* the oldest ones, in the heartbeat under way */
    uint64_t lost; /* for want of room, ever */
};

void metric_queue_clear(struct metric_queue *queue);
void metric_queue_add(struct metric_queue *queue, const struct metric *metric);
/* The oldest METRICS_MAX are being sent. */
void metric_queue_send(struct metric_queue *queue);
/* Copy those that are being sent; returns their number. */
size_t metric_queue_copy(const struct metric_queue *queue, struct metric out[METRICS_MAX]);
/* They have arrived: forget them. Or they have not: they will be sent again. */
void metric_queue_acknowledge(struct metric_queue *queue);
void metric_queue_return(struct metric_queue *queue);

#endif
