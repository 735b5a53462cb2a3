/* Messages by protocol version: what agents of earlier versions send and receive stays as it
 * was recorded. */
#include "tests/support/test.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "schema/assignment.h"
#include "schema/heartbeat.h"
#include "schema/limits.h"
#include "schema/records.h"
#include "schema/wire.h"

#define FIELDS_TEXT_MAX (64 << 10)
#define PATH_SIZE 256

/* The messages between coordinator and agents. */
static const char *const messages[] = {"enroll_request", "enroll_reply", "heartbeat",
                                       "heartbeat_reply", "assignment"};

/* Add a line for each field that the version has, and for those inside it. */
static void list_fields(const struct record *record, int version, const char *path, struct buf *out)
{
    for (size_t i = 0; i < record->field_count; i++) {
        const struct field *field = &record->fields[i];
        if (field->since > version) {
            continue;
        }
        char name[PATH_SIZE];
        (void)snprintf(name, sizeof(name), "%s/%s", path, field->name);
        struct err err = {0};
        assert_ok(buf_append(out, name, strlen(name), &err), &err);
        assert_ok(buf_append(out, "\n", 1, &err), &err);
        if (field->record && field->type != FIELD_MAP) {
            list_fields(field->record, version, name, out);
        }
    }
}

static void check_fields(int version)
{
    struct err err = {0};
    char file[64];
    BUF_AUTO struct buf recorded, listed;
    buf_init(&recorded, FIELDS_TEXT_MAX);
    buf_init(&listed, FIELDS_TEXT_MAX);
    (void)snprintf(file, sizeof(file), "tests/unit/schema/protocol_%d.txt", version);
    assert_ok(file_read(test_data_path(file).text, &recorded, &err), &err);
    for (size_t i = 0; i < sizeof(messages) / sizeof(messages[0]); i++) {
        list_fields(records_find(messages[i])->record, version, messages[i], &listed);
    }
    if (listed.size != recorded.size || memcmp(listed.data, recorded.data, listed.size) != 0) {
        (void)fwrite(listed.data, 1, listed.size, stdout);
        fail_msg("%s differs from the fields listed above: give new ones .since = %d "
                 "(CONTRIBUTING.md, \"Change the protocol\")",
                 file, PROTOCOL_VERSION);
    }
}

static void earlier_versions_have_the_fields_that_were_recorded(void **state)
{
    (void)state;
    for (int version = PROTOCOL_VERSION_MIN; version < PROTOCOL_VERSION; version++) {
        check_fields(version);
    }
}

/* Read a body of version 1, write it by the tables of version 1 and read that. */
static void check_body(const char *name, const char *path)
{
    struct err err = {0};
    BUF_AUTO struct buf text, once, twice;
    buf_init(&text, JSON_BODY_MAX);
    buf_init(&once, JSON_BODY_MAX);
    buf_init(&twice, JSON_BODY_MAX);
    assert_ok(file_read(path, &text, &err), &err);
    const struct records_entry *test = records_find(name);
    assert_non_null(test);
    struct buf *const written[] = {&once, &twice};
    const struct buf *source = &text;
    for (size_t i = 0; i < 2; i++) {
        json_auto_t *document = NULL;
        void *value = records_new(test);
        assert_non_null(value);
        assert_ok(json_parse(source->data, source->size, &document, &err), &err);
        assert_ok(wire_read_version(test->record, 1, document, value, NULL, &err), &err);
        assert_ok(wire_write_version(test->record, 1, value, written[i], &err), &err);
        record_done(test->record, value);
        free(value);
        source = written[i];
    }
    assert_int_equal(once.size, twice.size);
    assert_memory_equal(once.data, twice.data, once.size);
}

static void recorded_bodies_of_version_1_are_read_and_written(void **state)
{
    (void)state;
    const struct test_path folder = test_data_path("schema/examples/protocol_1");
    DIR *directory = opendir(folder.text);
    assert_non_null(directory);
    size_t count = 0;
    for (const struct dirent *entry = readdir(directory); entry; entry = readdir(directory)) {
        if (entry->d_name[0] != '.') {
            check_body(entry->d_name, test_path_in(folder.text, entry->d_name).text);
            count++;
        }
    }
    (void)closedir(directory);
    assert_true(count >= 10);
}

static int read_heartbeat(const char *members, int version, struct err *err)
{
    char text[512];
    (void)snprintf(text, sizeof(text),
                   "{\"device\":\"dev_1\",\"boot\":\"b\",\"phase\":\"idle\",%s}", members);
    struct heartbeat *heartbeat = calloc(1, sizeof(*heartbeat));
    assert_non_null(heartbeat);
    json_auto_t *document = NULL;
    assert_ok(json_parse(text, strlen(text), &document, err), err);
    const int rc = wire_read_version(&heartbeat_record, version, document, heartbeat, NULL, err);
    free(heartbeat);
    return rc;
}

