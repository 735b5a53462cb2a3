/* process_metrics.h: metrics of this process under the names that Prometheus' own libraries use:
 * memory, processor time, open descriptors, time of the start. For the programs. Any thread. */
#ifndef BASE_PROCESS_METRICS_H
#define BASE_PROCESS_METRICS_H

#include <stdint.h>

#include "base/exposition.h"

/* started_ms: wall time of the start of the program. What /proc does not tell is left out. */
void process_metrics_write(struct exposition *exposition, int64_t started_ms);

#endif
