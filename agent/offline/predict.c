#include "agent/offline/predict.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/offline/continuation.h"
#include "agent/runtime/local_data.h"
#include "agent/offline/model_file.h"
#include "agent/offline/predict_classes.h"
#include "agent/offline/predict_report.h"
#include "base/conf.h"
#include "libtrain/memory/arena.h"
#include "libtrain/train.h"
#include "schema/limits.h"

#define TOP_DEFAULT 3
#define GENERATE_MAX 1000000

struct options {
    char model[4096];
    int64_t top, limit, micro_batch, threads, generate;
    char as[512];
    bool json;
};

#define OPTION(kind, field) .type = (kind), .offset = offsetof(struct options, field)

static const struct conf_option option_table[] = {
    {.name = "top",
     OPTION(CONF_INT, top),
     .min = 0,
     .max = REPORT_TOP_MAX,
     .value_name = "K",
     .help = "Print the K most probable classes of each sample; 0: only the summary. Default: 3."},
    {.name = "limit",
     OPTION(CONF_INT, limit),
     .min = 1,
     .max = DATASET_SAMPLES_MAX,
     .value_name = "N",
     .help = "Read only the first N samples. Default: all."},
    {.name = "json",
     OPTION(CONF_FLAG, json),
     .help = "Print one JSON object per line. Default: text."},
    {.name = "as",
     OPTION(CONF_TEXT, as),
     .size = sizeof(((struct options *)0)->as),
     .value_name = "NAME=VALUE[,...]",
     .help = "How to read DATA, as parameters of an upload, such as text=64. Default: recognised "
             "by content."},
    {.name = "generate",
     OPTION(CONF_INT, generate),
     .min = 1,
     .max = GENERATE_MAX,
     .value_name = "N",
     .help = "Continue a plain text by N bytes (greedy decoding). Default: off."},
    {.name = "model",
     OPTION(CONF_TEXT, model),
     .size = sizeof(((struct options *)0)->model),
     .value_name = "NAME|FILE",
     .help = "Description of the model, if its file has none: a name of the zoo or a JSON file. "
             "Default: none."},
    {.name = "micro-batch",
     OPTION(CONF_INT, micro_batch),
     .min = 1,
     .max = ARENA_MICRO_BATCH_MAX,
     .value_name = "N",
     .help = "Samples per evaluation call. Default: that of the model's training."},
    {.name = "threads",
     OPTION(CONF_INT, threads),
     .min = 1,
     .max = MEMORY_THREADS_MAX,
     .value_name = "N",
     .help = "Compute threads; results do not depend on it. Default: 1."},
};

static const struct conf_program program = {
    .name = "paceline-agent predict",
    .summary =
        "Print the predictions of a trained model and, for labelled samples, its accuracy.\n"
        "MODEL is the file of a trained model. DATA is a file of any format of a data set, or\n"
        "IMAGES,LABELS, or images without labels. Images (JPEG, PNG) may be a tar or separate "
        "files.",
    .usage = "MODEL DATA[,LABELS]",
    .other_usage = "MODEL IMAGE...",
    .options = option_table,
    .option_count = sizeof(option_table) / sizeof(option_table[0]),
    .positional_min = 2,
    .positional_max = 1 + LOCAL_DATA_FILES_MAX,
};

_Static_assert(1 + LOCAL_DATA_FILES_MAX == CONF_LIST_MAX, "all words fit, and one more does not");

struct prediction {
    struct options options;
    struct reading reading;
    struct model_file file;
    struct data *data;
    struct dataset_info info;
    struct dataset_names names;
    struct predict_classes classes;
    unsigned char *prompt; /* with --generate, instead of data */
    size_t prompt_size;
    struct train_pool *pool;
    struct train_stage *stage;
    struct report *report;
    size_t micro_batch, sample_bytes,
        row_count;        /* rows of scores of one sample, each with a label */
    unsigned char *input; /* [micro_batch] samples */
    int32_t *labels;      /* [micro_batch][row_count] */
    float *scores;        /* [micro_batch][row_count][classes] */
};

/* ---- the model ---- */

