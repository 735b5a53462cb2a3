/* act.h: the actions of a step: rows, replies, wake-ups, events. */
#ifndef COORDINATOR_CORE_ACT_H
#define COORDINATOR_CORE_ACT_H

#include "coordinator/core/core.h"

void act_persist(struct core *core, enum object_kind kind, const void *object);
void act_forget(struct core *core, enum object_kind kind, const char *id, int64_t version);
void act_reply(struct core *core, int status, enum object_kind kind, const void *object);
void act_problem(struct core *core, enum problem_code code, const char *format, ...)
    PRINTF_LIKE(3, 4);
void act_wake(struct core *core, enum object_kind kind, const char *id);
void act_export(struct core *core, const char *job_id, int64_t version);
void act_tune(struct core *core, const char *job_id);
void act_delete_blob(struct core *core, const char *sha256);
void act_metric(struct core *core, const char *job_id, const struct metric *metric);
void act_publish(struct core *core, const char *event, const char *id, const char *format, ...)
    PRINTF_LIKE(4, 5);
/* Whether this step may do one more job's worth of actions, with what the marked objects will take
 * counted in. */
bool act_room(const struct core *core);

#endif
