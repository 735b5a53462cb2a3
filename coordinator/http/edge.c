#include "coordinator/http/edge.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "coordinator/content/disk.h"
#include "coordinator/http/access.h"
#include "coordinator/http/answer.h"
#include "coordinator/http/audit.h"
#include "schema/heartbeat.h"

/* The client of a parked request hung up. If it was a device's poll, the device may be lost. */
static void take_hangup(void *context, struct http_exchange *exchange, enum object_kind kind,
                        const char *id)
{
    struct coordinator *coordinator = context;
    const struct device *device =
        kind == OBJECT_ASSIGNMENT ? core_device(coordinator->core, id) : NULL;
    const char *boot = http_query(exchange, "boot");
    /* The connection of an earlier boot says nothing about this one. */
    if (device && boot && strcmp(device->boot, boot) == 0 && !coordinator->stopping &&
        !turn_held(coordinator->turn)) {
        struct event event = {.type = EVENT_POLL_BROKEN, .poll_broken = {.device = device->id}};
        turn_event(coordinator->turn, &event, NULL, NULL);
    }
}

int edge_open(struct coordinator *coordinator, uint64_t seed, struct err *err)
{
    struct edge *edge = coordinator->edge = calloc(1, sizeof(*edge));
    if (!edge || !(edge->heartbeat = calloc(1, sizeof(*edge->heartbeat)))) {
        return err_set(err, ERR_MEMORY, "HTTP edge: out of memory");
    }
    edge->lists.base = clock_wall_ms() * 1000;
    int rc = parked_new(coordinator->connections_max, coordinator, &edge->parked, err);
    if (!rc) {
        parked_on_hangup(edge->parked, take_hangup);
        rc = event_stream_new(coordinator->state, seed, &edge->stream, err);
    }
    rc = rc ? rc : access_open(coordinator, seed, err);
    if (!rc) {
        rc = audit_open(coordinator, seed, err);
    }
    return rc;
}

void edge_close(struct coordinator *coordinator)
{
    struct edge *edge = coordinator->edge;
    if (!edge) {
        return;
    }
    access_close(edge);
    event_stream_free(&edge->stream);
    parked_free(&edge->parked);
    free(edge->heartbeat);
    free(edge);
    coordinator->edge = NULL;
}

void edge_publish(struct edge *edge)
{
    event_stream_publish(edge->stream);
    parked_run(edge->parked, clock_now_ms());
}

void edge_changed(struct edge *edge, enum object_kind kind, const char *id)
{
    edge->lists.changes[kind]++;
    parked_wake(edge->parked, kind, id);
    parked_wake(edge->parked, kind, PARKED_LIST);
}

int64_t edge_list_revision(const struct edge *edge, enum object_kind kind)
{
    return edge->lists.base + edge->lists.changes[kind];
}

uint64_t edge_events(const struct edge *edge)
{
    return event_stream_published(edge->stream);
}

int64_t edge_deadline_ms(const struct edge *edge)
{
    return parked_deadline_ms(edge->parked);
}

int64_t edge_ping(struct edge *edge, int64_t now_ms)
{
    return event_stream_ping(edge->stream, now_ms);
}

void edge_stop(struct edge *edge)
{
    parked_end(edge->parked);
    event_stream_end(edge->stream);
}

bool edge_takes_rows(const struct coordinator *coordinator, struct http_exchange *exchange)
{
    struct err err = {0};
    const int rc = disk_check_rows(coordinator, &err);
    if (rc) {
        answer_err(exchange, &err);
    }
    return !rc;
}
