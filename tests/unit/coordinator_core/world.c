#include "tests/unit/coordinator_core/world.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/pages.h"
#include "tests/support/no_alloc.h"

#define START_MS 1000000
#define START_WALL_MS 1700000000000

/* ---- names ---- */

static const char *name_of(const struct world *world, const char *id)
{
    for (size_t i = 0; i < world->rows.device_count; i++) {
        if (id_equal(world->rows.device[i].id.text, id)) {
            return world->rows.device[i].name;
        }
    }
    for (size_t i = 0; i < world->rows.job_count; i++) {
        if (id_equal(world->rows.job[i].id.text, id)) {
            return world->rows.job[i].spec.name;
        }
    }
    return strncmp(id, "plan_", 5) == 0 ? "plan" : strncmp(id, "ckpt_", 5) == 0 ? "checkpoint" : id;
}

static void PRINTF_LIKE(2, 3) note(struct world *world, const char *format, ...)
{
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    struct err err = {0};
    if (world->traced) {
        assert_ok(buf_printf(&world->trace, &err, "%s\n", line), &err);
    }
}

static const char *const kinds[] = {
    [OBJECT_DEVICE] = "device",
    [OBJECT_JOB] = "job",
    [OBJECT_PLAN] = "plan",
    [OBJECT_DATASET] = "dataset",
    [OBJECT_MODEL] = "model",
    [OBJECT_CHECKPOINT] = "checkpoint",
    [OBJECT_CENTER_UNIT] = "center_unit",
    [OBJECT_INCIDENT] = "incident",
    [OBJECT_ASSIGNMENT] = "assignment",
    [OBJECT_JOIN_REPLY] = "join_reply",
    [OBJECT_ENROLL_REPLY] = "enroll_reply",
    [OBJECT_HEARTBEAT_REPLY] = "heartbeat_reply",
    [OBJECT_JOB_PREVIEW] = "job_preview",
    [OBJECT_PLAN_ANSWER] = "plan_answer",
    [OBJECT_NOTHING] = "nothing",
};

static void note_plan(struct world *world, const struct plan *plan)
{
    char stages[512] = "";
    for (size_t s = 0; s < plan->stage_count; s++) {
        size_t used = strlen(stages);
        (void)snprintf(stages + used, sizeof(stages) - used, " %s[%" PRId64 ",%" PRId64 ")",
                       name_of(world, plan->stage[s].device.text), plan->stage[s].first,
                       plan->stage[s].end);
    }
    note(world, "persist plan g%" PRId64 " %s %s from %" PRId64 ":%s", plan->generation,
         plan_state_names[plan->state], plan_reason_names[plan->reason], plan->resume_version,
         stages);
}

/* ---- the store ---- */

