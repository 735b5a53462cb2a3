/* traffic.h: the measured transfers between devices, by direction, kind and codec, and the
 * estimated link of each pair, including pairs without transfers. docs/adr/0075. */
#ifndef COORDINATOR_CORE_CAPACITY_TRAFFIC_H
#define COORDINATOR_CORE_CAPACITY_TRAFFIC_H

#include "coordinator/core/capacity_row.h"
#include "coordinator/core/core.h"
#include "libtrain/schedule/link.h"

struct device_slot;

#define TRAFFIC_MAX                                                                                \
    (1u << 15) /* directions, kinds and codecs together; the oldest of eight leaves */

#define TRAFFIC_WAYS 8 /* items of a set; all items of a pair of devices are in the same set */

/* How many transfers use the links of two devices at a time; both at least 1. */
struct link_users {
    size_t own, other; /* on the link of the measuring device; of the other device */
};

struct traffic_item {
    struct link_row row; /* from "": free; wall_ms: of the last report */
    int64_t at_ms;
    int far; /* consecutive single transfers far from the estimate; above 0: slower ones */
};

/* Tensors between a device and all others. */
struct device_sums {
    struct link_sums alone;  /* its transfers while no other transfer used either link */
    struct link_sums beside; /* its other transfers; seconds divided by the users of its link */
    struct link_sums shared; /* transfers by others; seconds divided by the users of its link */
};

struct traffic {
    struct traffic_item *item; /* [TRAFFIC_MAX] */
    /* By set: it has items. Reading pages of empty sets would make the system provide them. */
    bool filled[TRAFFIC_MAX / TRAFFIC_WAYS];
    struct device_sums *device; /* [devices_max] by slot */
};

/* Reserve the memory; ERR_MEMORY. */
NODISCARD int traffic_new(size_t devices_max, struct traffic **out, struct err *err);
void traffic_free(struct traffic **traffic);
/* Forget the measurements in the slot of a device that is gone. */
void traffic_forget(struct core *core, const struct device_slot *device);

/* Take a report. Each transfer counts as if it had been alone: its seconds are divided by the users
 * of the more shared link, so that it is at least as fast as the links of both devices allow.
 * false: the report is not a valid measurement. */
bool traffic_take(struct core *core, const struct device_slot *device,
                  const struct link_report *report, struct link_users users);
/* Return the estimated link between two devices: by their own transfers; else by the transfers of
 * each device with others, the slower of both; else the usual link, because one slow device alone
 * may be the fault of its partner. Through a relay, the links of both follow each other. */
struct link_speed traffic_link(const struct core *core, const struct device_slot *a,
                               const struct device_slot *b);
/* Estimate a device's link by its transfers with all others: the fastest of its speeds alone,
 * beside other transfers, and shared by several devices. false: too few transfers are known;
 * transfers beside others do not suffice. */
bool traffic_device_link(const struct core *core, const struct device_slot *device,
                         struct link_speed *out);
/* Return the next measured direction after *at, which begins at 0; NULL: no more. */
const struct link_row *traffic_next(const struct core *core, size_t *at);
/* Write the row of a reported direction. false: the direction is unknown. */
bool traffic_write(const struct core *core, const struct device_slot *device,
                   const struct link_report *report, struct link_users users, struct link_row *out);
/* Take a row of an earlier life, after the devices. */
void traffic_restore(struct core *core, const struct link_row *row);

#endif
