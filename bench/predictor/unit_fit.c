/* What the times of unit_times say, for bench/predictor.py
 *
 *   unit_fit prior FILE              print the prior of coordinator/plan/latency_prior.c
 *   unit_fit evaluate FILE MODEL...  predict units of each model on each device from the others
 *
 * FILE: for each device `device NAME`, then for each model `model NAME MICRO_BATCH` and the lines
 * of unit_times. `evaluate` fits the prior without the model, and knows a part of its units: the
 * first or last half or third. It prints `MODEL KNOWN PREDICTOR ERROR RUNS SPREAD` for each
 * predictor: the mean of |predicted - measured| / measured over the other units, forward and
 * backward together. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "bench/predictor/prior.h"
#include "coordinator/core/state/unit_work.h"
#include "libtrain/description/description.h"
#include "libtrain/description/zoo.h"

#define DEVICES_MAX 64
#define GROUPS_MAX 4096 /* of units: a model with a micro-batch on a device */
#define MODELS_MAX 32
#define FRACTIONS 4
/* As in coordinator/core/capacity/capacity_units.c. */
#define CORRECTION_MAX 3.0
#define DONOR_SHARE 0.5

struct zoo_model {
    char name[64];
    struct model *model;
    struct unit_cost cost[MODEL_UNITS_MAX];
};

struct group {
    size_t device;
    const struct zoo_model *model;
    int64_t micro_batch;
    double flops_per_second, bytes_per_second;
    struct unit_work *work; /* [unit_count] */
    double (*seconds)[UNIT_PASSES];
};

struct table {
    struct zoo_model model[MODELS_MAX];
    size_t model_count, device_count;
    struct group group[GROUPS_MAX];
    size_t group_count;
};

/* ---- the file ---- */

static const struct zoo_model *model_of(struct table *table, const char *name)
{
    for (size_t i = 0; i < table->model_count; i++) {
        if (strcmp(table->model[i].name, name) == 0) {
            return &table->model[i];
        }
    }
    struct zoo_model *model = &table->model[table->model_count];
    const char *text = zoo_text(name);
    json_t *description = NULL;
    struct err err = {0};
    if (table->model_count == MODELS_MAX || !text ||
        json_parse(text, strlen(text), &description, &err) ||
        description_parse(description, zoo_fit(name), &model->model, NULL, &err)) {
        return NULL;
    }
    json_decref(description);
    (void)snprintf(model->name, sizeof(model->name), "%s", name);
    cost_count(model->model, model->cost);
    table->model_count++;
    return model;
}

static bool add_group(struct table *table, const char *name, int64_t micro_batch)
{
    struct group *group = &table->group[table->group_count];
    const struct zoo_model *model = model_of(table, name);
    if (!model || table->device_count == 0 || table->group_count == GROUPS_MAX) {
        return false;
    }
    const size_t units = model->model->unit_count;
    const struct unit_setting setting = {
        .model = model->model, .cost = model->cost, .samples = micro_batch};
    group->device = table->device_count - 1;
    group->model = model;
    group->micro_batch = micro_batch;
    group->work = calloc(units, sizeof(group->work[0]));
    group->seconds = calloc(units, sizeof(group->seconds[0]));
    for (size_t u = 0; group->work && u < units; u++) {
        unit_work_of(&setting, u, &group->work[u]);
    }
    table->group_count++;
    return group->work && group->seconds;
}

static bool read_line(struct table *table, const char *line)
{
    char name[64];
    int64_t micro_batch;
    size_t unit;
    double a, b;
    struct group *group = table->group_count > 0 ? &table->group[table->group_count - 1] : NULL;
    if (strncmp(line, "device ", 7) == 0) {
        return ++table->device_count <= DEVICES_MAX;
    }
    if (sscanf(line, "model %63s %" SCNd64, name, &micro_batch) == 2) {
        return add_group(table, name, micro_batch);
    }
    if (group && sscanf(line, "probe %lf %lf", &a, &b) == 2) {
        group->flops_per_second = a * 1e9;
        group->bytes_per_second = b;
        return true;
    }
    if (group && sscanf(line, "unit %zu %lf %lf", &unit, &a, &b) == 3 &&
        unit < group->model->model->unit_count) {
        group->seconds[unit][UNIT_FORWARD] = a;
        group->seconds[unit][UNIT_BACKWARD] = b;
        return true;
    }
    return false;
}

