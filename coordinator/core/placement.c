/* A job gets the fastest devices of one numeric class, because mixed classes make training inexact.
 * Several classes are used only if no single one has enough memory. */
#include "coordinator/core/placement.h"

#include <inttypes.h>
#include <string.h>

#include "base/assert.h"
#include "coordinator/core/codecs.h"
#include "coordinator/core/planning.h"
#include "coordinator/core/problem.h"
#include "coordinator/core/shortage.h"
#include "coordinator/core/text.h"

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

/* ---- choosing ---- */

static double merit(const struct planning *planning, const struct planning_attempt *attempt,
                    size_t device)
{
    return attempt->candidates == CANDIDATES_KNOWN ? (double)planning->device[device].memory_bytes
                                                   : planning->device[device].gemm_gflops;
}

/* The best candidates of a numeric class (NULL: of any), best first, ties in the order of ids. */
static size_t choose_best(const struct planning *planning, const struct planning_attempt *attempt,
                          const char *numeric_class, size_t most, size_t *chosen)
{
    size_t count = 0;
    for (size_t d = 0; d < planning->device_count; d++) {
        bool other = numeric_class && strcmp(planning->device[d].numeric_class, numeric_class) != 0;
        if (other || !may_use(planning, attempt, d)) {
            continue;
        }
        size_t at = count;
        while (at > 0 && merit(planning, attempt, chosen[at - 1]) < merit(planning, attempt, d)) {
            at--;
        }
        if (at == most) {
            continue;
        }
        count = count < most ? count + 1 : most;
        for (size_t k = count - 1; k > at; k--) {
            chosen[k] = chosen[k - 1];
        }
        chosen[at] = d;
    }
    return count;
}

static double total_merit(const struct planning *planning, const struct planning_attempt *attempt,
                          const size_t *chosen, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += merit(planning, attempt, chosen[i]);
    }
    return sum;
}

/* The class that can do the job fastest; the job's own as long as it can do it at all. NULL: none
 * has enough devices. */
static const char *choose_class(const struct planning *planning,
                                const struct planning_attempt *attempt, size_t least, size_t most)
{
    const char *seen[CLASSES_MAX], *best = NULL;
    size_t seen_count = 0;
    double best_merit = -1;
    for (size_t d = 0; d < planning->device_count && seen_count < CLASSES_MAX; d++) {
        const char *numeric_class = planning->device[d].numeric_class;
        size_t known = 0;
        while (known < seen_count && strcmp(seen[known], numeric_class) != 0) {
            known++;
        }
        if (known < seen_count || !may_use(planning, attempt, d)) {
            continue;
        }
        seen[seen_count++] = numeric_class;
        size_t chosen[STAGES_MAX];
        size_t count = choose_best(planning, attempt, numeric_class, most, chosen);
        double sum = total_merit(planning, attempt, chosen, count);
        if (count < least) {
            continue;
        }
        if (planning->numeric_class[0] != '\0' &&
            strcmp(planning->numeric_class, numeric_class) == 0) {
            return numeric_class;
        }
        if (sum > best_merit) {
            best = numeric_class;
            best_merit = sum;
        }
    }
    return best;
}

/* The order of the stages is the order of ids. */
static void set_devices(struct planning *planning, const size_t *chosen, size_t count)
{
    planning->chosen_count = count;
    for (size_t i = 0; i < count; i++) {
        size_t at = i;
        while (at > 0 && planning->chosen[at - 1] > chosen[i]) {
            planning->chosen[at] = planning->chosen[at - 1];
            at--;
        }
        planning->chosen[at] = chosen[i];
    }
}

static void leave_out_smallest(struct planning *planning)
{
    size_t smallest = 0;
    for (size_t i = 1; i < planning->chosen_count; i++) {
        if (planning->cap_bytes[i] <
            planning->cap_bytes[smallest]) { /* as of the attempt that failed */
            smallest = i;
        }
    }
    planning->chosen_count--;
    for (size_t i = smallest; i < planning->chosen_count; i++) {
        planning->chosen[i] = planning->chosen[i + 1];
    }
}

