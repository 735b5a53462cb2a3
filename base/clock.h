/* clock.h: reads the two clocks. For edges: cores, plan and libtrain read no clock. Any thread.
 * Decisions use monotonic time (CLOCK_BOOTTIME, which includes suspend); wall time is for display
 * and for ids. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define NS_PER_MS INT64_C(1000000)

int64_t clock_now_ms(void);
/* Return monotonic seconds with the full resolution, to measure durations. */
double clock_now_seconds(void);
/* Return the processor seconds of the calling thread, without its waits. */
double clock_thread_seconds(void);
/* Return the sum over all threads of the process. */
double clock_process_seconds(void);
/* Return milliseconds since 1970 UTC. */
int64_t clock_wall_ms(void);

#define CLOCK_RFC3339_SIZE 32
/* Write "2026-01-31T12:00:00.123Z"; "" for 0. Times outside the years 1 to 9999 are clamped. */
void clock_format_rfc3339(int64_t wall_ms, char out[CLOCK_RFC3339_SIZE]);
NODISCARD int clock_parse_rfc3339(const char *text, int64_t *wall_ms, struct err *err);

#endif