static int make_stage(struct prediction *prediction, struct err *err)
{
    const struct train_stage_config config = {.model = prediction->file.model,
                                              .end = prediction->file.model->unit_count,
                                              .micro_batch = prediction->micro_batch,
                                              .micro_batches = 1,
                                              .optimizer = {.type = OPTIMIZER_SGD},
                                              .pool = prediction->pool};
    int rc = trained_check(prediction->file.trained, prediction->file.model, err);
    rc = rc ? rc : train_stage_new(&config, &prediction->stage, err);
    rc = rc ? rc : model_file_load(&prediction->file, prediction->stage, err);
    return rc == 0 ? 0 : err_wrap(err, "model");
}

/* ---- the data ---- */

/* Read sounds as the training data was read; --as must agree. */
static int follow_reading(struct prediction *prediction, const struct model *model, struct err *err)
{
    struct reading trained;
    if (prediction->reading.kind != READING_SOUND || model->input_reading[0] == '\0') {
        return 0;
    }
    int rc = reading_parse_written(model->input_reading, &trained, err);
    rc = rc ? rc : reading_follow(&prediction->reading, &trained, err);
    return rc == 0 ? 0
                   : err_wrap(err, "--as: the training data of the model '%s' was read otherwise",
                              model->name);
}

/* Read data without --as that is not recognised as the training data was read. */
static int open_as_trained(struct prediction *prediction, const char *const *paths, size_t count,
                           struct err *err)
{
    const struct model *model = prediction->file.model;
    const struct local_form form = {
        .reading = &prediction->reading, .unlabelled = true, .names = &prediction->names};
    int rc = local_data_open(paths, count, &form, &prediction->data, &prediction->info, err);
    if (rc != ERR_FORMAT || !model || !model->input_reading[0] ||
        prediction->reading.kind != READING_RECOGNISED) {
        return rc;
    }
    dataset_names_done(&prediction->names);
    rc = reading_parse_written(model->input_reading, &prediction->reading, err);
    rc = rc ? rc : local_data_open(paths, count, &form, &prediction->data, &prediction->info, err);
    return rc == 0 ? 0 : err_wrap(err, "read as --as %s", model->input_reading);
}

static int open_data(struct prediction *prediction, const char *const *paths, size_t count,
                     struct err *err)
{
    const struct model *model = prediction->file.model;
    int rc = model ? follow_reading(prediction, model, err) : 0;
    if (rc) {
        return rc;
    }
    if (model && model->positions == 1 && model->input_dtype == DTYPE_U8) {
        reading_fill_images(&prediction->reading, model->input.h, model->input.w, model->input.c);
    }
    rc = open_as_trained(prediction, paths, count, err);
    if (rc != 0 && model && model->positions > 1 &&
        prediction->reading.kind == READING_RECOGNISED) {
        return err_wrap(err, "data '%s' (plain text needs --as text=%u)", paths[0],
                        model->positions);
    }
    return rc == 0      ? 0
           : count == 1 ? err_wrap(err, "data '%s'", paths[0])
                        : err_wrap(err, "data '%s' and %zu more", paths[0], count - 1);
}

/* Read only the last sample of a text; it needs no label. */
static int open_prompt(struct prediction *prediction, const char *path, struct err *err)
{
    const uint32_t length = (uint32_t)prediction->reading.text;
    prediction->prompt = malloc(length);
    if (!prediction->prompt) {
        return err_set(err, ERR_MEMORY, "no memory for a prompt of %u bytes", length);
    }
    prediction->info = (struct dataset_info){.count = 1,
                                             .h = length,
                                             .w = 1,
                                             .c = 1,
                                             .dtype = DTYPE_U8,
                                             .classes = UINT8_MAX + 1,
                                             .positions = length};
    int rc = local_data_text_end(path, prediction->prompt, length, &prediction->prompt_size, err);
    return rc == 0 ? 0 : err_wrap(err, "data '%s'", path);
}

static const char *dtype_word(enum dtype dtype)
{
    return dtype == DTYPE_U8 ? "uint8" : "float32";
}

/* Find the --as that this data needs, or "". */
static void find_remedy(const struct prediction *prediction, char *out, size_t size)
{
    const struct model *model = prediction->file.model;
    const struct shape *input = &model->input;
    const bool bytes = model->input_dtype == DTYPE_U8;
    const enum reading_kind kind = prediction->reading.kind;
    *out = '\0';
    if (kind == READING_TEXT && bytes && model->positions > 1) {
        (void)snprintf(out, size, "; it needs --as text=%u", model->positions);
    } else if (kind == READING_IMAGES && bytes && (input->c == 1 || input->c == 3)) {
        (void)snprintf(out, size, "; it needs --as size=%ux%u,channels=%u", input->h, input->w,
                       input->c);
    }
}

