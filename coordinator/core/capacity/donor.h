/* donor.h: which device measured a shape last. On all devices, the time of a unit differs from the
 * time that its features predict. So that measurement helps to predict the unit for devices that
 * never ran it. */
#ifndef COORDINATOR_CORE_CAPACITY_DONOR_H
#define COORDINATOR_CORE_CAPACITY_DONOR_H

#include <stddef.h>
#include <stdint.h>

#define DONORS_MAX 8192 /* shapes; if two have the same place, the newer one stays */

struct capacity;

struct donor {
    uint64_t shape; /* 0: free */
    size_t slot;    /* of the device */
    uint64_t key;   /* of the device, because another device may use the slot by now */
};

/* Note that a device has measured the shape. */
void donor_note(struct capacity *capacity, size_t slot, uint64_t shape);
/* Return the slot of the device that measured the shape last; SIZE_MAX: unknown. */
size_t donor_find(const struct capacity *capacity, uint64_t shape);

#endif