/* Every stage has at least one unit, so a device too small for any unit prevents every plan. The
 * smallest devices are left out until the model fits. */
static int solve_with_fewer(struct planning *planning, size_t least, struct err *err)
{
    int rc = problem_solve(planning, NULL, err);
    while (rc == ERR_MEMORY && planning->chosen_count > least) {
        leave_out_smallest(planning);
        struct err fewer = {0};
        rc = problem_solve(planning, NULL, &fewer);
    }
    return rc;
}

/* ---- requested plans ---- */

static int take_requested(struct planning *planning, const struct planning_attempt *attempt,
                          const struct replan_request *wanted, struct err *err)
{
    planning->chosen_count = wanted->device_count;
    for (size_t i = 0; i < wanted->device_count; i++) {
        size_t d = planning_find(planning, wanted->device[i].text);
        if (d == planning->device_count || !may_use(planning, attempt, d)) {
            return err_set(err, ERR_STATE, "device '%s' is not available to this job",
                           d < planning->device_count ? planning->device[d].name
                                                      : wanted->device[i].text);
        }
        planning->chosen[i] = d;
    }
    return 0;
}

/* A waiting job shows what it waits for; a running one rejects the request. */
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
                           const struct replan_request *wanted, struct err *err)
{
    size_t units = planning->model->unit_count,
           count = wanted->has_cuts ? wanted->cut_count + 1 : wanted->device_count;
    size_t end[STAGES_MAX];
    size_t least = (size_t)planning->spec.devices_min, most = (size_t)planning->spec.devices_max;
    const char *where = wanted->has_cuts ? "/cuts" : "/devices";
    if (count > units || count > STAGES_MAX) {
        return err_set(err, ERR_INVALID, "%s: %zu stages, but the model has %zu unit%s", where,
                       count, units, units == 1 ? "" : "s");
    }
    if (count < least || count > most) {
        return err_set(err, ERR_INVALID, "%s: %zu stage%s, but the job requests %zu to %zu devices",
                       where, count, count == 1 ? "" : "s", least, most);
    }
    if (wanted->device_count > 0) {
        int rc = take_requested(planning, attempt, wanted, err);
        if (rc != 0) {
            return rc;
        }
    } else {
        const char *numeric_class = choose_class(planning, attempt, count, count);
        size_t chosen[STAGES_MAX];
        size_t found = choose_best(planning, attempt, numeric_class, count, chosen);
        if (found < count) {
            return too_many_stages(planning, wanted, found, err);
        }
        set_devices(planning, chosen, count);
    }
    if (!wanted->has_cuts) {
        return problem_solve(planning, NULL, err);
    }
    for (size_t i = 0; i < wanted->cut_count; i++) {
        end[i] = (size_t)wanted->cut[i];
    }
    end[wanted->cut_count] = units;
    return problem_solve(planning, end, err);
}

/* ---- attempts ---- */

static int place_best(struct planning *planning, const struct planning_attempt *attempt,
                      struct err *err)
{
    size_t units = planning->model->unit_count, there = count_candidates(planning, attempt);
    size_t least = (size_t)planning->spec.devices_min, most = (size_t)planning->spec.devices_max;
    most = most < units ? most : units;
    most = most < STAGES_MAX ? most : STAGES_MAX;
    if (there < least) {
        return shortage_explain(&planning->shortage, &planning->spec, least, there, err);
    }
    if (least > most) {
        return err_set(err, ERR_INVALID, "%zu devices, but the model has %zu units", least, units);
    }
    size_t chosen[STAGES_MAX];
    const char *numeric_class = attempt->candidates == CANDIDATES_KNOWN
                                    ? NULL
                                    : choose_class(planning, attempt, least, most);
    size_t count = choose_best(planning, attempt, numeric_class, most, chosen);
    set_devices(planning, chosen, count);
    int rc = solve_with_fewer(planning, least, err);
    if (rc == ERR_MEMORY && numeric_class) {
        /* One class is not enough: better inexact than not at all. */
        struct err mixed = {0};
        count = choose_best(planning, attempt, NULL, most, chosen);
        set_devices(planning, chosen, count);
        rc = solve_with_fewer(planning, least, &mixed);
    }
    return rc;
}