/* Every device keeps the probe of its first group: it is probed once, when it enrols. */
static void share_probes(struct table *table)
{
    const struct group *first = NULL;
    for (size_t i = 0; i < table->group_count; i++) {
        struct group *group = &table->group[i];
        first = first && first->device == group->device ? first : group;
        group->flops_per_second = first->flops_per_second;
        group->bytes_per_second = first->bytes_per_second;
    }
}

static int read_table(const char *path, struct table *table)
{
    char line[256];
    FILE *file = fopen(path, "r");
    int rc = file ? 0 : 1;
    while (rc == 0 && fgets(line, sizeof(line), file)) {
        rc = read_line(table, line) ? 0 : 1;
    }
    if (file) {
        (void)fclose(file);
    }
    if (rc) {
        fprintf(stderr, "unit_fit: '%s' is not a list of unit times\n", path);
    }
    share_probes(table);
    return rc;
}

/* ---- predictions ---- */

static double base_of(const struct group *group, size_t unit, enum unit_pass pass)
{
    return unit_work_seconds(&group->work[unit], pass, group->flops_per_second,
                             group->bytes_per_second);
}

/* Computing or moving, whichever takes longer. */
static double roofline(const struct group *group, size_t unit, enum unit_pass pass)
{
    return fmax(group->work[unit].flops[pass] / group->flops_per_second,
                group->work[unit].bytes[pass] / group->bytes_per_second);
}

/* Whether the pass was measured and has a prediction to compare with. */
static bool is_usable(const struct group *group, size_t unit, enum unit_pass pass)
{
    return group->seconds[unit][pass] > 0 && base_of(group, unit, pass) > 0;
}

/* Collect the samples of a device, without one model (NULL: of all models). */
static size_t collect(const struct table *table, size_t device, enum unit_pass pass,
                      const struct zoo_model *without, struct sample *out)
{
    size_t count = 0;
    for (size_t i = 0; i < table->group_count; i++) {
        const struct group *group = &table->group[i];
        if (group->device != device || group->model == without) {
            continue;
        }
        for (size_t u = 0; u < group->model->model->unit_count; u++) {
            if (is_usable(group, u, pass)) {
                memcpy(out[count].features, group->work[u].features[pass],
                       sizeof(out[count].features));
                out[count++].logarithm = log(group->seconds[u][pass] / base_of(group, u, pass));
            }
        }
    }
    return count;
}

/* Fit without one model (NULL: with all) and without one device (device_count: with all). */
static bool fit(const struct table *table, enum unit_pass pass, const struct zoo_model *without,
                size_t without_device, struct latency_prior *out)
{
    enum { SAMPLES_MAX = 65536 };
    static struct sample item[SAMPLES_MAX];
    struct samples device[DEVICES_MAX];
    size_t used = 0, count = 0;
    for (size_t d = 0; d < table->device_count; d++) {
        if (d != without_device) {
            device[count] = (struct samples){.item = item + used};
            device[count].count = collect(table, d, pass, without, item + used);
            used += device[count++].count;
        }
    }
    return prior_fit(device, count, out);
}

/* SCALED_PROFILE and DONOR know the times of all units on another device. */
enum predictor { SCALAR, COST_MODEL, SCALED_PROFILE, REGRESSION, DONOR, NEW_MODEL, PREDICTORS };
static const char *const predictor_names[] = {"scalar",           "cost_model",
                                              "scaled_profile",   "regression",
                                              "regression_donor", "regression_new_model"};

/* Units that the device ran: [first, end). */
struct known {
    const char *name;
    size_t first, end;
};

static struct known known_of(size_t which, size_t units)
{
    const size_t half = (units + 1) / 2, third = (units + 2) / 3;
    const struct known known[FRACTIONS] = {{"first_half", 0, half},
                                           {"last_half", units - half, units},
                                           {"first_third", 0, third},
                                           {"last_third", units - third, units}};
    return known[which];
}

static bool is_known(const struct known *known, size_t unit)
{
    return unit >= known->first && unit < known->end;
}

/* The device's time over a rate, from the known units: its FLOPs, or the cost model's seconds. */
static void predict_by_ratio(const struct group *group, const struct known *known, bool cost_model,
                             double *out)
{
    const size_t units = group->model->model->unit_count;
    double measured = 0, rated = 0, rate[MODEL_UNITS_MAX];
    for (size_t u = 0; u < units; u++) {
        const struct unit_work *work = &group->work[u];
        rate[u] = cost_model ? roofline(group, u, UNIT_FORWARD) + roofline(group, u, UNIT_BACKWARD)
                             : work->flops[UNIT_FORWARD] + work->flops[UNIT_BACKWARD];
        if (is_known(known, u)) {
            rated += rate[u];
            measured += group->seconds[u][UNIT_FORWARD] + group->seconds[u][UNIT_BACKWARD];
        }
    }
    for (size_t u = 0; u < units; u++) {
        out[u] = rate[u] * measured / rated;
    }
}

