/* cgroup.h: the memory that the limits of this process's control groups leave free, from /proc and
 * /sys. Any thread.
 *
 * A limit holds for a group and all groups below it, so each ancestor counts. In a container the
 * listed group may not be visible; its limit is then at the root of the mounted tree. */
#ifndef AGENT_RUNTIME_CGROUP_H
#define AGENT_RUNTIME_CGROUP_H

#include <stdint.h>

/* Return the bytes until the nearest limit; file pages that the kernel can drop at once count as
 * free. UINT64_MAX: no limit; at least 1.
 * groups   the text of /proc/self/cgroup
 * root     where the trees are mounted: "/sys/fs/cgroup" */
uint64_t cgroup_free_memory(const char *groups, const char *root);

#endif
