/* caller.h: the threads that send a member's requests to other stages, with the retries of
 * core/repeat: some threads for pulls, some for pushes, and one per stage for the notices to it.
 * Each thread keeps its connections. While they have nothing to send, the threads for notices ping
 * periodically, so that they also notice a stage that dies while all others wait for it. They
 * allocate nothing per request. */
#ifndef AGENT_PARAMETER_SERVER_CALLER_H
#define AGENT_PARAMETER_SERVER_CALLER_H

#include "agent/parameter_server/member.h"

struct callers;

/* Start the threads. They take a reference to the member. */
NODISCARD int callers_start(struct member *member, const struct work_config *config,
                            struct callers **out, struct err *err);
/* Wait for the threads' end and free them, after member_cancel. */
void callers_free(struct callers **callers);

#endif