static int check_data(const struct prediction *prediction, struct err *err)
{
    const struct dataset_info *info = &prediction->info;
    const struct model *model = prediction->file.model;
    const struct shape shape = {info->h, info->w, info->c};
    if (!shape_equal(shape, model->input) || info->dtype != model->input_dtype) {
        char remedy[96];
        find_remedy(prediction, remedy, sizeof(remedy));
        return err_set(
            err, ERR_INVALID,
            "the data's samples are %u x %u x %u %s, the model '%s' expects %u x %u x %u %s%s",
            shape.h, shape.w, shape.c, dtype_word(info->dtype), model->name, model->input.h,
            model->input.w, model->input.c, dtype_word(model->input_dtype), remedy);
    }
    if (info->classes > 0 && info->positions != model->positions) {
        return err_set(err, ERR_INVALID,
                       "the data has %u labels per sample, the model '%s' predicts %u",
                       info->positions, model->name, model->positions);
    }
    if (info->reading[0] && model->input_reading[0] &&
        strcmp(info->reading, model->input_reading) != 0) {
        return err_set(err, ERR_INVALID,
                       "the data was read by %s, the training data of the model '%s' by %s",
                       info->reading, model->name, model->input_reading);
    }
    return 0;
}

/* ---- the run ---- */

static int make_buffers(struct prediction *prediction, struct err *err)
{
    const struct model *model = prediction->file.model;
    const int64_t wanted = prediction->options.micro_batch;
    const struct name_list *names = &prediction->classes.names;
    const bool named = names->count > 0;
    prediction->micro_batch =
        (size_t)(wanted > 0 ? wanted : prediction->file.trained->evaluation.micro_batch);
    prediction->sample_bytes = shape_elements(model->input) * dtype_size(model->input_dtype);
    prediction->row_count = model->positions;
    const size_t rows = prediction->micro_batch * prediction->row_count;
    prediction->input = calloc(prediction->micro_batch, prediction->sample_bytes);
    prediction->labels = calloc(rows, sizeof(prediction->labels[0]));
    prediction->scores = calloc(rows, model->classes * sizeof(prediction->scores[0]));
    if (!prediction->input || !prediction->labels || !prediction->scores) {
        return err_set(err, ERR_MEMORY, "no memory for micro-batches of %zu samples",
                       prediction->micro_batch);
    }
    const struct report_config report = {.out = stdout,
                                         .json = prediction->options.json,
                                         .bytes = prediction->reading.kind == READING_TEXT,
                                         .classes = model->classes,
                                         .top = (size_t)prediction->options.top,
                                         .names = &prediction->names,
                                         .class_names = named ? names : &prediction->names.class,
                                         .named = named,
                                         .labelled = prediction->info.classes > 0};
    return report_new(&report, &prediction->report, err);
}

/* Show each sample by its last row: for a sequence, the next token. */
static int show(struct prediction *prediction, uint64_t first, size_t count, const int32_t *labels,
                struct err *err)
{
    const size_t classes = prediction->file.model->classes;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < count; i++) {
        const size_t row = (i + 1) * prediction->row_count - 1;
        rc = report_sample(prediction->report, first + i, prediction->scores + row * classes,
                           labels ? labels[row] : -1, err);
    }
    return rc;
}

/* Predict in the order and the micro-batches of a job's evaluation. */
static int predict(struct prediction *prediction, struct err *err)
{
    const struct dataset_info *info = &prediction->info;
    const uint64_t limit = (uint64_t)prediction->options.limit;
    const uint64_t samples = limit > 0 && limit < info->count ? limit : info->count;
    const size_t label_bytes = prediction->row_count * sizeof(int32_t);
    int32_t *labels = info->classes > 0 ? prediction->labels : NULL;
    double loss = 0;
    uint64_t correct = 0;
    for (uint64_t first = 0; first < samples; first += prediction->micro_batch) {
        const uint64_t left = samples - first;
        const size_t count =
            left < prediction->micro_batch ? (size_t)left : prediction->micro_batch;
        memcpy(prediction->input, data_inputs(prediction->data) + first * prediction->sample_bytes,
               count * prediction->sample_bytes);
        if (labels) {
            memcpy(labels, data_labels(prediction->data) + first * label_bytes,
                   count * label_bytes);
            predict_classes_translate(&prediction->classes, labels, count * prediction->row_count);
        }
        int rc = train_evaluate(prediction->stage, count, prediction->input, prediction->scores,
                                labels, &loss, &correct, err);
        if (rc != 0) {
            return err_wrap(err, "micro-batch of sample %" PRIu64 " and on", first);
        }
        if ((rc = show(prediction, first, count, labels, err))) {
            return rc;
        }
        if (labels) {
            report_count(prediction->report, count * prediction->row_count, prediction->scores,
                         labels);
        }
    }
    report_end(prediction->report, samples, samples * prediction->row_count, correct,
               loss / (double)samples);
    return 0;
}

