/* ways.h: calls to other agents by the way that leads to them: directly, or through a relay
 * (core/way_list). One for all threads of the device. Never waits for another thread's call. */
#ifndef AGENT_PEER_WAYS_H
#define AGENT_PEER_WAYS_H

#include "base/err.h"
#include "net/http_client.h"
#include "schema/assignment.h"
#include "schema/heartbeat.h"

struct ways;
/* coordinator: its URL, borrowed; its relay is on the same host. */
NODISCARD int ways_new(const char *coordinator, struct ways **out, struct err *err);
void ways_free(struct ways **ways);
/* Use the relays of the assignment. */
void ways_set(struct ways *ways, const struct assignment *assignment);

/* The target of a call. All pointers are borrowed. */
struct way_target {
    const struct device_id *device;
    const struct plan_id *plan;
    const char *relay_ticket; /* "": only directly */
    bool first;               /* the first call of a generation */
};
/* As http_client_call. *other: the call failed, and the next one takes another way, or a new
 * connection in place of a kept one that may be dead. */
NODISCARD int ways_call(struct ways *ways, const struct way_target *target,
                        struct http_client *client, const struct http_call *call,
                        struct http_result *out, bool *other, struct err *err);
/* List the peers that are reached through a relay only. */
void ways_report(struct ways *ways, struct heartbeat *out);

/* A relay's address as URL, "http://HOST:PORT". */
struct relay_url {
    char text[URL_SIZE];
};
struct relay_url ways_relay_url(const char *coordinator, const struct relay_place *place);
/* The name under which a device parks. */
struct relay_name {
    char text[2 * ID_SIZE];
};
struct relay_name ways_relay_name(const struct device_id *device, const struct plan_id *plan);

#endif
