/* `paceline-agent train` of a job with servers: one process comes to the bits of workers that share
 * each batch. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/offline/batches.h"
#include "agent/offline/local_job.h"
#include "agent/offline/train.h"
#include "agent/runtime/samples.h"
#include "base/file.h"
#include "libtrain/formats/safetensors.h"
#include "schema/job_check.h"
#include "tests/support/test.h"
#include "tests/unit/agent/tiny.h"
#include "tests/unit/agent_offline/command.h"

#define STEPS 12
#define BATCH 16
#define SERVERS ",\"strategy\":\"parameter_server\""
#define FILE_MAX (1 << 20)
#define TENSORS_MAX 32
#define TEXT_MAX (1 << 16)

static void write_data(const char *directory)
{
    command_write_data(directory, "a", TINY_SAMPLES, 1);
    command_write_data(directory, "b", TINY_TESTS, 2);
}

static int train(const char *directory, const char *fields, const char *option, struct err *err)
{
    bool misused = false;
    command_write_job_with(directory, "job.json", fields);
    return command_run(train_command, directory,
                       WORDS("@job.json", "--dataset=a=@a", "--dataset=b=@b", "--output=@o",
                             "--metrics=@metrics", option),
                       &misused, err);
}

/* The file that the job gives; buf_done(out). */
static void train_to(const char *directory, const char *fields, const char *option, struct buf *out)
{
    struct err err = {0};
    assert_ok(train(directory, fields, option, &err), &err);
    buf_init(out, FILE_MAX);
    assert_ok(file_read(test_path_in(directory, "o").text, out, &err), &err);
}

/* The tensors of a file: all after the header. */
static const char *tensors_of(const struct buf *file, size_t *size)
{
    uint64_t header;
    memcpy(&header, file->data, sizeof(header));
    assert_in_range(header, 1, file->size - sizeof(header));
    *size = file->size - sizeof(header) - (size_t)header;
    return file->data + sizeof(header) + header;
}

static bool same_tensors(const struct buf *a, const struct buf *b)
{
    size_t a_size, b_size;
    const char *a_data = tensors_of(a, &a_size), *b_data = tensors_of(b, &b_size);
    assert_int_equal(a_size, b_size);
    return memcmp(a_data, b_data, a_size) == 0;
}

/* ---- the reference: two workers that share each batch, and a server ---- */

#define WORKERS 2

struct shared {
    struct job_spec spec;
    struct model *model;
    struct samples *samples;
    struct train_pool *pool;
    struct train_stage *worker[WORKERS], *server;
    struct reduce_range share[WORKERS];
    size_t floats;     /* of the trained parameters */
    size_t statistics; /* floats of a micro-batch */
};

static struct train_stage *make_stage(const struct shared *shared, size_t in_flight,
                                      struct reduce_range share)
{
    const struct job_spec *spec = &shared->spec;
    const struct train_stage_config config = {.model = shared->model,
                                              .end = shared->model->unit_count,
                                              .micro_batch =
                                                  (size_t)(spec->batch / spec->micro_batches),
                                              .micro_batches = (size_t)spec->micro_batches,
                                              .in_flight = in_flight,
                                              .optimizer = spec->optimizer,
                                              .reduction = REDUCTION_TREE,
                                              .share = share,
                                              .seed = (uint64_t)spec->seed,
                                              .pool = shared->pool};
    struct train_stage *stage = NULL;
    struct err err = {0};
    assert_ok(train_stage_new(&config, &stage, &err), &err);
    for (size_t unit = 0; unit < shared->model->unit_count; unit++) {
        train_unit_initialise(stage, unit);
    }
    return stage;
}

static void count_floats(struct shared *shared)
{
    size_t count;
    const struct train_layer *layer = train_layers(shared->server, &count);
    shared->floats = layer[count - 1].first + layer[count - 1].count;
    for (size_t unit = 0; unit < shared->model->unit_count; unit++) {
        size_t first, end;
        train_statistics_of(shared->server, unit, &first, &end);
        shared->statistics = end > shared->statistics ? end : shared->statistics;
    }
}

