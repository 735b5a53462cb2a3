/* inventory.h: processor, memory and kernel of this machine, from /proc and /sys. Any thread. */
#ifndef AGENT_RUNTIME_INVENTORY_H
#define AGENT_RUNTIME_INVENTORY_H

#include <stdint.h>

#include "schema/device.h"

void inventory_read(struct device_inventory *out);
/* Processors this process may run on. */
int64_t inventory_cores(void);
/* Memory that can be allocated now: the kernel's available memory, within the limits of its control
 * groups, of addresses (RLIMIT_AS) and half of the address space. 0: unknown. */
uint64_t inventory_free_memory(void);
/* The same without a reserve below the limit of a control group, where the kernel ends a process:
 * plans fill a device to the last byte. */
uint64_t inventory_memory_for_plans(void);
/* Bytes of this process in memory. 0: unknown. */
int64_t inventory_resident(void);

#endif
