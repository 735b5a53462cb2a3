/* orders.h: the session's orders to a generation, kept also before its stage is built. Pure. */
#ifndef AGENT_CORE_ORDERS_H
#define AGENT_CORE_ORDERS_H

#include "agent/core/session_actions.h"

struct orders {
    bool run, stop, held, away;
};

/* Remember RUN, STOP, HOLD, RELEASE, AWAY or BACK; others change nothing. */
void orders_take(struct orders *orders, const struct session_action *action);

#endif