/* The times of another device times one scalar, from the known units. */
static void predict_by_profile(const struct group *group, const struct known *known,
                               const struct group *donor, double *out)
{
    double measured = 0, there = 0;
    for (size_t u = known->first; u < known->end; u++) {
        measured += group->seconds[u][UNIT_FORWARD] + group->seconds[u][UNIT_BACKWARD];
        there += donor->seconds[u][UNIT_FORWARD] + donor->seconds[u][UNIT_BACKWARD];
    }
    for (size_t u = 0; u < group->model->model->unit_count; u++) {
        out[u] =
            (donor->seconds[u][UNIT_FORWARD] + donor->seconds[u][UNIT_BACKWARD]) * measured / there;
    }
}

/* The regression of a device after the known units of a group. */
static void learn_group(const struct group *group, const struct known *known, enum unit_pass pass,
                        const struct latency_prior *prior, struct latency_vector *out)
{
    struct latency_start start;
    struct latency_fit fit;
    (void)latency_begin(prior, &start);
    latency_reset(&start, &fit);
    for (size_t u = known->first; u < known->end; u++) {
        if (is_usable(group, u, pass)) {
            (void)latency_learn(&start, 1, group->work[u].features[pass],
                                log(group->seconds[u][pass] / base_of(group, u, pass)), &fit);
        }
    }
    (void)latency_solve(&start, &fit, out);
}

/* donor: another device that ran the units; NULL: none did. As
 * coordinator/core/capacity/capacity_units.c.
 */
static void predict_by_regression(const struct group *group, const struct known *known,
                                  const struct latency_prior *prior, const struct group *donor,
                                  double *out)
{
    const size_t units = group->model->model->unit_count;
    const struct known all = {"all", 0, units};
    for (size_t u = 0; u < units; u++) {
        out[u] = 0;
    }
    for (enum unit_pass pass = 0; pass < UNIT_PASSES; pass++) {
        struct latency_vector vector, there;
        learn_group(group, known, pass, &prior[pass], &vector);
        if (donor) {
            learn_group(donor, &all, pass, &prior[pass], &there);
        }
        for (size_t u = 0; u < units; u++) {
            const double *features = group->work[u].features[pass];
            double mean = latency_predict(&vector, features).mean;
            mean = fmin(fmax(mean, -CORRECTION_MAX), CORRECTION_MAX);
            if (donor && is_usable(donor, u, pass)) {
                mean += DONOR_SHARE * (log(donor->seconds[u][pass] / base_of(donor, u, pass)) -
                                       latency_predict(&there, features).mean);
            }
            out[u] += base_of(group, u, pass) * exp(mean);
        }
    }
}

/* ---- evaluation ---- */

struct errors {
    double sum, squares;
    size_t count;
};

/* Mean relative error of the units that were not known, of one group. */
static void compare(const struct group *group, const struct known *known, const double *predicted,
                    struct errors *errors)
{
    double sum = 0;
    size_t count = 0;
    for (size_t u = 0; u < group->model->model->unit_count; u++) {
        const double measured = group->seconds[u][UNIT_FORWARD] + group->seconds[u][UNIT_BACKWARD];
        if (!is_known(known, u) && measured > 0) {
            sum += fabs(predicted[u] - measured) / measured;
            count++;
        }
    }
    if (count > 0) {
        errors->sum += sum / (double)count;
        errors->squares += (sum / (double)count) * (sum / (double)count);
        errors->count++;
    }
}

/* The same units on the next device, in turns. */
static const struct group *donor_of(const struct table *table, const struct group *group)
{
    const struct group *donor = NULL;
    size_t least = SIZE_MAX;
    for (size_t i = 0; i < table->group_count; i++) {
        const struct group *other = &table->group[i];
        const size_t turn =
            (other->device + table->device_count - group->device) % table->device_count;
        if (other->model == group->model && other->micro_batch == group->micro_batch && turn > 0 &&
            turn < least) {
            donor = other;
            least = turn;
        }
    }
    return donor;
}

