/* `paceline-agent replay`: two groups trained and mixed by hand give the file that their log gives.
 * Group 1 is lost after the first average and begins again with it; group 0 is stopped and goes on
 * in another generation. */
#include <stdio.h>
#include <string.h>

#include "agent/offline/replay.h"
#include "base/file.h"
#include "base/json.h"
#include "schema/mix_row.h"
#include "tests/support/test.h"
#include "tests/unit/agent/tiny.h"
#include "tests/unit/agent_offline/command.h"
#include "tests/unit/agent_offline/hand.h"

#define FIELDS                                                                                     \
    "\"micro_batches\":4,\"epochs\":3,\"init\":{\"seed\":7},\"optimizer\":{\"momentum\":0.9,"      \
    "\"clip_norm\":1}"                                                                             \
    ","                                                                                            \
    "\"learning_rate\":{\"type\":\"cosine\",\"value\":0.05,\"warmup_steps\":3}"
#define SHARD                                                                                      \
    ",\"view\":{\"shard\":{\"index\":%d,\"count\":2,\"seed\":7,\"class_ranges\":["                 \
    "{\"class\":0,\"first\":%d,\"count\":8},{\"class\":1,\"first\":%d,\"count\":10},"              \
    "{\"class\":2,\"first\":%d,\"count\":6},{\"class\":3,\"first\":%d,\"count\":8}]}}"

enum { FIRST = 1 << 20 | 1, RESUMED = 1 << 20 | 2, SUCCESSOR = 2 << 20 | 1 };

/* ---- the log ---- */

#define XID(n)                                                                                     \
    {                                                                                              \
        1, n                                                                                       \
    }
static const struct mix_record story[] = {
    {.kind = MIX_START, .own = {.group = 0, .generation = FIRST}, .rate_step = 0},
    {.kind = MIX_START, .own = {.group = 1, .generation = FIRST}, .rate_step = 2},
    {.xid = XID(1),
     .kind = MIX_PAIR,
     .own = {0, FIRST, 2, 0, 0},
     .peer = {{1, FIRST, 3, 0, 0}},
     .peer_count = 1,
     .alpha = 0.5,
     .statistics_alpha = 0.5,
     .applied_step = 3,
     .rate_step = 3},
    {.xid = XID(1),
     .kind = MIX_PAIR,
     .own = {1, FIRST, 3, 0, 0},
     .peer = {{0, FIRST, 2, 0, 0}},
     .peer_count = 1,
     .alpha = 0.5,
     .statistics_alpha = 0.5,
     .applied_step = 3,
     .rate_step = 4},
    {.xid = XID(2),
     .kind = MIX_AVERAGE,
     .own = {1, FIRST, 5, 1, 0},
     .peer = {{0, FIRST, 4, 1, 0}, {1, FIRST, 5, 1, 0}},
     .peer_count = 2},
    {.xid = XID(2),
     .kind = MIX_ADOPT,
     .own = {0, FIRST, 4, 1, 0},
     .peer = {{1, FIRST, 5, 1, 0}},
     .peer_count = 1,
     .alpha = 1,
     .statistics_alpha = 1,
     .applied_step = 5,
     .applied_mixes = 1,
     .rate_step = 8},
    {.xid = XID(2),
     .kind = MIX_START,
     .own = {.group = 1, .generation = SUCCESSOR},
     .rate_step = 9},
    {.xid = XID(3),
     .kind = MIX_PAIR,
     .own = {0, FIRST, 6, 2, 0},
     .peer = {{1, SUCCESSOR, 0, 0, 0}},
     .peer_count = 1,
     .alpha = 0.25,
     .statistics_alpha = 0.25,
     .applied_step = 7,
     .applied_mixes = 2,
     .rate_step = 9},
    {.xid = XID(3),
     .kind = MIX_PAIR,
     .own = {1, SUCCESSOR, 0, 0, 0},
     .peer = {{0, FIRST, 6, 2, 0}},
     .peer_count = 1,
     .alpha = 0.75,
     .statistics_alpha = 0.75,
     .applied_step = 1,
     .rate_step = 10},
    {.kind = MIX_START,
     .own = {.group = 0, .generation = RESUMED, .version = 7},
     .peer = {{0, FIRST, 7, 0, 0}},
     .peer_count = 1,
     .rate_step = 10},
    {.xid = XID(4),
     .kind = MIX_AVERAGE,
     .own = {1, SUCCESSOR, 2, 1, 0},
     .peer = {{0, RESUMED, 8, 0, 0.625}, {1, SUCCESSOR, 2, 1, 0.375}},
     .peer_count = 2},
};
enum { RECORDS = sizeof(story) / sizeof(story[0]) };

