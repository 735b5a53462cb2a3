/* trouble.h: the peers that this device cannot reach now, as its senders and fetches notice; the
 * heartbeat reports them. One entry per caller; any answer clears the caller's entry. Never waits;
 * allocates in troubles_new only. Any thread. */
#ifndef AGENT_RUNTIME_TROUBLE_H
#define AGENT_RUNTIME_TROUBLE_H

#include <stddef.h>

#include "base/err.h"
#include "net/http_client.h"
#include "schema/heartbeat.h"

enum trouble_source { TROUBLE_NEXT, TROUBLE_PREVIOUS, TROUBLE_REPLICA, TROUBLE_FETCH };
#define TROUBLE_SOURCES 4

struct troubles;
/* changed: called, without a lock, when a peer gets or is out of trouble, or its kind changes. */
NODISCARD int troubles_new(void (*changed)(void *arg), void *arg, struct troubles **out,
                           struct err *err);
void troubles_free(struct troubles **troubles);

/* A call to the device has failed. */
void troubles_report(struct troubles *troubles, enum trouble_source source,
                     const struct device_id *device, enum peer_trouble kind);
void troubles_clear(struct troubles *troubles, enum trouble_source source);
/* One report a device: the worst kind, the longest time. Returns their number. */
size_t troubles_list(struct troubles *troubles, struct peer_report out[PEER_REPORTS_MAX]);

/* The kind of trouble of a failed call. code: ERR_NETWORK or ERR_TIMEOUT. */
enum peer_trouble trouble_kind(int code, enum http_breakage breakage);

#endif
