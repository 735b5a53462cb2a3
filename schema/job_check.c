#include "schema/job_check.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/parse.h"
#include "libtrain/kernels/kernel_table.h"
#include "schema/check.h"
#include "schema/strategy_rules.h"

/* Whether another fault would change nothing. The caller then stops, because searching for the
 * nearest of many names takes time. */
static bool is_full(const struct check *check)
{
    return check->rc != 0 && (!check->faults || check->faults->more);
}

static void check_model(struct check *check, const struct job_model *model)
{
    if (model->name[0] == '\0' && !model->description) {
        check_fault(check, "/model", "needs a name or a description");
    } else if (model->name[0] != '\0' && model->description) {
        check_fault(check, "/model", "takes a name or a description, not both");
    }
}

static void check_divisible(struct check *check, int64_t batch, int64_t micro_batches)
{
    if (micro_batches > 0 && batch % micro_batches != 0) {
        check_fault(check, "/micro_batches", "batch %" PRId64 " is not divisible by %" PRId64,
                    batch, micro_batches);
    }
}

static void check_batch(struct check *check, const struct job_spec *spec)
{
    check_divisible(check, spec->batch, spec->micro_batches);
    if (spec->steps > 0 && spec->learning_rate.warmup_steps >= spec->steps) {
        check_fault(check, "/learning_rate/warmup_steps", "must be below steps (%" PRId64 ")",
                    spec->steps);
    }
}

static bool differ(double a, double b)
{
    return a < b || a > b;
}

/* If a field belongs to another type, the checks below reject it rather than ignore it: the author
 * of the job expects it to have an effect. */

static void check_sgd(struct check *check, const struct optimizer *optimizer)
{
    const struct optimizer *unset = &job_spec_default.optimizer;
    static const char other[] = "is for types 'adam' and 'adamw' only";
    if (optimizer->momentum >= 1) {
        check_fault(check, "/optimizer/momentum", "must be below 1");
    }
    if (optimizer->nesterov && optimizer->momentum <= 0) {
        check_fault(check, "/optimizer/nesterov", "needs a momentum above 0");
    }
    if (differ(optimizer->beta1, unset->beta1)) {
        check_fault(check, "/optimizer/beta1", "%s", other);
    }
    if (differ(optimizer->beta2, unset->beta2)) {
        check_fault(check, "/optimizer/beta2", "%s", other);
    }
    if (differ(optimizer->epsilon, unset->epsilon)) {
        check_fault(check, "/optimizer/epsilon", "%s", other);
    }
}

static void check_adam(struct check *check, const struct optimizer *optimizer)
{
    if (differ(optimizer->momentum, job_spec_default.optimizer.momentum)) {
        check_fault(check, "/optimizer/momentum", "is for type 'sgd' only; that of '%s' is beta1",
                    optimizer_type_names[optimizer->type]);
    }
    if (optimizer->nesterov) {
        check_fault(check, "/optimizer/nesterov", "is for type 'sgd' only");
    }
    if (optimizer->beta1 >= 1) {
        check_fault(check, "/optimizer/beta1", "must be below 1");
    }
    if (optimizer->beta2 >= 1) {
        check_fault(check, "/optimizer/beta2", "must be below 1");
    }
    if (optimizer->epsilon < OPTIMIZER_EPSILON_MIN) {
        check_fault(check, "/optimizer/epsilon", "must be at least %.9g", OPTIMIZER_EPSILON_MIN);
    }
}

static void check_optimizer(struct check *check, const struct optimizer *optimizer)
{
    if (optimizer->type == OPTIMIZER_SGD) {
        check_sgd(check, optimizer);
    } else {
        check_adam(check, optimizer);
    }
    if (optimizer->clip_value > 0 && optimizer->clip_norm > 0) {
        check_fault(check, "/optimizer/clip_norm",
                    "gradients are clipped by clip_value or by clip_norm, not by both");
    }
}

static void check_learning_rate(struct check *check, const struct learning_rate *rate)
{
    const struct learning_rate *unset = &job_spec_default.learning_rate;
    if (rate->value < 0) {
        check_fault(check, "/learning_rate/value", "must be above 0");
    }
    if (rate->type == LEARNING_RATE_STEP) {
        if (rate->step_size == 0) {
            check_fault(check, "/learning_rate/step_size", "is required with type 'step'");
        }
        if (rate->gamma <= 0) {
            check_fault(check, "/learning_rate/gamma", "must be above 0");
        }
    } else {
        if (rate->step_size != unset->step_size) {
            check_fault(check, "/learning_rate/step_size", "is for type 'step' only");
        }
        if (differ(rate->gamma, unset->gamma)) {
            check_fault(check, "/learning_rate/gamma", "is for type 'step' only");
        }
    }
    if (rate->type == LEARNING_RATE_COSINE) {
        if (rate->final_value > rate->value) {
            check_fault(check, "/learning_rate/final_value", "must be at most value (%.9g)",
                        rate->value);
        }
    } else if (rate->final_value > unset->final_value) {
        check_fault(check, "/learning_rate/final_value", "is for type 'cosine' only");
    }
}

