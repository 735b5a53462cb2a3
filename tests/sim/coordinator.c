#include "tests/sim/coordinator.h"

#include <string.h>

#include "base/assert.h"
#include "base/pages.h"
#include "tests/sim/check.h"
#include "tests/sim/check_gossip.h"
#include "tests/sim/check_rounds.h"
#include "tests/sim/deletions.h"
#include "tests/sim/digest.h"
#include "tests/sim/faults.h"
#include "tests/sim/note.h"
#include "tests/sim/trace.h"

#define TURN_US 50 /* between a request and the turn that takes it */
#define DISK_LOOK_US (60 * SECOND)

int coordinator_new(struct world *world, struct err *err)
{
    struct coordinator *coordinator = pages_new(1, sizeof(*coordinator));
    if (!coordinator) {
        return err_set(err, ERR_MEMORY, "coordinator");
    }
    world->coordinator = coordinator;
    coordinator->actions.item = pages_new(ACTIONS_MAX, sizeof(coordinator->actions.item[0]));
    if (!coordinator->actions.item) {
        return err_set(err, ERR_MEMORY, "coordinator");
    }
    if (question_new(&coordinator->planning, err) != 0) {
        return ERR_MEMORY;
    }
    coordinator->config = core_config_default;
    coordinator->config.devices_max = ROWS_DEVICES_MAX;
    coordinator->config.jobs_max = ROWS_LIVE_MAX;
    coordinator->fsync_us = 2 * MS;
    coordinator->ticket_key = digest_mix(world->seed, 1);
    world->actor[ACTOR_COORDINATOR].label = "center";
    return 0;
}

/* Everything that a process has in memory. */
static void forget(struct world *world)
{
    struct coordinator *coordinator = world->coordinator;
    core_free(&coordinator->core);
    transaction_clear(&coordinator->transaction);
    for (size_t i = 0; i < coordinator->inbox_count; i++) {
        net_release(world, coordinator->inbox[i].call);
    }
    for (size_t i = 0; i < coordinator->outbox_count; i++) {
        net_release(world, coordinator->outbox[i]);
    }
    coordinator_drop_parked(world);
    coordinator->inbox_count = coordinator->outbox_count = coordinator->late_count = 0;
    coordinator->plan_question = coordinator->plan_next = 0;
    memset(coordinator->exporting_busy, 0, sizeof(coordinator->exporting_busy));
    coordinator->busy = coordinator->turn_asked = coordinator->disk_low = false;
    coordinator->timer_us = INT64_MAX;
}

void coordinator_free(struct world *world)
{
    if (world->coordinator) {
        forget(world);
        pages_free(world->coordinator->actions.item);
        pages_free(world->coordinator->backup);
        question_free(&world->coordinator->planning);
        pages_free(world->coordinator);
        world->coordinator = NULL;
    }
}

/* ---- actions ---- */

static void take_reply(struct coordinator *coordinator, const struct action *action)
{
    struct call *call = coordinator->asking;
    ASSERT(call && coordinator->outbox_count < INBOX_MAX);
    net_hold(call);
    coordinator->outbox[coordinator->outbox_count] = call;
    coordinator->outbox_status[coordinator->outbox_count++] = action->status;
    if (call->answered) {
        return; /* the caller's network gave it up meanwhile */
    }
    if (action->type == ACTION_PROBLEM) {
        call->problem = action->problem;
        memcpy(call->text, action->text, sizeof(call->text));
    } else if (action->kind == OBJECT_ENROLL_REPLY) {
        call->enrolled = *(const struct enroll_reply *)action->object;
    } else if (action->kind == OBJECT_HEARTBEAT_REPLY) {
        call->beaten = *(const struct heartbeat_reply *)action->object;
    } else if (action->kind == OBJECT_JOB) {
        call->job = ((const struct job *)action->object)->id;
    }
}

static void carry_out(struct world *world, const struct action *action)
{
    struct coordinator *coordinator = world->coordinator;
    switch (action->type) {
    case ACTION_PERSIST:
    case ACTION_FORGET:
        note_row(world, action);
        if (rows_keep(action->kind)) {
            transaction_add(&coordinator->transaction, action);
        }
        break;
    case ACTION_REPLY:
    case ACTION_PROBLEM: take_reply(coordinator, action); break;
    case ACTION_WAKE:
        if (action->kind == OBJECT_ASSIGNMENT) {
            coordinator_wake(world, action->id);
        }
        break;
    case ACTION_METRIC: check_metric(world, action); break;
    case ACTION_MEASURED: break;
    case ACTION_CAPACITY: rows_take_capacity(&coordinator->rows, action->capacity); break;
    case ACTION_EXPORT:
    case ACTION_TUNE:
    case ACTION_DERIVE:
    case ACTION_HARVEST:
    case ACTION_PLAN:
    case ACTION_DELETE_BLOB:
    case ACTION_DELETE_CHECKPOINT:
        ASSERT(coordinator->late_count < LATE_MAX);
        coordinator->late[coordinator->late_count++] = *action;
        break;
    case ACTION_PUBLISH:
        TRACE(world, ACTOR_COORDINATOR, "%s: %s", action->event, action->text);
        check_event(world, action);
        break;
    }
}

