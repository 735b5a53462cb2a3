/* `paceline-agent train --plans`: an asynchronous job is trained in the stages of its plans, a
 * synchronous one gives the same bytes with and without them. */
#include <stdio.h>
#include <string.h>

#include "agent/offline/train.h"
#include "base/file.h"
#include "libtrain/quant/codec.h"
#include "schema/plan.h"
#include "schema/wire.h"
#include "tests/support/test.h"
#include "tests/unit/agent/tiny.h"
#include "tests/unit/agent_offline/command.h"

#define ASYNC "\"epochs\":3,\"pipeline\":\"async\""

/* One plan of the list: stages end at `end` (0: no more), with that many batches in flight, and
 * with a parameter server so many micro-batches. */
struct row {
    int64_t generation, resume_version;
    int state;
    int64_t end[4], in_flight[4];
    int codec[4];
    int64_t share[4];
};

static void write_plans(const char *directory, const struct row *row, size_t count)
{
    BUF_AUTO struct buf text;
    struct err err = {0};
    buf_init(&text, 1 << 20);
    assert_ok(buf_printf(&text, &err, "{\"items\":["), &err);
    for (size_t i = 0; i < count; i++) {
        struct plan plan = {.generation = row[i].generation,
                            .resume_version = row[i].resume_version,
                            .state = row[i].state};
        memcpy(plan.id.text, "plan_01JD6Z0B1C2D3E4F5G6H7J8K9M", sizeof("plan_") + 26);
        memcpy(plan.job.text, "job_01JD6Z0A4B6C8D0E2F4G6H8J0K", sizeof("job_") + 26);
        for (size_t k = 0; k < 4 && row[i].end[k] > 0; k++) {
            struct plan_stage *stage = &plan.stage[plan.stage_count++];
            memcpy(stage->device.text, "dev_01JD6Y3K9T2V4W8X0Z1B5C7D9E", sizeof("dev_") + 26);
            stage->first = k == 0 ? 0 : row[i].end[k - 1];
            stage->end = row[i].end[k];
            stage->in_flight = row[i].in_flight[k];
            stage->codec = row[i].codec[k];
            stage->share_first = k == 0 ? 0 : stage[-1].share_end;
            stage->share_end = stage->share_first + row[i].share[k];
        }
        assert_ok(buf_printf(&text, &err, i > 0 ? "," : ""), &err);
        assert_ok(wire_write(&plan_record, &plan, &text, &err), &err);
    }
    assert_ok(buf_printf(&text, &err, "],\"next_cursor\":null}"), &err);
    command_write_text(directory, "plans.json", text.data);
}

static void write_data(const char *directory)
{
    command_write_data(directory, "a", TINY_SAMPLES, 1);
    command_write_data(directory, "b", TINY_TESTS, 2);
}

static int train(const char *directory, const char *plans, const char *threads, struct err *err)
{
    bool misused = false;
    return command_run(train_command, directory,
                       plans ? WORDS("@job.json", "--dataset=a=@a", "--dataset=b=@b", "--output=@o",
                                     "--metrics=@metrics", threads, plans)
                             : WORDS("@job.json", "--dataset=a=@a", "--dataset=b=@b", "--output=@o",
                                     "--metrics=@metrics", threads),
                       &misused, err);
}

/* The hash of the model that the job gives with these plans; count 0: without any. */
static struct sha256_hex {
    char text[HASH_TEXT_SIZE];
} trained(const char *directory, const char *fields, const struct row *row, size_t count)
{
    struct sha256_hex hash[2] = {{""}, {""}};
    command_write_job_with(directory, "job.json", fields);
    if (count > 0) {
        write_plans(directory, row, count);
    }
    for (size_t i = 0; i < 2; i++) {
        BUF_AUTO struct buf file;
        struct err err = {0};
        assert_ok(train(directory, count > 0 ? "--plans=@plans.json" : NULL,
                        i == 0 ? "--threads=1" : "--threads=2", &err),
                  &err);
        buf_init(&file, 1 << 20);
        assert_ok(file_read(test_path_in(directory, "o").text, &file, &err), &err);
        sha256_text(file.data, file.size, hash[i].text);
    }
    assert_string_equal(hash[0].text, hash[1].text);
    return hash[0];
}

