#include "coordinator/content/disk.h"

#include <inttypes.h>

#include "base/log.h"
#include "coordinator/coordinator.h"

void disk_look(struct coordinator *coordinator)
{
    bool low = false;
    struct err err = {0};
    if (blob_disk_low(coordinator->blobs, &low, &err)) {
        log_warn("free_space_unknown", "error=%s", log_quote(err.text).text);
        return;
    }
    if (low == coordinator->disk_low) {
        return;
    }
    coordinator->disk_low = low;
    if (low) {
        log_warn("disk_nearly_full", "min_free_bytes=%" PRIu64,
                 coordinator->config->min_free_bytes);
    } else {
        log_info("disk_has_room", "min_free_bytes=%" PRIu64, coordinator->config->min_free_bytes);
    }
    struct event event = {.type = EVENT_DISK, .disk = {.nearly_full = low}};
    turn_event(coordinator->turn, &event, NULL, NULL);
}

int disk_check_rows(const struct coordinator *coordinator, struct err *err)
{
    return state_check_room(coordinator->state, coordinator->config->min_free_bytes, err);
}
