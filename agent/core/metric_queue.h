/* metric_queue.h: metrics on their way to the coordinator, each with the job and the generation
 * that it was measured in. They are kept, whatever the device does meanwhile, until the heartbeat
 * that carried them was answered and the coordinator has had the time to make them durable: one
 * that is killed may forget what it answered. The oldest make room when there are too many, or of
 * too many generations. Part of a session's state. Pure. */
#ifndef AGENT_CORE_METRIC_QUEUE_H
#define AGENT_CORE_METRIC_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schema/heartbeat.h"

#define METRIC_QUEUE_MAX                                                                           \
    65536 /* an hour without the coordinator, at nine steps a second and two metrics a step */
#define METRIC_LOTS_MAX 16 /* generations in a row of which metrics wait */
#define METRIC_SETTLE_MS                                                                           \
    3000 /* until what was answered is durable: a coordinator writes metrics every second */

/* Metrics of one generation, in order. */
struct metric_lot {
    struct job_id job;
    int64_t generation;
    size_t count;
};

struct metric_queue {
    struct metric
        item[METRIC_QUEUE_MAX]; /* a ring; of an empty one only the beginning is touched */
    size_t first, count;
    size_t settling,
        told; /* the oldest ones, answered: before and after settling_ms; told counts both */
    int64_t settling_ms;
    size_t sent; /* those after them, in the heartbeat under way: all of one lot */
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
/* They have arrived. Or they have not: they will be sent again. */
void metric_queue_acknowledge(struct metric_queue *queue, int64_t now_ms);
void metric_queue_return(struct metric_queue *queue);
/* The coordinator may have started anew: what may not have been durable will be sent again. */
void metric_queue_tell_again(struct metric_queue *queue);
/* How many have not been told. */
size_t metric_queue_waiting(const struct metric_queue *queue);

#endif