/* Feed one event to the core; what it asks for is noted for the commit. */
static void step(struct world *world, struct event *event, struct call *call)
{
    struct coordinator *coordinator = world->coordinator;
    event->now_ms = coordinator->stepped_ms = world_now_ms(world, ACTOR_COORDINATOR);
    event->wall_ms = world_wall_ms(world, ACTOR_COORDINATOR);
    event->request = call ? 1 : 0;
    coordinator->asking = call;
    coordinator->actions.count = 0;
    core_step(coordinator->core, event, &coordinator->actions);
    const size_t replies = coordinator->outbox_count;
    for (size_t i = 0; i < coordinator->actions.count; i++) {
        carry_out(world, &coordinator->actions.item[i]);
    }
    ASSERT(coordinator->outbox_count == replies + (call != NULL)); /* one answer to each request */
    coordinator->asking = NULL;
    check_rounds(world, event);
}

/* ---- a turn ---- */

static void take_tuned(struct world *world, const struct job_id *id)
{
    const struct core *core = world->coordinator->core;
    struct event event = {.type = EVENT_TUNED, .tuned = {.job = *id, .sha256 = TUNED}};
    const char *kernels = core_job_kernels(core, id->text, &event.tuned.generation);
    if (kernels) {
        event.tuned.model = coordinator_tuned(world, core_job(core, id->text)->spec.model.name);
        char wanted[KERNEL_TEXT_SIZE];
        kernel_text_write(event.tuned.model, 0, event.tuned.model->unit_count, wanted);
        if (strcmp(kernels, wanted) != 0) {
            check_fail(world, "the kernels of %s are not what its devices measured", id->text);
        }
        step(world, &event, NULL);
    }
}

/* Any other call of a device is a sign of life. */
static void take_contact(struct world *world, const struct call *call)
{
    const struct device *device = core_device(world->coordinator->core, call->device.text);
    if (device && strcmp(device->boot, call->boot) == 0) {
        struct event event = {.type = EVENT_CONTACT, .contact = {.device = device->id}};
        step(world, &event, NULL);
    }
}

/* A user's Idempotency-Key is the name of the job: a repeated request is answered with the job. */
static bool is_repeated(struct world *world, struct call *call)
{
    const struct event *event = call->event;
    const struct job *job =
        event->type == EVENT_JOB_SUBMIT
            ? rows_job_named(&world->coordinator->rows, event->job_submit.spec->name)
            : NULL;
    if (job) {
        call->job = job->id;
        net_answer(world, call, 201);
    }
    return job != NULL;
}

static void take_item(struct world *world, struct inbox_item *item)
{
    struct call *call = item->call;
    struct event event = {0};
    if (item->planned != 0) {
        coordinator_planned(world, &event);
        step(world, &event, NULL);
        coordinator_plan_next(world);
        return;
    }
    if (!call && item->parent.type != EVENT_RESTORED) {
        step(world, &item->parent, NULL);
        return;
    }
    if (!call && item->tuned.text[0] != '\0') {
        take_tuned(world, &item->tuned);
        return;
    }
    if (!call) {
        event.type = EVENT_EXPORTED;
        event.exported = item->exported;
        step(world, &event, NULL);
        return;
    }
    if (item->broken) {
        const struct device *device = core_device(world->coordinator->core, call->device.text);
        /* The connection of an earlier boot says nothing about this one. */
        if (device && strcmp(device->boot, call->boot) == 0) {
            event.type = EVENT_POLL_BROKEN;
            event.poll_broken.device = device->id;
            step(world, &event, NULL);
        }
    } else if (item->stored) {
        coordinator_stored(call, &event);
        step(world, &event, call);
    } else if (call->type == CALL_ENROLL) {
        event.type = EVENT_ENROLL;
        event.enroll.request = call->enroll;
        step(world, &event, call);
    } else if (call->type == CALL_BEAT) {
        event.type = EVENT_HEARTBEAT;
        event.heartbeat.heartbeat = call->heartbeat;
        note_heartbeat(world, call->from, call->heartbeat);
        check_heartbeat(world, call);
        check_mix_report(world, call);
        step(world, &event, call);
    } else if (call->type == CALL_USER && call->event->type == EVENT_DELETE) {
        deletions_take(world, call, step);
    } else if (call->type == CALL_USER) {
        if (!is_repeated(world, call)) {
            event = *call->event;
            step(world, &event, call);
        }
    } else {
        take_contact(world, call);
        if (call->type == CALL_PUT_BLOB) {
            coordinator_take_upload(world, call);
        } else if (call->type == CALL_PUT_AVERAGE) {
            coordinator_take_average(world, call);
        } else {
            coordinator_look(world, call);
        }
    }
    net_release(world, call);
}

