/* inventory.h: what this machine is, read from /proc and /sys. Any thread. */
#ifndef AGENT_RUNTIME_INVENTORY_H
#define AGENT_RUNTIME_INVENTORY_H

#include <stdint.h>

#include "schema/device.h"

void inventory_read(struct device_inventory *out);
/* Processors this process may run on. */
int64_t inventory_cores(void);
/* Memory that could be taken now: what the kernel says is available, within the control group's
 * limit, the limit of its addresses (RLIMIT_AS) and half of what a process can address. 0: unknown.
 */
uint64_t inventory_free_memory(void);
/* Bytes of this process in memory. 0: unknown. */
int64_t inventory_resident(void);

#endif
