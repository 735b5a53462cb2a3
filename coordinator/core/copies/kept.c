/* The list is part of the job's row, so that restarts of the coordinator do not change which
 * checkpoints stay. If the metric of a version arrives first, the version is listed before it is
 * stored. */
#include "coordinator/core/copies/kept.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "coordinator/core/state/act.h"
#include "coordinator/core/state/mark.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "schema/job_check.h"

static bool is_stored(const struct kept_checkpoint *kept)
{
    return kept->id.text[0] != '\0';
}

static struct kept_checkpoint *find(struct job_slot *job, int64_t version)
{
    for (size_t i = 0; i < job->job.kept_count; i++) {
        if (job->job.kept[i].version == version) {
            return &job->job.kept[i];
        }
    }
    return NULL;
}

static void leave(struct job_slot *job, size_t index)
{
    struct kept_checkpoint *kept = job->job.kept;
    job->job.kept_count--;
    memmove(&kept[index], &kept[index + 1], (job->job.kept_count - index) * sizeof(*kept));
}

/* Add a version. Forget earlier listed versions that were never stored. */
static struct kept_checkpoint *add(struct job_slot *job, int64_t version)
{
    for (size_t i = job->job.kept_count; i-- > 0;) {
        if (!is_stored(&job->job.kept[i])) {
            leave(job, i);
        }
    }
    size_t at = job->job.kept_count;
    ASSERT(at < KEPT_LIST_MAX);
    while (at > 0 && job->job.kept[at - 1].version > version) {
        at--;
    }
    struct kept_checkpoint *kept = &job->job.kept[at];
    memmove(kept + 1, kept, (job->job.kept_count - at) * sizeof(*kept));
    *kept = (struct kept_checkpoint){.version = version};
    job->job.kept_count++;
    return kept;
}

/* ---- which checkpoint is deleted ---- */

/* A loss may overflow: such a version counts as never evaluated. */
static bool is_evaluated(const struct kept_checkpoint *kept)
{
    return kept->has_value && isfinite(kept->value);
}

/* Whether to keep a rather than b. */
static bool is_preferred(const struct job_slot *job, const struct kept_checkpoint *a,
                         const struct kept_checkpoint *b)
{
    const int metric = job_judged_metric(&job->job.spec);
    if (job->job.spec.checkpoint.keep == KEEP_LAST) {
        return a->version > b->version;
    }
    if (is_evaluated(a) != is_evaluated(b)) {
        return is_evaluated(a);
    }
    if (is_evaluated(a) &&
        (judged_better(metric, a->value, b->value) || judged_better(metric, b->value, a->value))) {
        return judged_better(metric, a->value, b->value);
    }
    return a->version < b->version; /* of equal ones the first */
}

static size_t count_stored(const struct job_slot *job)
{
    size_t count = 0;
    for (size_t i = 0; i < job->job.kept_count; i++) {
        count += is_stored(&job->job.kept[i]);
    }
    return count;
}

/* The worst stored version among the first `among` listed ones. */
static size_t find_worst(const struct job_slot *job, size_t among)
{
    size_t worst = KEPT_LIST_MAX;
    for (size_t i = 0; i < among; i++) {
        const struct kept_checkpoint *kept = &job->job.kept[i];
        if (is_stored(kept) &&
            (worst == KEPT_LIST_MAX || is_preferred(job, &job->job.kept[worst], kept))) {
            worst = i;
        }
    }
    ASSERT(worst < KEPT_LIST_MAX);
    return worst;
}

/* Whether a live job starts from the checkpoint. */
static bool is_used(const struct core *core, const struct checkpoint_id *id)
{
    for (size_t i = 0; i < core_job_count(core); i++) {
        if (id_equal(core_job_at(core, i)->spec.init_checkpoint.text, id->text)) {
            return true;
        }
    }
    return false;
}

void kept_discard(struct core *core, const struct checkpoint_id *id, const char *sha256)
{
    if (!is_used(core, id)) {
        act_forget(core, OBJECT_CHECKPOINT, id->text, 0);
        act_delete_checkpoint(core, sha256);
    }
}

