/* gossip_job.h: jobs of strategy gossip: which groups train, when a group is replaced, when the job
 * ends. gossip.c decides who mixes with whom; this module passes reports to it and sends its
 * matches. docs/jobs.md, "Gossip". */
#ifndef COORDINATOR_CORE_GOSSIP_GOSSIP_JOB_H
#define COORDINATOR_CORE_GOSSIP_GOSSIP_JOB_H

#include "coordinator/core/failures/incidents.h"
#include "coordinator/core/gossip/gossip.h"
#include "coordinator/core/gossip/gossip_claims.h"
#include "coordinator/core/gossip/gossip_watch.h"
#include "coordinator/core/parts/parent_row.h"
#include "schema/mix_duty.h"

struct device_slot;
struct job_slot;

/* State of such a parent that is not in its rows. Zero: nothing runs. */
struct gossip_work {
    bool begun;
    struct gossip gossip;
    struct gossip_group_work {
        int64_t incarnation;         /* known to gossip.c; 0: the group does not train */
        struct gossip_claims claims; /* steps of its job */
        int64_t every, passed;       /* as in struct mix_duty, as assigned */
        bool slows;                  /* as in struct mix_duty */
        int64_t told; /* `every` when the group was last woken for it or for an order; 0: never */
        struct mix_match order[MIX_ORDERS_MAX]; /* a pair, an average; counter 0: none */
        int64_t mixes;
        double distance;
        bool has_distance;
        bool averages; /* an average is under way since its device appended to its data */
        bool measured; /* its device has reported transfers that were not taken yet */
        struct incidents incidents; /* of its last job, until the next one begins */
        struct gossip_watch watch;
    } group[GROUPS_MAX];
};

extern const struct parent_row gossip_row;

/* Return the job of the group that a heartbeat is about; NULL: the device does not work for it. */
struct job_slot *gossip_job_of(const struct core *core, const struct heartbeat *heartbeat);
/* Take the report of a group. */
void gossip_job_hear(struct core *core, struct job_slot *job, const struct heartbeat *heartbeat);
/* Take an average that is in the blob store, or was rejected (EVENT_AVERAGE_STORED). */
void gossip_on_average(struct core *core, const struct event *event);
/* If the device trains a group, write the group's part of its assignment, and its callers. */
void gossip_fill_assignment(const struct core *core, const struct device_slot *device,
                            struct assignment *out);

#endif
