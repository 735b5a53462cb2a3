/* A job gets devices of one numeric class, because mixed classes make training inexact. It gets the
 * class with the shortest step. Several classes are used only if no single class has enough
 * memory. */
#include "coordinator/core/placement/placement.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "coordinator/core/placement/shortage.h"
#include "coordinator/core/placement/strategy.h"
#include "coordinator/core/state/keepers.h"
#include "coordinator/core/state/layout.h"
#include "coordinator/core/state/planning.h"
#include "coordinator/core/state/text.h"

#define BLOB_HEADER_BYTES 16384 /* of a unit's blob, at most */
#define CLASSES_MAX 16          /* numeric classes that are compared */
#define HASTY 0.5               /* share of memory_max from which on memory is only estimated */

static bool may_use(const struct planning *planning, const struct planning_attempt *attempt,
                    size_t device)
{
    return planning_may_use(&planning->device[device], attempt);
}

static size_t count_candidates(const struct planning *planning,
                               const struct planning_attempt *attempt)
{
    size_t count = 0;
    for (size_t d = 0; d < planning->device_count; d++) {
        count += may_use(planning, attempt, d);
    }
    return count;
}

/* ---- pools of candidates ---- */

/* Put the candidates of a numeric class (NULL: any) into the pool. Return their count. */
static size_t fill_pool(struct planning *planning, const struct planning_attempt *attempt,
                        const char *numeric_class)
{
    planning->pool_count = 0;
    for (size_t d = 0; d < planning->device_count; d++) {
        bool other = numeric_class && strcmp(planning->device[d].numeric_class, numeric_class) != 0;
        if (!other && may_use(planning, attempt, d)) {
            planning->pool[planning->pool_count++] = d;
        }
    }
    return planning->pool_count;
}

/* List the classes that have enough candidates, or only the job's own class if it is among them.
 * Return their count. */
static size_t list_classes(struct planning *planning, const struct planning_attempt *attempt,
                           size_t least, const char *list[CLASSES_MAX])
{
    size_t count = 0;
    for (size_t d = 0; d < planning->device_count && count < CLASSES_MAX; d++) {
        const char *numeric_class = planning->device[d].numeric_class;
        size_t known = 0;
        while (known < count && strcmp(list[known], numeric_class) != 0) {
            known++;
        }
        if (known < count || !may_use(planning, attempt, d) ||
            fill_pool(planning, attempt, numeric_class) < least) {
            continue;
        }
        if (planning->numeric_class[0] != '\0' &&
            strcmp(planning->numeric_class, numeric_class) == 0) {
            list[0] = numeric_class;
            return 1;
        }
        list[count++] = numeric_class;
    }
    return count;
}

/* An answer that is kept while other classes are tried. */
struct kept {
    struct solution solution;
    struct partition_left_out left_out[PARTITION_LEFT_OUT_MAX]; /* devices are candidates */
    size_t left_out_count;
    struct plan_unbound unbound;
};

/* Whether the search has enough time to explain the devices that it left out. */
static bool has_time(const struct planning *planning)
{
    return planning->work_max >= PARTITION_WORK_MAX && !planning->first_fit;
}

static void keep(struct planning *planning, const struct problem_request *request, struct kept *out)
{
    out->solution = planning->solution;
    out->left_out_count = 0;
    out->unbound = (struct plan_unbound){0};
    if (!has_time(planning) || request->end || request->in_order) {
        return;
    }
    planning->strategy->leave_out(planning);
    out->left_out_count = planning->left_out_count;
    for (size_t i = 0; i < planning->left_out_count; i++) {
        out->left_out[i] = planning->left_out[i];
        out->left_out[i].device = planning->pool[planning->left_out[i].device];
    }
    /* Compare with a plan on fewer devices than the job requires. */
    if (request->stages_min > 1 && out->solution.stage_count == request->stages_min) {
        struct problem_request unbound = *request;
        struct err err = {0};
        unbound.stages_min = 1;
        unbound.stages_max = request->stages_min - 1;
        if (planning->strategy->solve(planning, &unbound, &err) == 0 &&
            planning->solution.step_seconds < out->solution.step_seconds * (1 - PARTITION_TIE)) {
            out->unbound = (struct plan_unbound){.devices = (int64_t)planning->solution.stage_count,
                                                 .step_seconds = planning->solution.step_seconds};
        }
    }
}

