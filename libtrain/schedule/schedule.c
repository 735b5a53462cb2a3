#include "libtrain/schedule/schedule.h"

#include <stdint.h>

#include "base/assert.h"

static bool may_forward(const struct schedule_progress *progress)
{
    return progress->forwards < progress->flush &&
           progress->forwards - progress->backwards < progress->in_flight;
}

enum schedule_work schedule_next(const struct schedule_progress *progress)
{
    ASSERT(progress->in_flight >= 1 && progress->micro_batches >= 1);
    ASSERT(progress->backwards <= progress->forwards && progress->forwards <= progress->flush);
    if (progress->backwards == progress->micro_batches) {
        return SCHEDULE_UPDATE;
    }
    const bool forward = may_forward(progress);
    const bool backward_waits = progress->strict && forward;
    if (!backward_waits && progress->backwards < progress->forwards &&
        progress->gradients > progress->backwards) {
        return SCHEDULE_BACKWARD;
    }
    return forward && progress->inputs > progress->forwards ? SCHEDULE_FORWARD : SCHEDULE_WAIT;
}

size_t schedule_in_flight(size_t index, size_t count, size_t flush)
{
    ASSERT(index < count && flush >= 1);
    size_t stages = count - index;
    return stages < flush ? stages : flush;
}

bool schedule_limits_fit(const size_t *in_flight, size_t count)
{
    for (size_t i = 0; i + 1 < count; i++) {
        if (in_flight[i] < in_flight[i + 1]) {
            return false;
        }
    }
    return count > 0 && in_flight[count - 1] == 1;
}
