/* incidents.h: failures as users see them, with the time of each phase. */
#ifndef COORDINATOR_CORE_INCIDENTS_H
#define COORDINATOR_CORE_INCIDENTS_H

#include "coordinator/core/core.h"
#include "coordinator/core/failure.h"

struct job_slot;

/* An incident's points in time, of the core's clock; 0: not yet. */
struct incident_times {
    int64_t suspected_ms, detected_ms, decided_ms, ready_ms;
};

struct incidents {
    struct incident row; /* the open one, or the one that ended in this step */
    bool open;
    size_t message_end; /* of the row's message, before its text about a wait; 0: none */
    struct incident_times times;
};

void incidents_failed(struct core *core, struct job_slot *job, const struct failure *failure);
void incidents_decided(struct core *core, struct job_slot *job);
/* A device reports how far a generation came that is over: while it could not be heard it trained
 * on. */
void incidents_heard(struct core *core, struct job_slot *job, const struct heartbeat *heartbeat);

/* A newer version that the plan does not get, and an older one. */
struct weighing {
    int64_t newer, older;
    int64_t waited_ms; /* since the first failure to get it */
    int64_t again_ms;  /* to retrain the steps in between */
    bool by_link;      /* it is behind a bad link; else devices cannot load it */
};

/* Which of the two was chosen. */
void incidents_weighed(struct core *core, struct job_slot *job, const struct weighing *weighing,
                       bool waits);
void incidents_ready(struct core *core, struct job_slot *job);
/* At the end of a step: resolved when a step beyond the start is done. */
void incidents_settle(struct core *core, struct job_slot *job);
/* What is to be said of the open one when the job runs again; "": there is none. */
void incidents_cost(const struct job_slot *job, char *out, size_t size);
/* The job has ended or is paused. */
void incidents_end(struct core *core, struct job_slot *job);
void incidents_restore(struct core *core, const struct incident *row);

#endif
