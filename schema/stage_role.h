/* stage_role.h: which stages of a plan of servers and workers call each other. Pure. */
#ifndef SCHEMA_STAGE_ROLE_H
#define SCHEMA_STAGE_ROLE_H

#include <stdbool.h>
#include <stddef.h>

/* What a stage of a plan does. Stage 0, a server, leads. */
struct stage_role {
    size_t index;
    bool serves, works;
};
/* Whether a stage sends notices (commits, norms) to another one: the lead to all; with clip_norm, a
 * server to those next to it. */
bool stage_role_notifies(struct stage_role from, struct stage_role to, bool clips_norm);
/* Whether it calls it at all: a worker also calls all servers. */
bool stage_role_calls(struct stage_role from, struct stage_role to, bool clips_norm);

#endif
