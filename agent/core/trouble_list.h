/* trouble_list.h: the peers that this device cannot reach now, one entry per caller; the heartbeat
 * reports them. Any answer clears the caller's entry. Pure; guarded by its owner. */
#ifndef AGENT_CORE_TROUBLE_LIST_H
#define AGENT_CORE_TROUBLE_LIST_H

#include <stdbool.h>
#include <stdint.h>

#include "schema/heartbeat.h"

enum trouble_source {
    TROUBLE_NEXT,
    TROUBLE_PREVIOUS,
    TROUBLE_REPLICA,
    TROUBLE_FETCH,
    TROUBLE_MIX_PAIR, /* a group of the same parent */
    TROUBLE_MIX_AVERAGE,
    TROUBLE_STAGE, /* and as many more as there are stages: a stage of a parameter server */
};
#define TROUBLE_SOURCES (TROUBLE_STAGE + STAGES_MAX)

struct trouble_entry {
    bool active;
    struct device_id device;
    enum peer_trouble kind;
    int64_t since_ms;
};

struct trouble_list {
    struct trouble_entry item[TROUBLE_SOURCES];
};

/* A call to the device has failed. true: that is news. */
bool trouble_list_add(struct trouble_list *list, enum trouble_source source,
                      const struct device_id *device, enum peer_trouble kind, int64_t now_ms);
/* The device answers. true: that is news. */
bool trouble_list_clear(struct trouble_list *list, enum trouble_source source);
/* One report a device, of PEER_REPORTS_MAX devices at most: the worst kind, the longest time. */
void trouble_list_report(const struct trouble_list *list, int64_t now_ms, struct heartbeat *out);

#endif
