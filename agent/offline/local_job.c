#include "agent/offline/local_job.h"

#include <string.h>

#include "base/file.h"
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