/* Replace the row for which the key's text is equal, or append. */
#define ROW_PUT(rows, list, row, key)                                                              \
    do {                                                                                           \
        size_t at = 0;                                                                             \
        while (at < (rows)->list##_count && strcmp((rows)->list[at].key, (row)->key) != 0) {       \
            at++;                                                                                  \
        }                                                                                          \
        assert_true(at < sizeof((rows)->list) / sizeof((rows)->list[0]));                          \
        assert_true(at == (rows)->list##_count || (rows)->list[at].revision < (row)->revision);    \
        (rows)->list[at] = *(row);                                                                 \
        (rows)->list##_count += at == (rows)->list##_count;                                        \
    } while (0)

static void put_unit(struct rows *rows, const struct center_unit *unit)
{
    size_t at = 0;
    while (at < rows->unit_count &&
           !(id_equal(rows->unit[at].job.text, unit->job.text) &&
             rows->unit[at].version == unit->version && rows->unit[at].unit == unit->unit)) {
        at++;
    }
    assert_true(at < WORLD_ROWS);
    rows->unit[at] = *unit;
    rows->unit_count += at == rows->unit_count;
}

static void persist(struct world *world, const struct action *action)
{
    struct rows *rows = &world->rows;
    switch (action->kind) {
    case OBJECT_DEVICE: {
        const struct device *device = action->object;
        ROW_PUT(rows, device, device, id.text);
        note(world, "persist device %s %s%s", device->name, device_state_names[device->state],
             device->job.text[0] ? " in a job" : "");
        return;
    }
    case OBJECT_JOB: {
        const struct job *job = action->object;
        ROW_PUT(rows, job, job, id.text);
        note(world, "persist job %s %s", job->spec.name, job_state_names[job->state]);
        return;
    }
    case OBJECT_MIX:
    case OBJECT_PARENT: assert_true(false); return; /* the simulator has parents */
    case OBJECT_PLAN: {
        const struct plan *plan = action->object;
        ROW_PUT(rows, plan, plan, id.text);
        note_plan(world, plan);
        return;
    }
    case OBJECT_DATASET:
        ROW_PUT(rows, dataset, (const struct dataset *)action->object, name);
        break;
    case OBJECT_MODEL: ROW_PUT(rows, model, (const struct model_row *)action->object, name); break;
    case OBJECT_CHECKPOINT:
        ROW_PUT(rows, checkpoint, (const struct checkpoint *)action->object, id.text);
        break;
    case OBJECT_CENTER_UNIT: put_unit(rows, action->object); break;
    case OBJECT_INCIDENT:
        ROW_PUT(rows, incident, (const struct incident *)action->object, id.text);
        break;
    case OBJECT_ASSIGNMENT:
    case OBJECT_JOIN_REPLY:
    case OBJECT_ENROLL_REPLY:
    case OBJECT_HEARTBEAT_REPLY:
    case OBJECT_JOB_PREVIEW:
    case OBJECT_PLAN_ANSWER:
    case OBJECT_NOTHING: fail_msg("%s is never stored", kinds[action->kind]); break;
    }
    note(world, "persist %s", kinds[action->kind]);
}

/* Remove the item whose text at `key` is the action's id. */
static void remove_row(void *items, size_t *count, size_t size, size_t key, const char *id)
{
    char *item = items;
    for (size_t i = 0; i < *count; i++) {
        if (strcmp(item + i * size + key, id) == 0) {
            memmove(item + i * size, item + --*count * size, size);
            return;
        }
    }
    fail_msg("no row '%s' to forget", id);
}

#define REMOVE(rows, member, key)                                                                  \
    remove_row((rows)->member, &(rows)->member##_count, sizeof((rows)->member[0]),                 \
               (size_t)((char *)&(rows)->member[0].key - (char *)&(rows)->member[0]), action->id)

static void forget_stored(struct rows *rows, const struct action *action)
{
    if (action->kind == OBJECT_JOB) {
        REMOVE(rows, job, id.text);
    } else if (action->kind == OBJECT_DATASET) {
        REMOVE(rows, dataset, name);
    } else if (action->kind == OBJECT_MODEL) {
        REMOVE(rows, model, name);
    } else if (action->kind == OBJECT_CHECKPOINT) {
        REMOVE(rows, checkpoint, id.text);
    } else {
        assert_int_equal(action->kind, OBJECT_INCIDENT);
        REMOVE(rows, incident, id.text);
    }
}

static void forget(struct world *world, const struct action *action)
{
    struct rows *rows = &world->rows;
    note(world, "forget %s of %s", kinds[action->kind], name_of(world, action->id));
    if (action->kind == OBJECT_DEVICE) {
        for (size_t i = 0; i < rows->device_count; i++) {
            if (id_equal(rows->device[i].id.text, action->id)) {
                rows->device[i] = rows->device[--rows->device_count];
            }
        }
        return;
    }
    if (action->kind != OBJECT_CENTER_UNIT) {
        forget_stored(rows, action);
        return;
    }
    size_t kept = 0;
    for (size_t i = 0; i < rows->unit_count; i++) {
        bool goes =
            id_equal(rows->unit[i].job.text, action->id) && rows->unit[i].version < action->version;
        if (!goes) {
            rows->unit[kept++] = rows->unit[i];
        }
    }
    rows->unit_count = kept;
}

static void take_reply(struct world *world, const struct action *action)
{
    note(world, "reply %d %s", action->status, kinds[action->kind]);
    assert_int_equal(world->status, 0); /* one answer to a request */
    world->status = action->status;
    if (action->kind == OBJECT_JOB) {
        world->job = *(const struct job *)action->object;
    } else if (action->kind == OBJECT_HEARTBEAT_REPLY) {
        world->heartbeat_reply = *(const struct heartbeat_reply *)action->object;
    } else if (action->kind == OBJECT_JOIN_REPLY) {
        world->join_reply = *(const struct join_reply *)action->object;
    } else if (action->kind == OBJECT_ENROLL_REPLY) {
        world->enroll_reply = *(const struct enroll_reply *)action->object;
    } else if (action->kind == OBJECT_JOB_PREVIEW) {
        world->preview = action->object;
    } else if (action->kind == OBJECT_PLAN_ANSWER) {
        world->answer = action->object;
    }
}

static void carry_out(struct world *world, const struct action *action)
{
    switch (action->type) {
    case ACTION_PERSIST: persist(world, action); break;
    case ACTION_FORGET: forget(world, action); break;
    case ACTION_REPLY: take_reply(world, action); break;
    case ACTION_PROBLEM:
        assert_int_equal(world->status, 0);
        world->problem = action->problem;
        world->status = problem_kinds[action->problem].status;
        memcpy(world->text, action->text, sizeof(world->text));
        note(world, "problem %s", problem_kinds[action->problem].code);
        break;
    case ACTION_WAKE:
        if (action->kind == OBJECT_ASSIGNMENT) {
            note(world, "wake assignment of %s", name_of(world, action->id));
        }
        break;
    case ACTION_EXPORT:
        world->exports++;
        memcpy(world->export_job, action->id, ID_SIZE);
        world->export_version = action->version;
        assert_true(world->pending_count < WORLD_EXPORTS);
        memcpy(world->pending[world->pending_count], action->id, ID_SIZE);
        world->pending_version[world->pending_count++] = action->version;
        note(world, "export %s at %" PRId64, name_of(world, action->id), action->version);
        break;
    case ACTION_TUNE:
        memcpy(world->tune_job, action->id, ID_SIZE);
        note(world, "tune %s", name_of(world, action->id));
        break;
    case ACTION_DERIVE:
    case ACTION_HARVEST: assert_true(false); break;
    case ACTION_PLAN:
        world->question = action->question;
        note(world, "plan %s", core_job(world->core, action->id)->spec.name);
        break;
    case ACTION_DELETE_BLOB:
        world->deleted++;
        for (size_t i = 0; i < world->rows.unit_count; i++) {
            assert_string_not_equal(world->rows.unit[i].sha256, action->sha256);
        }
        note(world, "delete blob %.10s", action->sha256);
        break;
    case ACTION_DELETE_CHECKPOINT:
        world->deleted++;
        note(world, "delete checkpoint %.10s", action->sha256);
        break;
    case ACTION_METRIC: world->metrics++; break;
    case ACTION_MEASURED:
    case ACTION_CAPACITY: break;
    case ACTION_PUBLISH: note(world, "publish %s", action->event); break;
    }
}

/* ---- events ---- */

void world_send(struct world *world, struct event *event)
{
    event->now_ms = world->now_ms;
    event->wall_ms = world->wall_ms;
    event->request = event->type == EVENT_TICK || event->type == EVENT_RESTORED ||
                             event->type == EVENT_EXPORTED || event->type == EVENT_TUNED ||
                             event->type == EVENT_PLANNED || event->type == EVENT_BLOB_DAMAGED
                         ? 0
                         : 7;
    world->status = 0;
    world->problem = PROBLEM_NONE;
    world->text[0] = '\0';
    world->actions.count = 0;
    no_alloc_begin();
    core_step(world->core, event, &world->actions);
    no_alloc_end();
    for (size_t i = 0; i < world->actions.count; i++) {
        world_check_action(world, &world->actions.item[i]);
        carry_out(world, &world->actions.item[i]);
    }
    assert_int_equal(world->status != 0, event->request != 0);
    world_check(world);
    if (world->question != 0 && !world->plans_wait) {
        world_planned(world);
    }
}

void world_pass(struct world *world, int64_t ms)
{
    int64_t until = world->now_ms + ms;
    for (int ticks = 0; core_deadline_ms(world->core) <= until; ticks++) {
        assert_true(ticks < 1000); /* a deadline that is met is over */
        int64_t at = core_deadline_ms(world->core);
        world->wall_ms += at > world->now_ms ? at - world->now_ms : 0;
        world->now_ms = at > world->now_ms ? at : world->now_ms;
        struct event event = {.type = EVENT_TICK};
        world_send(world, &event);
    }
    world->wall_ms += until - world->now_ms;
    world->now_ms = until;
}

void world_live(struct world *world, int64_t ms)
{
    for (; ms > 0; ms -= 500) {
        world_pass(world, 500);
        for (size_t i = 0; i < world->agent_count; i++) {
            if (world->agent[i].up && !world->agent[i].stopped_cpu) {
                agent_beat(world, &world->agent[i]);
            }
        }
    }
}

static void start(struct world *world)
{
    static struct restored_job jobs[256];
    static struct plan plans[WORLD_ROWS];
    static struct incident incidents[WORLD_ROWS];
    static struct checkpoint uploads[WORLD_CHECKPOINTS];
    size_t incident_count = 0, upload_count = 0;
    struct rows *rows = &world->rows;
    struct err err = {0};
    size_t job_count = 0, plan_count = 0;
    assert_ok(core_new(&world->config, &world->core, &err), &err);
    for (size_t i = 0; i < rows->job_count; i++) {
        const struct plan *newest = NULL;
        if (job_state_ended(rows->job[i].state)) {
            continue;
        }
        jobs[job_count++] = (struct restored_job){
            .job = rows->job[i],
            .model = rows->job[i].spec.model.sha256[0] ? world->tuned : world->model};
        for (size_t k = 0; k < rows->plan_count; k++) {
            bool same = id_equal(rows->plan[k].job.text, rows->job[i].id.text);
            newest = same && (!newest || strcmp(rows->plan[k].id.text, newest->id.text) > 0)
                         ? &rows->plan[k]
                         : newest;
        }
        if (newest) {
            plans[plan_count++] = *newest;
        }
    }
    for (size_t i = 0; i < rows->incident_count; i++) {
        if (rows->incident[i].state == INCIDENT_OPEN) {
            incidents[incident_count++] = rows->incident[i];
        }
    }
    for (size_t i = 0; i < rows->checkpoint_count; i++) {
        if (rows->checkpoint[i].job.text[0] == '\0') {
            uploads[upload_count++] = rows->checkpoint[i];
        }
    }
    struct event event = {.type = EVENT_RESTORED,
                          .restored = {.seed = 1 + world->lives++,
                                       .device = rows->device,
                                       .device_count = rows->device_count,
                                       .job = jobs,
                                       .job_count = job_count,
                                       .plan = plans,
                                       .plan_count = plan_count,
                                       .dataset = rows->dataset,
                                       .dataset_count = rows->dataset_count,
                                       .model = rows->model,
                                       .model_count = rows->model_count,
                                       .checkpoint = uploads,
                                       .checkpoint_count = upload_count,
                                       .center_unit = rows->unit,
                                       .center_unit_count = rows->unit_count,
                                       .incident = incidents,
                                       .incident_count = incident_count}};
    world_send(world, &event);
}

void world_restart(struct world *world)
{
    core_free(&world->core);
    world->pending_count = 0; /* what it had asked for died with it */
    world->question = 0;
    world->now_ms += 50;
    world->wall_ms += 50;
    start(world);
}

void world_clear(struct world *world)
{
    buf_clear(&world->trace);
}

static void store_dataset(struct world *world, const char *name, int64_t samples)
{
    struct dataset dataset = {.bytes = 28 * 28 * samples,
                              .samples = samples,
                              .height = 28,
                              .width = 28,
                              .channels = 1,
                              .classes = 10};
    (void)snprintf(dataset.name, sizeof(dataset.name), "%s", name);
    (void)snprintf(dataset.sha256, sizeof(dataset.sha256), "%s", name);
    (void)snprintf(dataset.dtype, sizeof(dataset.dtype), "U8");
    struct event event = {.type = EVENT_DATASET_STORED, .dataset_stored = {.dataset = &dataset}};
    world_send(world, &event);
}

/* Each question fills it anew, so all worlds share one. */
static struct planning *shared_planning;

static void free_planning(void)
{
    question_free(&shared_planning);
}

static struct planning *planning_of_worlds(void)
{
    struct err err = {0};
    if (!shared_planning) {
        assert_ok(question_new(&shared_planning, &err), &err);
        assert_int_equal(atexit(free_planning), 0);
    }
    return shared_planning;
}

struct world *world_new(void)
{
    struct world *world = pages_new(1, sizeof(*world));
    assert_non_null(world);
    world->actions.item = calloc(ACTIONS_MAX, sizeof(world->actions.item[0]));
    world->replicas = calloc(1, sizeof(*world->replicas));
    assert_non_null(world->actions.item);
    world->config = core_config_default;
    world->config.devices_max = 64;
    world->config.jobs_max = 64;
    world->now_ms = START_MS;
    world->wall_ms = START_WALL_MS;
    world->traced = true;
    buf_init(&world->trace, 1 << 24);
    world->model = world_model();
    world->tuned = world_tuned_model();
    world->planning = planning_of_worlds();
    start(world);
    store_dataset(world, "train", 1000);
    store_dataset(world, "test", 100);
    world_clear(world);
    return world;
}

void world_free(struct world *world)
{
    for (size_t i = 0; i < world->agent_count; i++) {
        agent_kill(&world->agent[i]);
    }
    core_free(&world->core);
    model_free(&world->model);
    model_free(&world->tuned);
    buf_done(&world->trace);
    free(world->actions.item);
    free(world->replicas);
    pages_free(world);
}