static void PRINTF_LIKE(4, 5)
    augment_fault(struct check *check, size_t index, const char *member, const char *format, ...)
{
    char pointer[32];
    char message[RECORD_MESSAGE_MAX];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);
    (void)snprintf(pointer, sizeof(pointer), "/augment/%zu%s", index, member);
    check_fault(check, pointer, "%s", message);
}

/* Members of a type are required with that type and rejected with every other type. */
static void check_augment_member(struct check *check, size_t index, int type, int owner,
                                 const char *member, bool given)
{
    if (type == owner && !given) {
        augment_fault(check, index, member, "is required with type '%s'",
                      augment_type_names[owner]);
    } else if (type != owner && given) {
        augment_fault(check, index, member, "is for type '%s' only", augment_type_names[owner]);
    }
}

static void check_augment(struct check *check, const struct job_spec *spec)
{
    for (size_t i = 0; i < spec->augment_count; i++) {
        const struct augment *augment = &spec->augment[i];
        const struct normalise *normalise = &augment->normalise;
        check_augment_member(check, i, augment->type, AUGMENT_CROP, "/padding",
                             augment->padding > 0);
        check_augment_member(check, i, augment->type, AUGMENT_NORMALISE, "/mean",
                             normalise->mean_count > 0);
        check_augment_member(check, i, augment->type, AUGMENT_NORMALISE, "/std",
                             normalise->std_count > 0);
        if (i > 0 && augment->type <= augment[-1].type) {
            augment_fault(check, i, "/type", "each type once, in the order crop, flip, normalise");
        }
    }
}

static void check_rising(struct check *check, const int64_t *cut, size_t cut_count)
{
    for (size_t i = 1; i < cut_count; i++) {
        if (cut[i] <= cut[i - 1]) {
            char pointer[32];
            (void)snprintf(pointer, sizeof(pointer), "/cuts/%zu", i);
            check_fault(check, pointer, "must be above the boundary before it (%" PRId64 ")",
                        cut[i - 1]);
        }
    }
}

static void check_pipeline(struct check *check, const struct job_spec *spec)
{
    static const char other[] = "is for pipeline 'async' only";
    if (!strategy_rules_pipelines(spec)) {
        return; /* strategy_rules_job rejects these fields */
    }
    if (spec->pipeline != JOB_ASYNC) {
        if (spec->aggregate_every > 0) {
            check_fault(check, "/aggregate_every", "%s", other);
        }
        if (spec->vertical_sync) {
            check_fault(check, "/vertical_sync", "%s", other);
        }
        return;
    }
    if (spec->micro_batches > 1) {
        check_fault(check, "/micro_batches",
                    "pipeline 'async' takes whole batches: use 1, or pipeline 'sync'");
    }
    if (spec->optimizer.clip_norm > 0) {
        check_fault(
            check, "/optimizer/clip_norm",
            "pipeline 'async' updates before the norm is known: use clip_value, or pipeline "
            "'sync'");
    }
}

static void check_init(struct check *check, const struct job_spec *spec)
{
    if (spec->init_except_count > 0 && spec->init_checkpoint.text[0] == '\0') {
        check_fault(check, "/init/except",
                    "names units that are not taken from the checkpoint: there is none");
    }
}

static void check_compression(struct check *check, const struct job_spec *spec)
{
    if (spec->compression != COMPRESSION_AUTO && !codec_available((enum codec)spec->compression)) {
        const struct codec_info *info = codec_info((enum codec)spec->compression);
        check_fault(check, "/compression", "this build has no zstd; use '%s'",
                    codec_info(info->plain)->name);
    }
}

static void check_by(struct check *check, const struct job_spec *spec,
                     int (*rules)(const struct job_spec *spec, struct record_faults *faults,
                                  struct err *err))
{
    struct record_faults faults = {0};
    struct err err = {0};
    int rc = rules(spec, &faults, &err);
    for (size_t i = 0; rc && i < faults.count; i++) {
        check_fault(check, faults.fault[i].pointer, "%s", faults.fault[i].message);
    }
}

