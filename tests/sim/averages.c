/* The upload of an average of groups (coordinator/http/average_upload). */
#include <string.h>

#include "base/assert.h"
#include "tests/sim/coordinator.h"
#include "tests/sim/digest.h"

#define AVERAGE_BYTES 1000
#define DURABLE_US (100 * MS)

static void durable(struct world *world, void *arg, int64_t number)
{
    struct coordinator *coordinator = world->coordinator;
    struct call *call = arg;
    (void)number;
    if (coordinator->disk_full) {
        net_problem(world, call, PROBLEM_DISK_FULL, "no space left");
        return;
    }
    blobs_add(&coordinator->blobs, call->unit.sha256);
    coordinator_tell_stored(world, call);
}

void coordinator_take_average(struct world *world, struct call *call)
{
    const struct coordinator *coordinator = world->coordinator;
    if (!coordinator_asks(world, call)) {
        return;
    }
    const struct model *model;
    if (!core_average_job(coordinator->core, call->device.text, &call->average, &model)) {
        net_problem(world, call, PROBLEM_STALE_GENERATION, "the average is not expected");
    } else if (coordinator->disk_full) {
        net_problem(world, call, PROBLEM_DISK_FULL, "no space left");
    } else {
        const int64_t at_us =
            world->now_us + call->body_us + world_draw(world, DRAW_COORDINATOR, 0, DURABLE_US);
        world_at_call(world, ACTOR_COORDINATOR, at_us, durable, call);
    }
}

void coordinator_stored(const struct call *call, struct event *event)
{
    if (call->type == CALL_PUT_BLOB) {
        event->type = EVENT_BLOB_STORED;
        event->blob_stored = (struct event_blob_stored){.device = call->device, .unit = call->unit};
        return;
    }
    ASSERT(call->type == CALL_PUT_AVERAGE);
    event->type = EVENT_AVERAGE_STORED;
    event->average_stored = (struct event_average_stored){
        .device = call->device, .average = call->average, .bytes = AVERAGE_BYTES};
    memcpy(event->average_stored.sha256, call->unit.sha256, SHA256_SIZE);
}
