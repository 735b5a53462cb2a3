/* The coordinator's answers from committed state, and the center's blobs. */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "tests/sim/check_gossip.h"
#include "tests/sim/coordinator.h"
#include "tests/sim/digest.h"
#include "tests/sim/trace.h"

#define DURABLE_US (100 * MS) /* blobs are committed together */
#define EXPORT_US (50 * MS)

/* NULL: the problem was answered. */
static const struct device *asking_device(struct world *world, struct call *call)
{
    const struct device *device = core_device(world->coordinator->core, call->device.text);
    if (!device) {
        net_problem(world, call, PROBLEM_UNKNOWN_DEVICE, "no such device; enrol it");
    } else if (strcmp(device->boot, call->boot) != 0) {
        net_problem(world, call, PROBLEM_STALE_BOOT, "that boot is over");
        device = NULL;
    }
    return device;
}

bool coordinator_asks(struct world *world, struct call *call)
{
    return asking_device(world, call) != NULL;
}

/* ---- the assignment ---- */

static void fill_tickets(struct world *world, const char *device, struct assignment *assignment)
{
    struct core_ticket ticket;
    size_t at = 0;
    while (core_next_ticket(world->coordinator->core, device, assignment, &at, &ticket)) {
        uint64_t digest = world->coordinator->ticket_key;
        for (const char *letter = ticket.text; *letter; letter++) {
            digest = digest_mix(digest, (uint64_t)*letter);
        }
        digest_text(digest, ticket.out);
        check_ticket(world, assignment, &ticket);
    }
}

/* false: it shall wait. */
static bool look_at_assignment(struct world *world, struct call *call, bool last)
{
    const struct core *core = world->coordinator->core;
    const int64_t revision = core_assignment_revision(core, call->device.text);
    if (call->answered || call->ended) {
        return true; /* the client is gone */
    }
    if (revision > 0 && revision <= call->after && !last) {
        return false;
    }
    const struct device *device = asking_device(world, call);
    if (!device) {
        return true;
    }
    struct assignment *assignment = net_assignment(world);
    if (core_assignment(core, call->device.text, device->boot, assignment)) {
        fill_tickets(world, device->id.text, assignment);
        check_orders(world, assignment);
        call->assignment = assignment;
        net_answer(world, call, 200);
    } else {
        net_put_assignment(world, &assignment);
    }
    return true;
}

static void parked_due(struct world *world, void *arg, int64_t number)
{
    (void)arg;
    (void)number;
    coordinator_poke(world);
}

static void park(struct world *world, struct call *call)
{
    struct coordinator *coordinator = world->coordinator;
    if (!asking_device(world, call)) {
        return;
    }
    if (look_at_assignment(world, call, false)) {
        return;
    }
    ASSERT(coordinator->parked_count < PARKED_MAX);
    net_hold(call);
    const int64_t deadline_us = world->now_us + call->wait_ms * MS;
    coordinator->parked[coordinator->parked_count++] =
        (struct parked){.call = call, .deadline_us = deadline_us};
    world_at_call(world, ACTOR_COORDINATOR, deadline_us, parked_due, call);
}

void coordinator_wake(struct world *world, const char *device_id)
{
    struct coordinator *coordinator = world->coordinator;
    for (size_t i = 0; i < coordinator->parked_count; i++) {
        struct parked *parked = &coordinator->parked[i];
        parked->woken = parked->woken || id_equal(parked->call->device.text, device_id);
    }
}

void coordinator_run_parked(struct world *world)
{
    struct coordinator *coordinator = world->coordinator;
    size_t kept = 0;
    for (size_t i = 0; i < coordinator->parked_count; i++) {
        struct parked parked = coordinator->parked[i];
        const bool last = parked.deadline_us <= world->now_us;
        const bool gone = parked.call->ended && !parked.call->doubled;
        if (gone || ((parked.woken || last) && look_at_assignment(world, parked.call, last))) {
            net_release(world, parked.call);
        } else {
            parked.woken = false;
            coordinator->parked[kept++] = parked;
        }
    }
    coordinator->parked_count = kept;
}

void coordinator_drop_parked(struct world *world)
{
    struct coordinator *coordinator = world->coordinator;
    for (size_t i = 0; i < coordinator->parked_count; i++) {
        net_release(world, coordinator->parked[i].call);
    }
    coordinator->parked_count = 0;
}

/* ---- blobs and data sets out ---- */

static void give(struct world *world, struct call *call)
{
    const struct coordinator *coordinator = world->coordinator;
    const char *sha256 = call->unit.sha256;
    const struct device *device = asking_device(world, call);
    if (!device) {
        return;
    }
    if (call->type == CALL_GET_DATA &&
        core_may_read_data(coordinator->core, device->id.text, sha256)) {
        net_answer(world, call, 206);
    } else if (call->type == CALL_GET_BLOB &&
               core_may_read_blob(coordinator->core, device->id.text, sha256) &&
               blobs_have(&coordinator->blobs, sha256)) {
        call->digest = digest_of_text(sha256);
        net_answer(world, call, 200);
    } else {
        net_problem(world, call, PROBLEM_UNKNOWN_BLOB, "the device needs no such content");
    }
}

