/* metric_queue.h: metrics on their way to the coordinator, each with its job and generation. The
 * queue keeps a metric until its heartbeat was answered and the coordinator has had time to make it
 * durable, because a coordinator that is killed may forget metrics that it acknowledged. If there
 * are too many metrics, or too many generations, the oldest are dropped. Part of a session's state.
 * Pure. */
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
    3000 /* until acknowledged metrics are durable: a coordinator writes them every second */
#define METRIC_ANSWER_MS                                                                           \
    1000 /* maximum of it that one answer counts: the clock of a device may jump ahead */

/* Metrics of one generation, in order. */
struct metric_lot {
    struct job_id job;
    int64_t generation;
    size_t count;
};

/* Job and generation of a run. Its metrics may arrive while the next run is being prepared. */
#define RUN_NAMES_MAX 8
struct run_name {
    int64_t serial;
    struct job_id job;
    int64_t generation;
};

struct metric_queue {
    struct run_name name[RUN_NAMES_MAX]; /* by serial */
    struct metric
        item[METRIC_QUEUE_MAX]; /* a ring; of an empty one only the beginning is touched */
    size_t first, count;
    size_t settling, answered; /* of the oldest: those settling now; all acknowledged */
    int64_t settled_ms;        /* how long the former have been settling, */
    int64_t answered_ms;       /* until the last answer */
    size_t sent;               /* those after them, in the heartbeat under way; one lot */
    struct metric_lot lot[METRIC_LOTS_MAX]; /* the oldest first */
    size_t lot_count;
    uint64_t lost; /* for lack of room, since the start */
};

/* Name a run before its first metric. */
void metric_queue_name(struct metric_queue *queue, const struct run_name *name);
/* Add a metric of the run with that serial. It is lost if the run is too old to be known. */
void metric_queue_add(struct metric_queue *queue, int64_t serial, const struct metric *metric);
/* Choose the metrics for the next heartbeat: the oldest, at most METRICS_MAX, all of one
 * generation. */
void metric_queue_send(struct metric_queue *queue);
/* Return whether one heartbeat can carry all metrics. */
bool metric_queue_fits(const struct metric_queue *queue);
/* Copy the metrics under way, with their job and generation, into the heartbeat. */
void metric_queue_copy(const struct metric_queue *queue, struct heartbeat *out);
/* Note that the metrics under way have arrived (acknowledge), or that they must be sent again
 * (return). */
void metric_queue_acknowledge(struct metric_queue *queue, int64_t now_ms);
void metric_queue_return(struct metric_queue *queue);
/* Send all metrics again that may not be durable, because the coordinator may have restarted. */
void metric_queue_resend(struct metric_queue *queue);
/* Return how many metrics are not acknowledged. */
size_t metric_queue_waiting(const struct metric_queue *queue);

#endif
