/* disk_watch.h: notices calls to the local disk that do not return. A thread that hangs in such a
 * call can neither be cancelled nor report it. So the control thread reports it, and the
 * coordinator continues without this device. Callers of the disk note the begin and the end of a
 * call; the control thread checks for overdue ones. Any thread; never waits for a disk. */
#ifndef AGENT_RUNTIME_DISK_WATCH_H
#define AGENT_RUNTIME_DISK_WATCH_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define DISK_CALLS_MAX 16      /* at the same time; more are not watched */
#define DISK_PATIENCE_MS 10000 /* of each call */
#define DISK_BYTES_PER_MS                                                                          \
    1000 /* plus the time at 1 MB/s, the slowest flash not treated as broken */

struct disk_watch;
NODISCARD int disk_watch_new(struct disk_watch **out, struct err *err);
void disk_watch_free(struct disk_watch **watch);

/* Note the begin of a call that moves at most `bytes`. what: such as "write a snapshot"; it must
 * outlive the call. Returns the call's place for the next two functions. watch may be NULL. */
size_t disk_watch_begin(struct disk_watch *watch, const char *what, uint64_t bytes, int64_t now_ms);
/* Note that the call has returned and the next one of the same kind begins. */
void disk_watch_again(struct disk_watch *watch, size_t place, int64_t now_ms);
void disk_watch_end(struct disk_watch *watch, size_t place);

/* ERR_TIMEOUT: a call is overdue; err names the one under way for the longest time. */
NODISCARD int disk_watch_check(struct disk_watch *watch, int64_t now_ms, struct err *err);

#endif
