/* trouble.h: the list of core/trouble_list for all threads of a generation, with the log. Never
 * waits; allocates in troubles_new only. Any thread. */
#ifndef AGENT_RUNTIME_TROUBLE_H
#define AGENT_RUNTIME_TROUBLE_H

#include "agent/core/repeat.h"
#include "agent/core/trouble_list.h"
#include "base/err.h"
#include "net/http_client.h"

struct troubles;
/* changed: called, without a lock, when a peer's trouble begins, ends or changes its kind. */
NODISCARD int troubles_new(void (*changed)(void *arg), void *arg, struct troubles **out,
                           struct err *err);
void troubles_free(struct troubles **troubles);

/* Note the result of a try to call the device. why: of REPEAT_IN_TROUBLE, for the log. */
void troubles_note(struct troubles *troubles, enum trouble_source source,
                   const struct device_id *device, enum repeat_news news, enum peer_trouble kind,
                   const struct err *why);
/* Forget the entry of a source that does not call the device any more. */
void troubles_forget(struct troubles *troubles, enum trouble_source source);
/* As trouble_list_report. */
void troubles_list(struct troubles *troubles, struct heartbeat *out);

/* Return the kind of trouble of a failed call. Meaningful only after ERR_NETWORK and
 * ERR_TIMEOUT. */
enum peer_trouble trouble_kind(int code, enum http_breakage breakage);

#endif
