#include "agent/core/session_actions.h"

#include <string.h>

#include "base/assert.h"

struct session_action *session_actions_add(struct session_actions *actions,
                                           enum session_action_type type)
{
    ASSERT(actions->count < SESSION_ACTIONS_MAX);
    struct session_action *action = &actions->item[actions->count++];
    memset(action, 0, sizeof(*action));
    action->type = type;
    return action;
}