static const struct row one_stage = {1, 0, PLAN_DONE, {6}, {1}, {0}, {0}};
static const struct row two_stages = {1, 0, PLAN_DONE, {2, 6}, {2, 1}, {0}, {0}};
static const struct row three_stages = {1, 0, PLAN_DONE, {1, 3, 6}, {3, 2, 1}, {0}, {0}};

static void a_synchronous_job_gives_the_same_bytes_with_its_plans(void **state)
{
    write_data(*state);
    const struct sha256_hex plain = trained(*state, "\"micro_batches\":4,\"epochs\":3", NULL, 0);
    const struct sha256_hex planned =
        trained(*state, "\"micro_batches\":4,\"epochs\":3", &two_stages, 1);
    assert_string_equal(plain.text, planned.text);
}

static void a_job_with_servers_gives_the_same_bytes_with_its_plans(void **state)
{
    static const char job[] = "\"micro_batches\":4,\"epochs\":3,\"strategy\":\"parameter_server\"";
    static const struct row servers = {1,   0,           PLAN_DONE, {2, 6, 6, 6}, {1, 1, 1, 1},
                                       {0}, {0, 1, 2, 1}};
    static const struct row idle = {1, 0, PLAN_DONE, {2, 6, 6}, {1, 1, 1}, {0}, {1, 3, 0}};
    struct err err = {0};
    write_data(*state);
    const struct sha256_hex plain = trained(*state, job, NULL, 0);
    assert_string_equal(trained(*state, job, &servers, 1).text, plain.text);
    write_plans(*state, &idle, 1);
    assert_int_equal(train(*state, "--plans=@plans.json", "--threads=1", &err), ERR_INVALID);
    assert_holds(err.text, "stage 2 has no unit");
}

static void one_asynchronous_stage_gives_the_bytes_of_whole_synchronous_batches(void **state)
{
    write_data(*state);
    const struct sha256_hex whole = trained(*state, "\"micro_batches\":1,\"epochs\":3", NULL, 0);
    assert_string_equal(trained(*state, ASYNC, NULL, 0).text, whole.text);
    assert_string_equal(trained(*state, ASYNC, &one_stage, 1).text, whole.text);
    assert_string_equal(
        trained(*state, ASYNC ",\"vertical_sync\":true,\"aggregate_every\":2", &one_stage, 1).text,
        whole.text);
}

static void plans_and_policies_change_the_bytes_of_an_asynchronous_job(void **state)
{
    write_data(*state);
    const struct sha256_hex hash[] = {
        trained(*state, ASYNC, NULL, 0),
        trained(*state, ASYNC, &two_stages, 1),
        trained(*state, ASYNC, &three_stages, 1),
        trained(*state, ASYNC ",\"aggregate_every\":3", &three_stages, 1),
        trained(*state, ASYNC ",\"vertical_sync\":true", &three_stages, 1),
        trained(*state, ASYNC ",\"vertical_sync\":true,\"aggregate_every\":3", &three_stages, 1),
        trained(*state, ASYNC ",\"evaluate\":{\"every_epochs\":0}", &three_stages, 1),
        trained(*state, ASYNC, &(struct row){1, 0, PLAN_DONE, {2, 6}, {3, 1}, {0}, {0}}, 1),
        trained(*state, ASYNC, &(struct row){1, 0, PLAN_DONE, {2, 6}, {2, 1}, {CODEC_Q8}, {0}}, 1),
        trained(*state, ASYNC, &(struct row){1, 0, PLAN_DONE, {2, 6}, {2, 1}, {CODEC_Q4}, {0}}, 1),
    };
    const size_t count = sizeof(hash) / sizeof(hash[0]);
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < i; k++) {
            assert_string_not_equal(hash[i].text, hash[k].text);
        }
    }
    BUF_AUTO struct buf metrics;
    struct err err = {0};
    buf_init(&metrics, 1 << 20);
    assert_ok(file_read(test_path_in(*state, "metrics").text, &metrics, &err), &err);
    assert_holds(metrics.data, "{\"step\":12,\"name\":\"loss\",\"value\":");
    assert_holds(metrics.data, "{\"step\":12,\"name\":\"test_accuracy\",\"value\":");
}

