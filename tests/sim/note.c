#include "tests/sim/note.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "schema/dataset.h"
#include "schema/device.h"
#include "schema/job.h"
#include "schema/mix_row.h"
#include "schema/plan.h"
#include "tests/sim/trace.h"

static void note_plan(const struct world *world, const struct plan *plan)
{
    char stages[256] = "";
    for (size_t s = 0; s < plan->stage_count; s++) {
        const struct plan_stage *stage = &plan->stage[s];
        size_t used = strlen(stages);
        (void)snprintf(stages + used, sizeof(stages) - used, " %s[%" PRId64 ",%" PRId64 ")",
                       trace_name(world, stage->device.text), stage->first, stage->end);
        used = strlen(stages);
        if (stage->share_first < stage->share_end) {
            (void)snprintf(stages + used, sizeof(stages) - used,
                           " of batches [%" PRId64 ",%" PRId64 ")", stage->share_first,
                           stage->share_end);
        }
    }
    trace_write(world, ACTOR_COORDINATOR, "plan %" PRId64 " of %s %s %s from %" PRId64 ":%s",
                plan->generation, trace_name(world, plan->job.text), plan_state_names[plan->state],
                plan_reason_names[plan->reason], plan->resume_version, stages);
}

void note_row(const struct world *world, const struct action *action)
{
    if (!world->trace || action->type == ACTION_FORGET) {
        return;
    }
    if (action->kind == OBJECT_JOB) {
        const struct job *job = action->object;
        trace_write(world, ACTOR_COORDINATOR, "job %s %s%s%s: %s", job->spec.name,
                    job_state_names[job->state], job->state_reason[0] ? " " : "", job->state_reason,
                    job->message);
    } else if (action->kind == OBJECT_PARENT) {
        const struct parent *parent = action->object;
        trace_write(world, ACTOR_COORDINATOR, "parts of %s in the phase %s%s",
                    trace_name(world, parent->job.text), parent_phase_names[parent->phase],
                    parent->paused ? ", paused" : "");
    } else if (action->kind == OBJECT_PLAN) {
        note_plan(world, action->object);
    } else if (action->kind == OBJECT_DEVICE) {
        const struct device *device = action->object;
        trace_write(world, ACTOR_COORDINATOR, "device %s %s%s", device->name,
                    device_state_names[device->state], device->job.text[0] ? " works" : "");
    } else if (action->kind == OBJECT_MIX) {
        const struct mix_row *row = action->object;
        trace_write(world, ACTOR_COORDINATOR,
                    "row of %s: %s %" PRId64 "-%" PRId64 " of group %" PRId64 ".%" PRId64
                    " at %" PRId64 " of %zu",
                    trace_name(world, row->job.text), mix_kind_names[row->record.kind],
                    row->record.xid.life, row->record.xid.counter, row->record.own.group,
                    row->record.own.generation, row->record.own.version, row->record.peer_count);
    } else if (action->kind == OBJECT_CENTER_UNIT) {
        const struct center_unit *unit = action->object;
        trace_write(world, ACTOR_COORDINATOR, "unit %" PRId64 " of %s at %" PRId64, unit->unit,
                    trace_name(world, unit->job.text), unit->version);
    }
}

void note_heartbeat(const struct world *world, int actor, const struct heartbeat *heartbeat)
{
    if (!world->trace || !world->trace->out) {
        return;
    }
    char holdings[32] = "";
    char rounds[64] = "";
    if (heartbeat->round_neighbor > 0 || heartbeat->round_center > 0) {
        (void)snprintf(rounds, sizeof(rounds), ", rounds %" PRId64 " %" PRId64,
                       heartbeat->round_neighbor, heartbeat->round_center);
    }
    if (heartbeat->all_holdings) {
        (void)snprintf(holdings, sizeof(holdings), ", holds %zu", heartbeat->holding_count);
    }
    trace_write(
        world, actor, "says: %s %s generation %" PRId64 " of %" PRId64 " step %" PRId64 "%s%s%s%s",
        trace_name(world, heartbeat->job.text), phase_names[heartbeat->phase],
        heartbeat->generation, heartbeat->highest_generation, heartbeat->step, holdings, rounds,
        heartbeat->has_error ? ", error " : "", heartbeat->has_error ? heartbeat->error.code : "");
}
