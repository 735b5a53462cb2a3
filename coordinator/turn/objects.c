#include "coordinator/turn/objects.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/assert.h"
#include "schema/assignment.h"
#include "schema/dataset.h"
#include "schema/device.h"
#include "schema/heartbeat.h"
#include "schema/incident.h"
#include "schema/job.h"
#include "schema/mix_row.h"
#include "schema/plan.h"
#include "schema/what_if.h"
#include "schema/wire.h"

const struct object_kind_facts *object_facts(enum object_kind kind)
{
    static const struct object_kind_facts facts[] = {
        [OBJECT_DEVICE] = {&device_record, &device_row_record, STATE_DEVICES},
        [OBJECT_JOB] = {&job_record, &job_record, STATE_JOBS},
        [OBJECT_PARENT] = {&parent_record, &parent_record, STATE_PARENTS},
        [OBJECT_PLAN] = {&plan_record, &plan_record, STATE_PLANS},
        [OBJECT_DATASET] = {&dataset_record, &dataset_record, STATE_DATASETS},
        [OBJECT_MODEL] = {&model_row_record, &model_row_record, STATE_MODELS},
        [OBJECT_CHECKPOINT] = {&checkpoint_record, &checkpoint_record, STATE_CHECKPOINTS},
        [OBJECT_CENTER_UNIT] = {&center_unit_record, &center_unit_record, STATE_CENTER_UNITS},
        [OBJECT_INCIDENT] = {&incident_record, &incident_record, STATE_INCIDENTS},
        [OBJECT_MIX] = {&mix_row_record, &mix_row_record, STATE_MIXES},
        [OBJECT_ASSIGNMENT] = {&assignment_record, NULL, STATE_TABLES},
        [OBJECT_JOIN_REPLY] = {&join_reply_record, NULL, STATE_TABLES},
        [OBJECT_ENROLL_REPLY] = {&enroll_reply_record, NULL, STATE_TABLES},
        [OBJECT_HEARTBEAT_REPLY] = {&heartbeat_reply_record, NULL, STATE_TABLES},
        [OBJECT_JOB_PREVIEW] = {&job_preview_record, NULL, STATE_TABLES},
        [OBJECT_PLAN_ANSWER] = {&plan_answer_record, NULL, STATE_TABLES},
        [OBJECT_NOTHING] = {NULL, NULL, STATE_TABLES},
    };
    return &facts[kind];
}

void object_center_unit_id(char out[OBJECT_ROW_ID_SIZE], const char *job, int64_t version,
                           int64_t unit)
{
    /* '/' sorts before '0': with unit -1 the id is the smallest of that version. */
    int length = snprintf(out, OBJECT_ROW_ID_SIZE, "%s/%016" PRId64 "/", job, version);
    if (unit >= 0) {
        snprintf(out + length, OBJECT_ROW_ID_SIZE - (size_t)length, "%04" PRId64, unit);
    }
}

static void name(struct object_row *row, const char *id, const char *parent, int64_t revision,
                 int64_t created_ms)
{
    snprintf(row->id, sizeof(row->id), "%s", id);
    snprintf(row->parent, sizeof(row->parent), "%s", parent);
    row->revision = revision;
    row->created_ms = created_ms;
}

void object_describe(enum object_kind kind, const void *object, struct object_row *out)
{
    const struct device *device = object;
    const struct job *job = object;
    const struct parent *parent = object;
    const struct plan *plan = object;
    const struct dataset *dataset = object;
    const struct model_row *model = object;
    const struct checkpoint *checkpoint = object;
    const struct center_unit *unit = object;
    const struct incident *incident = object;
    const struct mix_row *mix = object;
    switch (kind) {
    case OBJECT_DEVICE:
        name(out, device->id.text, "", device->revision, device->created_ms);
        return;
    case OBJECT_JOB:
        name(out, job->id.text, job->parent.text, job->revision, job->created_ms);
        return;
    case OBJECT_PARENT: name(out, parent->job.text, "", parent->revision, 0); return;
    case OBJECT_PLAN:
        name(out, plan->id.text, plan->job.text, plan->revision, plan->created_ms);
        return;
    case OBJECT_DATASET:
        name(out, dataset->name, "", dataset->revision, dataset->created_ms);
        return;
    case OBJECT_MODEL: name(out, model->name, "", model->revision, model->created_ms); return;
    case OBJECT_CHECKPOINT:
        name(out, checkpoint->id.text, checkpoint->job.text, checkpoint->revision,
             checkpoint->created_ms);
        return;
    case OBJECT_CENTER_UNIT:
        name(out, "", unit->job.text, 1, 0);
        object_center_unit_id(out->id, unit->job.text, unit->version, unit->unit);
        return;
    case OBJECT_INCIDENT:
        name(out, incident->id.text, incident->job.text, incident->revision, incident->detected_ms);
        return;
    case OBJECT_MIX: name(out, mix->id, mix->job.text, 1, mix->created_ms); return;
    case OBJECT_ASSIGNMENT:
    case OBJECT_JOIN_REPLY:
    case OBJECT_ENROLL_REPLY:
    case OBJECT_HEARTBEAT_REPLY:
    case OBJECT_JOB_PREVIEW:
    case OBJECT_PLAN_ANSWER:
    case OBJECT_NOTHING: break;
    }
    assert_fail(__FILE__, __LINE__, "the object has a row");
}

bool object_of_change(const struct actions *actions, const struct action *answer,
                      struct object_row *out)
{
    const struct action *changed = NULL;
    for (size_t i = 0; i < actions->count && !changed; i++) {
        const struct action *action = &actions->item[i];
        changed = action->type == ACTION_PERSIST || action->type == ACTION_FORGET ? action : NULL;
    }
    if (!changed) {
        return false;
    }
    if (answer && object_facts(answer->kind)->table != STATE_TABLES) {
        object_describe(answer->kind, answer->object, out);
    } else if (changed->type == ACTION_PERSIST) {
        object_describe(changed->kind, changed->object, out);
    } else {
        name(out, changed->id, "", 0, 0);
    }
    return true;
}

int object_write(enum object_kind kind, const void *object, struct buf *out, struct err *err)
{
    return object_write_version(kind, 0, object, out, err);
}

int object_write_version(enum object_kind kind, int protocol, const void *object, struct buf *out,
                         struct err *err)
{
    const struct record *record = object_facts(kind)->record;
    ASSERT(record);
    return wire_write_version(record, protocol > 0 ? protocol : RECORD_NEWEST, object, out, err);
}

int object_write_row(enum object_kind kind, const void *object, struct buf *out, struct err *err)
{
    const struct record *row = object_facts(kind)->row;
    ASSERT(row);
    return wire_write(row, object, out, err);
}
