/* inventory.h: processor, memory and kernel of this machine, from /proc and /sys. Any thread. */
#ifndef AGENT_RUNTIME_INVENTORY_H
#define AGENT_RUNTIME_INVENTORY_H

#include <stdint.h>

#include "schema/device.h"

void inventory_read(struct device_inventory *out);
/* Return the number of processors on which this process may run. */
int64_t inventory_cores(void);
/* Return the memory that can be allocated now: the kernel's available memory, bounded by the limits
 * of the control groups, by the limit of addresses (RLIMIT_AS) and by half of the address space. 0:
 * unknown. */
uint64_t inventory_free_memory(void);
/* Return the same, less a reserve below the limit of a control group. The kernel ends a process at
 * that limit, and plans fill a device to the last byte. */
uint64_t inventory_memory_for_plans(void);
/* Return the resident bytes of this process. 0: unknown. */
int64_t inventory_resident(void);

#endif