/* Makes the job of the directory; the first worker takes all but one micro-batch. */
static void share_job(struct shared *out, const char *directory, const struct tiny_data *data)
{
    bool frozen[MODEL_UNITS_MAX];
    struct err err = {0};
    *out = (struct shared){.model = tiny_model()};
    assert_ok(local_job_read(test_path_in(directory, "job.json").text, &out->spec, &err), &err);
    assert_ok(job_freeze(&out->spec, out->model, frozen, NULL, &err), &err);
    for (size_t unit = 0; unit < out->model->unit_count; unit++) {
        out->model->unit[unit].frozen = frozen[unit];
    }
    const struct samples_config samples = {
        .model = out->model,
        .spec = &out->spec,
        .counts = {.train_samples = TINY_SAMPLES},
        .data = {.train_inputs = data->inputs, .train_labels = data->labels},
        .micro_batch = BATCH,
        .last = true};
    assert_ok(samples_new(&samples, &out->samples, &err), &err);
    assert_ok(train_pool_new(1, &out->pool, &err), &err);
    const size_t count = (size_t)out->spec.micro_batches;
    for (size_t w = 0; w < WORKERS; w++) {
        out->share[w] = (struct reduce_range){w == 0 ? 0 : count - 1, w == 0 ? count - 1 : count};
        out->worker[w] = make_stage(out, 1, out->share[w]);
    }
    out->server = make_stage(out, 0, (struct reduce_range){0, 0});
    count_floats(out);
}

static void share_done(struct shared *shared)
{
    for (size_t w = 0; w < WORKERS; w++) {
        train_stage_free(&shared->worker[w]);
    }
    train_stage_free(&shared->server);
    train_pool_free(&shared->pool);
    samples_free(&shared->samples);
    model_free(&shared->model);
    record_done(&job_spec_record, &shared->spec);
}

static void work(struct shared *shared, size_t w, int64_t step)
{
    struct train_stage *stage = shared->worker[w];
    const size_t count = (size_t)(shared->spec.batch / shared->spec.micro_batches);
    unsigned char inputs[BATCH * TINY_SAMPLE_BYTES];
    int32_t labels[BATCH];
    struct err err = {0};
    memcpy(train_parameters(stage), train_parameters(shared->server),
           shared->floats * sizeof(float));
    train_parameters_changed(stage);
    for (size_t m = shared->share[w].first; m < shared->share[w].end; m++) {
        double loss;
        const struct train_position position = {.step = step, .micro_batch = m};
        samples_inputs(shared->samples, step, m * count, count, inputs);
        samples_labels(shared->samples, step, m * count, count, labels);
        assert_ok(train_forward(stage, 0, position, inputs, NULL, labels, &loss, &err), &err);
        train_backward(stage, 0, NULL, NULL);
        memcpy(train_statistics(shared->server, m), train_statistics(stage, m),
               shared->statistics * sizeof(float));
    }
}

/* tree(range) of model/reduce.h, from the blocks of the workers. */
static void add(struct shared *shared, struct reduce_range range, float *out)
{
    for (size_t w = 0; w < WORKERS; w++) {
        const float *block = train_block(shared->worker[w], range);
        if (block) {
            memcpy(out, block, shared->floats * sizeof(float));
            train_block_release(shared->worker[w], range);
            return;
        }
    }
    assert_true(range.end - range.first > 1);
    size_t half = 1;
    while (2 * half < range.end - range.first) {
        half *= 2;
    }
    float *right = calloc(shared->floats, sizeof(float));
    assert_non_null(right);
    add(shared, (struct reduce_range){range.first, range.first + half}, out);
    add(shared, (struct reduce_range){range.first + half, range.end}, right);
    train_add(shared->server, shared->floats, right, out);
    free(right);
}

static void update(struct shared *shared, int64_t step)
{
    const struct job_spec *spec = &shared->spec;
    struct err err = {0};
    if (spec->optimizer.clip_norm > 0) {
        double squares;
        assert_ok(train_sum_squares(shared->server, 0, &squares, &err), &err);
        assert_true(squares > spec->optimizer.clip_norm * spec->optimizer.clip_norm);
        assert_ok(train_clip(shared->server, squares, &err), &err);
    }
    assert_ok(train_update(shared->server, step,
                           learning_rate_at(&spec->learning_rate, step, STEPS), &err),
              &err);
}

static int append(void *arg, const void *data, size_t size, struct err *err)
{
    return buf_append(arg, data, size, err);
}

