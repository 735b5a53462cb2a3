/* traffic.h: the measured transfers between devices, by direction, kind and codec; and the estimate
 * of a link for each pair, also for pairs that never met. docs/adr/0075. */
#ifndef COORDINATOR_CORE_TRAFFIC_H
#define COORDINATOR_CORE_TRAFFIC_H

#include "coordinator/core/capacity_row.h"
#include "coordinator/core/core.h"
#include "libtrain/schedule/link.h"

struct device_slot;

#define TRAFFIC_MAX                                                                                \
    (1u << 15) /* directions, kinds and codecs together; the oldest of eight leaves */

#define TRAFFIC_WAYS 8 /* items of a set; all of a pair of devices are in one */

/* How many transfers use the links of two devices at a time; both at least 1. */
struct link_users {
    size_t own, other; /* of the device that measures, of the other one */
};

struct traffic_item {
    struct link_row row; /* from "": free; wall_ms: of the last report */
    int64_t at_ms;
    int far; /* single transfers in turn that were far from the estimate: above 0 slower ones */
};

/* Tensors between a device and all others. */
struct device_sums {
    struct link_sums alone;  /* it sent or fetched, and nothing else used either link */
    struct link_sums beside; /* it did, with the seconds divided by the users of its own link */
    struct link_sums shared; /* others did, with the seconds divided by the users of its link */
};

struct traffic {
    struct traffic_item *item;  /* [TRAFFIC_MAX] */
    struct device_sums *device; /* [devices_max] by slot */
};

/* Reserve the memory; ERR_MEMORY. */
NODISCARD int traffic_new(size_t devices_max, struct traffic **out, struct err *err);
void traffic_free(struct traffic **traffic);
/* Forget what the slot of a device that is gone has measured. */
void traffic_forget(struct core *core, const struct device_slot *device);

/* Take a report. Each transfer counts as if it had been alone, with its seconds divided by the
 * users of the link that more of them share: at least as fast as the links of both devices allow.
 * false: it is no measurement. */
bool traffic_take(struct core *core, const struct device_slot *device,
                  const struct link_report *report, struct link_users users);
/* Return the estimated link between two devices: of their own transfers; of each one's transfers
 * with others, the slower of both; or a usual one, as a slow link of one device alone may be the
 * other device's fault. Through a relay, both after each other. */
struct link_speed traffic_link(const struct core *core, const struct device_slot *a,
                               const struct device_slot *b);
/* Fill in the link that a device's transfers with all others show: the fastest of what it reached
 * alone, beside others, and for several of them. false: too few are known; what it reached beside
 * others says little alone. */
bool traffic_device_link(const struct core *core, const struct device_slot *device,
                         struct link_speed *out);
/* Return the next measured direction after *at, which begins at 0; NULL: no more. */
const struct link_row *traffic_next(const struct core *core, size_t *at);
/* Write the row of a reported direction. false: it is not known. */
bool traffic_write(const struct core *core, const struct device_slot *device,
                   const struct link_report *report, struct link_users users, struct link_row *out);
/* Take a row of an earlier life, after the devices. */
void traffic_restore(struct core *core, const struct link_row *row);

#endif
