/* gossip_watch.h: adds reports of groups to the metrics of their jobs and to the counts of the
 * coordinator. It decides nothing. */
#ifndef COORDINATOR_CORE_GOSSIP_GOSSIP_WATCH_H
#define COORDINATOR_CORE_GOSSIP_GOSSIP_WATCH_H

#include "coordinator/core/core.h"
#include "schema/mix_duty.h"

struct job_slot;
struct parent_slot;

/* The part of a group's reports that was counted. Zero: nothing. */
struct gossip_watch {
    struct mix_xid pair, average; /* the newest matches that have ended; counter 0: none */
    struct mix_xid distance_of;   /* the average that `distance` is from; counter 0: none */
    double distance;
    double mix_seconds; /* of the newest mix; 0: not known */
    double gap_seconds; /* the longest between two steps that was reported */
};

/* Take the report of a group that trains. */
void gossip_watch_report(struct core *core, struct parent_slot *parent, size_t group,
                         const struct job_slot *job, const struct mix_report *report);
/* Count a match of two groups. Count a stored average, and write its metrics for `step`. */
void gossip_watch_match(struct core *core);
void gossip_watch_average(struct core *core, const struct parent_slot *parent, int64_t step);

/* Return the coefficient of variation of values above 0; 0: fewer than two. Pure. */
double gossip_variation(const double *value, size_t count);

#endif
