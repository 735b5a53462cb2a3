#include "libtrain/schedule/schedule.h"

#include <stdbool.h>

#include "base/assert.h"

enum schedule_work schedule_next(const struct schedule_progress *progress)
{
    ASSERT(progress->in_flight >= 1);
    ASSERT(progress->backwards <= progress->forwards &&
           progress->forwards <= progress->micro_batches);
    if (progress->backwards == progress->micro_batches) {
        return SCHEDULE_UPDATE;
    }
    if (progress->backwards < progress->forwards && progress->gradients > progress->backwards) {
        return SCHEDULE_BACKWARD;
    }
    bool room = progress->forwards - progress->backwards < progress->in_flight;
    if (room && progress->forwards < progress->micro_batches &&
        progress->inputs > progress->forwards) {
        return SCHEDULE_FORWARD;
    }
    return SCHEDULE_WAIT;
}

size_t schedule_in_flight(size_t index, size_t count, size_t micro_batches)
{
    ASSERT(index < count && micro_batches >= 1);
    size_t stages = count - index;
    return stages < micro_batches ? stages : micro_batches;
}
