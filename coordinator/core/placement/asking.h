/* asking.h: the questions of the core to the planner. A question with a short search, or one that
 * cannot wait, is answered within the step. All others are answered outside of the step:
 * ACTION_PLAN, core_planning, EVENT_PLANNED. At most one such question is open at a time, so two
 * answers never contain the same device. */
#ifndef COORDINATOR_CORE_PLACEMENT_ASKING_H
#define COORDINATOR_CORE_PLACEMENT_ASKING_H

#include "coordinator/core/core.h"
#include "coordinator/core/state/device.h"
#include "coordinator/core/state/planning.h"

struct job_slot;
struct placement_request;

enum asking_kind {
    ASKING_NEXT,   /* the next generation of a job */
    ASKING_CHANGE, /* whether another plan of a running job is better */
    ASKING_DRAIN,  /* the next generation of a running job, without devices that drain */
};

/* The open question. */
struct asking {
    uint64_t number; /* 0: none is open */
    uint64_t last;   /* number of the last question */
    enum asking_kind kind;
    struct job_id job;
    int64_t generation; /* of the job when it asked */
    bool in_pass;       /* the scheduler asked: devices reserved in its pass are not free */
    bool wanted;        /* a job may have asked.wanted */
    double work;        /* sum over all searches within this step */
};

/* The questions of one job. */
struct asked {
    bool wanted;   /* its plan stops; the question for the next plan is not open yet */
    bool has_next; /* `next` is the answer; it is used when the plan has stopped */
    bool outside;  /* the search within a step was too short: the next one runs outside */
    int stale;     /* consecutive answers that were out of date on arrival */
    struct planned next;
};

/* Fill core->planning with the next generation of the job, without some devices. */
void asking_next(struct core *core, const struct job_slot *job, const struct replan_request *wanted,
                 const struct absent *without, struct planning *planning);
/* Fill the question whether and how a request can be fulfilled. */
void asking_request(struct core *core, const struct placement_request *request,
                    struct planning *planning);
/* Bound of the work for all combinations of a question together, in searches. */
#define ASKING_SEARCHES 12.0
/* Fill a user's question with the fields of one combination. job: NULL if the question is about no
 * live job. */
void asking_what_if(struct core *core, const struct job_slot *job,
                    const struct event_plan_question *asked, const struct job_spec *spec,
                    struct planning *planning);
/* Answer core->planning within this step, with the work of about 20 ms: core->planned. Errors as
 * placement_solve. */
NODISCARD int asking_at_once(struct core *core, struct err *err);
/* Return whether the searches of this step have used up the work that one search may take. */
bool asking_spent(const struct core *core);

/* Open a question; none must be open. */
void asking_open(struct core *core, const struct job_slot *job, enum asking_kind kind);
/* Return whether a question of the job is open. */
bool asking_has(const struct core *core, const struct job_slot *job);
/* Close the open question without its answer if it has become pointless. */
void asking_check(struct core *core);
/* Copy the answer to core->planned, set *rc and err, and return the job of the open question. NULL:
 * the answer belongs to no open question. */
struct job_slot *asking_take(struct core *core, const struct event_planned *event, int *rc,
                             struct err *err);
/* Return whether the answer is still valid: its devices are still candidates, and the job still
 * requests the same copies. */
bool asking_holds(const struct core *core, const struct job_slot *job,
                  const struct planned *planned);

#endif