/* Now and then, and when something is to be written. */
static void look_at_disk(struct world *world, bool now)
{
    struct coordinator *coordinator = world->coordinator;
    if (!now && world->now_us < coordinator->disk_look_us) {
        return;
    }
    coordinator->disk_look_us = world->now_us + DISK_LOOK_US;
    if (coordinator->disk_low != coordinator->disk_full) {
        coordinator->disk_low = coordinator->disk_full;
        struct event event = {.type = EVENT_DISK, .disk = {.nearly_full = coordinator->disk_low}};
        step(world, &event, NULL);
    }
}

static bool upload_under_way(const struct world *world, const char *sha256)
{
    for (const struct call *call = world->net->open; call; call = call->next) {
        const bool uploads = call->type == CALL_PUT_BLOB || call->type == CALL_PUT_AVERAGE;
        if (uploads && call->delivered && !call->answered &&
            strcmp(call->unit.sha256, sha256) == 0) {
            return true;
        }
    }
    return false;
}

/* An export has made the blob, and its row follows. */
static bool export_under_way(const struct coordinator *coordinator, const char *sha256)
{
    bool found = false;
    for (size_t i = 0; i < EXPORTS_MAX && !found; i++) {
        found =
            coordinator->exporting_busy[i] && strcmp(coordinator->exporting[i].sha256, sha256) == 0;
    }
    for (size_t i = 0; i < coordinator->inbox_count && !found; i++) {
        const struct inbox_item *item = &coordinator->inbox[i];
        found = !item->call && (strcmp(item->exported.sha256, sha256) == 0 ||
                                (item->parent.type == EVENT_HARVESTED &&
                                 strcmp(item->parent.harvested.sha256, sha256) == 0));
    }
    return found;
}

static void send_late(struct world *world)
{
    struct coordinator *coordinator = world->coordinator;
    for (size_t i = 0; i < coordinator->late_count; i++) {
        const struct action *action = &coordinator->late[i];
        if (action->type == ACTION_EXPORT) {
            coordinator_export(world, action);
        } else if (action->type == ACTION_TUNE) {
            struct inbox_item *item = &coordinator->inbox[coordinator->inbox_count++];
            ASSERT(coordinator->inbox_count <= INBOX_MAX);
            *item = (struct inbox_item){0};
            memcpy(item->tuned.text, action->id, ID_SIZE);
        } else if (action->type == ACTION_DERIVE) {
            coordinator_derive(world, action);
        } else if (action->type == ACTION_HARVEST) {
            coordinator_harvest(world, action);
        } else if (action->type == ACTION_PLAN) {
            coordinator_plan(world, action->question);
        } else {
            const bool of_row = action->type == ACTION_DELETE_CHECKPOINT &&
                                (rows_refer(&coordinator->rows, action->sha256) ||
                                 core_refers(coordinator->core, action->sha256) ||
                                 export_under_way(coordinator, action->sha256));
            if (of_row || upload_under_way(world, action->sha256)) {
                continue; /* its own event decides again whether the blob is needed */
            }
            check_delete_blob(world, action->sha256);
            blobs_delete(&coordinator->blobs, action->sha256);
        }
    }
    coordinator->late_count = 0;
}

static void set_timer(struct world *world);

static void finish(struct world *world)
{
    struct coordinator *coordinator = world->coordinator;
    for (size_t i = 0; i < coordinator->outbox_count; i++) {
        struct call *call = coordinator->outbox[i];
        if (call->problem != PROBLEM_NONE) {
            net_problem(world, call, call->problem, call->text);
        } else {
            net_answer(world, call, coordinator->outbox_status[i]);
        }
        net_release(world, call);
    }
    coordinator->outbox_count = 0;
    send_late(world);
    coordinator_run_parked(world);
    coordinator->busy = false;
    if (coordinator->inbox_count > 0) {
        coordinator_poke(world);
    }
    set_timer(world);
}

