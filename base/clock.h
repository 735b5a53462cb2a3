/* clock.h: the two clocks. For edges: cores, plan and libtrain read no clock. Any thread.
 * Monotonic time (CLOCK_BOOTTIME, it counts suspend too) decides; wall time is for display and for
 * ids. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define NS_PER_MS INT64_C(1000000)

int64_t clock_now_ms(void);
/* Seconds with the full resolution, to measure durations. */
double clock_now_seconds(void);
/* Processor time of the calling thread, without its waits. */
double clock_thread_seconds(void);
/* The same of all threads of the process together. */
double clock_process_seconds(void);
/* Milliseconds since 1970 UTC. */
int64_t clock_wall_ms(void);

#define CLOCK_RFC3339_SIZE 32
/* "2026-01-31T12:00:00.123Z"; "" for 0. Times outside the years 1 to 9999 are clamped to them. */
void clock_format_rfc3339(int64_t wall_ms, char out[CLOCK_RFC3339_SIZE]);
NODISCARD int clock_parse_rfc3339(const char *text, int64_t *wall_ms, struct err *err);

#endif
