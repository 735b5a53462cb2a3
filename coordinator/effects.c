#include "coordinator/effects.h"

#include "base/clock.h"
#include "coordinator/access/tokens.h"
#include "coordinator/content/awaited.h"
#include "coordinator/content/derived.h"
#include "coordinator/content/export.h"
#include "coordinator/content/harvested.h"
#include "coordinator/content/planner.h"
#include "coordinator/content/tuned.h"
#include "coordinator/coordinator.h"
#include "coordinator/http/answer.h"
#include "coordinator/http/audit.h"
#include "coordinator/http/edge.h"
#include "coordinator/http/replay.h"

static int remember(void *context, const struct turn_extra *extra, const struct turn_reply *reply,
                    struct err *err)
{
    return replay_store(context, extra, reply, err);
}

static int store_event(void *context, const struct action *action, struct err *err)
{
    struct coordinator *coordinator = context;
    return event_stream_add(coordinator->edge->stream, action, err);
}

static int note_change(void *context, const struct http_exchange *exchange,
                       const struct turn_extra *extra, const char *subject, int status,
                       struct err *err)
{
    struct coordinator *coordinator = context;
    const struct audit_entry *origin = extra ? extra->origin : NULL;
    const char *spent = extra ? extra->spent_token : "";
    int rc = audit_add(coordinator, exchange, origin, subject, status, err);
    return rc || !spent[0]
               ? rc
               : tokens_spend(coordinator->edge->access.tokens, spent, clock_wall_ms(), err);
}

static void wake(void *context, enum object_kind kind, const char *id)
{
    struct coordinator *coordinator = context;
    edge_changed(coordinator->edge, kind, id);
}

static void refuse(void *context, struct http_exchange *exchange)
{
    (void)context;
    answer_held(exchange);
}

static void answer(void *context, struct http_exchange *exchange, struct turn_reply *reply)
{
    (void)context;
    if (reply->problem != PROBLEM_NONE) {
        answer_core_problem(exchange, reply->problem, reply->text);
    } else {
        answer_object(exchange, reply->status, reply->revision, &reply->body);
    }
}

/* A stopping coordinator begins no export and deletes nothing: the next start exports the whole
 * versions of the center and sweeps blobs without a reference. */
static int export_model(void *context, const char *job, int64_t version, struct err *err)
{
    struct coordinator *coordinator = context;
    return coordinator->stopping ? 0 : export_start(coordinator, job, version, err);
}

static int tune_kernels(void *context, const char *job, struct err *err)
{
    struct coordinator *coordinator = context;
    return coordinator->stopping ? 0 : tuned_start(coordinator, job, err);
}

static int derive(void *context, const char *job, struct err *err)
{
    struct coordinator *coordinator = context;
    return coordinator->stopping ? 0 : derived_start(coordinator, job, err);
}

static int harvest(void *context, const char *job, struct err *err)
{
    struct coordinator *coordinator = context;
    return coordinator->stopping ? 0 : harvested_start(coordinator, job, err);
}

static void plan(void *context, uint64_t question)
{
    struct coordinator *coordinator = context;
    if (!coordinator->stopping) {
        planner_ask(coordinator->planner, question);
    }
}

static void delete_blob(void *context, const char *sha256)
{
    struct coordinator *coordinator = context;
    if (!coordinator->stopping) {
        awaited_delete(coordinator, sha256);
    }
}

static void delete_checkpoint(void *context, const char *sha256)
{
    struct coordinator *coordinator = context;
    if (!coordinator->stopping) {
        awaited_release(coordinator, sha256);
    }
}

static void publish(void *context)
{
    struct coordinator *coordinator = context;
    edge_publish(coordinator->edge);
}

struct turn_effects effects_of(struct coordinator *coordinator)
{
    return (struct turn_effects){
        .context = coordinator,
        .remember = remember,
        .store_event = store_event,
        .audit = note_change,
        .wake = wake,
        .refuse = refuse,
        .answer = answer,
        .export_model = export_model,
        .tune_kernels = tune_kernels,
        .derive = derive,
        .harvest = harvest,
        .plan = plan,
        .delete_blob = delete_blob,
        .delete_checkpoint = delete_checkpoint,
        .publish = publish,
    };
}
