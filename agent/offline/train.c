#include "agent/offline/train.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/offline/local_job.h"
#include "agent/offline/local_model.h"
#include "agent/offline/model_file.h"
#include "agent/offline/plan_file.h"
#include "agent/offline/staged.h"
#include "agent/runtime/data.h"
#include "agent/pipeline/stage.h"
#include "agent/pipeline/stage_loop.h"
#include "base/clock.h"
#include "base/conf.h"
#include "base/json_text.h"
#include "libtrain/schedule/schedule.h"
#include "schema/job.h"
#include "schema/job_check.h"

#define PROGRESS_SECONDS 1.0

struct options {
    struct local_places places;
    char checkpoint[4096];
    char output[4096];
    char metrics[4096];
    char plans[4096];
    int64_t threads;
};

static const struct conf_option option_table[] = {
    LOCAL_PLACES_OPTIONS(struct options, places),
    LOCAL_CHECKPOINT_OPTION(struct options, checkpoint),
    LOCAL_OUTPUT_OPTION(struct options, output),
    {.name = "metrics",
     .type = CONF_TEXT,
     .offset = offsetof(struct options, metrics),
     .size = sizeof(((struct options *)0)->metrics),
     .value_name = "FILE",
     .help = "File for all metrics, one line of JSON each. Default: none."},
    {.name = "plans",
     .type = CONF_TEXT,
     .offset = offsetof(struct options, plans),
     .size = sizeof(((struct options *)0)->plans),
     .value_name = "FILE",
     .help = "The job's plans, as answered by GET /v1/jobs/{id}/plans: an asynchronous job is "
             "trained in their stages. Default: one stage."},
    LOCAL_THREADS_OPTION(struct options, threads),
};

static const struct conf_program program = {
    .name = "paceline-agent train",
    .summary = "Train a job in this process, without a coordinator.",
    .usage = "JOB.json",
    .options = option_table,
    .option_count = sizeof(option_table) / sizeof(option_table[0]),
    .positional_min = 1,
    .positional_max = 1,
};

/* One training run and its output so far. */
struct training {
    struct options options;
    struct job_spec spec;
    struct local_job_data data;
    struct local_model model;
    struct plan_file plans; /* of --plans */
    struct stage *stage;    /* either one stage, or the stages of the plans */
    struct staged *staged;
    FILE *metrics;
    int64_t total_steps;
    double began_seconds, printed_seconds, step_seconds_sum;
    int64_t steps_done;
    double loss, accuracy, recall;
    bool has_accuracy, has_recall;
};

/* ---- progress ---- */

static void print_progress(struct training *training)
{
    const double now = clock_now_seconds();
    if (now - training->printed_seconds < PROGRESS_SECONDS &&
        training->steps_done < training->total_steps) {
        return;
    }
    training->printed_seconds = now;
    const double samples = (double)training->steps_done * (double)training->spec.batch;
    (void)fprintf(stderr, "step %" PRId64 "/%" PRId64 " loss %.4f %.0f samples/s\n",
                  training->steps_done, training->total_steps, training->loss,
                  samples / (now - training->began_seconds));
}

/* Take a metric from the stage's listener. Here the compute thread is the only thread. */
static void take_metric(void *arg, const struct metric *metric)
{
    struct training *training = arg;
    if (training->metrics) {
        struct json_text text = {.put = json_text_to_file, .to = training->metrics};
        json_text_object(&text, NULL);
        json_text_integer(&text, "step", metric->step);
        json_text_string(&text, "name", metric_name_names[metric->name]);
        json_text_number(&text, "value", metric->value);
        json_text_end(&text);
        (void)fputc('\n', training->metrics);
    }
    if (metric->name == METRIC_LOSS) {
        training->loss = metric->value;
    } else if (metric->name == METRIC_STEP_SECONDS) {
        training->step_seconds_sum += metric->value;
        training->steps_done++;
        print_progress(training);
    } else if (metric->name == METRIC_TEST_ACCURACY) {
        training->accuracy = metric->value;
        training->has_accuracy = true;
        (void)fprintf(stderr, "step %" PRId64 " accuracy %.4f\n", metric->step, metric->value);
    } else if (metric->name == METRIC_RECALL) {
        training->recall = metric->value;
        training->has_recall = true;
        (void)fprintf(stderr, "step %" PRId64 " recall %.4f\n", metric->step, metric->value);
    }
}

/* ---- the run ---- */

static struct work_data data_of(const struct training *training)
{
    const struct data *train = training->data.train, *test = training->data.test;
    struct work_data data = {.train_inputs = data_inputs(train),
                             .train_labels = data_labels(train)};
    if (test) {
        data.test_inputs = data_inputs(test);
        data.test_labels = data_labels(test);
    }
    return data;
}

static int read_plans(struct training *training, struct err *err)
{
    training->total_steps =
        job_total_steps(&training->spec, job_epoch_samples(&training->data.counts));
    return training->options.plans[0] == '\0'
               ? 0
               : plan_file_read(training->options.plans, &training->spec, training->model.model,
                                training->total_steps, &training->plans, err);
}

