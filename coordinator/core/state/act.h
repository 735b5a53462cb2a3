/* act.h: appends the actions of a step: rows, replies, wake-ups, events. For the modules of the
 * core. */
#ifndef COORDINATOR_CORE_STATE_ACT_H
#define COORDINATOR_CORE_STATE_ACT_H

#include "coordinator/core/core.h"

/* Write, or delete, the row of an object. The object must live until the next step. */
void act_persist(struct core *core, enum object_kind kind, const void *object);
void act_forget(struct core *core, enum object_kind kind, const char *id, int64_t version);
/* Answer the event's request. Do nothing if the event has no request. */
void act_reply(struct core *core, int status, enum object_kind kind, const void *object);
/* The same for an agent that speaks this version of the protocol. */
void act_reply_agent(struct core *core, int status, enum object_kind kind, const void *object,
                     int64_t protocol);
void act_problem(struct core *core, enum problem_code code, const char *format, ...)
    PRINTF_LIKE(3, 4);
/* Wake the requests that wait for a new revision of the object. */
void act_wake(struct core *core, enum object_kind kind, const char *id);
/* Ask the edge for the model of a version; the answer is EVENT_EXPORTED. */
void act_export(struct core *core, const char *job_id, int64_t version);
/* Ask the edge to store the measured kernels of a job; the answer is EVENT_TUNED. */
void act_tune(struct core *core, const char *job_id);
/* Ask the edge for the descriptions of a parent's parts, or for its harvested model; the answers
 * are EVENT_DERIVED and EVENT_HARVESTED. */
void act_derive(struct core *core, const char *job_id);
void act_harvest(struct core *core, const char *job_id);
/* Ask the edge to answer a question of the job; the answer is EVENT_PLANNED. */
void act_plan(struct core *core, const char *job_id, uint64_t question);
void act_delete_blob(struct core *core, const char *sha256);
/* Delete the blob of a checkpoint whose row is deleted, unless another object or row refers to it.
 */
void act_delete_checkpoint(struct core *core, const char *sha256);
void act_metric(struct core *core, const char *job_id, const struct metric *metric);
/* Store the measurements of a device with the telemetry. */
void act_measured(struct core *core, const struct measured_units *measured);
void act_capacity(struct core *core, const struct capacity_change *change);
/* Publish an event about the object `id`, with one sentence. */
void act_publish(struct core *core, const char *event, const char *id, const char *format, ...)
    PRINTF_LIKE(4, 5);
/* The same about the object `id` of a job: the job itself, its plan, incident or checkpoint. */
void act_publish_job(struct core *core, const char *event, const struct job *job, const char *id,
                     const char *format, ...) PRINTF_LIKE(5, 6);
/* Return whether this step has room for the actions of one more job, counting the actions that the
 * marked objects will add at its end. */
bool act_room(const struct core *core);
/* Return whether the step may delete another blob. The end of a parent ends all of its groups and
 * may need more deletions than a step has room for. The sweep at the next start deletes the rest.
 */
bool act_may_delete(const struct core *core);

#endif
