/* cgroup.h: memory that the control groups of this process leave, from /proc and /sys. Any thread.
 *
 * A limit holds for a group and all groups below it, so each ancestor counts. In a container the
 * listed group may be out of sight; its limit then stands at the root of the mounted tree. */
#ifndef AGENT_RUNTIME_CGROUP_H
#define AGENT_RUNTIME_CGROUP_H

#include <stdint.h>

/* Bytes until the nearest limit; file pages that the kernel can drop at once count as free.
 * UINT64_MAX: no limit; at least 1.
 * groups   the text of /proc/self/cgroup
 * root     where the trees are mounted: "/sys/fs/cgroup" */
uint64_t cgroup_free_memory(const char *groups, const char *root);

#endif
