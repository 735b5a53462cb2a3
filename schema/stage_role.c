#include "schema/stage_role.h"

bool stage_role_notifies(struct stage_role from, struct stage_role to, bool clips_norm)
{
    const bool beside = from.index + 1 == to.index || to.index + 1 == from.index;
    return from.index != to.index &&
           (from.index == 0 || (clips_norm && from.serves && to.serves && beside));
}

bool stage_role_calls(struct stage_role from, struct stage_role to, bool clips_norm)
{
    return stage_role_notifies(from, to, clips_norm) ||
           (from.index != to.index && from.works && to.serves);
}
