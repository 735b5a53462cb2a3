#include "agent/core/orders.h"

void orders_take(struct orders *orders, const struct session_action *action)
{
    const enum session_action_type type = action->type;
    orders->run = orders->run || type == SESSION_DO_RUN;
    orders->stop = orders->stop || type == SESSION_DO_STOP;
    orders->held = type == SESSION_DO_HOLD || (orders->held && type != SESSION_DO_RELEASE);
    orders->away = type == SESSION_DO_AWAY || (orders->away && type != SESSION_DO_BACK);
}
