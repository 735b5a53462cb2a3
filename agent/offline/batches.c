#include "agent/offline/batches.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/offline/local_job.h"
#include "base/json_text.h"
#include "libtrain/train.h"
#include "schema/job_check.h"

struct options {
    struct local_places places;
};

static const struct conf_option option_table[] = {LOCAL_PLACES_OPTIONS(struct options, places)};

static const struct conf_program program = {
    .name = "paceline-agent batches",
    .summary = "Print the training samples of each step of a job, one line of JSON per step:\n"
               "{\"step\", \"samples\"}. Samples are counted from 0 in the order of the data set.",
    .usage = "JOB.json",
    .options = option_table,
    .option_count = sizeof(option_table) / sizeof(option_table[0]),
    .positional_min = 1,
    .positional_max = 1,
};

static int print_steps(struct train_sampler *sampler, const struct job_spec *spec, int64_t steps,
                       struct err *err)
{
    struct json_text text = {.put = json_text_to_file, .to = stdout};
    for (int64_t step = 1; step <= steps && !ferror(stdout); step++) {
        const uint32_t *sample = train_sampler_batch(sampler, step);
        json_text_object(&text, NULL);
        json_text_integer(&text, "step", step);
        json_text_list(&text, "samples");
        for (int64_t i = 0; i < spec->batch; i++) {
            json_text_integer(&text, NULL, sample[i]);
        }
        json_text_end(&text);
        json_text_end(&text);
        (void)putchar('\n');
    }
    if (fflush(stdout) != 0 || ferror(stdout)) {
        return err_set(err, err_from_errno(errno), "write the batches: %s", strerror(errno));
    }
    return 0;
}

static int print_batches(const struct local_places *places, const struct job_spec *spec,
                         struct err *err)
{
    struct data *data AUTO(data_close) = NULL;
    struct dataset_info info;
    int rc = local_job_dataset(places, spec->dataset_train, &data, &info, NULL, err);
    if (rc != 0) {
        return rc;
    }
    struct train_sampler *sampler AUTO(train_sampler_free) = NULL;
    rc = train_sampler_new(info.count, (size_t)spec->batch, (uint64_t)spec->seed, &sampler, err);
    return rc ? rc : print_steps(sampler, spec, job_total_steps(spec, (int64_t)info.count), err);
}

int batches_command(int argc, char **argv, bool *misused, struct err *err)
{
    struct options options = {0};
    struct job_spec spec = {0};
    struct conf_list positional = {0};
    bool done = false;
    int rc = conf_parse(&program, argc, argv, &options, &positional, &done, err);
    *misused = rc != 0;
    if (rc == 0 && !done) {
        rc = local_job_read(positional.item[0], &spec, err);
        rc = rc ? rc : print_batches(&options.places, &spec, err);
        record_done(&job_spec_record, &spec);
    }
    conf_list_done(&options.places.dataset);
    conf_list_done(&positional);
    return rc;
}
