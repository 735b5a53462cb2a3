/* exchange_lead.h: the lead's part of exchange.h. Stage 0 alone decides: it commits a step, opens
 * rounds of replication with it, judges evaluations and ends the generation.
 *
 * It commits the step after its version when every worker is done with it, the evaluation of its
 * version is complete, and every other server has acknowledged the commit before. So servers differ
 * by at most one version: a worker is done only once it had the parameters of all servers with
 * layers, and a server without layers acknowledges a commit only after applying it. At most one
 * notice per stage is under way.
 *
 * A stop fixes the newest committed step as the last one: `last` announces it to all others, also
 * at the end of the job. A stop abandons an evaluation that is due; the generation that resumes
 * from there repeats it. By itself the lead ends the job after the evaluation of its last step.
 * Pure; allocates in exchange_lead_init only. */
#ifndef AGENT_CORE_EXCHANGE_LEAD_H
#define AGENT_CORE_EXCHANGE_LEAD_H

#include "agent/core/exchange_server.h"

/* The last notice that another stage has acknowledged. */
struct exchange_notice {
    int64_t step;
    bool last;
    bool sending;
};

struct exchange_lead {
    const struct exchange_plan *plan;
    struct exchange_course *course;
    struct exchange_arrivals result; /* by micro-batch of the evaluation */
    size_t results;                  /* of these, received */
    int64_t evaluating;              /* the version; 0: none */
    int64_t total_steps;             /* evaluations may lower it */
    struct early_stop judged;
    struct rounds rounds;
    struct round_mark mark; /* of the newest committed step */
    bool stop_asked;
    bool unevaluated; /* the generation ended at the last step of the job, before its evaluation */
    struct exchange_notice notice[STAGES_MAX];
};

/* plan, course: borrowed. ERR_MEMORY; exchange_lead_done also on failure. */
NODISCARD int exchange_lead_init(struct exchange_lead *lead, const struct exchange_plan *plan,
                                 struct exchange_course *course, struct err *err);
void exchange_lead_done(struct exchange_lead *lead);

/* The functions of exchange.h for RESULT. */
enum exchange_verdict exchange_lead_offer(struct exchange_lead *lead,
                                          const struct exchange_message *message,
                                          struct exchange_claim *claim);
bool exchange_lead_holds(const struct exchange_lead *lead, const struct exchange_message *message,
                         const struct exchange_claim *claim);
void exchange_lead_fill(struct exchange_lead *lead, const struct exchange_message *message,
                        bool here);

/* Decide commits and the end as far as possible now. Call it after each change, before the owner
 * unlocks. held: a lead without layers commits no step; it needs this flag because no worker asks
 * it for parameters. */
void exchange_lead_settle(struct exchange_lead *lead, struct exchange_server *server, bool held);

/* Return the next task; false: none. */
bool exchange_lead_next(const struct exchange_lead *lead, struct exchange_task *task);
void exchange_lead_end(struct exchange_lead *lead, const struct exchange_task *task);

/* Take the next notice to another stage; false: none. */
bool exchange_lead_message(struct exchange_lead *lead, struct exchange_message *out);
void exchange_lead_sent(struct exchange_lead *lead, const struct exchange_message *message);

#endif