/* If the policy keeps the best, keep the newest one too until its evaluation is known. */
static void prune(struct core *core, struct job_slot *job)
{
    const struct checkpoint_policy *policy = &job->job.spec.checkpoint;
    const struct kept_checkpoint *newest =
        job->job.kept_count > 0 ? &job->job.kept[job->job.kept_count - 1] : NULL;
    const bool open =
        newest && policy->keep == KEEP_BEST && is_stored(newest) && !newest->has_value;
    const size_t most = (size_t)policy->count + (open ? 1 : 0);
    while (count_stored(job) > most) {
        const size_t worst = find_worst(job, job->job.kept_count - (open ? 1 : 0));
        const struct kept_checkpoint gone = job->job.kept[worst];
        leave(job, worst);
        kept_discard(core, &gone.id, gone.sha256);
    }
}

/* ---- events of a version ---- */

void kept_measured(struct core *core, struct job_slot *job, const struct metric *metric)
{
    const struct job_spec *spec = &job->job.spec;
    if (!spec->has_checkpoint || spec->checkpoint.keep != KEEP_BEST ||
        metric->name != judged_metric_of(job_judged_metric(spec)) ||
        !job_checkpoint_due(spec, &job->job.data, metric->step)) {
        return;
    }
    struct kept_checkpoint *kept = find(job, metric->step);
    const bool newer =
        job->job.kept_count == 0 || metric->step > job->job.kept[job->job.kept_count - 1].version;
    const bool settled =
        metric->step <= job->kept_settled || metric->step == job->job.exported_version;
    kept = kept || !newer || settled ? kept : add(job, metric->step);
    if (kept && !kept->has_value) {
        kept->value = metric->value;
        kept->has_value = true;
        prune(core, job);
        mark_job_changed(core, job);
    }
}

bool kept_owes(const struct job_slot *job)
{
    const int64_t version = job->job.version;
    if (!job_checkpoint_due(&job->job.spec, &job->job.data, version) ||
        version == job->total_steps || version <= job->kept_settled ||
        version == job->job.exported_version) {
        return false;
    }
    for (size_t i = 0; i < job->job.kept_count; i++) {
        if (job->job.kept[i].version == version) {
            return !is_stored(&job->job.kept[i]);
        }
    }
    return true;
}

bool kept_wants(const struct job_slot *job)
{
    const struct checkpoint_policy *policy = &job->job.spec.checkpoint;
    if (policy->keep == KEEP_LAST || count_stored(job) < (size_t)policy->count) {
        return true;
    }
    const struct kept_checkpoint *worst = &job->job.kept[find_worst(job, job->job.kept_count)];
    for (size_t i = 0; i < job->job.kept_count; i++) {
        const struct kept_checkpoint *kept = &job->job.kept[i];
        if (kept->version == job->job.version) {
            return !kept->has_value || is_preferred(job, kept, worst);
        }
    }
    return true; /* its evaluation is not known yet */
}

void kept_skip(struct core *core, struct job_slot *job)
{
    struct kept_checkpoint *kept = find(job, job->job.version);
    job->kept_settled = job->job.version;
    if (kept && !is_stored(kept)) {
        leave(job, (size_t)(kept - job->job.kept));
        mark_job_changed(core, job);
    }
}

void kept_stored(struct core *core, struct job_slot *job, const struct checkpoint *checkpoint)
{
    if (!job_checkpoint_due(&job->job.spec, &job->job.data, checkpoint->version)) {
        return;
    }
    job->kept_settled = checkpoint->version;
    struct kept_checkpoint *kept = find(job, checkpoint->version);
    kept = kept ? kept : add(job, checkpoint->version);
    kept->id = checkpoint->id;
    memcpy(kept->sha256, checkpoint->sha256, SHA256_SIZE);
    prune(core, job);
    mark_job_changed(core, job);
}

void kept_deleted(struct core *core, const char *checkpoint)
{
    for (size_t i = 0; i < core->jobs.count; i++) {
        struct job_slot *job = slots_job_at(core, i);
        for (size_t k = job->job.kept_count; k-- > 0;) {
            if (strcmp(job->job.kept[k].id.text, checkpoint) == 0) {
                leave(job, k);
                mark_job_changed(core, job);
            }
        }
    }
}
