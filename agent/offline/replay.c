#include "agent/offline/replay.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/offline/local_job.h"
#include "agent/offline/local_model.h"
#include "agent/offline/model_file.h"
#include "agent/offline/replay_data.h"
#include "agent/offline/replay_file.h"
#include "agent/offline/replay_plan.h"
#include "agent/offline/replay_run.h"
#include "base/clock.h"
#include "base/conf.h"

#define PROGRESS_SECONDS 1.0
#define MIB 1048576.0

struct options {
    struct local_places places;
    struct conf_list local;
    char mixes[4096];
    char groups[4096];
    char checkpoint[4096];
    char averages[4096];
    char output[4096];
    int64_t threads;
};

static const struct conf_option option_table[] = {
    LOCAL_PLACES_OPTIONS(struct options, places),
    {.name = "local",
     .type = CONF_LIST,
     .offset = offsetof(struct options, local),
     .value_name = "GROUP=PATH[,PATH]",
     .help = "Of a job whose data stayed on its devices: the data that a group trained on, by its "
             "number or its device; more may have been appended. Repeatable, one for each group."},
    {.name = "mixes",
     .type = CONF_TEXT,
     .offset = offsetof(struct options, mixes),
     .size = sizeof(((struct options *)0)->mixes),
     .value_name = "FILE",
     .help = "The log of the job's mixes, as answered by GET /v1/jobs/{id}/mixes; of several pages "
             "an array of the answers. Required."},
    {.name = "groups",
     .type = CONF_TEXT,
     .offset = offsetof(struct options, groups),
     .size = sizeof(((struct options *)0)->groups),
     .value_name = "FILE",
     .help = "An array of the specs of the job's groups, in order, as answered by GET "
             "/v1/jobs/{id}/groups/{n}/spec. Required."},
    LOCAL_CHECKPOINT_OPTION(struct options, checkpoint),
    {.name = "averages",
     .type = CONF_TEXT,
     .offset = offsetof(struct options, averages),
     .size = sizeof(((struct options *)0)->averages),
     .value_name = "DIR",
     .help = "Repeat all averages of the log, and write each to a file in this directory. Default: "
             "only the last one."},
    LOCAL_OUTPUT_OPTION(struct options, output),
    LOCAL_THREADS_OPTION(struct options, threads),
};

static const struct conf_program program = {
    .name = "paceline-agent replay",
    .summary = "Repeat a job of strategy gossip in this process, from the log of its mixes. The\n"
               "file is that of the job's checkpoint, byte for byte.",
    .usage = "JOB.json",
    .options = option_table,
    .option_count = sizeof(option_table) / sizeof(option_table[0]),
    .positional_min = 1,
    .positional_max = 1,
};

struct replay {
    struct options options;
    struct job_spec spec;
    struct job_spec *group; /* [groups] */
    size_t groups;
    struct mix_record *record; /* [records] */
    size_t records;
    struct replay_data data;
    struct local_model model;
    struct replay_plan *plan;
    struct replay_run *run;
    double began_seconds, printed_seconds;
    char sha256[HASH_TEXT_SIZE]; /* of the last average */
};

/* ---- what the run tells ---- */

static void print_progress(void *arg, int64_t steps)
{
    struct replay *replay = arg;
    const double now = clock_now_seconds();
    if (now - replay->printed_seconds < PROGRESS_SECONDS && steps < replay->plan->steps) {
        return;
    }
    replay->printed_seconds = now;
    (void)fprintf(stderr, "step %" PRId64 "/%" PRId64 " %.0f samples/s\n", steps,
                  replay->plan->steps,
                  (double)(steps * replay->spec.batch) / (now - replay->began_seconds));
}

static int write_average(void *arg, const struct mix_record *record,
                         const struct model_source *source, struct err *err)
{
    struct replay *replay = arg;
    const struct options *options = &replay->options;
    const struct evaluation evaluation = {.micro_batch =
                                              replay->spec.batch / replay->spec.micro_batches};
    char path[sizeof(options->averages) + 128], sha256[HASH_TEXT_SIZE];
    int rc = 0;
    if (options->averages[0] != '\0') {
        (void)snprintf(path, sizeof(path),
                       "%s/average_%" PRId64 "_%" PRId64 "_group_%" PRId64 "_%" PRId64
                       ".safetensors",
                       options->averages, record->xid.life, record->xid.counter, record->own.group,
                       record->own.generation);
        rc = model_file_write(path, replay->model.model, source, &evaluation, sha256, err);
        if (rc == 0) {
            (void)printf("average %" PRId64 ":%" PRId64 " sha256 %s\n", record->xid.life,
                         record->xid.counter, sha256);
        }
    }
    return rc == 0 && record == replay->plan->last
               ? model_file_write(options->output, replay->model.model, source, &evaluation,
                                  replay->sha256, err)
               : rc;
}

