/* message_kind.h: the names and paths of messages between stages, for both sides.
 *
 *     GET {url}/peer/v1/{job}/{generation}/parameters/{version}/{first}/{end}
 *         the parameters of the layers [first, end) after that version; with ?statistics=1 the
 *         running statistics too
 *     PUT {url}/peer/v1/{job}/{generation}/exchange/{kind}/{step}/{index}/{first}/{end}
 *         kind contribution: the sum of block `index` of these layers; `done`: the same, with which
 *         the worker has sent everything of the step; result: of micro-batch `index` of the
 *         evaluation of version `step`; commit, norm, norm_total
 *
 * Bodies: body.h. Pure. */
#ifndef AGENT_PARAMETER_SERVER_MESSAGE_KIND_H
#define AGENT_PARAMETER_SERVER_MESSAGE_KIND_H

#include <stdbool.h>

#include "agent/core/exchange_message.h"
#include "agent/peer/message.h"

struct message_path message_kind_path(const char *url, const struct job_id *job, int64_t generation,
                                      const struct exchange_message *message);
/* Set kind and done by the name. false: unknown name. */
bool message_kind_find(const char *name, struct exchange_message *message);
/* As stage_role_notifies, from this stage. */
bool message_kind_notifies(const struct assignment_run *run, size_t other);

#endif