static int place(struct planning *planning, const struct planning_attempt *attempt,
                 const struct replan_request *wanted, enum recompute recompute, struct err *err)
{
    planning->stamp += planning->recompute != recompute; /* stage_bytes are of the other one */
    planning->recompute = recompute;
    planning->memory_work = 0;
    planning->first_fit = attempt->candidates == CANDIDATES_KNOWN;
    planning->caps = attempt->avoid != AVOID_NONE;
    int rc = wanted && (wanted->has_cuts || wanted->device_count > 0)
                 ? place_requested(planning, attempt, wanted, err)
                 : place_best(planning, attempt, err);
    planning->work += planning->memory_work;
    planning->hasty = planning->hasty || planning->memory_work >= HASTY * planning->memory_max;
    return rc;
}

/* Whether the job would fit with these fields. */
static bool would_fit(struct planning *planning, const struct planning_attempt *attempt,
                      const struct replan_request *wanted, enum recompute recompute, int64_t batch,
                      int pipeline)
{
    const int64_t own_batch = planning->spec.batch;
    const int own_pipeline = planning->spec.pipeline;
    struct err again = {0};
    planning->spec.batch = batch;
    planning->spec.pipeline = pipeline;
    planning->stamp++; /* stage_bytes are of the other fields */
    bool fits = place(planning, attempt, wanted, recompute, &again) == 0;
    planning->spec.batch = own_batch;
    planning->spec.pipeline = own_pipeline;
    planning->stamp++;
    return fits;
}

/* Add to the error which single field would let a new job fit. */
static int advise(struct planning *planning, const struct planning_attempt *attempt,
                  const struct replan_request *wanted, struct err *err)
{
    const enum recompute recompute = planning->spec.recompute;
    const int64_t batch = planning->spec.batch;
    const int pipeline = planning->spec.pipeline;
    const bool async = pipeline == JOB_ASYNC;
    if (recompute == RECOMPUTE_NONE &&
        would_fit(planning, attempt, wanted, RECOMPUTE_UNIT, batch, pipeline)) {
        return err_wrap(err, "it fits with \"recompute\": \"unit\"");
    }
    /* Whole batches are in flight, each with a version of the parameters. */
    if (async && would_fit(planning, attempt, wanted, recompute, batch, JOB_SYNC)) {
        return err_wrap(err, "it fits with \"pipeline\": \"sync\"");
    }
    for (int64_t less = batch / 2; async && less >= 1; less /= 4) {
        if (would_fit(planning, attempt, wanted, recompute, less, pipeline)) {
            return err_wrap(err, "it fits with \"batch\": %" PRId64, less);
        }
    }
    return ERR_MEMORY;
}

static int try_attempt(struct planning *planning, const struct planning_attempt *attempt,
                       struct err *err)
{
    const struct replan_request *const wanted[] = {
        [STAGES_ANY] = NULL, [STAGES_WANTED] = &planning->wanted, [STAGES_STAY] = &planning->stay};
    int rc = place(planning, attempt, wanted[attempt->stages], planning->spec.recompute, err);
    return rc == ERR_MEMORY && planning->is_new
               ? advise(planning, attempt, wanted[attempt->stages], err)
               : rc;
}

/* Whether an attempt differs from an earlier one in nothing: it would fail as that one did. */
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

static uint64_t stage_state(const struct planning *planning, size_t stage)
{
    size_t first = stage == 0 ? 0 : planning->plan.end[stage - 1];
    return planning->stage_bytes[first][planning->plan.end[stage]].bytes.snapshot;
}

/* Two versions of the stage before it in the ring, with the metadata of the blobs, as far as there
 * is memory. */