/* The rows in the order in which they are listed would do as well: replay takes any. */
static void write_log(const char *directory, const struct mix_record *record, size_t count)
{
    struct err err = {0};
    json_auto_t *items = json_array();
    for (size_t i = 0; i < count; i++) {
        struct mix_row row = {.created_ms = 1000, .record = record[i]};
        memcpy(row.job.text, "job_01JD6Z0A4B6C8D0E2F4G6H8J0K", sizeof("job_") + 26);
        mix_row_name(&row);
        (void)json_array_append_new(items, record_write(&mix_row_record, &row));
    }
    json_auto_t *answer = json_pack("{s:O,s:n}", "items", items, "next_cursor");
    BUF_AUTO struct buf text;
    buf_init(&text, 1 << 20);
    assert_ok(json_write(answer, &text, &err), &err);
    assert_ok(buf_printf(&text, &err, "\n"), &err);
    command_write_text(directory, "mixes.json", text.data);
}

static void write_files(const char *directory)
{
    BUF_AUTO struct buf text;
    struct err err = {0};
    buf_init(&text, 1 << 20);
    command_write_data(directory, "a", TINY_SAMPLES, 1);
    command_write_job_with(directory, "job.json",
                           FIELDS ",\"strategy\":\"gossip\",\"devices\":{\"min\":2}");
    for (int g = 0; g < 2; g++) {
        char fields[1024];
        const int at[4] = {g ? 8 : 0, g ? 6 : 0, g ? 8 : 0, g ? 8 : 0};
        (void)snprintf(fields, sizeof(fields), FIELDS SHARD, g, at[0], at[1], at[2], at[3]);
        command_write_job_with(directory, g ? "group1.json" : "group0.json", fields);
        assert_ok(buf_printf(&text, &err, g ? "," : "["), &err);
        assert_ok(
            file_read(test_path_in(directory, g ? "group1.json" : "group0.json").text, &text, &err),
            &err);
    }
    assert_ok(buf_printf(&text, &err, "]"), &err);
    command_write_text(directory, "groups.json", text.data);
}

static int replay(const char *directory, const char *threads, struct err *err)
{
    bool misused = false;
    const int rc = command_run(replay_command, directory,
                               WORDS("@job.json", "--mixes=@mixes.json", "--groups=@groups.json",
                                     "--dataset=a=@a", "--output=@o", threads),
                               &misused, err);
    assert_false(misused);
    return rc;
}

static struct sha256_hex {
    char text[HASH_TEXT_SIZE];
} hash_of(const char *directory, const char *name)
{
    struct sha256_hex hash;
    BUF_AUTO struct buf file;
    struct err err = {0};
    buf_init(&file, 1 << 20);
    assert_ok(file_read(test_path_in(directory, name).text, &file, &err), &err);
    sha256_text(file.data, file.size, hash.text);
    return hash;
}

/* ---- by hand ---- */