static void commit(struct world *world, void *arg, int64_t number)
{
    struct coordinator *coordinator = world->coordinator;
    (void)arg;
    (void)number;
    const enum crash_point crash = faults_crash_point(world);
    if (crash != CRASH_BEFORE_COMMIT) {
        check_commit(world, &coordinator->transaction);
        rows_commit(&coordinator->rows, &coordinator->transaction);
        coordinator->commits++;
        check_rows(world);
    }
    if (crash == CRASH_NOT) {
        finish(world);
        return;
    }
    TRACE(world, ACTOR_COORDINATOR, "dies %s a commit",
          crash == CRASH_BEFORE_COMMIT ? "before" : "after");
    coordinator_crash(world);
    faults_restart_coordinator(world);
}

static void turn(struct world *world, void *arg, int64_t number)
{
    struct coordinator *coordinator = world->coordinator;
    (void)arg;
    (void)number;
    coordinator->turn_asked = false;
    if (coordinator->busy) {
        return; /* it looks again when the commit is done */
    }
    struct inbox_item taken[INBOX_MAX];
    const size_t count = coordinator->inbox_count;
    memcpy(taken, coordinator->inbox, count * sizeof(taken[0]));
    coordinator->inbox_count = 0;
    for (size_t i = 0; i < count; i++) {
        look_at_disk(world, taken[i].call && taken[i].call->type == CALL_PUT_BLOB);
        take_item(world, &taken[i]);
    }
    if (core_deadline_ms(coordinator->core) <= world_now_ms(world, ACTOR_COORDINATOR)) {
        struct event event = {.type = EVENT_TICK};
        step(world, &event, NULL);
    }
    if (coordinator->transaction.count > 0) {
        coordinator->busy = true;
        const int64_t took_us =
            world_draw(world, DRAW_COORDINATOR, coordinator->fsync_us / 10, coordinator->fsync_us);
        world_at(world, ACTOR_COORDINATOR, world->now_us + took_us, commit, NULL, 0);
    } else {
        finish(world);
    }
}

void coordinator_poke(struct world *world)
{
    struct coordinator *coordinator = world->coordinator;
    if (!coordinator->turn_asked && !coordinator->busy) {
        coordinator->turn_asked = true;
        world_at(world, ACTOR_COORDINATOR, world->now_us + TURN_US, turn, NULL, 0);
    }
}

static void timer(struct world *world, void *arg, int64_t number)
{
    (void)arg;
    if (number == world->coordinator->timer_us) {
        world->coordinator->timer_us = INT64_MAX;
        coordinator_poke(world);
    }
}

static void set_timer(struct world *world)
{
    struct coordinator *coordinator = world->coordinator;
    const int64_t at_us =
        world_when_us(world, ACTOR_COORDINATOR, core_deadline_ms(coordinator->core));
    if (at_us != INT64_MAX && at_us != coordinator->timer_us) {
        coordinator->timer_us = at_us;
        world_at(world, ACTOR_COORDINATOR, at_us, timer, NULL, at_us);
    }
}

void coordinator_hang_up(struct world *world, struct call *call)
{
    struct coordinator *coordinator = world->coordinator;
    ASSERT(coordinator->inbox_count < INBOX_MAX);
    net_hold(call);
    coordinator->inbox[coordinator->inbox_count++] =
        (struct inbox_item){.call = call, .broken = true};
    coordinator_poke(world);
}

void coordinator_take(struct world *world, struct call *call)
{
    struct coordinator *coordinator = world->coordinator;
    ASSERT(coordinator->inbox_count < INBOX_MAX);
    net_hold(call);
    coordinator->inbox[coordinator->inbox_count++] = (struct inbox_item){.call = call};
    coordinator_poke(world);
}

/* ---- lives ---- */

void coordinator_start(struct world *world)
{
    struct coordinator *coordinator = world->coordinator;
    struct err err = {0};
    if (world->actor[ACTOR_COORDINATOR].up) {
        return;
    }
    world_start(world, ACTOR_COORDINATOR);
    coordinator->lives++;
    blobs_sweep(&coordinator->blobs, &coordinator->rows);
    const int rc = core_new(&coordinator->config, &coordinator->core, &err);
    ASSERT(rc == 0);
    TRACE(world, ACTOR_COORDINATOR, "starts: %zu devices, %zu jobs", coordinator->rows.device_count,
          coordinator->rows.job_count);
    struct restored_rows *restored = pages_new(1, sizeof(*restored));
    ASSERT(restored);
    coordinator_restored(world, &coordinator->rows, restored);
    step(world, &restored->event, NULL);
    pages_free(restored);
    coordinator->turn_asked = true;
    turn(world, NULL, 0);
}

void coordinator_crash(struct world *world)
{
    if (world->actor[ACTOR_COORDINATOR].up) {
        check_crash(world);
        world_end(world, ACTOR_COORDINATOR);
        forget(world);
    }
}