void coordinator_look(struct world *world, struct call *call)
{
    if (call->type == CALL_POLL) {
        park(world, call);
    } else {
        give(world, call);
    }
}

/* ---- blobs in ---- */

void coordinator_tell_stored(struct world *world, struct call *call)
{
    struct coordinator *coordinator = world->coordinator;
    ASSERT(coordinator->inbox_count < INBOX_MAX);
    net_hold(call);
    coordinator->inbox[coordinator->inbox_count++] =
        (struct inbox_item){.call = call, .stored = true};
    coordinator_poke(world);
}

static void durable(struct world *world, void *arg, int64_t number)
{
    struct coordinator *coordinator = world->coordinator;
    struct call *call = arg;
    (void)number;
    char content[SHA256_SIZE];
    digest_text(call->digest, content);
    if (coordinator->disk_full) {
        net_problem(world, call, PROBLEM_DISK_FULL, "no space left");
        return;
    }
    if (strcmp(content, call->unit.sha256) != 0) {
        net_problem(world, call, PROBLEM_INVALID_BLOB, "the hash is not as announced");
        return;
    }
    blobs_add(&coordinator->blobs, call->unit.sha256);
    coordinator_tell_stored(world, call);
}

void coordinator_take_upload(struct world *world, struct call *call)
{
    const struct coordinator *coordinator = world->coordinator;
    const struct device *device = asking_device(world, call);
    if (!device) {
        return;
    }
    if (!core_may_store_unit(coordinator->core, device->id.text, &call->unit)) {
        net_problem(world, call, PROBLEM_STALE_GENERATION, "that unit is not asked of this device");
    } else if (call->empty && blobs_have(&coordinator->blobs, call->unit.sha256)) {
        coordinator_tell_stored(world, call);
    } else if (call->empty) {
        net_problem(world, call, PROBLEM_UNKNOWN_BLOB, "the center does not have these bytes");
    } else if (coordinator->disk_full) {
        net_problem(world, call, PROBLEM_DISK_FULL, "no space left");
    } else {
        const int64_t at_us =
            world->now_us + call->body_us + world_draw(world, DRAW_COORDINATOR, 0, DURABLE_US);
        world_at_call(world, ACTOR_COORDINATOR, at_us, durable, call);
    }
}

/* ---- the export ---- */

static void exported(struct world *world, void *arg, int64_t number)
{
    struct coordinator *coordinator = world->coordinator;
    (void)arg;
    struct event_exported *result = &coordinator->exporting[number];
    coordinator->exporting_busy[number] = false;
    if (!result->failed && coordinator->disk_full) {
        result->failed = true;
        (void)snprintf(result->message, MESSAGE_SIZE, "no space left");
    }
    if (!result->failed) {
        blobs_add(&coordinator->blobs, result->sha256);
    }
    ASSERT(coordinator->inbox_count < INBOX_MAX);
    coordinator->inbox[coordinator->inbox_count++] = (struct inbox_item){.exported = *result};
    coordinator_poke(world);
}

/* Put the units together. A unit without a row or blob fails the export. */
static void assemble(const struct world *world, const struct model *model,
                     struct event_exported *result)
{
    const struct coordinator *coordinator = world->coordinator;
    const struct rows *rows = &coordinator->rows;
    uint64_t all = 0;
    for (size_t u = 0; u < model->unit_count; u++) {
        const struct center_unit *found = NULL;
        for (size_t i = 0; i < rows->unit_count; i++) {
            const struct center_unit *unit = &rows->unit[i];
            found = unit->unit == (int64_t)u && unit->version == result->version &&
                            id_equal(unit->job.text, result->job.text)
                        ? unit
                        : found;
        }
        if (!found || !blobs_have(&coordinator->blobs, found->sha256)) {
            result->failed = true;
            (void)snprintf(result->message, MESSAGE_SIZE, "unit %zu has no %s", u,
                           found ? "blob" : "row");
            return;
        }
        all = digest_mix(all, digest_of_text(found->sha256));
    }
    digest_text(all, result->sha256);
    result->bytes = 1000;
}

void coordinator_export(struct world *world, const struct action *action)
{
    struct coordinator *coordinator = world->coordinator;
    const struct job *job = core_job(coordinator->core, action->id);
    size_t at = 0;
    while (at < EXPORTS_MAX && coordinator->exporting_busy[at]) {
        at++;
    }
    ASSERT(at < EXPORTS_MAX);
    if (!job) {
        return;
    }
    struct event_exported *result = &coordinator->exporting[at];
    *result = (struct event_exported){.job = job->id, .version = action->version};
    coordinator->exporting_busy[at] = true;
    assemble(world, coordinator_model(world, &job->spec), result);
    world_at(world, ACTOR_COORDINATOR,
             world->now_us + world_draw(world, DRAW_COORDINATOR, 1, EXPORT_US), exported, NULL,
             (int64_t)at);
}