/* Versions of abandoned plans were made again: only what is left of them counts. */
static void versions_that_a_later_plan_makes_again_count_once(void **state)
{
    static const struct row short_list[] = {
        {1, 0, PLAN_DONE, {1, 3, 6}, {3, 2, 1}, {0}, {0}},
        {5, 3, PLAN_DONE, {2, 6}, {2, 1}, {0}, {0}},
        {6, 7, PLAN_DONE, {1, 3, 6}, {4, 2, 1}, {0}, {0}},
    };
    static const struct row long_list[] = {
        {1, 0, PLAN_DONE, {1, 3, 6}, {3, 2, 1}, {0}, {0}},
        {2, 5, PLAN_DONE, {6}, {1}, {0}, {0}},
        {3, 7, PLAN_DONE, {4, 6}, {2, 1}, {0}, {0}},
        {4, 1, PLAN_DISCARDED, {6}, {1}, {0}, {0}},
        {5, 3, PLAN_DONE, {2, 6}, {2, 1}, {0}, {0}},
        {6, 7, PLAN_RUNNING, {1, 3, 6}, {4, 2, 1}, {0}, {0}},
    };
    write_data(*state);
    const struct sha256_hex brief = trained(*state, ASYNC, short_list, 3);
    assert_string_equal(trained(*state, ASYNC, long_list, 6).text, brief.text);
    assert_string_not_equal(trained(*state, ASYNC, short_list, 2).text, brief.text);
}

static void a_file_that_is_not_the_plans_of_the_job_is_rejected(void **state)
{
    const char *directory = *state;
    const struct {
        const char *part;
        struct row row;
    } wrong[] = {
        {"the model has 6", {1, 0, PLAN_DONE, {2, 5}, {2, 1}, {0}, {0}}},
        {"stage 1 has no unit", {1, 0, PLAN_DONE, {2, 2, 6}, {2, 1, 1}, {0}, {0}}},
        {"must never rise", {1, 0, PLAN_DONE, {2, 6}, {1, 2}, {0}, {0}}},
        {"must never rise", {1, 0, PLAN_DONE, {2, 4, 6}, {2, 3, 1}, {0}, {0}}},
        {"must never rise", {1, 0, PLAN_DONE, {6}, {2}, {0}, {0}}},
        {"must never rise", {1, 0, PLAN_DONE, {6}, {0}, {0}, {0}}},
        {"with vertical_sync at most", {1, 0, PLAN_DONE, {2, 6}, {3, 1}, {0}, {0}}},
        {"version 0", {1, 3, PLAN_DONE, {6}, {1}, {0}, {0}}},
        {"version 0", {1, 0, PLAN_DISCARDED, {6}, {1}, {0}, {0}}},
    };
    write_data(directory);
    command_write_job_with(directory, "job.json", ASYNC ",\"vertical_sync\":true");
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct err err = {0};
        write_plans(directory, &wrong[i].row, 1);
        assert_int_equal(train(directory, "--plans=@plans.json", "--threads=1", &err), ERR_INVALID);
        assert_holds(err.text, "plans.json': ");
        assert_holds(err.text, wrong[i].part);
    }
    static const struct row late[] = {{1, 0, PLAN_DONE, {6}, {1}, {0}, {0}},
                                      {2, 13, PLAN_DONE, {6}, {1}, {0}, {0}}};
    static const char *const texts[][2] = {
        {"{\"items\":[]}", "no plans"},
        {"{\"items\":[],\"next_cursor\":\"x\"}", "?limit=500"},
        {"{\"plans\":[]}", "GET /v1/jobs/{id}/plans"},
        {"{\"items\":[{}]}", "/items/0"},
        {"[1", "plans.json"},
    };
    struct err err = {0};
    write_plans(directory, late, 2);
    assert_int_equal(train(directory, "--plans=@plans.json", "--threads=1", &err), ERR_INVALID);
    assert_holds(err.text, "the job ends with 12");
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        command_write_text(directory, "plans.json", texts[i][0]);
        assert_int_not_equal(train(directory, "--plans=@plans.json", "--threads=1", &err), 0);
        assert_holds(err.text, texts[i][1]);
    }
    assert_int_not_equal(train(directory, "--plans=@missing", "--threads=1", &err), 0);
    assert_holds(err.text, "missing");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_with_directory(a_synchronous_job_gives_the_same_bytes_with_its_plans),
        test_with_directory(a_job_with_servers_gives_the_same_bytes_with_its_plans),
        test_with_directory(one_asynchronous_stage_gives_the_bytes_of_whole_synchronous_batches),
        test_with_directory(plans_and_policies_change_the_bytes_of_an_asynchronous_job),
        test_with_directory(versions_that_a_later_plan_makes_again_count_once),
        test_with_directory(a_file_that_is_not_the_plans_of_the_job_is_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
