/* exchange_pulls.h: the requests for parameters that a server has parked. Each gets exactly one
 * answer: the parameters once the server has applied their version; `last` if the generation ends
 * before that version; OUTDATED if a repeat of the same request replaced it. Pure; allocates in
 * exchange_pulls_init only. */
#ifndef AGENT_CORE_EXCHANGE_PULLS_H
#define AGENT_CORE_EXCHANGE_PULLS_H

#include "agent/core/exchange_plan.h"

struct exchange_parked {
    struct exchange_message message;
    uint64_t handle;
    bool replaced;
};

struct exchange_pulls {
    const struct exchange_plan *plan;
    const struct exchange_course *course;
    struct exchange_parked *parked; /* in order of arrival */
    size_t count, capacity;
};

/* plan, course: borrowed. ERR_MEMORY; exchange_pulls_done also on failure. */
NODISCARD int exchange_pulls_init(struct exchange_pulls *pulls, const struct exchange_plan *plan,
                                  const struct exchange_course *course, struct err *err);
void exchange_pulls_done(struct exchange_pulls *pulls);

/* The state of the server that matters to pulls. */
struct exchange_pulls_state {
    bool open;     /* the server runs and is not held, so steps begin */
    bool updating; /* its parameters change */
};
/* Take a request, as exchange_pull does. */
enum exchange_verdict exchange_pulls_ask(struct exchange_pulls *pulls,
                                         const struct exchange_pulls_state *state,
                                         const struct exchange_message *message, uint64_t handle);
/* Take the next answer to a parked request, which is then no longer parked. */
bool exchange_pulls_answer(struct exchange_pulls *pulls, const struct exchange_pulls_state *state,
                           struct exchange_answer *out);
/* Forget a request whose connection is closed. */
void exchange_pulls_forget(struct exchange_pulls *pulls, uint64_t handle);

#endif
