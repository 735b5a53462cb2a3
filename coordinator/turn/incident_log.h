/* incident_log.h: counts incidents for /metrics and logs one line for each ended incident, with the
 * seconds of each phase. It acts after the commit, like all effects of a turn. The loop's thread
 * only. */
#ifndef COORDINATOR_TURN_INCIDENT_LOG_H
#define COORDINATOR_TURN_INCIDENT_LOG_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "schema/incident.h"

enum recovery_phase {
    RECOVERY_DETECT,
    RECOVERY_DECIDE,
    RECOVERY_FETCH,
    RECOVERY_REBUILD,
    RECOVERY_RESUME,
    RECOVERY_PHASES,
};
extern const char *const recovery_phase_names[RECOVERY_PHASES];

struct incident_log {
    struct incident *noted; /* opened or ended in this turn */
    size_t noted_count, noted_capacity;
    uint64_t opened[INCIDENT_DEADLINE + 1]; /* by cause, since the start of the program */
    uint64_t resolved;                      /* since then; the seconds below are their sums */
    double seconds[RECOVERY_PHASES];
};

/* Note a row of the current turn. ERR_MEMORY. */
NODISCARD int incident_log_note(struct incident_log *log, const struct incident *incident,
                                struct err *err);
/* After the commit: count and log the noted incidents. */
void incident_log_write(struct incident_log *log);
void incident_log_done(struct incident_log *log);

#endif