int job_spec_check(const struct job_spec *spec, struct record_faults *faults, struct err *err)
{
    struct check check = {.faults = faults, .err = err};
    check_model(&check, &spec->model);
    check_init(&check, spec);
    check_batch(&check, spec);
    check_pipeline(&check, spec);
    check_optimizer(&check, &spec->optimizer);
    check_learning_rate(&check, &spec->learning_rate);
    check_augment(&check, spec);
    check_compression(&check, spec);
    check_by(&check, spec, strategy_rules_job);
    check_by(&check, spec, job_dataset_check);
    check_by(&check, spec, job_stop_check);
    if (spec->devices_min > spec->devices_max) {
        check_fault(&check, "/devices/min", "must be at most max (%" PRId64 ")", spec->devices_max);
    }
    check_rising(&check, spec->cut, spec->cut_count);
    if ((int64_t)spec->cut_count >= spec->devices_max) {
        bool one = spec->cut_count == 1;
        check_fault(&check, "/cuts", "%zu boundar%s %zu stages; devices.max is %" PRId64,
                    spec->cut_count, one ? "y makes" : "ies make", spec->cut_count + 1,
                    spec->devices_max);
    }
    return check.rc;
}

int replan_request_check(const struct replan_request *request, struct record_faults *faults,
                         struct err *err)
{
    struct check check = {.faults = faults, .err = err};
    check_rising(&check, request->cut, request->cut_count);
    if (request->servers > 0 && (request->has_cuts || request->generation > 0)) {
        check_fault(&check, "/servers", "is a number for the planner; leave '%s' out",
                    request->has_cuts ? "cuts" : "generation");
    }
    if (request->generation > 0 && (request->has_cuts || request->device_count > 0)) {
        check_fault(&check, "/generation",
                    "names the cuts and the devices; leave 'cuts' and 'devices' "
                    "out");
    }
    const bool shared = request->share_end_count > 0;
    if (shared && (!request->has_cuts || request->share_end_count != request->device_count)) {
        check_fault(&check, "/share_ends", "needs 'cuts', and as many 'devices' as it has (%zu)",
                    request->share_end_count);
    }
    if (request->has_cuts && request->device_count > 0 &&
        (shared ? request->device_count <= request->cut_count
                : request->device_count != request->cut_count + 1)) {
        check_fault(&check, "/devices", "has %zu device%s for the %zu stage%s of cuts",
                    request->device_count, request->device_count == 1 ? "" : "s",
                    request->cut_count + 1, request->cut_count == 0 ? "" : "s");
    }
    for (size_t i = 1; i < request->device_count; i++) {
        for (size_t k = 0; k < i; k++) {
            if (id_equal(request->device[i].text, request->device[k].text)) {
                char pointer[32];
                (void)snprintf(pointer, sizeof(pointer), "/devices/%zu", i);
                check_fault(&check, pointer, "is the same device as /devices/%zu", k);
                break;
            }
        }
    }
    return check.rc;
}

int prediction_question_check(const struct prediction_question *question,
                              struct record_faults *faults, struct err *err)
{
    struct check check = {.faults = faults, .err = err};
    if (!question->model[0] && !question->job.text[0]) {
        check_fault(&check, "/model", "is required without 'job'");
    } else if (question->model[0] && question->job.text[0]) {
        check_fault(&check, "/model", "the job has a model; leave 'model' or 'job' out");
    }
    if (question->dataset[0] && !question->model[0]) {
        check_fault(&check, "/dataset", "needs a 'model'; a job has its own data set");
    }
    check_divisible(&check, question->batch, question->micro_batches);
    return check.rc;
}

int job_cuts_check(const int64_t *cut, size_t cut_count, size_t unit_count,
                   struct record_faults *faults, struct err *err)
{
    struct check check = {.faults = faults, .err = err};
    for (size_t i = 0; i < cut_count; i++) {
        if (cut[i] >= (int64_t)unit_count) {
            char pointer[32];
            (void)snprintf(pointer, sizeof(pointer), "/cuts/%zu", i);
            check_fault(&check, pointer, "must be below %zu, the model's number of units",
                        unit_count);
        }
    }
    return check.rc;
}