static void a_field_of_version_2_is_unknown_to_version_1(void **state)
{
    (void)state;
    static const struct {
        const char *members, *name;
    } added[] = {
        {"\"free_memory_bytes\":1", "/free_memory_bytes"},
        {"\"leaving\":true", "/leaving"},
        {"\"stage_seconds\":{\"step\":0.1}", "/stage_seconds"},
        {"\"probe\":{\"gemm_gflops\":1,\"memory_bytes_per_second\":1,\"age_ms\":0}", "/probe"},
        {"\"links\":[{\"device\":\"dev_2\",\"count\":1,\"seconds_sum\":1,\"bytes_sum\":1,"
         "\"bytes_squared_sum\":1,\"bytes_seconds_sum\":1,\"kind\":\"replica\"}]",
         "/links/0/kind"},
    };
    for (size_t i = 0; i < sizeof(added) / sizeof(added[0]); i++) {
        struct err err = {0};
        assert_ok(read_heartbeat(added[i].members, 2, &err), &err);
        assert_int_equal(read_heartbeat(added[i].members, 1, &err), ERR_INVALID);
        assert_holds(err.text, added[i].name);
        assert_holds(err.text, "unknown field");
    }
}

static void an_agent_of_version_1_is_sent_no_field_of_version_2(void **state)
{
    (void)state;
    struct err err = {0};
    struct heartbeat *heartbeat = calloc(1, sizeof(*heartbeat));
    assert_non_null(heartbeat);
    heartbeat->free_memory_bytes = 1;
    heartbeat->link_count = 1;
    heartbeat->link[0].kind = LINK_REPLICA;
    BUF_AUTO struct buf old, present;
    buf_init(&old, JSON_BODY_MAX);
    buf_init(&present, JSON_BODY_MAX);
    assert_ok(wire_write_version(&heartbeat_record, 1, heartbeat, &old, &err), &err);
    assert_ok(wire_write(&heartbeat_record, heartbeat, &present, &err), &err);
    free(heartbeat);
    assert_null(strstr(old.data, "free_memory_bytes"));
    assert_null(strstr(old.data, "replica"));
    assert_holds(present.data, "\"free_memory_bytes\":1");
    assert_holds(present.data, "\"kind\":\"replica\"");
}

static void an_agent_of_version_2_is_sent_no_view(void **state)
{
    (void)state;
    struct err err = {0};
    struct assignment *assignment = calloc(1, sizeof(*assignment));
    assert_non_null(assignment);
    assignment->has_run = true;
    assignment->run.job_spec = job_spec_default;
    assignment->run.job_spec.has_view = true;
    assignment->run.job_spec.view.class_count = 1;
    assignment->run.data.epoch_samples = 5;
    assignment->run.data.holdout_samples = 5;
    BUF_AUTO struct buf old, present;
    buf_init(&old, JSON_BODY_MAX);
    buf_init(&present, JSON_BODY_MAX);
    assert_ok(wire_write_version(&assignment_record, 2, assignment, &old, &err), &err);
    assert_ok(wire_write(&assignment_record, assignment, &present, &err), &err);
    free(assignment);
    static const char *const added[] = {"\"view\"", "epoch_samples", "holdout_samples"};
    for (size_t i = 0; i < sizeof(added) / sizeof(added[0]); i++) {
        assert_null(strstr(old.data, added[i]));
        assert_holds(present.data, added[i]);
    }
}

static void an_agent_of_version_5_is_sent_no_shard(void **state)
{
    (void)state;
    struct err err = {0};
    struct assignment *assignment = calloc(1, sizeof(*assignment));
    assert_non_null(assignment);
    assignment->has_run = true;
    assignment->run.job_spec = job_spec_default;
    assignment->run.job_spec.has_view = true;
    assignment->run.job_spec.view = (struct view){
        .is_shard = true, .range = {{3, 0, 5}}, .range_count = 1, .seed = 7, .shard_count = 2};
    BUF_AUTO struct buf old, present;
    buf_init(&old, JSON_BODY_MAX);
    buf_init(&present, JSON_BODY_MAX);
    assert_ok(wire_write_version(&assignment_record, 5, assignment, &old, &err), &err);
    assert_ok(wire_write(&assignment_record, assignment, &present, &err), &err);
    free(assignment);
    assert_null(strstr(old.data, "shard"));
    assert_holds(present.data, "\"view\":{\"shard\":{\"index\":0,\"count\":2,\"seed\":7,"
                               "\"class_ranges\":[{\"class\":3,\"first\":0,\"count\":5}]}}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(earlier_versions_have_the_fields_that_were_recorded),
        cmocka_unit_test(recorded_bodies_of_version_1_are_read_and_written),
        cmocka_unit_test(a_field_of_version_2_is_unknown_to_version_1),
        cmocka_unit_test(an_agent_of_version_1_is_sent_no_field_of_version_2),
        cmocka_unit_test(an_agent_of_version_2_is_sent_no_view),
        cmocka_unit_test(an_agent_of_version_5_is_sent_no_shard),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
