#include "agent/offline/local_job.h"

#include <string.h>

#include "base/file.h"
#include "libtrain/formats/class_names.h"
#include "schema/job_check.h"
#include "schema/job_view.h"
#include "schema/wire.h"

static int read_spec(const char *path, struct job_spec *spec, struct err *err)
{
    BUF_AUTO struct buf text;
    buf_init(&text, JSON_BODY_MAX);
    struct record_faults faults = {0};
    *spec = job_spec_default;
    int rc = file_read(path, &text, err);
    rc = rc ? rc : wire_read(&job_spec_record, text.data, text.size, spec, &faults, err);
    if (rc == 0) {
        job_spec_complete(spec);
        rc = job_spec_check(spec, &faults, err);
    }
    return rc;
}

int local_job_read(const char *path, struct job_spec *spec, struct err *err)
{
    int rc = read_spec(path, spec, err);
    if (rc == 0 && strategy_has_parts(spec->strategy)) {
        rc = err_set(err, ERR_UNSUPPORTED,
                     "/strategy: '%s' needs a coordinator; the spec of one of its groups "
                     "(GET /v1/jobs/ID/groups/N/spec) can be trained here",
                     job_strategy_names[spec->strategy]);
    }
    return rc == 0 ? 0 : err_wrap(err, "job '%s'", path);
}

int local_job_read_gossip(const char *path, struct job_spec *spec, struct err *err)
{
    int rc = read_spec(path, spec, err);
    if (rc == 0 && spec->strategy != STRATEGY_GOSSIP) {
        rc = err_set(err, ERR_INVALID,
                     "/strategy: '%s' has no log of mixes: only jobs of strategy '%s' are replayed",
                     job_strategy_names[spec->strategy], job_strategy_names[STRATEGY_GOSSIP]);
    }
    return rc == 0 ? 0 : err_wrap(err, "job '%s'", path);
}

int local_job_dataset(const struct local_places *places, const char *name, struct data **out,
                      struct dataset_info *info, struct name_list *names, struct err *err)
{
    struct dataset_names found = {.classes_only = true};
    struct reading reading = reading_default;
    if (places->reading[0] != '\0' && reading_parse(places->reading, &reading, err)) {
        return err_wrap(err, "--as");
    }
    const struct local_form form = {.reading = &reading, .names = names ? &found : NULL};
    const size_t length = strlen(name);
    for (size_t i = 0; i < places->dataset.count; i++) {
        const char *item = places->dataset.item[i];
        if (strncmp(item, name, length) == 0 && item[length] == '=') {
            const char *paths = item + length + 1;
            int rc = local_data_open(&paths, 1, &form, out, info, err);
            if (names) {
                *names = found.class;
            }
            return rc == 0 ? 0 : err_wrap(err, "data set '%s'", name);
        }
    }
    return err_set(err, ERR_INVALID,
                   "the job uses the data set '%s': give its file by --dataset %s=PATH", name,
                   name);
}

/* An opened data set; borrowed. */
struct set {
    const char *name;
    const struct dataset_info *info;
    const struct name_list *class_names;
};

/* Compare the data sets. ERR_INVALID if the test set does not fit the training set. */
static int compare(const struct set *train, const struct set *test, struct err *err)
{
    const struct dataset_info *a = train->info, *b = test->info;
    if (b->h != a->h || b->w != a->w || b->c != a->c || b->dtype != a->dtype ||
        b->positions != a->positions) {
        return err_set(err, ERR_INVALID,
                       "the samples of data set '%s' and of '%s' differ in shape or type",
                       test->name, train->name);
    }
    if (a->reading[0] && b->reading[0] && strcmp(a->reading, b->reading) != 0) {
        return err_set(err, ERR_INVALID, "data set '%s' was read by %s, '%s' by %s", test->name,
                       b->reading, train->name, a->reading);
    }
    if (!class_names_agree(test->class_names, train->class_names)) {
        char difference[CLASS_NAMES_DIFFERENCE_MAX];
        class_names_difference(test->class_names, train->class_names, difference);
        return err_set(err, ERR_INVALID,
                       "data set '%s' numbers its classes otherwise than '%s' (%s)", test->name,
                       train->name, difference);
    }
    if (b->classes > a->classes) {
        return err_set(err, ERR_INVALID, "data set '%s' has labels up to %u, '%s' only up to %u",
                       test->name, b->classes - 1, train->name, a->classes - 1);
    }
    return 0;
}