int job_augment_check(const struct job_spec *spec, struct shape sample,
                      struct record_faults *faults, struct err *err)
{
    struct check check = {.faults = faults, .err = err};
    for (size_t i = 0; i < spec->augment_count; i++) {
        const struct augment *augment = &spec->augment[i];
        const struct normalise *normalise = &augment->normalise;
        const uint32_t side = sample.h < sample.w ? sample.h : sample.w;
        if (side < 2) {
            augment_fault(&check, i, "",
                          "is for images; samples of %" PRIu32 " x %" PRIu32 " x %" PRIu32
                          " are none",
                          sample.h, sample.w, sample.c);
            continue;
        }
        if (augment->padding >= side) {
            augment_fault(&check, i, "/padding",
                          "must be below the samples' shorter side, %" PRIu32, side);
        }
        if (normalise->mean_count > 0 && normalise->mean_count != sample.c) {
            augment_fault(&check, i, "/mean",
                          "has %zu numbers; the samples have %" PRIu32 " channels",
                          normalise->mean_count, sample.c);
        }
        if (normalise->std_count > 0 && normalise->std_count != sample.c) {
            augment_fault(&check, i, "/std",
                          "has %zu numbers; the samples have %" PRIu32 " channels",
                          normalise->std_count, sample.c);
        }
    }
    return check.rc;
}

static void check_unit(struct check *check, const struct unit_name *name, size_t index,
                       const struct model *model, const char *list)
{
    const char *known[MODEL_UNITS_MAX];
    char pointer[RECORD_POINTER_MAX];
    (void)snprintf(pointer, sizeof(pointer), "%s/%zu", list, index);
    for (size_t k = 0; k < index; k++) {
        if (strcmp(name[k].text, name[index].text) == 0) {
            check_fault(check, pointer, "is the same unit as %s/%zu", list, k);
            return;
        }
    }
    for (size_t u = 0; u < model->unit_count; u++) {
        known[u] = model->unit[u].name;
        if (strcmp(known[u], name[index].text) == 0) {
            return;
        }
    }
    const char *nearest = parse_nearest(name[index].text, known, model->unit_count);
    if (nearest) {
        check_fault(check, pointer, "the model has no unit '%s'; did you mean '%s'?",
                    name[index].text, nearest);
    } else {
        check_fault(check, pointer, "the model has no unit '%s'; its units are '%s' to '%s'",
                    name[index].text, known[0], known[model->unit_count - 1]);
    }
}

int job_units_check(const struct unit_name *name, size_t count, const struct model *model,
                    const char *pointer, struct record_faults *faults, struct err *err)
{
    struct check check = {.faults = faults, .err = err};
    for (size_t i = 0; i < count && !is_full(&check); i++) {
        check_unit(&check, name, i, model, pointer);
    }
    return check.rc;
}

const struct normalise *job_normalise(const struct job_spec *spec)
{
    static const struct normalise none;
    const struct augment *augment =
        augment_find(spec->augment, spec->augment_count, AUGMENT_NORMALISE);
    /* job_spec_check reports different counts as a fault. */
    return augment && augment->normalise.mean_count == augment->normalise.std_count
               ? &augment->normalise
               : &none;
}

bool job_tunes(const struct job_spec *spec, const struct model *model)
{
    bool given = spec->kernels && !json_is_null(spec->kernels);
    return !given && !kernel_table_needs_onednn(model);
}

static bool is_named(const struct unit_name *name, size_t count, const char *unit)
{
    size_t at = 0;
    while (at < count && strcmp(name[at].text, unit) != 0) {
        at++;
    }
    return at < count;
}

int job_freeze(const struct job_spec *spec, const struct model *model, bool frozen[MODEL_UNITS_MAX],
               struct record_faults *faults, struct err *err)
{
    struct check check = {.faults = faults, .err = err};
    bool left = false;
    for (size_t i = 0; i < spec->freeze_count && !is_full(&check); i++) {
        check_unit(&check, spec->freeze, i, model, "/freeze");
    }
    for (size_t u = 0; u < model->unit_count; u++) {
        frozen[u] = is_named(spec->freeze, spec->freeze_count, model->unit[u].name);
        left = left || (!frozen[u] && model_trains(model, u));
    }
    if (spec->freeze_count > 0 && !left) {
        check_fault(&check, "/freeze",
                    "names every unit that has parameters: nothing is left to train");
    }
    return check.rc;
}

bool job_from_checkpoint(const struct job_spec *spec, const char *unit)
{
    return spec->init_checkpoint.text[0] != '\0' &&
           !is_named(spec->init_except, spec->init_except_count, unit);
}

const struct view *job_view(const struct job_spec *spec)
{
    return spec->has_view && view_has_places(&spec->view) ? &spec->view : NULL;
}

int64_t job_epoch_samples(const struct job_data *data)
{
    return data->epoch_samples > 0 ? data->epoch_samples : data->train_samples;
}

int64_t job_total_steps(const struct job_spec *spec, int64_t epoch_samples)
{
    int64_t steps = spec->epochs * (epoch_samples / spec->batch);
    return spec->steps > 0 && spec->steps < steps ? spec->steps : steps;
}
