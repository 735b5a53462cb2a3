/* stage_role.h: which stages of a plan of servers and workers call each other. Pure. */
#ifndef SCHEMA_STAGE_ROLE_H
#define SCHEMA_STAGE_ROLE_H

#include <stdbool.h>
#include <stddef.h>

/* The role of a stage in a plan. Stage 0, a server, is the lead. */
struct stage_role {
    size_t index;
    bool serves, works;
};
/* Return whether a stage sends notices (commits, norms) to another one. The lead sends them to all;
 * with clip_norm, a server also to the adjacent servers. */
bool stage_role_notifies(struct stage_role from, struct stage_role to, bool clips_norm);
/* Return whether a stage calls another one at all: to send notices or, as a worker, any server. */
bool stage_role_calls(struct stage_role from, struct stage_role to, bool clips_norm);

#endif
