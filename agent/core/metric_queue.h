/* metric_queue.h: metrics on their way to the coordinator, each with the job and the generation that it was measured
 * in: kept until the heartbeat that carried them was answered, whatever the device does meanwhile. The oldest make room
 * when there are too many, or of too many generations. Part of a session's state. Pure. */
#ifndef AGENT_CORE_METRIC_QUEUE_H
#define AGENT_CORE_METRIC_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schema/heartbeat.h"

#define METRIC_QUEUE_MAX 65536 /* an hour without the coordinator, at nine steps a second and two metrics a step */
#define METRIC_LOTS_MAX 16     /* generations in a row of which metrics wait */

/* Metrics of one generation, in order. */
struct metric_lot {
    struct job_id job;
    int64_t generation;
    size_t count;
};

struct metric_queue {
    struct metric item[METRIC_QUEUE_MAX]; /* a ring; of an empty one only the beginning is touched */
    size_t first, count;
    size_t sent;                            /* the oldest ones, in the heartbeat under way: all of one lot */
    struct metric_lot lot[METRIC_LOTS_MAX]; /* the oldest first */
    size_t lot_count;
    uint64_t lost; /* for want of room, ever */
};

void metric_queue_add(struct metric_queue *queue, const struct job_id *job, int64_t generation,
                      const struct metric *metric);
/* The oldest are being sent: METRICS_MAX at most, and of one generation. */
void metric_queue_send(struct metric_queue *queue);
/* Whether one heartbeat takes all. */
bool metric_queue_fits(const struct metric_queue *queue);
/* Put those that are being sent, and what they are of, into the heartbeat. */
void metric_queue_copy(const struct metric_queue *queue, struct heartbeat *out);
/* They have arrived: forget them. Or they have not: they will be sent again. */
void metric_queue_acknowledge(struct metric_queue *queue);
void metric_queue_return(struct metric_queue *queue);

#endif
