/* way_list.h: the way by which this device reaches each of its peers: directly, or through one of
 * the relays that its assignment names. It is found by trial: after a way that does not lead to the
 * peer, the next one is tried; a way that does is kept. The direct way is retried now and then.
 * Pure. */
#ifndef AGENT_CORE_WAY_LIST_H
#define AGENT_CORE_WAY_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schema/id.h"
#include "schema/limits.h"

#define WAYS_MAX 32  /* peers remembered; the least recently used one is evicted */
#define WAY_DIRECT 0 /* way N: relay N - 1 */
/* After a failure of the direct way, the first call of a generation may try it again. */
#define WAY_DIRECT_MS 60000

struct way_entry {
    struct device_id device;
    size_t way;
    bool relayed;      /* the last way that led to it was a relay */
    int64_t direct_ms; /* when the direct way last failed */
    int64_t used_ms;
};

/* Begins zeroed. */
struct way_list {
    struct way_entry item[WAYS_MAX]; /* peers whose direct way has failed */
    size_t count;
    size_t relay_count;
};

/* Set new relays. A peer that was reached through a relay starts again with the first one. */
void way_list_set_relays(struct way_list *list, size_t relay_count);
/* Return the way of the next call. first: the first call of a generation, for which no work waits
 * yet. */
size_t way_list_choose(const struct way_list *list, const struct device_id *device, bool first,
                       int64_t now_ms);

enum way_result {
    WAY_REACHED, /* the peer answered, or its connection broke */
    WAY_MISSED,  /* there was no connection to it */
};
/* Note that a call has ended. Returns whether the next call takes another way. */
bool way_list_tried(struct way_list *list, const struct device_id *device, size_t way,
                    enum way_result result, int64_t now_ms);
/* List the peers that are reached through a relay only. Returns their count. */
size_t way_list_relayed(const struct way_list *list, struct device_id out[RELAYED_MAX]);

#endif