/* The tensors of the job of the directory, as in its file. */
static void reference(const char *directory, struct buf *out)
{
    static struct tiny_data data;
    struct shared shared;
    struct err err = {0};
    tiny_make_data(&data, TINY_SAMPLES, 1);
    share_job(&shared, directory, &data);
    for (int64_t step = 1; step <= STEPS; step++) {
        for (size_t w = 0; w < WORKERS; w++) {
            work(&shared, w, step);
        }
        add(&shared, (struct reduce_range){0, (size_t)shared.spec.micro_batches},
            train_gradient(shared.server));
        update(&shared, step);
        for (size_t w = 0; w < WORKERS; w++) {
            train_discard(shared.worker[w]);
        }
    }
    buf_init(out, FILE_MAX);
    for (size_t unit = 0; unit < shared.model->unit_count; unit++) {
        assert_ok(train_unit_export(shared.server, unit, append, out, &err), &err);
    }
    share_done(&shared);
}

/* ---- the tests ---- */

static void the_weights_are_those_of_workers_that_share_each_batch(void **state)
{
    const char *directory = *state;
    static const char *const jobs[] = {
        "\"micro_batches\":4,\"epochs\":3" SERVERS,
        "\"micro_batches\":8,\"epochs\":3,\"recompute\":\"unit\",\"optimizer\":{\"type\":\"adamw\","
        "\"clip_norm\":0.01}" SERVERS,
        "\"micro_batches\":2,\"epochs\":3,\"freeze\":[\"stem\",\"wide\"]" SERVERS,
        "\"micro_batches\":16,\"epochs\":3,\"optimizer\":{\"clip_value\":0.001}" SERVERS,
    };
    write_data(directory);
    for (size_t i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++) {
        BUF_AUTO struct buf file, expected;
        size_t size;
        train_to(directory, jobs[i], "--threads=2", &file);
        reference(directory, &expected);
        const char *tensors = tensors_of(&file, &size);
        assert_int_equal(size, expected.size);
        assert_memory_equal(tensors, expected.data, size);
    }
}

/* Statistics of batch-norm are rounded otherwise (model/reduce.h), and no gradient depends on
 * them. */
static void one_micro_batch_gives_the_parameters_of_a_pipeline(void **state)
{
    const char *directory = *state;
    BUF_AUTO struct buf pipeline, servers;
    struct safetensors_tensor tensor[TENSORS_MAX];
    static char text[TEXT_MAX];
    struct safetensors_header header = {.tensor = tensor,
                                        .tensor_capacity = TENSORS_MAX,
                                        .text = text,
                                        .text_capacity = sizeof(text)};
    struct err err = {0};
    size_t size, parameters = 0, statistics = 0;
    write_data(directory);
    train_to(directory, "\"micro_batches\":1,\"epochs\":3", "--threads=1", &pipeline);
    train_to(directory, "\"micro_batches\":1,\"epochs\":3" SERVERS, "--threads=1", &servers);
    const char *one = tensors_of(&pipeline, &size), *other = tensors_of(&servers, &size);
    assert_ok(safetensors_parse(servers.data, servers.size - size, &header, &err), &err);
    for (size_t i = 0; i < header.tensor_count; i++) {
        const size_t bytes = (size_t)(tensor[i].end - tensor[i].begin);
        if (!strstr(tensor[i].name, "running_")) {
            assert_memory_equal(one + tensor[i].begin, other + tensor[i].begin, bytes);
            parameters++;
            continue;
        }
        for (size_t at = 0; at < bytes; at += sizeof(float)) {
            float a, b;
            memcpy(&a, one + tensor[i].begin + at, sizeof(a));
            memcpy(&b, other + tensor[i].begin + at, sizeof(b));
            assert_true(fabsf(a - b) <= 1e-6F * fabsf(a));
            statistics++;
        }
    }
    assert_int_equal(parameters, 9);
    assert_int_equal(statistics, 8);
}

static void the_bits_depend_on_the_micro_batches_and_not_on_threads_or_servers(void **state)
{
    static const char several[] = "\"micro_batches\":4,\"epochs\":3";
    static const char same[] =
        "\"micro_batches\":4,\"epochs\":3" SERVERS
        ",\"parameter_server\":{\"servers\":[{\"device\":\"dev_01JD6Y3K9T2V4W8X0Z1B5C7D9E\","
        "\"end\":6}],\"shares\":[3,1],\"transfers\":\"layer\"}";
    const char *directory = *state;
    BUF_AUTO struct buf pipeline, one, two, given, eight;
    write_data(directory);
    train_to(directory, several, "--threads=1", &pipeline);
    train_to(directory, "\"micro_batches\":4,\"epochs\":3" SERVERS, "--threads=1", &one);
    train_to(directory, "\"micro_batches\":4,\"epochs\":3" SERVERS, "--threads=2", &two);
    train_to(directory, same, "--threads=1", &given);
    train_to(directory, "\"micro_batches\":8,\"epochs\":3" SERVERS, "--threads=1", &eight);
    assert_true(same_tensors(&one, &two));
    assert_true(same_tensors(&one, &given));
    assert_false(same_tensors(&one, &pipeline));
    assert_false(same_tensors(&one, &eight));
}