/* Find the best answer of the classes. If no class has enough memory, or enough servers and
 * workers, use all candidates together: an inexact plan is better than none. */
static int solve_classes(struct planning *planning, const struct planning_attempt *attempt,
                         const struct problem_request *request, struct kept *best, struct err *err)
{
    const char *list[CLASSES_MAX];
    const bool known = attempt->candidates == CANDIDATES_KNOWN;
    size_t count = known ? 0 : list_classes(planning, attempt, request->stages_min, list);
    struct problem_request share = *request;
    int rc = ERR_MEMORY;
    share.work_share /= (double)(count > 1 ? count : 1);
    best->solution.step_seconds = INFINITY;
    for (size_t i = 0; i < count; i++) {
        struct err failure = {0};
        (void)fill_pool(planning, attempt, list[i]);
        int one = planning->strategy->solve(planning, &share, &failure);
        if (one == 0 && planning->solution.step_seconds < best->solution.step_seconds) {
            keep(planning, &share, best);
        }
        if (rc != 0 && (i == 0 || one == 0)) {
            rc = one;
            *err = failure;
        }
    }
    const bool too_few = rc == ERR_MEMORY || rc == ERR_STATE; /* of one class */
    if (too_few && fill_pool(planning, attempt, NULL) >= request->stages_min) {
        struct err mixed = {0};
        rc = planning->strategy->solve(planning, request, count > 0 ? &mixed : err);
        if (rc == 0) {
            keep(planning, request, best);
        }
    }
    return rc;
}

/* ---- requested plans ---- */

static int take_requested(struct planning *planning, const struct planning_attempt *attempt,
                          const struct replan_request *wanted, struct err *err)
{
    planning->pool_count = wanted->device_count;
    for (size_t i = 0; i < wanted->device_count; i++) {
        size_t d = planning_find(planning, wanted->device[i].text);
        if (d == planning->device_count || !may_use(planning, attempt, d)) {
            return err_set(err, ERR_STATE, "device '%s' is not available to this job",
                           d < planning->device_count ? planning->device[d].name
                                                      : wanted->device[i].text);
        }
        planning->pool[i] = d;
    }
    return 0;
}

/* A waiting job shows the reason of its wait; a running one rejects the request. */
static int too_many_stages(const struct planning *planning, const struct replan_request *wanted,
                           size_t there, struct err *err)
{
    size_t cuts = wanted->cut_count;
    if (!planning->is_active) {
        return shortage_explain(&planning->shortage, &planning->spec, cuts + 1, there, err);
    }
    return err_set(
        err, ERR_STATE, "%zu stage boundar%s %zu stages; %zu device%s available to this job", cuts,
        cuts == 1 ? "y makes" : "ies make", cuts + 1, there, there == 1 ? " is" : "s are");
}

