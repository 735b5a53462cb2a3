#include "agent/offline/local_job.h"

#include <string.h>

#include "base/file.h"
#include "libtrain/formats/class_names.h"
#include "schema/job_check.h"
#include "schema/wire.h"

int local_job_read(const char *path, struct job_spec *spec, struct err *err)
{
    BUF_AUTO struct buf text;
    buf_init(&text, JSON_BODY_MAX);
    struct record_faults faults = {0};
    int rc = file_read(path, &text, err);
    if (rc != 0) {
        return rc;
    }
    *spec = job_spec_default;
    rc = wire_read(&job_spec_record, text.data, text.size, spec, &faults, err);
    if (rc == 0) {
        job_spec_complete(spec);
        rc = job_spec_check(spec, &faults, err);
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

int local_job_compare(const struct local_job_set *train, const struct local_job_set *test,
                      struct err *err)
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