/* ---- the command ---- */

static int read_files(struct replay *replay, struct err *err)
{
    const struct options *options = &replay->options;
    struct job_spec *spec = &replay->spec;
    int rc = replay_file_groups(options->groups, spec, &replay->group, &replay->groups, err);
    rc = rc ? rc : replay_file_mixes(options->mixes, &replay->record, &replay->records, err);
    if (rc != 0) {
        return rc;
    }
    const struct replay_log log = {.record = replay->record,
                                   .count = replay->records,
                                   .groups = replay->groups,
                                   .all_averages = options->averages[0] != '\0'};
    rc = replay_plan_new(&log, &replay->plan, err);
    if (rc != 0) {
        return err_wrap(err, "--mixes '%s'", options->mixes);
    }
    spec->dataset_test[0] = '\0'; /* a replay does not evaluate */
    const struct replay_of of = {.group = replay->group,
                                 .groups = replay->groups,
                                 .record = replay->record,
                                 .records = replay->records};
    rc = replay_data_open(&options->places, &options->local, &of, spec, &replay->data, err);
    return rc ? rc
              : local_model_open(spec, &replay->data.job, options->checkpoint,
                                 (size_t)options->threads, &replay->model, err);
}

static int run(struct replay *replay, struct err *err)
{
    int rc = model_file_check_output(replay->options.output, err);
    rc = rc ? rc : read_files(replay, err);
    if (rc != 0) {
        return rc;
    }
    const struct replay_run_config config = {.plan = replay->plan,
                                             .spec = &replay->spec,
                                             .group = replay->group,
                                             .groups = replay->groups,
                                             .data = &replay->data,
                                             .model = &replay->model,
                                             .threads = (size_t)replay->options.threads,
                                             .stepped = print_progress,
                                             .averaged = write_average,
                                             .arg = replay};
    rc = replay_run_new(&config, &replay->run, err);
    if (rc != 0) {
        return rc;
    }
    (void)fprintf(stderr,
                  "%" PRId64 " steps of %zu groups, at most %zu states and %zu copies at a time: "
                  "needs about %.1f MiB\n",
                  replay->plan->steps, replay->groups, replay->plan->states, replay->plan->copies,
                  (double)replay_run_bytes(replay->run) / MIB);
    replay->began_seconds = replay->printed_seconds = clock_now_seconds();
    rc = replay_run_all(replay->run, err);
    if (rc != 0) {
        return rc;
    }
    (void)printf("sha256 %s\n", replay->sha256);
    return fflush(stdout) == 0
               ? 0
               : err_set(err, err_from_errno(errno), "write the result: %s", strerror(errno));
}

static void release(struct replay *replay)
{
    replay_run_free(&replay->run);
    replay_plan_free(&replay->plan);
    local_model_close(&replay->model);
    replay_data_done(&replay->data);
    free(replay->record);
    replay_file_groups_done(&replay->group, replay->groups);
    record_done(&job_spec_record, &replay->spec);
    conf_list_done(&replay->options.places.dataset);
    conf_list_done(&replay->options.local);
}

static int check_options(const struct options *options, struct err *err)
{
    const char *missing = options->mixes[0] == '\0'    ? "--mixes"
                          : options->groups[0] == '\0' ? "--groups"
                          : options->output[0] == '\0' ? "--output"
                                                       : NULL;
    return missing ? err_set(err, ERR_INVALID, "%s FILE is required", missing) : 0;
}

int replay_command(int argc, char **argv, bool *misused, struct err *err)
{
    struct replay replay = {.options = {.threads = 1}, .model = {.fd = -1}};
    struct conf_list positional = {0};
    bool done = false;
    int rc = conf_parse(&program, argc, argv, &replay.options, &positional, &done, err);
    if (rc == 0 && !done) {
        rc = check_options(&replay.options, err);
    }
    *misused = rc != 0;
    if (rc == 0 && !done) {
        rc = local_job_read_gossip(positional.item[0], &replay.spec, err);
        rc = rc ? rc : run(&replay, err);
    }
    release(&replay);
    conf_list_done(&positional);
    return rc;
}