static int place_requested(struct planning *planning, const struct planning_attempt *attempt,
                           const struct replan_request *wanted, struct kept *out, struct err *err)
{
    size_t units = planning->model->unit_count, cuts = wanted->has_cuts ? wanted->cut_count + 1 : 0;
    size_t count = cuts > wanted->device_count ? cuts : wanted->device_count;
    size_t end[STAGES_MAX];
    struct plan_stage given[STAGES_MAX];
    size_t least = (size_t)planning->spec.devices_min, most = (size_t)planning->spec.devices_max;
    const char *where = wanted->has_cuts ? "/cuts" : "/devices";
    if (count > strategy_stages_max(planning->strategy, units)) {
        return err_set(err, ERR_INVALID, "%s: %zu stages, but the model has %zu unit%s", where,
                       count, units, units == 1 ? "" : "s");
    }
    if (count < least || count > most) {
        return err_set(err, ERR_INVALID, "%s: %zu stage%s, but the job requests %zu to %zu devices",
                       where, count, count == 1 ? "" : "s", least, most);
    }
    for (size_t i = 0; i < wanted->cut_count; i++) {
        end[i] = (size_t)wanted->cut[i];
    }
    end[wanted->cut_count] = units;
    const struct problem_request request = {.stages_min = count,
                                            .stages_max = count,
                                            .in_order = wanted->device_count > 0,
                                            .end = wanted->has_cuts ? end : NULL,
                                            .end_count = cuts,
                                            .given = wanted->share_end_count > 0 ? given : NULL,
                                            .servers = (size_t)wanted->servers,
                                            .work_share = 1};
    layout_read(wanted, units, given);
    if (!request.in_order) {
        const size_t there = count_candidates(planning, attempt);
        if (there < count) {
            return too_many_stages(planning, wanted, there, err);
        }
        return solve_classes(planning, attempt, &request, out, err);
    }
    int rc = take_requested(planning, attempt, wanted, err);
    rc = rc == 0 ? planning->strategy->solve(planning, &request, err) : rc;
    if (rc == 0) {
        keep(planning, &request, out);
    }
    return rc;
}

/* ---- attempts ---- */

static int place_best(struct planning *planning, const struct planning_attempt *attempt,
                      const struct replan_request *wanted, struct kept *out, struct err *err)
{
    size_t units = planning->model->unit_count, there = count_candidates(planning, attempt);
    size_t least = (size_t)planning->spec.devices_min, most = (size_t)planning->spec.devices_max;
    const size_t stages_max = strategy_stages_max(planning->strategy, units);
    most = most < stages_max ? most : stages_max;
    if (there < least) {
        return shortage_explain(&planning->shortage, &planning->spec, least, there, err);
    }
    if (least > most) {
        return err_set(err, ERR_INVALID, "%zu devices, but the model has %zu units", least, units);
    }
    const struct problem_request request = {.stages_min = least,
                                            .stages_max = most,
                                            .servers = wanted ? (size_t)wanted->servers : 0,
                                            .work_share = 1};
    return solve_classes(planning, attempt, &request, out, err);
}

static const char *taker_of_shares(void)
{
    int strategy = 0;
    while (strategy + 1 < STRATEGY_COUNT && !strategy_of(strategy)->takes_shares) {
        strategy++;
    }
    return job_strategy_names[strategy];
}

static int check_request(const struct planning *planning, const struct replan_request *wanted,
                         struct err *err)
{
    const bool servers = wanted && wanted->servers > 0, shares = wanted && wanted->share_end_count;
    return !planning->strategy->takes_shares && (servers || shares)
               ? err_set(err, ERR_INVALID, "%s: only with strategy '%s'",
                         servers ? "/servers" : "/share_ends", taker_of_shares())
               : 0;
}

static int place(struct planning *planning, const struct planning_attempt *attempt,
                 const struct replan_request *wanted, enum recompute recompute, struct kept *out,
                 struct err *err)
{
    planning->stamp += planning->recompute != recompute; /* stage_bytes are not valid for it */
    planning->recompute = recompute;
    planning->memory_work = 0;
    planning->first_fit = attempt->candidates == CANDIDATES_KNOWN;
    planning->caps = attempt->avoid != AVOID_NONE;
    int rc = check_request(planning, wanted, err);
    if (rc == 0) {
        rc = wanted && (wanted->has_cuts || wanted->device_count > 0)
                 ? place_requested(planning, attempt, wanted, out, err)
                 : place_best(planning, attempt, wanted, out, err);
    }
    if (rc == 0) {
        planning->solution = out->solution;
        planning->strategy->resume(planning);
    }
    planning->work += planning->memory_work;
    planning->hasty = planning->hasty || planning->memory_work >= HASTY * planning->memory_max;
    return rc;
}