static uint64_t replica_bytes(const struct planning *planning, size_t stage)
{
    size_t count = planning->chosen_count;
    uint64_t used = planning->plan.memory_bytes[stage], cap = planning->cap_bytes[stage];
    if (count < 2 || planning->spec.neighbor_every == 0 || used >= cap) {
        return 0;
    }
    size_t before = (stage + count - 1) % count;
    size_t first = before == 0 ? 0 : planning->plan.end[before - 1];
    uint64_t headers = (planning->plan.end[before] - first) * BLOB_HEADER_BYTES;
    uint64_t wanted = 2 * (stage_state(planning, before) + headers);
    return wanted < cap - used ? wanted : cap - used;
}

static const char *class_of(const struct planning *planning)
{
    const char *first = planning->device[planning->chosen[0]].numeric_class;
    for (size_t s = 1; s < planning->chosen_count; s++) {
        if (strcmp(planning->device[planning->chosen[s]].numeric_class, first) != 0) {
            return "mixed";
        }
    }
    return first;
}

static void fill(const struct planning *planning, struct planned *out)
{
    const struct partition_plan *found = &planning->plan;
    size_t units = planning->model->unit_count, first = 0;
    out->stage_count = planning->chosen_count;
    out->step_seconds = found->step_seconds;
    out->efficiency = found->step_seconds > 0 ? found->bound_seconds / found->step_seconds : 0;
    out->state_bytes = 0;
    out->replication =
        (struct replication_periods){planning->spec.neighbor_every, planning->spec.center_every};
    text_set(out->numeric_class, sizeof(out->numeric_class), "%s", class_of(planning));
    for (size_t s = 0; s < planning->chosen_count; s++) {
        struct plan_stage *stage = &out->stage[s];
        *stage = (struct plan_stage){
            .device = planning->device[planning->chosen[s]].id,
            .first = (int64_t)first,
            .end = (int64_t)found->end[s],
            .in_flight = (int64_t)found->in_flight[s],
            .memory_bytes = (int64_t)(found->memory_bytes[s] + replica_bytes(planning, s)),
            .replica_bytes = (int64_t)replica_bytes(planning, s),
            .memory = problem_memory(planning, s),
            .predicted_busy = found->busy[s],
        };
        stage->memory.replicas_bytes = stage->replica_bytes;
        if (s + 1 < planning->chosen_count) {
            stage->codec =
                codecs_of_link(&planning->spec, planning->device[planning->chosen[s]].codecs,
                               planning->device[planning->chosen[s + 1]].codecs);
        }
        for (size_t u = first; u < found->end[s]; u++) {
            stage->predicted_forward_seconds += planning->forward[s * units + u];
            stage->predicted_backward_seconds += planning->backward[s * units + u];
        }
        out->state_bytes += (int64_t)stage_state(planning, s);
        first = found->end[s];
    }
}

int placement_solve(struct planning *planning, struct planned *out, struct err *err)
{
    const struct planning_attempt present = {.candidates = CANDIDATES_FREE};
    struct err last = {0}, impossible = {0};
    int rc = ERR_STATE;
    ASSERT(planning->attempt_count > 0);
    planning->stamp++;
    planning->work = 0;
    planning->hasty = false;
    *out = (struct planned){0};
    if (planning->has_present &&
        place(planning, &present, &planning->present, planning->spec.recompute, &impossible) == 0) {
        out->present_seconds = planning->plan.step_seconds;
    }
    for (size_t i = 0; i < planning->attempt_count; i++) {
        const struct planning_attempt *attempt = &planning->attempt[i];
        struct err failure = {0};
        if (was_tried(planning, i)) {
            continue;
        }
        rc = try_attempt(planning, attempt, &failure);
        if (rc == 0) {
            out->attempt = *attempt;
            out->attempt_index = i;
            fill(planning, out);
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

void placement_as_request(const struct plan *plan, struct replan_request *out)
{
    memset(out, 0, sizeof(*out));
    out->has_cuts = true;
    for (size_t s = 0; s < plan->stage_count; s++) {
        out->device[out->device_count++] = plan->stage[s].device;
        if (s + 1 < plan->stage_count) {
            out->cut[out->cut_count++] = plan->stage[s].end;
        }
    }
}
