/* metric_queue.h: metrics on their way to the coordinator, each with its job and generation. They
 * are kept, whatever the device does meanwhile, until their heartbeat was answered and the
 * coordinator has had time to make them durable: a coordinator that is killed may forget metrics
 * that it acknowledged. If there are too many, or of too many generations, the oldest are dropped.
 * Part of a session's state. Pure. */
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
    1000 /* at most, that one answer counts of them: the clock of a device may jump ahead */

/* Metrics of one generation, in order. */
struct metric_lot {
    struct job_id job;
    int64_t generation;
    size_t count;
};

/* What a run is about: its metrics may come when the next one is being prepared. */
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
    size_t settling, answered; /* the oldest ones: those that settle now, and all */
    int64_t settled_ms;        /* for so long the former have settled, */
    int64_t answered_ms;       /* until the last answer */
    size_t sent;               /* those after them, in the heartbeat under way: all of one lot */
    struct metric_lot lot[METRIC_LOTS_MAX]; /* the oldest first */
    size_t lot_count;
    uint64_t lost; /* for want of room, ever */
};

/* Name a run before its first metric. */
void metric_queue_name(struct metric_queue *queue, const struct run_name *name);
/* Add a metric of the run with that serial; one of a run too old to be known is lost. */
void metric_queue_add(struct metric_queue *queue, int64_t serial, const struct metric *metric);
/* Send the oldest: METRICS_MAX at most, of one generation. */
void metric_queue_send(struct metric_queue *queue);
/* Whether one heartbeat takes all. */
bool metric_queue_fits(const struct metric_queue *queue);
/* Copy the metrics under way, with their job and generation, into the heartbeat. */
void metric_queue_copy(const struct metric_queue *queue, struct heartbeat *out);
/* The metrics under way have arrived; or (return) have not and will be sent again. */
void metric_queue_acknowledge(struct metric_queue *queue, int64_t now_ms);
void metric_queue_return(struct metric_queue *queue);
/* The coordinator may have restarted: send again all metrics that may not have been durable. */
void metric_queue_resend(struct metric_queue *queue);
/* How many have not been acknowledged. */
size_t metric_queue_waiting(const struct metric_queue *queue);

#endif