/* The story, told once more. Writes "first" and "last". */
static void tell(const char *directory)
{
    static struct hand_world world;
    hand_world_open(&world, directory);
    struct hand zero = hand_begin(&world, 0, 1), one = hand_begin(&world, 1, 2);
    hand_train(&zero, 2);
    hand_train(&one, 3);
    struct hand_copy pair[2] = {hand_copy(&zero), hand_copy(&one)};
    hand_train(&zero, 3);
    hand_move(&zero, 0.5, &pair[0], &pair[1], 3);
    hand_move(&one, 0.5, &pair[1], &pair[0], 4);
    hand_train(&zero, 4);
    hand_train(&one, 5);
    struct hand_copy tag[2] = {hand_copy(&zero), hand_copy(&one)};
    struct hand_copy average = hand_average(&zero, &tag[0], &tag[1], NULL);
    hand_train(&zero, 5);
    hand_move(&zero, 1, &tag[0], &average, 8);
    hand_end(&one);
    one = hand_begin(&world, 1, 9);
    hand_write(&one, &average, directory, "first");
    hand_train(&zero, 6);
    struct hand_copy late[2] = {hand_copy(&zero), hand_copy(&one)};
    hand_train(&zero, 7);
    hand_move(&zero, 0.25, &late[0], &late[1], 10); /* the rate of the later start */
    hand_train(&one, 1);
    hand_move(&one, 0.75, &late[1], &late[0], 10);
    hand_train(&zero, 8);
    hand_train(&one, 2);
    struct hand_copy end_tag[2] = {hand_copy(&zero), hand_copy(&one)};
    struct hand_copy last =
        hand_average(&zero, &end_tag[0], &end_tag[1], (const double[]){0.625, 0.375});
    hand_write(&one, &last, directory, "last");
    for (size_t i = 0; i < 2; i++) {
        hand_drop(&pair[i]);
        hand_drop(&tag[i]);
        hand_drop(&late[i]);
        hand_drop(&end_tag[i]);
    }
    hand_drop(&average);
    hand_drop(&last);
    hand_end(&zero);
    hand_end(&one);
    hand_world_close(&world);
}

/* ---- tests ---- */

static void the_log_gives_the_bytes_of_groups_that_mix_by_hand(void **state)
{
    write_files(*state);
    tell(*state);
    write_log(*state, story, RECORDS);
    const struct sha256_hex expected = hash_of(*state, "last");
    for (size_t i = 0; i < 2; i++) {
        struct err err = {0};
        assert_ok(replay(*state, i ? "--threads=2" : "--threads=1", &err), &err);
        assert_string_equal(hash_of(*state, "o").text, expected.text);
    }
    write_log(*state, story, RECORDS - 1);
    struct err err = {0};
    assert_ok(replay(*state, "--threads=1", &err), &err);
    assert_string_equal(hash_of(*state, "o").text, hash_of(*state, "first").text);
}

static void all_averages_are_written_on_request(void **state)
{
    struct err err = {0};
    bool misused = false;
    write_files(*state);
    tell(*state);
    write_log(*state, story, RECORDS);
    assert_ok(command_run(replay_command, *state,
                          WORDS("@job.json", "--mixes=@mixes.json", "--groups=@groups.json",
                                "--dataset=a=@a", "--output=@o", "--averages=@"),
                          &misused, &err),
              &err);
    assert_string_equal(hash_of(*state, "average_1_2_group_1_1048577.safetensors").text,
                        hash_of(*state, "first").text);
    assert_string_equal(hash_of(*state, "average_1_4_group_1_2097153.safetensors").text,
                        hash_of(*state, "last").text);
    assert_string_equal(hash_of(*state, "o").text, hash_of(*state, "last").text);
}

static void assert_other(const char *directory, const struct mix_record *record, size_t count,
                         const char *expected)
{
    struct err err = {0};
    write_log(directory, record, count);
    if (replay(directory, "--threads=1", &err) == 0) {
        assert_string_not_equal(hash_of(directory, "o").text, expected);
    } else {
        assert_holds(err.text, "mixes.json': ");
    }
}