static int make_stage(struct training *training, struct err *err)
{
    const struct stage_config config = {
        .generation = 1,
        .count = 1,
        .end = training->model.model->unit_count,
        .in_flight = schedule_in_flight(0, 1, (size_t)training->spec.micro_batches),
        .total_steps = training->total_steps,
        .spec = &training->spec,
        .samples = training->data.counts,
        .data = data_of(training),
        .threads = (size_t)training->options.threads,
        .slowdown = 1,
        .room_fd = -1,
    };
    /* The stage takes its model, but the export still needs one. */
    struct model *model = NULL;
    int rc = local_model_copy(training->model.model, &model, err);
    rc = rc ? rc : stage_new(&config, &model, &training->stage, err);
    for (size_t unit = 0; rc == 0 && unit < training->model.model->unit_count; unit++) {
        rc = job_from_checkpoint(&training->spec, training->model.model->unit[unit].name)
                 ? keeper_start_unit(stage_keeper(training->stage), unit,
                                     training->model.checkpoint, err)
                 : keeper_load_unit(stage_keeper(training->stage), unit, NULL, 0, err);
    }
    return rc;
}

static int train_one_stage(struct training *training, const struct work_listener *listener,
                           struct err *err)
{
    int64_t version = 0;
    int rc = make_stage(training, err);
    if (rc == 0) {
        stage_follow(training->stage, &(struct orders){.run = true});
        rc = stage_loop(training->stage, listener, &version, err);
    }
    return rc;
}

static int train_plans(struct training *training, const struct work_listener *listener,
                       struct err *err)
{
    const struct staged_config config = {.model = training->model.model,
                                         .spec = &training->spec,
                                         .samples = training->data.counts,
                                         .data = data_of(training),
                                         .threads = (size_t)training->options.threads,
                                         .total_steps = training->total_steps,
                                         .checkpoint = training->model.checkpoint,
                                         .listener = listener};
    int rc = staged_new(&config, &training->staged, err);
    return rc ? rc : staged_run(training->staged, &training->plans, err);
}

static int export_unit(void *of, size_t unit, train_write_fn write, void *arg, struct err *err)
{
    const struct training *training = of;
    return training->staged
               ? staged_export_unit(training->staged, unit, write, arg, err)
               : keeper_export_unit(stage_keeper(training->stage), unit, write, arg, err);
}

static int open_metrics(struct training *training, struct err *err)
{
    const char *path = training->options.metrics;
    if (path[0] == '\0') {
        return 0;
    }
    training->metrics = fopen(path, "we");
    return training->metrics
               ? 0
               : err_set(err, err_from_errno(errno), "open '%s': %s", path, strerror(errno));
}

static int close_metrics(struct training *training, struct err *err)
{
    FILE *file = training->metrics;
    training->metrics = NULL;
    if (!file) {
        return 0;
    }
    const bool failed = ferror(file) != 0;
    if (fclose(file) != 0 || failed) {
        return err_set(err, ERR_IO, "write '%s' failed; the model was written",
                       training->options.metrics);
    }
    return 0;
}

static int run(struct training *training, struct err *err)
{
    char sha256[HASH_TEXT_SIZE];
    int rc = model_file_check_output(training->options.output, err);
    rc = rc ? rc
            : local_job_data_open(&training->options.places, &training->spec, &training->data, err);
    rc = rc ? rc
            : local_model_open(&training->spec, &training->data, training->options.checkpoint,
                               (size_t)training->options.threads, &training->model, err);
    rc = rc ? rc : read_plans(training, err);
    rc = rc ? rc : open_metrics(training, err);
    if (rc != 0) {
        return rc;
    }
    training->began_seconds = training->printed_seconds = clock_now_seconds();
    const struct work_listener listener = {.metric = take_metric, .arg = training};
    /* Synchronous stages give the same bits as one stage, so only asynchronous jobs need the
     * plans. */
    const bool staged = training->plans.count > 0 && training->spec.pipeline == JOB_ASYNC;
    const struct model_source source = {.export_unit = export_unit, .of = training};
    struct evaluation evaluation = {.micro_batch =
                                        training->spec.batch / training->spec.micro_batches};
    if (job_view(&training->spec)) {
        evaluation.view = training->spec.view;
    }
    rc = staged ? train_plans(training, &listener, err) : train_one_stage(training, &listener, err);
    rc = rc ? rc
            : model_file_write(training->options.output, training->model.model, &source,
                               &evaluation, sha256, err);
    if (rc != 0) {
        return rc;
    }
    if (training->has_accuracy) {
        (void)printf("accuracy %.4f\n", training->accuracy);
    }
    if (training->has_recall) {
        (void)printf("recall %.4f\n", training->recall);
    }
    (void)printf(
        "seconds_per_step %.6f\nsha256 %s\n",
        training->steps_done > 0 ? training->step_seconds_sum / (double)training->steps_done : 0,
        sha256);
    if (fflush(stdout) != 0) {
        return err_set(err, err_from_errno(errno), "write the result: %s", strerror(errno));
    }
    /* Write the metrics last, so that a failure does not lose the model. */
    return close_metrics(training, err);
}

static void release(struct training *training)
{
    stage_release(&training->stage);
    staged_free(&training->staged);
    plan_file_done(&training->plans);
    local_model_close(&training->model);
    local_job_data_done(&training->data);
    record_done(&job_spec_record, &training->spec);
    conf_list_done(&training->options.places.dataset);
    if (training->metrics) {
        (void)fclose(training->metrics);
    }
}

int train_command(int argc, char **argv, bool *misused, struct err *err)
{
    struct training training = {.options = {.threads = 1}, .model = {.fd = -1}};
    struct conf_list positional = {0};
    bool done = false;
    int rc = conf_parse(&program, argc, argv, &training.options, &positional, &done, err);
    if (rc == 0 && !done && training.options.output[0] == '\0') {
        rc = err_set(err, ERR_INVALID, "--output FILE is required");
    }
    *misused = rc != 0;
    if (rc == 0 && !done) {
        rc = local_job_read(positional.item[0], &training.spec, err);
        rc = rc ? rc : run(&training, err);
    }
    release(&training);
    conf_list_done(&positional);
    return rc;
}
