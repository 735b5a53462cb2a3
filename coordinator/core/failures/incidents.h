/* incidents.h: the failures of jobs as users see them, with the time of each phase. */
#ifndef COORDINATOR_CORE_FAILURES_INCIDENTS_H
#define COORDINATOR_CORE_FAILURES_INCIDENTS_H

#include "coordinator/core/core.h"
#include "coordinator/core/failures/failure.h"

struct job_slot;

/* The times of an incident, by the core's clock; 0: not yet. */
struct incident_times {
    int64_t suspected_ms, detected_ms, decided_ms, ready_ms;
};

struct incidents {
    struct incident row; /* the open one, or the one that ended in this step */
    bool open;
    size_t message_end; /* length of the row's message before its text about a wait; 0: no wait */
    struct incident_times times;
};

/* Open an incident for the failure, or add the failure to the open one. */
void incidents_failed(struct core *core, struct job_slot *job, const struct failure *failure);
/* Note that the next generation was planned. */
void incidents_decided(struct core *core, struct job_slot *job);
/* Take the step that a device reports for an ended generation: it continued to train while the
 * coordinator did not hear it. */
void incidents_heard(struct core *core, struct job_slot *job, const struct heartbeat *heartbeat);

/* The choice between a newer version that the plan cannot load and an older one. */
struct weighing {
    int64_t newer, older;
    int64_t waited_ms;  /* time since the first failure to load the newer one */
    int64_t retrain_ms; /* time to retrain the steps in between */
    bool by_link;       /* a bad link blocks the newer one; else devices cannot load it */
};

/* Add the choice to the incident's message. */
void incidents_weighed(struct core *core, struct job_slot *job, const struct weighing *weighing,
                       bool waits);
/* Note that every stage is ready. */
void incidents_ready(struct core *core, struct job_slot *job);
/* Resolve the incident when a step after the start has completed. */
void incidents_settle(struct core *core, struct job_slot *job);
/* Write the cause and cost of the open incident for users; "": none is open. */
void incidents_cost(const struct job_slot *job, char *out, size_t size);
/* Close the incident: the job has ended or is paused. */
void incidents_end(struct core *core, struct job_slot *job);
/* Move the job's open incident to `kept`, because another job takes over its part of the parent. */
void incidents_hand_over(struct job_slot *job, struct incidents *kept);
/* Move the incident from `kept` to the new job, which begins. The incident ends when it trains. */
void incidents_take_over(struct core *core, struct job_slot *job, struct incidents *kept);
/* Close the incident in `kept`, because the parent ends and no job takes over. */
void incidents_abandon(struct core *core, const struct job *parent, struct incidents *kept);
/* Restore an open incident from its row. */
void incidents_restore(struct core *core, const struct incident *row);

#endif
