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
    .summary =
        "Print the training samples of each step of a job, one line of JSON per step:\n"
        "{\"step\", \"samples\"}. Samples are counted from 0 in the order of the data set. With\n"
        "a view, \"labels\" has the label of each.",
    .usage = "JOB.json",
    .options = option_table,
    .option_count = sizeof(option_table) / sizeof(option_table[0]),
    .positional_min = 1,
    .positional_max = 1,
};

/* A job's training data and its order. */
struct order {
    const struct job_spec *spec;
    struct data *data;
    struct job_data counts;
    struct train_sampler *sampler;
    struct view_labels labels; /* for a view */
};

static int32_t label_of(const struct order *order, uint32_t sample)
{
    int32_t class;
    memcpy(&class, data_labels(order->data) + sample * sizeof(class), sizeof(class));
    return view_label(&order->labels, class);
}

static void print_step(struct order *order, int64_t step, struct json_text *text)
{
    const uint32_t *sample = train_sampler_batch(order->sampler, step);
    json_text_object(text, NULL);
    json_text_integer(text, "step", step);
    json_text_list(text, "samples");
    for (int64_t i = 0; i < order->spec->batch; i++) {
        json_text_integer(text, NULL, sample[i]);
    }
    json_text_end(text);
    if (order->spec->has_view) {
        json_text_list(text, "labels");
        for (int64_t i = 0; i < order->spec->batch; i++) {
            json_text_integer(text, NULL, label_of(order, sample[i]));
        }
        json_text_end(text);
    }
    json_text_end(text);
    (void)putchar('\n');
}

static int print_steps(struct order *order, struct err *err)
{
    struct json_text text = {.put = json_text_to_file, .to = stdout};
    const int64_t steps = job_total_steps(order->spec, job_epoch_samples(&order->counts));
    for (int64_t step = 1; step <= steps && !ferror(stdout); step++) {
        print_step(order, step, &text);
    }
    if (fflush(stdout) != 0 || ferror(stdout)) {
        return err_set(err, err_from_errno(errno), "write the batches: %s", strerror(errno));
    }
    return 0;
}

static int make_sampler(struct order *order, const struct dataset_info *info, struct err *err)
{
    const struct job_spec *spec = order->spec;
    const size_t batch = (size_t)spec->batch;
    const uint64_t seed = (uint64_t)spec->seed;
    if (spec->test_local.holdout > 0) {
        const struct holdout holdout = job_holdout(spec);
        return train_sampler_new_without(&holdout, data_labels(order->data), info->count, batch,
                                         seed, &order->sampler, err);
    }
    if (!spec->has_view) {
        return train_sampler_new(info->count, batch, seed, &order->sampler, err);
    }
    view_labels(&spec->view, &order->labels);
    return train_sampler_new_view(&spec->view, data_labels(order->data), info->count, batch, seed,
                                  &order->sampler, err);
}

static int print_batches(const struct local_places *places, const struct job_spec *spec,
                         struct err *err)
{
    struct order order = {.spec = spec};
    struct dataset_info info;
    int rc = local_job_dataset(places, job_train_name(spec), &order.data, &info, NULL, err);
    rc = rc ? rc : local_job_count(spec, order.data, &info, &order.counts, err);
    rc = rc ? rc : make_sampler(&order, &info, err);
    rc = rc ? rc : print_steps(&order, err);
    train_sampler_free(&order.sampler);
    data_close(&order.data);
    return rc;
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
