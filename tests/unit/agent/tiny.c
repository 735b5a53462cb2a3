#include "tests/unit/agent/tiny.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "agent/pipeline/stage_loop.h"
#include "base/rng.h"
#include "libtrain/description/description.h"
#include "libtrain/formats/safetensors.h"
#include "tests/support/test.h"

static const char description[] =
    "{\"name\":\"tiny\",\"input\":{\"shape\":[8,8,1],\"dtype\":\"uint8\",\"scale\":0."
    "00392156862745098},\"units\":["
    "{\"name\":\"stem\",\"ops\":[{\"type\":\"conv2d\",\"filters\":4,\"kernel\":3,\"padding\":1,"
    "\"bias\":false},"
    "{\"type\":\"batch_norm\"},{\"type\":\"relu\"}]},"
    "{\"name\":\"block\",\"residual\":{\"body\":[{\"type\":\"conv2d\",\"filters\":4,\"kernel\":3,"
    "\"padding\":1},"
    "{\"type\":\"relu\"}],\"shortcut\":[]},\"then\":[{\"type\":\"relu\"}]},"
    "{\"name\":\"pool\",\"ops\":[{\"type\":\"max_pool\",\"kernel\":2,\"stride\":2}]},"
    "{\"name\":\"wide\",\"ops\":[{\"type\":\"flatten\"},{\"type\":\"linear\",\"units\":24},{"
    "\"type\":\"relu\"}]},"
    "{\"name\":\"drop\",\"ops\":[{\"type\":\"dropout\",\"rate\":0.25}]},"
    "{\"name\":\"head\",\"ops\":[{\"type\":\"linear\",\"units\":4}]}],"
    "\"loss\":{\"type\":\"softmax_cross_entropy\"}}";

void tiny_make_data(struct tiny_data *out, size_t samples, uint32_t seed)
{
    struct safetensors_tensor tensor[2] = {
        {.name = "inputs", .dtype = DTYPE_U8, .rank = 4, .dim = {samples, 8, 8, 1}},
        {.name = "labels", .dtype = DTYPE_I32, .rank = 1, .dim = {samples}},
    };
    struct safetensors_header header = {.tensor = tensor, .tensor_capacity = 2, .tensor_count = 2};
    size_t size = 0;
    struct err err = {0};
    assert_ok(safetensors_write(&header, (char *)out->file, sizeof(out->file), &size, &err), &err);
    assert_true(size + samples * (TINY_SAMPLE_BYTES + sizeof(int32_t)) <= sizeof(out->file));
    unsigned char *inputs = out->file + size;
    unsigned char *labels = inputs + samples * TINY_SAMPLE_BYTES;
    const struct rng_stream random = rng_stream(seed, RNG_SIMULATION, 0, 0);
    for (size_t i = 0; i < samples; i++) {
        const int32_t label = (int32_t)(i % 4);
        for (size_t j = 0; j < TINY_SAMPLE_BYTES; j++) {
            const uint64_t noise = rng_below(&random, i * TINY_SAMPLE_BYTES + j, 64);
            inputs[i * TINY_SAMPLE_BYTES + j] =
                (unsigned char)(noise + (j % 4 == (size_t)label ? 120 : 0));
        }
        memcpy(labels + i * sizeof(label), &label, sizeof(label));
    }
    out->file_size = size + samples * (TINY_SAMPLE_BYTES + sizeof(int32_t));
    out->inputs = inputs;
    out->labels = labels;
    sha256_text(out->file, out->file_size, out->sha256);
}

struct job_spec tiny_spec(void)
{
    struct job_spec spec = job_spec_default;
    spec.batch = 16;
    spec.micro_batches = 4;
    spec.epochs = TINY_STEPS;
    spec.steps = TINY_STEPS;
    spec.evaluate_every_epochs = 2;
    spec.seed = 7;
    spec.optimizer.momentum = 0.9;
    spec.learning_rate.value = 0.05;
    return spec;
}