static void a_record_that_is_missing_or_there_twice_is_noticed(void **state)
{
    struct mix_record record[RECORDS + 1];
    write_files(*state);
    tell(*state);
    const struct sha256_hex expected = hash_of(*state, "last");
    for (size_t i = 0; i < RECORDS; i++) {
        size_t count = 0;
        for (size_t k = 0; k < RECORDS; k++) {
            record[count] = story[k];
            count += k != i;
        }
        assert_other(*state, record, count, expected.text);
        memcpy(record, story, sizeof(story));
        record[RECORDS] = story[i];
        struct err err = {0};
        write_log(*state, record, RECORDS + 1);
        assert_int_equal(replay(*state, "--threads=1", &err), ERR_INVALID);
        assert_holds(err.text, "in the log twice");
    }
}

/* The rate is used: a step follows before another record changes it. */
static bool sets_rate(const struct mix_record *record)
{
    const bool stops = record->kind == MIX_PAIR && record->applied_step == 7;
    return record->kind != MIX_AVERAGE && record->rate_step > 0 && !stops;
}

static void a_record_that_was_changed_is_noticed(void **state)
{
    struct mix_record record[RECORDS];
    write_files(*state);
    tell(*state);
    const struct sha256_hex expected = hash_of(*state, "last");
    for (size_t i = 0; i < RECORDS; i++) {
        const bool moves = story[i].kind == MIX_PAIR || story[i].kind == MIX_ADOPT;
        for (size_t change = 0; change < 7; change++) {
            struct mix_record *changed = &record[i];
            memcpy(record, story, sizeof(story));
            changed->own.version += change == 0;
            changed->peer[0].version += change == 1 && changed->peer_count > 0;
            changed->alpha *= change == 2 ? 0.5 : 1;
            changed->statistics_alpha *= change == 3 ? 0.5 : 1;
            changed->applied_step += change == 4 && moves;
            changed->peer[0].weight += change == 5 && story[i].kind == MIX_AVERAGE ? 0.125 : 0;
            changed->rate_step += change == 6 && sets_rate(&story[i]) ? 2 : 0;
            if (memcmp(changed, &story[i], sizeof(*changed)) != 0) {
                assert_other(*state, record, RECORDS, expected.text);
            }
        }
    }
}

static void other_files_are_rejected(void **state)
{
    const char *directory = *state;
    static const char *const wrong[][3] = {
        {"mixes.json", "{\"items\":[]}", "no records"},
        {"mixes.json", "{\"rows\":[]}", "GET /v1/jobs/{id}/mixes"},
        {"mixes.json", "{\"items\":[],\"next_cursor\":\"x\"}", "a page is missing"},
        {"mixes.json", "[{\"items\":[{}],\"next_cursor\":null}]", "/0/items/0"},
        {"mixes.json", "[1", "mixes.json"},
        {"groups.json", "[]", "1 to 32 groups"},
        {"groups.json", "[{}]", "groups.json': /0"},
    };
    write_files(directory);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct err err = {0};
        write_log(directory, story, RECORDS);
        command_write_text(directory, wrong[i][0], wrong[i][1]);
        assert_int_not_equal(replay(directory, "--threads=1", &err), 0);
        assert_holds(err.text, wrong[i][2]);
        write_files(directory);
    }
    struct err err = {0};
    write_log(directory, story, RECORDS);
    command_write_job_with(directory, "job.json", FIELDS);
    assert_int_not_equal(replay(directory, "--threads=1", &err), 0);
    assert_holds(err.text, "only jobs of strategy 'gossip'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_with_directory(the_log_gives_the_bytes_of_groups_that_mix_by_hand),
        test_with_directory(all_averages_are_written_on_request),
        test_with_directory(a_record_that_is_missing_or_there_twice_is_noticed),
        test_with_directory(a_record_that_was_changed_is_noticed),
        test_with_directory(other_files_are_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
