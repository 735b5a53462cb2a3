/* fault_vfs.h: SQLite's file layer with faults on order: one call that fails, a crash from the n-th
 * call on, or a main file that cannot grow. Installed as the default, so that the code under test
 * needs to know nothing of it. Counted are the calls that change the disk: write, sync, truncate,
 * delete. Plans are set while no store is open or idle. */
#ifndef TESTS_UNIT_COORDINATOR_STORE_FAULT_VFS_H
#define TESTS_UNIT_COORDINATOR_STORE_FAULT_VFS_H

#include <stdint.h>

enum fault_kind {
    FAULT_NONE,
    FAULT_ERROR, /* call n fails with an input/output error, once */
    FAULT_FULL,  /* call n fails because the disk is full, once */
    FAULT_CRASH, /* from call n on nothing reaches the disk */
};

void fault_vfs_install(void);
/* n counts from 1, from now on. */
void fault_vfs_plan(enum fault_kind kind, int64_t n);
/* Calls since the plan was made. */
int64_t fault_vfs_calls(void);
/* Main database files end here; 0: no limit. */
void fault_vfs_limit(int64_t bytes);

#endif
