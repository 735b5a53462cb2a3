/* caller.h: the threads that send a member's requests to other stages, as core/repeat decides: some
 * for pulls, some for pushes, and one for the notices to each stage. Each keeps its connections.
 * While there is nothing to send, those of notices ping now and then, so that a stage that dies
 * while all wait for it is noticed too. Allocate nothing per request. */
#ifndef AGENT_PARAMETER_SERVER_CALLER_H
#define AGENT_PARAMETER_SERVER_CALLER_H

#include "agent/parameter_server/member.h"

struct callers;

/* A reference to the member is taken. */
NODISCARD int callers_start(struct member *member, const struct work_config *config,
                            struct callers **out, struct err *err);
/* After member_cancel: waits for the threads' end. */
void callers_free(struct callers **callers);

#endif
