/* trouble_list.h: the peers that this device cannot reach now, with one entry per source of calls;
 * the heartbeat reports them. Any answer clears the entry of its source. Pure; guarded by its
 * owner. */
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
    TROUBLE_STAGE, /* the first of STAGES_MAX: a stage of a parameter server */
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

/* Note that a call to the device has failed. true: the entry changed. */
bool trouble_list_add(struct trouble_list *list, enum trouble_source source,
                      const struct device_id *device, enum peer_trouble kind, int64_t now_ms);
/* Note that the device answers. true: the entry changed. */
bool trouble_list_clear(struct trouble_list *list, enum trouble_source source);
/* Report each device once, with its worst kind and longest time; at most PEER_REPORTS_MAX
 * devices. */
void trouble_list_report(const struct trouble_list *list, int64_t now_ms, struct heartbeat *out);

#endif
