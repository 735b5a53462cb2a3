/* donor.h: which device measured a shape last. A unit takes a time of its own on all devices,
 * beside what its features say, so that measurement tells devices that never ran the unit. */
#ifndef COORDINATOR_CORE_DONOR_H
#define COORDINATOR_CORE_DONOR_H

#include <stddef.h>
#include <stdint.h>

#define DONORS_MAX 8192 /* shapes; of two at one place the newer stays */

struct capacity;

struct donor {
    uint64_t shape; /* 0: free */
    size_t slot;    /* of the device */
    uint64_t key;   /* of the device: the slot may have another one by now */
};

/* A device has measured the shape. */
void donor_note(struct capacity *capacity, size_t slot, uint64_t shape);
/* Return the slot of the device that measured the shape last; SIZE_MAX: none that is known. */
size_t donor_find(const struct capacity *capacity, uint64_t shape);

#endif
