/* process_metrics.h: writes metrics of this process under the names of Prometheus' own libraries:
 * memory, processor time, open descriptors, time of the start. For the programs. Any thread. */
#ifndef BASE_PROCESS_METRICS_H
#define BASE_PROCESS_METRICS_H

#include <stdint.h>

#include "base/exposition.h"

/* Write the metrics. started_ms: wall time of the start of the program. Leaves out values that
 * /proc does not provide. */
void process_metrics_write(struct exposition *exposition, int64_t started_ms);

#endif
