/* The coordinator's workers for parents: descriptions of parts, and the harvest. */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "tests/sim/check.h"
#include "tests/sim/coordinator.h"
#include "tests/sim/digest.h"

#define WORK_US (50 * MS)

/* What a worker has done, by the slot of its parent's row. */
static void deliver(struct world *world, const struct event *event)
{
    struct coordinator *coordinator = world->coordinator;
    ASSERT(coordinator->inbox_count < INBOX_MAX);
    coordinator->inbox[coordinator->inbox_count++] = (struct inbox_item){.parent = *event};
    coordinator_poke(world);
}

/* ---- descriptions ---- */

/* Units and their names are those of the target. */
static void derived(struct world *world, void *arg, int64_t number)
{
    struct coordinator *coordinator = world->coordinator;
    const struct parent *row = &coordinator->rows.parent[number];
    const struct job *job = core_job(coordinator->core, row->job.text);
    const struct parent *parent = core_parent(coordinator->core, row->job.text);
    static struct derived_model model[GROUPS_MAX];
    (void)arg;
    if (!parent) {
        return;
    }
    struct event event = {
        .type = EVENT_DERIVED,
        .derived = {.job = parent->job, .phase = parent->phase, .model = model, .model_count = 1}};
    if (parent->phase == PARENT_GROUPS) {
        event.derived.model_count = parent->groups.count;
    }
    for (size_t i = 0; i < event.derived.model_count; i++) {
        model[i].model = coordinator_model(world, &job->spec);
        digest_text(digest_mix((uint64_t)parent->phase, i), model[i].sha256);
    }
    deliver(world, &event);
}

static int64_t index_of(const struct rows *rows, const char *id)
{
    for (size_t i = 0; i < rows->parent_count; i++) {
        if (id_equal(rows->parent[i].job.text, id)) {
            return (int64_t)i;
        }
    }
    return -1;
}

static void work(struct world *world, const struct action *action, event_fn run)
{
    const int64_t index = index_of(&world->coordinator->rows, action->id);
    ASSERT(index >= 0); /* its row is committed before */
    world_at(world, ACTOR_COORDINATOR,
             world->now_us + world_draw(world, DRAW_COORDINATOR, 1, WORK_US), run, NULL, index);
}

void coordinator_derive(struct world *world, const struct action *action)
{
    work(world, action, derived);
}

/* ---- the harvest ---- */

uint64_t coordinator_harvested(const struct parent *parent)
{
    uint64_t all = digest_of_text(parent->stem.sha256);
    for (size_t g = 0; g < parent->groups.count; g++) {
        const bool trained = parent->part[g].state == PART_TRAINED;
        all = digest_mix(all, trained ? digest_of_text(parent->part[g].sha256) : g);
    }
    return all;
}

uint64_t coordinator_dropped(const struct parent *parent)
{
    return digest_mix(digest_of_text(parent->joint.sha256), 1);
}

static bool has_blobs(const struct world *world, const struct parent *parent)
{
    const struct blobs *blobs = &world->coordinator->blobs;
    if (parent->phase == PARENT_JOINT) {
        return blobs_have(blobs, parent->joint.sha256);
    }
    bool has = blobs_have(blobs, parent->stem.sha256);
    for (size_t g = 0; g < parent->groups.count; g++) {
        has = has &&
              (parent->part[g].state != PART_TRAINED || blobs_have(blobs, parent->part[g].sha256));
    }
    return has;
}

static void harvested(struct world *world, void *arg, int64_t number)
{
    struct coordinator *coordinator = world->coordinator;
    const struct parent *row = &coordinator->rows.parent[number];
    const struct parent *parent = core_parent(coordinator->core, row->job.text);
    (void)arg;
    if (!parent) {
        return;
    }
    struct event event = {.type = EVENT_HARVESTED,
                          .harvested = {.job = parent->job, .bytes = 1000}};
    if (!has_blobs(world, parent)) {
        check_fail(world, "a part of a parent has no blob");
        return;
    }
    digest_text(parent->phase == PARENT_JOINT ? coordinator_dropped(parent)
                                              : coordinator_harvested(parent),
                event.harvested.sha256);
    event.harvested.failed = coordinator->disk_full;
    if (coordinator->disk_full) {
        (void)snprintf(event.harvested.message, MESSAGE_SIZE, "no space left");
    } else {
        blobs_add(&coordinator->blobs, event.harvested.sha256);
    }
    deliver(world, &event);
}

void coordinator_harvest(struct world *world, const struct action *action)
{
    work(world, action, harvested);
}
