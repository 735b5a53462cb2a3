/* asking.h: what the core asks the planner. A question of which the search is short, or cannot
 * wait, is answered within the step. Any other one is answered outside: ACTION_PLAN, core_planning,
 * EVENT_PLANNED. One of these is open at a time, so two of them never get the same device. */
#ifndef COORDINATOR_CORE_ASKING_H
#define COORDINATOR_CORE_ASKING_H

#include "coordinator/core/core.h"
#include "coordinator/core/device.h"
#include "coordinator/core/planning.h"

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
    uint64_t last;   /* number of the last one */
    enum asking_kind kind;
    struct job_id job;
    int64_t generation; /* of the job when it asked */
    bool in_pass;       /* the scheduler asked: devices reserved in its pass are not free */
    bool wanted;        /* a job may have asked.wanted */
    double work;        /* of all searches within this step */
};

/* Of a job. */
struct asked {
    bool wanted;   /* its plan stops and the next one is still to be asked for */
    bool has_next; /* `next` is the answer, for the time when the plan has stopped */
    bool outside;  /* the search within a step was too short: the next one is outside */
    int stale;     /* answers in a row that were out of date when they came */
    struct planned next;
};

/* Fill core->planning with the next generation of the job, without some devices. */
void asking_next(struct core *core, const struct job_slot *job, const struct replan_request *wanted,
                 const struct absent *without, struct planning *planning);
/* Fill the question whether a request can be fulfilled, and how. */
void asking_request(struct core *core, const struct placement_request *request,
                    struct planning *planning);
/* All combinations of a question together take as much work as so many searches. */
#define ASKING_SEARCHES 12.0
/* Fill a user's question with the fields of one combination. job: NULL, if it is about none. */
void asking_what_if(struct core *core, const struct job_slot *job,
                    const struct event_plan_question *asked, const struct job_spec *spec,
                    struct planning *planning);
/* Answer core->planning within this step, with the work of about 20 ms: core->planned. Errors as
 * placement_solve. */
NODISCARD int asking_at_once(struct core *core, struct err *err);
/* Return whether the searches of this step have been as much work as one may be. */
bool asking_spent(const struct core *core);

/* Open a question; none must be open. */
void asking_open(struct core *core, const struct job_slot *job, enum asking_kind kind);
/* Return whether a question of the job is open. */
bool asking_has(const struct core *core, const struct job_slot *job);
/* Close the open question without its answer if it has become pointless. */
void asking_check(struct core *core);
/* Return the job of the open question and take the answer to core->planned: *rc and err. NULL: it
 * answers no open question. */
struct job_slot *asking_take(struct core *core, const struct event_planned *event, int *rc,
                             struct err *err);
/* Return whether the answer is still of use: its devices are candidates, and the job asks for the
 * same copies. */
bool asking_holds(const struct core *core, const struct job_slot *job,
                  const struct planned *planned);

#endif
