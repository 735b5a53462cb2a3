/* fetch.h: blocking calls of the thread that prepares a generation: downloads of data and blobs
 * from the coordinator and from peers, and pings. core/repeat decides how long failures are
 * retried. One thread. */
#ifndef AGENT_PEER_FETCH_H
#define AGENT_PEER_FETCH_H

#include <stddef.h>
#include <stdint.h>

#include "agent/peer/trust.h"
#include "agent/peer/ways.h"
#include "agent/runtime/cancel.h"
#include "agent/runtime/trouble.h"
#include "base/err.h"
#include "schema/id.h"

struct fetch;

/* cancel, trust (NULL: no TLS) and ways are borrowed. */
NODISCARD int fetch_new(struct cancel *cancel, const struct trust *trust, struct ways *ways,
                        struct fetch **out, struct err *err);
void fetch_free(struct fetch **fetch);

/* GET bytes [offset, offset + size) into out; whole: without a Range, the answer must have exactly
 * `size` bytes. bearer may be NULL. Returns the number of bytes received (fewer only at the end of
 * the content), or ERR_NETWORK, ERR_TIMEOUT (patience is over), ERR_NOT_FOUND (404), ERR_STALE
 * (401, 403, 409), ERR_PROTOCOL (anything else), ERR_CANCELLED. */
int64_t fetch_get(struct fetch *fetch, const char *url, const char *bearer, uint64_t offset,
                  void *out, size_t size, struct err *err);
int64_t fetch_get_whole(struct fetch *fetch, const char *url, const char *bearer, void *out,
                        size_t size, struct err *err);
/* Send GET until the answer is 204. */
NODISCARD int fetch_ping(struct fetch *fetch, const char *url, const char *bearer, struct err *err);
/* The target and the kind of the next calls. Failures are reported to `troubles`. NULL instead of
 * this struct: the coordinator. Borrowed. */
struct fetch_peer {
    struct device_id device;
    const char *public_key; /* as the assignment names it */
    struct plan_id plan;
    const char *relay_ticket; /* likewise */
    enum repeat_kind kind;    /* SNAPSHOT, PING */
    int64_t peer_ms;          /* the assignment's */
    struct troubles *troubles;
    struct links *links; /* gets the measured transfers; NULL: not measured */
};
void fetch_set_peer(struct fetch *fetch, const struct fetch_peer *peer);

#endif