static int count_held(const struct job_spec *spec, const struct data *train,
                      const struct dataset_info *info, struct job_data *out, struct err *err)
{
    int64_t count[HOLDOUT_CLASSES_MAX];
    const struct holdout holdout = job_holdout(spec);
    int rc = holdout_classes(&holdout, data_labels(train), info->count, count, err);
    if (rc == 0) {
        out->test_samples = (int64_t)holdout_count(&holdout, count, info->count);
        out->epoch_samples = out->train_samples - out->test_samples;
    }
    return rc;
}

int local_job_count(const struct job_spec *spec, const struct data *train,
                    const struct dataset_info *info, struct job_data *out, struct err *err)
{
    int64_t count[VIEW_CLASSES_MAX];
    struct view_sizes sizes;
    struct record_faults faults = {0};
    out->train_samples = (int64_t)info->count;
    if (spec->test_local.holdout > 0) {
        return count_held(spec, train, info, out, err);
    }
    if (!spec->has_view) {
        return 0;
    }
    view_count(data_labels(train), info->count, count);
    const struct job_view_data data = {.name = job_train_name(spec),
                                       .classes = info->classes,
                                       .positions = info->positions,
                                       .count = count,
                                       .counted = info->classes};
    int rc = job_view_check(spec, &data, &sizes, &faults, err);
    if (rc == 0) {
        out->epoch_samples = (int64_t)view_epoch(&sizes);
        out->holdout_samples = (int64_t)sizes.held;
    }
    return rc;
}

static int open_test(const struct local_places *places, const struct job_spec *spec,
                     struct local_job_data *out, struct err *err)
{
    if (strcmp(spec->dataset_test, job_train_name(spec)) == 0) {
        out->test = out->train;
        return 0;
    }
    struct dataset_info info;
    struct name_list names AUTO(name_list_done) = {0};
    int rc = local_job_dataset(places, spec->dataset_test, &out->test, &info, &names, err);
    const struct set train = {job_train_name(spec), &out->info, &out->class_names};
    const struct set test = {spec->dataset_test, &info, &names};
    return rc ? rc : compare(&train, &test, err);
}

/* A view with its own numbers has one output for each of its classes and one for all other
 * classes. */
static int take_view(const struct job_spec *spec, struct local_job_data *out, struct err *err)
{
    struct name_list all AUTO(name_list_done) = out->class_names;
    out->class_names = (struct name_list){0};
    out->fit.classes = (uint32_t)spec->view.class_count + 1;
    return all.count > 0 ? class_names_select(&all, spec->view.class, spec->view.class_count,
                                              &out->class_names, err)
                         : 0;
}

int local_job_data_open(const struct local_places *places, const struct job_spec *spec,
                        struct local_job_data *out, struct err *err)
{
    int rc = local_job_dataset(places, job_train_name(spec), &out->train, &out->info,
                               &out->class_names, err);
    if (rc == 0 && spec->dataset_test[0] != '\0') {
        rc = open_test(places, spec, out, err);
    }
    rc = rc ? rc : local_job_count(spec, out->train, &out->info, &out->counts, err);
    if (rc != 0) {
        return rc;
    }
    const struct dataset_info *info = &out->info;
    if (out->test) {
        out->counts.test_samples = (int64_t)data_info(out->test)->count;
    }
    out->fit = (struct model_fit){.input = {.h = info->h, .w = info->w, .c = info->c},
                                  .dtype = info->dtype,
                                  .classes = info->classes,
                                  .positions = info->positions};
    return job_view(spec) ? take_view(spec, out, err) : 0;
}

void local_job_data_done(struct local_job_data *data)
{
    name_list_done(&data->class_names);
    if (data->test != data->train) {
        data_close(&data->test);
    }
    data_close(&data->train);
    data->test = NULL;
}