/* Whether the job would fit with these fields. */
static bool would_fit(struct planning *planning, const struct planning_attempt *attempt,
                      const struct replan_request *wanted, enum recompute recompute, int64_t batch,
                      int pipeline, struct kept *out)
{
    const int64_t own_batch = planning->spec.batch;
    const int own_pipeline = planning->spec.pipeline;
    struct err again = {0};
    planning->spec.batch = batch;
    planning->spec.pipeline = pipeline;
    planning->stamp++; /* stage_bytes are not valid for these fields */
    bool fits = place(planning, attempt, wanted, recompute, out, &again) == 0;
    planning->spec.batch = own_batch;
    planning->spec.pipeline = own_pipeline;
    planning->stamp++;
    return fits;
}

/* Add to the error which single field would let a new job fit. */
static int advise(struct planning *planning, const struct planning_attempt *attempt,
                  const struct replan_request *wanted, struct kept *out, struct err *err)
{
    const enum recompute recompute = planning->spec.recompute;
    const int64_t batch = planning->spec.batch;
    const int pipeline = planning->spec.pipeline;
    const bool async = pipeline == JOB_ASYNC;
    if (recompute == RECOMPUTE_NONE &&
        would_fit(planning, attempt, wanted, RECOMPUTE_UNIT, batch, pipeline, out)) {
        return err_wrap(err, "it fits with \"recompute\": \"unit\"");
    }
    /* In async, whole batches are in flight, each with its own version of the parameters. */
    if (async && would_fit(planning, attempt, wanted, recompute, batch, JOB_SYNC, out)) {
        return err_wrap(err, "it fits with \"pipeline\": \"sync\"");
    }
    for (int64_t less = batch / 2; async && less >= 1; less /= 4) {
        if (would_fit(planning, attempt, wanted, recompute, less, pipeline, out)) {
            return err_wrap(err, "it fits with \"batch\": %" PRId64, less);
        }
    }
    return ERR_MEMORY;
}

static int try_attempt(struct planning *planning, const struct planning_attempt *attempt,
                       struct kept *out, struct err *err)
{
    const struct replan_request *const wanted[] = {
        [STAGES_ANY] = NULL, [STAGES_WANTED] = &planning->wanted, [STAGES_STAY] = &planning->stay};
    int rc = place(planning, attempt, wanted[attempt->stages], planning->spec.recompute, out, err);
    return rc == ERR_MEMORY && planning->is_new
               ? advise(planning, attempt, wanted[attempt->stages], out, err)
               : rc;
}

/* Whether an attempt is the same as an earlier one, and would fail in the same way. */
static bool was_tried(const struct planning *planning, size_t index)
{
    const struct planning_attempt *attempt = &planning->attempt[index];
    for (size_t i = 0; i < index; i++) {
        const struct planning_attempt *earlier = &planning->attempt[i];
        const bool caps = (earlier->avoid == AVOID_NONE) != (attempt->avoid == AVOID_NONE);
        bool same =
            earlier->stages == attempt->stages &&
            (earlier->candidates == CANDIDATES_KNOWN) == (attempt->candidates == CANDIDATES_KNOWN);
        for (size_t d = 0; same && d < planning->device_count; d++) {
            const struct planning_device *device = &planning->device[d];
            same = may_use(planning, earlier, d) == may_use(planning, attempt, d) &&
                   !(caps && device->cap_bytes < device->memory_bytes);
        }
        if (same) {
            return true;
        }
    }
    return false;
}

/* ---- the answer ---- */

/* The bytes of two versions of the keeper whose copies the stage holds, with the metadata of the
 * blobs, as far as memory allows. */
static uint64_t replica_bytes(struct planning *planning, const struct planned *out, size_t stage)
{
    const size_t held = keepers_held(out->stage, out->stage_count, stage);
    const struct planning_device *device = &planning->device[planning->solution.chosen[stage]];
    uint64_t used = (uint64_t)out->stage[stage].memory_bytes;
    uint64_t cap = planning->caps ? device->cap_bytes : device->memory_bytes;
    if (held == stage || planning->spec.neighbor_every == 0 || used >= cap) {
        return 0;
    }
    uint64_t headers =
        (uint64_t)(out->stage[held].end - out->stage[held].first) * BLOB_HEADER_BYTES;
    uint64_t wanted = 2 * (planning->strategy->state_bytes(planning, held) + headers);
    return wanted < cap - used ? wanted : cap - used;
}

