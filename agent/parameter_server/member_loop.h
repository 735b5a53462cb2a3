/* member_loop.h: the compute thread of a member (member.h). */
#ifndef AGENT_PARAMETER_SERVER_MEMBER_LOOP_H
#define AGENT_PARAMETER_SERVER_MEMBER_LOOP_H

#include "agent/parameter_server/member.h"

/* As loop of struct work_row. */
NODISCARD int member_loop(struct member *member, const struct work_listener *listener,
                          int64_t *version, struct err *err);

#endif
