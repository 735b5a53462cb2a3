#include "coordinator/turn/incident_log.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"

const char *const recovery_phase_names[RECOVERY_PHASES] = {
    [RECOVERY_DETECT] = "detect",   [RECOVERY_DECIDE] = "decide", [RECOVERY_FETCH] = "fetch",
    [RECOVERY_REBUILD] = "rebuild", [RECOVERY_RESUME] = "resume",
};

static double seconds_of(const struct incident *incident, enum recovery_phase phase)
{
    const double seconds[RECOVERY_PHASES] = {
        [RECOVERY_DETECT] = incident->detect_seconds,
        [RECOVERY_DECIDE] = incident->decide_seconds,
        [RECOVERY_FETCH] = incident->fetch_seconds,
        [RECOVERY_REBUILD] = incident->rebuild_seconds,
        [RECOVERY_RESUME] = incident->resume_seconds,
    };
    return seconds[phase];
}

int incident_log_note(struct incident_log *log, const struct incident *incident, struct err *err)
{
    if (incident->revision > 1 && incident->state == INCIDENT_OPEN) {
        return 0;
    }
    if (log->noted_count == log->noted_capacity) {
        size_t capacity = log->noted_capacity ? 2 * log->noted_capacity : 4;
        struct incident *larger = realloc(log->noted, capacity * sizeof(*larger));
        if (!larger) {
            return err_set(err, ERR_MEMORY, "incidents: out of memory");
        }
        log->noted = larger;
        log->noted_capacity = capacity;
    }
    log->noted[log->noted_count++] = *incident;
    return 0;
}

static void tell(const struct incident *incident)
{
    char devices[INCIDENT_DEVICES_MAX * (ID_SIZE + 1) + 1] = "";
    size_t size = 0;
    for (size_t i = 0; i < incident->device_count; i++) {
        size += (size_t)snprintf(devices + size, sizeof(devices) - size, "%s%s", i ? "," : "",
                                 incident->device[i].id.text);
    }
    log_info(incident->state == INCIDENT_RESOLVED ? "incident_resolved" : "incident_abandoned",
             "id=%s job=%s cause=%s devices=%s failures=%" PRId64 " generation_before=%" PRId64
             " generation_after=%" PRId64 " step_reached=%" PRId64 " resume_version=%" PRId64
             " steps_redone=%" PRId64 " bytes_moved=%" PRId64
             " detect_seconds=%.6f decide_seconds=%.6f fetch_seconds=%.6f rebuild_seconds=%.6f"
             " resume_seconds=%.6f message=%s",
             incident->id.text, incident->job.text, incident_cause_names[incident->cause], devices,
             incident->failures, incident->generation_before, incident->generation_after,
             incident->step_reached, incident->resume_version, incident->steps_redone,
             incident->bytes_moved, incident->detect_seconds, incident->decide_seconds,
             incident->fetch_seconds, incident->rebuild_seconds, incident->resume_seconds,
             log_quote(incident->message).text);
}

void incident_log_write(struct incident_log *log)
{
    for (size_t i = 0; i < log->noted_count; i++) {
        const struct incident *incident = &log->noted[i];
        log->opened[incident->cause] += incident->revision == 1;
        if (incident->state == INCIDENT_OPEN) {
            continue;
        }
        tell(incident);
        if (incident->state == INCIDENT_RESOLVED) {
            log->resolved++;
            for (enum recovery_phase phase = 0; phase < RECOVERY_PHASES; phase++) {
                log->seconds[phase] += seconds_of(incident, phase);
            }
        }
    }
    log->noted_count = 0;
}

void incident_log_done(struct incident_log *log)
{
    free(log->noted);
    *log = (struct incident_log){0};
}
