#include "coordinator/core/parts/parents.h"

#include <inttypes.h>

#include "coordinator/core/gossip/gossip_job.h"
#include "coordinator/core/gossip/gossip_requests.h"
#include "coordinator/core/parts/groups.h"
#include "coordinator/core/state/act.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/state/states.h"
#include "coordinator/core/submodel/submodel.h"
#include "coordinator/core/submodel/submodel_requests.h"

/* The strategies that have parts. */
static const struct {
    const struct parent_row *row;
    void (*on_submit)(struct core *core, const struct event *event);
} strategies[STRATEGY_COUNT] = {
    [STRATEGY_SUBMODEL] = {&submodel_row, submodel_on_submit},
    [STRATEGY_GOSSIP] = {&gossip_row, gossip_on_submit},
};

static const struct parent_row *row_of(const struct parent_slot *parent)
{
    return strategies[parent->job.spec.strategy].row;
}

void parents_on_submit(struct core *core, const struct event *event)
{
    strategies[event->job_submit.spec->strategy].on_submit(core, event);
}

/* ---- verbs ---- */

static bool keep(struct core *core, struct parent_slot *parent)
{
    const struct checkpoint_id kept = *row_of(parent)->kept(parent);
    if (kept.text[0] == '\0') {
        return false;
    }
    parent->job.checkpoint = kept;
    groups_end(core, parent, JOB_CANCELLED, "", "cancelled; the newest model is kept");
    return true;
}

static bool do_verb(struct core *core, struct parent_slot *parent, enum job_verb verb)
{
    switch (states_parent_verb(parent->parent.phase, verb)) {
    case EFFECT_PAUSE: groups_pause(core, parent); break;
    case EFFECT_QUEUE: groups_resume(core, parent); break;
    case EFFECT_CANCEL: groups_end(core, parent, JOB_CANCELLED, "", "cancelled"); break;
    case EFFECT_KEEP: return keep(core, parent);
    case EFFECT_REFUSE:
    case EFFECT_NOTHING:
    case EFFECT_PAUSE_LATER:
    case EFFECT_STOP:
    case EFFECT_RETRY:
    case EFFECT_EXPORT: return false;
    }
    parent->work.touched = true;
    groups_changed(parent);
    return true;
}

void parents_on_verb(struct core *core, const struct event *event)
{
    static const char *const words[] = {
        [JOB_PAUSE] = "pause",   [JOB_RESUME] = "resume",
        [JOB_CANCEL] = "cancel", [JOB_CANCEL_KEEP] = "cancel and keep",
        [JOB_EXPORT] = "export", [JOB_REPLAN] = "replan"};
    const struct event_job_verb *verb = &event->job_verb;
    struct parent_slot *parent = slots_parent(core, verb->job.text);
    if (verb->if_revision != 0 && verb->if_revision != parent->job.revision) {
        act_problem(core, PROBLEM_REVISION_MISMATCH,
                    "job '%s' has revision %" PRId64 ", not %" PRId64 "; read it and retry",
                    verb->job.text, parent->job.revision, verb->if_revision);
    } else if (do_verb(core, parent, verb->verb)) {
        act_reply(core, 202, OBJECT_JOB, &parent->job);
    } else {
        act_problem(core, PROBLEM_WRONG_STATE,
                    "cannot %s a job of strategy '%s' in the phase %s (%s)", words[verb->verb],
                    job_strategy_names[parent->job.spec.strategy],
                    parent_phase_names[parent->parent.phase], parent->job.message);
    }
}

/* ---- the end of a step ---- */

static void take_parts(struct core *core)
{
    for (size_t i = 0; i < core->job_list_count; i++) {
        const struct job_slot *job = core->job_list[i];
        struct parent_slot *parent =
            job->job.part != JOB_WHOLE ? slots_parent(core, job->job.parent.text) : NULL;
        if (parent) {
            parent->work.touched = true;
            row_of(parent)->take_part(core, parent, job);
        }
    }
}

void parents_run(struct core *core)
{
    take_parts(core);
    size_t i = 0;
    for (; i < core->parents.count && act_room(core); i++) {
        struct parent_slot *parent = slots_parent_at(core, i);
        const struct parent_row *row = row_of(parent);
        if (!parent->work.ended && (parent->work.touched || row->is_due(core, parent))) {
            parent->work.touched = false;
            row->run(core, parent);
        }
    }
    /* Parents for which this step had no room see the change in the next step. */
    core->data_changed = core->data_changed && i < core->parents.count;
}