static void compare_all(const struct table *table, const struct group *group,
                        const struct known *known, const struct latency_prior *device_prior,
                        const struct latency_prior *model_prior, struct errors *errors)
{
    double predicted[MODEL_UNITS_MAX];
    predict_by_ratio(group, known, false, predicted);
    compare(group, known, predicted, &errors[SCALAR]);
    predict_by_ratio(group, known, true, predicted);
    compare(group, known, predicted, &errors[COST_MODEL]);
    const struct group *donor = donor_of(table, group);
    if (donor) {
        predict_by_profile(group, known, donor, predicted);
        compare(group, known, predicted, &errors[SCALED_PROFILE]);
    }
    predict_by_regression(group, known, device_prior, NULL, predicted);
    compare(group, known, predicted, &errors[REGRESSION]);
    predict_by_regression(group, known, device_prior, donor, predicted);
    compare(group, known, predicted, &errors[DONOR]);
    predict_by_regression(group, known, model_prior, NULL, predicted);
    compare(group, known, predicted, &errors[NEW_MODEL]);
}

static bool evaluate(struct table *table, const char *name)
{
    const struct zoo_model *model = model_of(table, name);
    static struct latency_prior of_device[DEVICES_MAX][UNIT_PASSES];
    struct latency_prior of_model[UNIT_PASSES];
    bool fitted = model != NULL;
    for (enum unit_pass pass = 0; fitted && pass < UNIT_PASSES; pass++) {
        fitted = fit(table, pass, model, table->device_count, &of_model[pass]);
        for (size_t d = 0; fitted && d < table->device_count; d++) {
            fitted = fit(table, pass, NULL, d, &of_device[d][pass]);
        }
    }
    for (size_t which = 0; fitted && which < FRACTIONS; which++) {
        const struct known known = known_of(which, model->model->unit_count);
        struct errors errors[PREDICTORS] = {{0}};
        for (size_t i = 0; i < table->group_count; i++) {
            const struct group *group = &table->group[i];
            if (group->model == model) {
                compare_all(table, group, &known, of_device[group->device], of_model, errors);
            }
        }
        for (size_t p = 0; p < PREDICTORS; p++) {
            if (errors[p].count == 0) {
                continue; /* there is one device only */
            }
            const double mean = errors[p].sum / (double)errors[p].count;
            const double variance = errors[p].squares / (double)errors[p].count - mean * mean;
            printf("%s %s %s %.4f %zu %.4f\n", name, known.name, predictor_names[p], mean,
                   errors[p].count, sqrt(fmax(variance, 0)));
        }
    }
    return fitted;
}

/* ---- the prior as C ---- */

static void print_numbers(const char *name, const double *value, size_t count)
{
    printf("        .%s = {", name);
    for (size_t i = 0; i < count; i++) {
        printf("%s%.6g", i % 8 ? ", " : i ? ",\n            " : "\n            ", value[i]);
    }
    printf("},\n");
}

static bool print_prior(const struct table *table)
{
    struct latency_prior prior[UNIT_PASSES];
    if (!fit(table, UNIT_FORWARD, NULL, table->device_count, &prior[UNIT_FORWARD]) ||
        !fit(table, UNIT_BACKWARD, NULL, table->device_count, &prior[UNIT_BACKWARD])) {
        return false;
    }
    printf(
        "/* Made by `bench/run.sh predictor --prior FILE`; docs/benchmarks.md says on what it was\n"
        " * fitted. */\n"
        "#include \"coordinator/plan/latency.h\"\n\n"
        "const struct latency_prior latency_priors[2] = {\n");
    for (size_t pass = 0; pass < UNIT_PASSES; pass++) {
        printf("    {\n");
        print_numbers("mean", prior[pass].mean, LATENCY_FEATURES);
        print_numbers("covariance", prior[pass].covariance, LATENCY_PACKED);
        printf("        .noise_sd = %.6g,\n    },\n", prior[pass].noise_sd);
    }
    printf("};\n");
    return true;
}

int main(int argc, char **argv)
{
    static struct table table;
    if (argc < 3 || (strcmp(argv[1], "prior") != 0 && strcmp(argv[1], "evaluate") != 0)) {
        fprintf(stderr, "usage: unit_fit prior FILE | evaluate FILE MODEL...\n");
        return 2;
    }
    int rc = read_table(argv[2], &table);
    if (rc == 0 && strcmp(argv[1], "prior") == 0) {
        rc = print_prior(&table) ? 0 : 1;
    }
    for (int i = 3; rc == 0 && i < argc; i++) {
        rc = evaluate(&table, argv[i]) ? 0 : 1;
    }
    if (rc) {
        fprintf(stderr, "unit_fit: the times give no prior\n");
    }
    return rc;
}