static const char *class_of(const struct planning *planning)
{
    const struct solution *found = &planning->solution;
    const char *first = planning->device[found->chosen[0]].numeric_class;
    for (size_t s = 1; s < found->stage_count; s++) {
        if (strcmp(planning->device[found->chosen[s]].numeric_class, first) != 0) {
            return "mixed";
        }
    }
    return first;
}

/* State the step times of other plans relative to this plan, as the search compared them. */
static void fill_left_out(const struct planning *planning, const struct kept *kept,
                          struct planned *out)
{
    const double share = out->step_seconds > 0 ? out->expected_seconds / out->step_seconds : 1;
    out->unbound = kept->unbound;
    out->unbound.step_seconds *= share;
    out->left_out_count = 0;
    for (size_t i = 0; i < kept->left_out_count && i < PLAN_LEFT_OUT_MAX; i++) {
        const struct partition_left_out *row = &kept->left_out[i];
        out->left_out[out->left_out_count++] = (struct plan_left_out){
            .device = planning->device[row->device].id,
            .reason = (int)row->reason,
            .step_seconds_with =
                isfinite(row->step_seconds_with) ? share * row->step_seconds_with : 0};
    }
}

static void fill(struct planning *planning, struct planned *out)
{
    out->strategy = planning->strategy;
    out->stage_count = planning->solution.stage_count;
    out->step_seconds = planning->solution.step_seconds;
    planning->strategy->fill_plan(planning, out);
    out->state_bytes = 0;
    out->replication =
        (struct replication_periods){planning->spec.neighbor_every, planning->spec.center_every};
    text_set(out->numeric_class, sizeof(out->numeric_class), "%s", class_of(planning));
    for (size_t s = 0; s < out->stage_count; s++) {
        struct plan_stage *stage = &out->stage[s];
        stage->device = planning->device[planning->solution.chosen[s]].id;
        stage->replica_bytes = (int64_t)replica_bytes(planning, out, s);
        stage->memory.replicas_bytes = stage->replica_bytes;
        stage->memory_bytes += stage->replica_bytes;
        out->state_bytes += (int64_t)planning->strategy->state_bytes(planning, s);
    }
}

int placement_solve(struct planning *planning, struct planned *out, struct err *err)
{
    const struct planning_attempt present = {.candidates = CANDIDATES_FREE};
    struct err last = {0}, impossible = {0};
    struct kept kept;
    int rc = ERR_STATE;
    ASSERT(planning->attempt_count > 0);
    planning->stamp++;
    planning->work = 0;
    planning->hasty = false;
    *out = (struct planned){0};
    planning->codes = planning->present_coded;
    if (planning->has_present && place(planning, &present, &planning->present,
                                       planning->spec.recompute, &kept, &impossible) == 0) {
        out->present_seconds = planning->solution.step_seconds;
    }
    planning->codes = true;
    for (size_t i = 0; i < planning->attempt_count; i++) {
        const struct planning_attempt *attempt = &planning->attempt[i];
        struct err failure = {0};
        if (was_tried(planning, i)) {
            continue;
        }
        rc = try_attempt(planning, attempt, &kept, &failure);
        if (rc == 0) {
            out->attempt = *attempt;
            out->attempt_index = i;
            fill(planning, out);
            fill_left_out(planning, &kept, out);
            return 0;
        }
        if (i == 0) {
            text_set(out->first_failure, sizeof(out->first_failure), "%s", failure.text);
        }
        last = attempt->stages == STAGES_STAY ? last : failure;
    }
    *err = last;
    return rc;
}

const struct replan_request *placement_first_request(const struct job_spec *spec,
                                                     int64_t generation, struct replan_request *out)
{
    if (spec->cut_count == 0 || generation > 0) {
        return NULL;
    }
    memset(out, 0, sizeof(*out));
    memcpy(out->cut, spec->cut, sizeof(out->cut));
    out->cut_count = spec->cut_count;
    out->has_cuts = true;
    return out;
}