static int generate(struct prediction *prediction, struct err *err)
{
    const struct continuation continuation = {.stage = prediction->stage,
                                              .model = prediction->file.model,
                                              .prompt = prediction->prompt,
                                              .prompt_size = prediction->prompt_size,
                                              .count = (size_t)prediction->options.generate,
                                              .input = prediction->input,
                                              .scores = prediction->scores};
    unsigned char *text = NULL;
    int rc = continuation_make(&continuation, &text, err);
    if (rc == 0) {
        report_bytes(prediction->report, text, continuation.count);
    }
    free(text);
    return rc;
}

static int run(struct prediction *prediction, const struct conf_list *words, struct err *err)
{
    const char *described = prediction->options.model;
    int rc = model_file_open(words->item[0], described[0] != '\0', &prediction->file, err);
    if (rc == 0) {
        rc = prediction->options.generate > 0
                 ? open_prompt(prediction, words->item[1], err)
                 : open_data(prediction, words->item + 1, words->count - 1, err);
    }
    rc = rc || prediction->file.model
             ? rc
             : model_file_describe(&prediction->file, described, &prediction->info, err);
    rc = rc ? rc : check_data(prediction, err);
    rc = rc ? rc
            : predict_classes_match(&prediction->file, &prediction->info, &prediction->names.class,
                                    &prediction->classes, err);
    rc = rc ? rc : make_buffers(prediction, err);
    rc = rc ? rc : train_pool_new((size_t)prediction->options.threads, &prediction->pool, err);
    rc = rc ? rc : make_stage(prediction, err);
    if (rc == 0) {
        rc =
            prediction->options.generate > 0 ? generate(prediction, err) : predict(prediction, err);
    }
    if (fflush(stdout) != 0 || ferror(stdout)) {
        rc = rc ? rc : err_set(err, ERR_IO, "write the result: %s", strerror(errno));
    }
    return rc;
}

static void release(struct prediction *prediction)
{
    free(prediction->prompt);
    predict_classes_done(&prediction->classes);
    free(prediction->input);
    free(prediction->labels);
    free(prediction->scores);
    report_free(&prediction->report);
    train_stage_free(&prediction->stage);
    train_pool_free(&prediction->pool);
    data_close(&prediction->data);
    dataset_names_done(&prediction->names);
    model_file_close(&prediction->file);
}

int predict_command(int argc, char **argv, bool *misused, struct err *err)
{
    struct prediction prediction = {.options = {.top = TOP_DEFAULT, .threads = 1},
                                    .reading = reading_default,
                                    .file = {.fd = -1}};
    struct conf_list positional = {0};
    bool done = false;
    int rc = conf_parse(&program, argc, argv, &prediction.options, &positional, &done, err);
    if (rc == ERR_LIMIT && positional.count == CONF_LIST_MAX) {
        rc = err_set(err, ERR_LIMIT, "more than %d pictures: put them into a tar",
                     LOCAL_DATA_FILES_MAX);
    }
    if (rc == 0 && prediction.options.as[0] != '\0' &&
        (rc = reading_parse(prediction.options.as, &prediction.reading, err)) != 0) {
        rc = err_wrap(err, "--as");
    }
    if (rc == 0 && !done && prediction.options.generate > 0 &&
        prediction.reading.kind != READING_TEXT) {
        rc = err_set(err, ERR_INVALID, "--generate needs plain text: --as text=T");
    }
    if (rc == 0 && !done && prediction.options.generate > 0 && positional.count > 2) {
        rc = err_set(err, ERR_INVALID, "--generate continues one file; %zu are given",
                     positional.count - 1);
    }
    *misused = rc != 0;
    if (rc == 0 && !done) {
        rc = run(&prediction, &positional, err);
    }
    release(&prediction);
    conf_list_done(&positional);
    return rc;
}
