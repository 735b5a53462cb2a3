#include "coordinator/core/state/act.h"

#include <stdarg.h>
#include <string.h>

#include "base/assert.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/state/text.h"

static struct action *act(struct core *core, enum action_type type)
{
    ASSERT(core->actions->count < ACTIONS_MAX);
    struct action *action = &core->actions->item[core->actions->count++];
    memset(action, 0, sizeof(*action));
    action->type = type;
    action->kind = OBJECT_NOTHING;
    return action;
}

bool act_room(const struct core *core)
{
    return core->actions->count + 3 * core->device_list_count + 6 * core->job_list_count <
           ACTIONS_MAX / 4 * 3;
}

bool act_may_delete(const struct core *core)
{
    return core->actions->count < ACTIONS_MAX / 2;
}

void act_persist(struct core *core, enum object_kind kind, const void *object)
{
    struct action *action = act(core, ACTION_PERSIST);
    action->kind = kind;
    action->object = object;
}

void act_forget(struct core *core, enum object_kind kind, const char *id, int64_t version)
{
    struct action *action = act(core, ACTION_FORGET);
    action->kind = kind;
    action->version = version;
    text_set(action->id, sizeof(action->id), "%s", id);
}

void act_reply(struct core *core, int status, enum object_kind kind, const void *object)
{
    act_reply_agent(core, status, kind, object, 0);
}

void act_reply_agent(struct core *core, int status, enum object_kind kind, const void *object,
                     int64_t protocol)
{
    if (core->event->request == 0) {
        return;
    }
    struct action *action = act(core, ACTION_REPLY);
    action->status = status;
    action->protocol = (int)protocol;
    action->kind = kind;
    action->object = object;
}

void act_problem(struct core *core, enum problem_code code, const char *format, ...)
{
    if (core->event->request == 0) {
        return;
    }
    struct action *action = act(core, ACTION_PROBLEM);
    action->problem = code;
    va_list arguments;
    va_start(arguments, format);
    text_format(action->text, sizeof(action->text), format, arguments);
    va_end(arguments);
}

void act_wake(struct core *core, enum object_kind kind, const char *id)
{
    if (core->event->type == EVENT_RESTORED) {
        return; /* no request can wait yet */
    }
    struct action *action = act(core, ACTION_WAKE);
    action->kind = kind;
    text_set(action->id, sizeof(action->id), "%s", id);
}

void act_export(struct core *core, const char *job_id, int64_t version)
{
    struct action *action = act(core, ACTION_EXPORT);
    action->kind = OBJECT_JOB;
    action->version = version;
    text_set(action->id, sizeof(action->id), "%s", job_id);
}

void act_tune(struct core *core, const char *job_id)
{
    struct action *action = act(core, ACTION_TUNE);
    action->kind = OBJECT_JOB;
    text_set(action->id, sizeof(action->id), "%s", job_id);
}

void act_derive(struct core *core, const char *job_id)
{
    struct action *action = act(core, ACTION_DERIVE);
    action->kind = OBJECT_PARENT;
    text_set(action->id, sizeof(action->id), "%s", job_id);
}

void act_harvest(struct core *core, const char *job_id)
{
    struct action *action = act(core, ACTION_HARVEST);
    action->kind = OBJECT_PARENT;
    text_set(action->id, sizeof(action->id), "%s", job_id);
}

void act_plan(struct core *core, const char *job_id, uint64_t question)
{
    struct action *action = act(core, ACTION_PLAN);
    action->kind = OBJECT_JOB;
    action->question = question;
    text_set(action->id, sizeof(action->id), "%s", job_id);
}

void act_delete_blob(struct core *core, const char *sha256)
{
    struct action *action = act(core, ACTION_DELETE_BLOB);
    text_set(action->sha256, sizeof(action->sha256), "%s", sha256);
}

void act_delete_checkpoint(struct core *core, const char *sha256)
{
    struct action *action = act(core, ACTION_DELETE_CHECKPOINT);
    text_set(action->sha256, sizeof(action->sha256), "%s", sha256);
}

void act_metric(struct core *core, const char *job_id, const struct metric *metric)
{
    struct action *action = act(core, ACTION_METRIC);
    action->kind = OBJECT_JOB;
    action->metric = *metric;
    text_set(action->id, sizeof(action->id), "%s", job_id);
}

void act_measured(struct core *core, const struct measured_units *measured)
{
    act(core, ACTION_MEASURED)->measured = measured;
}

void act_capacity(struct core *core, const struct capacity_change *change)
{
    act(core, ACTION_CAPACITY)->capacity = change;
}

static struct action *publish(struct core *core, const char *event, const char *id)
{
    struct action *action = act(core, ACTION_PUBLISH);
    action->event = event;
    text_set(action->id, sizeof(action->id), "%s", id);
    return action;
}

void act_publish(struct core *core, const char *event, const char *id, const char *format, ...)
{
    struct action *action = publish(core, event, id);
    va_list arguments;
    va_start(arguments, format);
    text_format(action->text, sizeof(action->text), format, arguments);
    va_end(arguments);
}

void act_publish_job(struct core *core, const char *event, const struct job *job, const char *id,
                     const char *format, ...)
{
    struct action *action = publish(core, event, id);
    va_list arguments;
    action->job = job->id;
    action->of = job_part_of(job);
    va_start(arguments, format);
    text_format(action->text, sizeof(action->text), format, arguments);
    va_end(arguments);
}