static void it_is_evaluated_and_ends_by_its_stop(void **state)
{
    const char *directory = *state;
    struct err err = {0};
    BUF_AUTO struct buf metrics;
    write_data(directory);
    assert_ok(train(directory,
                    "\"epochs\":3,\"stop\":{\"metric\":\"test_accuracy\",\"target\":0.01}" SERVERS,
                    NULL, &err),
              &err);
    buf_init(&metrics, FILE_MAX);
    assert_ok(file_read(test_path_in(directory, "metrics").text, &metrics, &err), &err);
    assert_holds(metrics.data, "{\"step\":4,\"name\":\"loss\",\"value\":");
    assert_holds(metrics.data, "{\"step\":4,\"name\":\"test_accuracy\",\"value\":");
    assert_null(strstr(metrics.data, "{\"step\":5,"));
}

static void it_starts_from_a_checkpoint(void **state)
{
    static const char from[] = "\"epochs\":1,\"init\":{\"checkpoint\":\"ckpt_"
                               "01JD6Y2N8Q4R6S8T0V2W4X6Y8Z\"}" SERVERS;
    const char *directory = *state;
    BUF_AUTO struct buf first, then, scratch;
    struct err err = {0};
    write_data(directory);
    train_to(directory, "\"epochs\":1" SERVERS, NULL, &first);
    assert_ok(
        file_write_atomic(test_path_in(directory, "c").text, first.data, first.size, 0600, &err),
        &err);
    char option[TEST_PATH_MAX + 16];
    (void)snprintf(option, sizeof(option), "--checkpoint=%s", test_path_in(directory, "c").text);
    train_to(directory, from, option, &then);
    train_to(directory, "\"epochs\":1" SERVERS, NULL, &scratch);
    assert_true(same_tensors(&first, &scratch));
    assert_false(same_tensors(&first, &then));
}

static void batches_takes_such_a_job(void **state)
{
    const char *directory = *state;
    struct err err = {0};
    bool misused = false;
    write_data(directory);
    command_write_job_with(directory, "job.json", "\"epochs\":1" SERVERS);
    assert_ok(command_run(batches_command, directory, WORDS("@job.json", "--dataset=a=@a"),
                          &misused, &err),
              &err);
}

static void servers_must_keep_the_whole_model(void **state)
{
    static const struct {
        const char *servers, *fault;
    } wrong[] = {
        {"[{\"device\":\"dev_01JD6Y3K9T2V4W8X0Z1B5C7D9E\",\"end\":5}]",
         "/parameter_server/servers/0/end: must be 6, the model's number of units"},
        {"[{\"device\":\"dev_01JD6Y3K9T2V4W8X0Z1B5C7D9E\",\"end\":7},"
         "{\"device\":\"dev_01JD6Y2N8Q4R6S8T0V2W4X6Y8Z\",\"end\":8}]",
         "/parameter_server/servers/0/end: must be at most 6, the model's number of units"},
    };
    const char *directory = *state;
    write_data(directory);
    for (size_t i = 0; i < 2; i++) {
        struct err err = {0};
        char fields[512];
        (void)snprintf(fields, sizeof(fields),
                       "\"epochs\":1" SERVERS ",\"parameter_server\":{\"servers\":%s}",
                       wrong[i].servers);
        assert_int_equal(train(directory, fields, NULL, &err), ERR_INVALID);
        assert_holds(err.text, wrong[i].fault);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_with_directory(the_weights_are_those_of_workers_that_share_each_batch),
        test_with_directory(one_micro_batch_gives_the_parameters_of_a_pipeline),
        test_with_directory(the_bits_depend_on_the_micro_batches_and_not_on_threads_or_servers),
        test_with_directory(it_is_evaluated_and_ends_by_its_stop),
        test_with_directory(it_starts_from_a_checkpoint),
        test_with_directory(batches_takes_such_a_job),
        test_with_directory(servers_must_keep_the_whole_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
