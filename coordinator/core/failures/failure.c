/* Modules below the generation only note a failure; core.c handles it at the end of the step
 * (failures.c). The first cause counts. */
#include "coordinator/core/failures/failure.h"

#include <stdarg.h>
#include <string.h>

#include "coordinator/core/copies/center.h"
#include "coordinator/core/state/mark.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/state/states.h"
#include "coordinator/core/state/text.h"

void failure_add(struct failure *failure, const struct device_slot *device)
{
    if (device && failure->device_count < STAGES_MAX) {
        struct incident_device *at = &failure->device[failure->device_count++];
        at->id = device->device.id;
        memcpy(at->name, device->device.name, sizeof(at->name));
    }
}

static void add_gone(struct failure *failure, const struct device_slot *device)
{
    if (device && failure->gone_count < STAGES_MAX) {
        failure->gone[failure->gone_count++] = device->device.id;
    } else {
        failure->nobody = true;
    }
}

void failure_note(struct core *core, struct job_slot *job, struct blame blame, const char *format,
                  ...)
{
    struct failure *failure = &job->failure;
    bool stored =
        states_phase(job) == PHASE_FINISHED && center_whole(job)->version == job->plan.last_version;
    if (!states_plan_active(job) || stored) {
        return;
    }
    if (failure->cause != FAILURE_NONE) {
        add_gone(failure, blame.device);
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    text_format(failure->text, sizeof(failure->text), format, arguments);
    va_end(arguments);
    text_set(failure->code, sizeof(failure->code), "%s",
             blame.code ? blame.code : phase_names[states_phase(job)]);
    failure->cause = blame.cause;
    failure->since_ms = blame.since_ms;
    failure->device_count = failure->gone_count = 0;
    failure->nobody = false;
    add_gone(failure, blame.device);
    failure_add(failure, blame.device);
    failure_add(failure, blame.other);
    mark_job(core, job);
}
