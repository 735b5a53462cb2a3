#include "tests/sim/deletions.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "coordinator/core/event.h"
#include "tests/sim/check.h"
#include "tests/sim/coordinator.h"
#include "tests/sim/digest.h"
#include "tests/sim/trace.h"
#include "tests/sim/users.h"

#define SALT 0x64656c65 /* of numbers of no draw: what else a seed does stays the same */
#define WORK_SEEDS 3    /* checkpoints are deleted in every third seed */
#define DEEDS_MOST 12
#define PAUSE_US_MAX (4 * SECOND)

static uint64_t bits_of(const struct world *world, int64_t number)
{
    return digest_mix(digest_mix(world->seed, SALT), (uint64_t)number);
}

static const struct checkpoint *find(const struct rows *rows, const char *id)
{
    for (size_t i = 0; i < rows->checkpoint_count; i++) {
        if (strcmp(rows->checkpoint[i].id.text, id) == 0) {
            return &rows->checkpoint[i];
        }
    }
    return NULL;
}

/* ---- the user ---- */

/* What an answer says was deleted is gone, unless a backup brought it back. */
static void answered(struct world *world, struct call *call)
{
    const char *id = call->event->delete.id;
    TRACE(world, ACTOR_USER, "deletes %s: %d %s", id, call->network ? 0 : call->status, call->text);
    if (call->network == 0 && call->status == 204 && call->number == world->check->backups &&
        find(&world->coordinator->rows, id)) {
        check_fail(world, "%s is deleted and still there", id);
    }
}

/* The first checkpoint is the upload, from which jobs that are not submitted yet may start. */
static void delete_one(struct world *world, void *arg, int64_t number)
{
    const struct rows *rows = &world->coordinator->rows;
    const uint64_t bits = bits_of(world, number);
    (void)arg;
    if (rows->checkpoint_count > 1) {
        const size_t at = 1 + (size_t)(bits / 16 % (rows->checkpoint_count - 1));
        struct event event = {.type = EVENT_DELETE, .delete = {.kind = DELETE_CHECKPOINT}};
        (void)snprintf(event.delete.id, sizeof(event.delete.id), "%s",
                       rows->checkpoint[at].id.text);
        users_send(world, &event, answered, NULL)->number = world->check->backups;
    } else {
        number--; /* wait for one */
    }
    if (number < (int64_t)(bits_of(world, 0) / 8 % DEEDS_MOST) && !world->users->insist) {
        world_at(world, ACTOR_USER, world->now_us + 1 + (int64_t)(bits / 4096 % PAUSE_US_MAX),
                 delete_one, NULL, number + 1);
    }
}

void deletions_begin(struct world *world)
{
    if (bits_of(world, 0) % WORK_SEEDS == 0) {
        world_at(world, ACTOR_USER, world->now_us + SECOND, delete_one, NULL, 1);
    }
}

/* ---- the edge ---- */

void deletions_take(struct world *world, struct call *call,
                    void (*step)(struct world *world, struct event *event, struct call *call))
{
    struct coordinator *coordinator = world->coordinator;
    struct event event = *call->event;
    const struct checkpoint *row = find(&coordinator->rows, event.delete.id);
    if (!row) {
        net_problem(world, call, PROBLEM_UNKNOWN_CHECKPOINT, "no such checkpoint");
        return;
    }
    char sha256[1][SHA256_SIZE];
    memcpy(sha256[0], row->sha256, SHA256_SIZE);
    event.delete.revision = row->revision;
    event.delete.sha256 = (const char(*)[SHA256_SIZE])sha256;
    event.delete.sha256_count = 1;
    step(world, &event, call);
    if (coordinator->outbox_status[coordinator->outbox_count - 1] == 204) {
        check_note_deleted(world, event.delete.id);
        ASSERT(coordinator->late_count < LATE_MAX);
        struct action *late = &coordinator->late[coordinator->late_count++];
        *late = (struct action){.type = ACTION_DELETE_CHECKPOINT};
        memcpy(late->sha256, sha256[0], SHA256_SIZE);
    }
}