json_t *tiny_description(void)
{
    json_t *value = NULL;
    struct err err = {0};
    assert_ok(json_parse(description, sizeof(description) - 1, &value, &err), &err);
    return value;
}

struct model *tiny_model(void)
{
    json_t *value = tiny_description();
    struct model *model = NULL;
    struct err err = {0};
    assert_ok(description_parse(value, NULL, &model, NULL, &err), &err);
    json_decref(value);
    assert_int_equal(model->unit_count, TINY_UNITS);
    return model;
}

struct stage_config tiny_whole(const struct job_spec *spec)
{
    const struct tiny_data *train = &tiny_job()->train;
    const struct tiny_data *test = &tiny_job()->test;
    return (struct stage_config){
        .count = 1,
        .end = TINY_UNITS,
        .in_flight = 1,
        .total_steps = TINY_STEPS,
        .spec = spec,
        .samples = {.train_samples = TINY_SAMPLES, .test_samples = TINY_TESTS},
        .data = {train->inputs, test->inputs, train->labels, test->labels},
        .threads = 1,
        .slowdown = 1,
        .room_fd = -1,
    };
}

struct stage *tiny_stage(const struct stage_config *config)
{
    struct model *model = tiny_model();
    struct stage *stage = NULL;
    struct err err = {0};
    assert_ok(stage_new(config, &model, &stage, &err), &err);
    for (size_t unit = config->first; unit < config->end; unit++) {
        assert_ok(keeper_load_unit(stage_keeper(stage), unit, NULL, 0, &err), &err);
    }
    return stage;
}

void tiny_result_init(struct tiny_result *out)
{
    memset(out, 0, sizeof(*out));
    for (size_t i = 0; i <= TINY_STEPS; i++) {
        out->loss[i] = out->test_loss[i] = out->test_accuracy[i] = NAN;
    }
}

void tiny_result_add(struct tiny_result *out, const struct metric *metric)
{
    double *into = metric->name == METRIC_LOSS            ? out->loss
                   : metric->name == METRIC_TEST_LOSS     ? out->test_loss
                   : metric->name == METRIC_TEST_ACCURACY ? out->test_accuracy
                                                          : NULL;
    assert_in_range(metric->step, 1, TINY_STEPS);
    if (into) {
        into[metric->step] = metric->value;
    }
}

static void take_metric(void *arg, const struct metric *metric)
{
    struct tiny_job *job = arg;
    tiny_result_add(&job->expected, metric);
    if (metric->name == METRIC_STEP_SECONDS) {
        job->step_seconds = fmin(job->step_seconds, metric->value);
    }
}

static void train(struct tiny_job *job)
{
    const struct job_spec spec = tiny_spec();
    const struct stage_config config = tiny_whole(&spec);
    struct stage *stage = tiny_stage(&config);
    struct err err = {0};
    job->step_seconds = INFINITY;
    tiny_result_init(&job->expected);
    const struct work_listener listener = {.metric = take_metric, .arg = job};
    int64_t version = 0;
    stage_follow(stage, &(struct orders){.run = true});
    assert_ok(stage_loop(stage, &listener, &version, &err), &err);
    assert_int_equal(version, TINY_STEPS);
    for (size_t unit = 0; unit < TINY_UNITS; unit++) {
        const size_t size = keeper_unit_bytes(stage_keeper(stage), unit);
        void *blob = malloc(size);
        assert_non_null(blob);
        keeper_save_unit(stage_keeper(stage), unit, blob);
        sha256_text(blob, size, job->expected.unit_sha256[unit]);
        free(blob);
    }
    stage_release(&stage);
}

const struct tiny_job *tiny_job(void)
{
    static struct tiny_job job;
    if (job.train.file_size == 0) {
        tiny_make_data(&job.train, TINY_SAMPLES, 1);
        tiny_make_data(&job.test, TINY_TESTS, 2);
        train(&job);
    }
    return &job;
}
