#include "base/record.h"

#include <math.h>
#include <string.h>

#include "tests/support/test.h"

struct layer {
    char name[16];
    int64_t units;
    double shape[3];
    size_t shape_count;
    json_t *extra;
};

struct rate {
    double value;
    int64_t warmup;
};

struct job {
    char id[16];
    char name[8];
    int64_t batch;
    int64_t seed;
    int64_t large;
    int64_t steps;
    double momentum;
    double any_number;
    int strategy;
    bool recompute;
    int64_t created_ms;
    struct rate rate;
    struct rate limit;
    bool has_limit;
    struct layer layers[3];
    size_t layer_count;
    char tags[2][8];
    size_t tag_count;
    json_t *spec;
    char secret[8];
};

static const char *const strategies[] = {"pipeline", "gossip", NULL};

static const struct field dimension = {.type = FIELD_DOUBLE, .min = 1, .max = 100};
static const struct field tag = {.type = FIELD_TEXT, .size = 8};

static const struct field layer_fields[] = {
    MEMBER_TEXT(struct layer, name, "name", FIELD_REQUIRED),
    MEMBER_INT(struct layer, units, "units", 0, 1, 64),
    MEMBER_LIST(struct layer, shape, shape_count, "shape", FIELD_SKIP_EMPTY, &dimension),
    MEMBER_JSON(struct layer, extra, "extra", FIELD_SKIP_EMPTY),
};
static const struct record layer_record = RECORD(struct layer, "layer", layer_fields);

static const struct field rate_fields[] = {
    MEMBER_DOUBLE(struct rate, value, "value", FIELD_REQUIRED, 0, 1),
    MEMBER_INT(struct rate, warmup, "warmup", 0, 0, 1000),
};
static const struct record rate_record = RECORD(struct rate, "rate", rate_fields);

static const struct field job_fields[] = {
    MEMBER_TEXT(struct job, id, "id", FIELD_OUTPUT),
    MEMBER_TEXT(struct job, name, "name", 0),
    MEMBER_INT(struct job, batch, "batch", 0, 1, 8),
    MEMBER_INT(struct job, seed, "seed", 0, 0, 0),
    MEMBER_INT(struct job, large, "large", 0, -9007199254740992.0, 9007199254740992.0),
    MEMBER_INT(struct job, steps, "steps", FIELD_NULLABLE, 0, 100),
    MEMBER_DOUBLE(struct job, momentum, "momentum", 0, 0, 0.999),
    MEMBER_DOUBLE(struct job, any_number, "any/number", 0, 0, 0),
    MEMBER_ENUM(struct job, strategy, "strategy", 0, strategies),
    MEMBER_BOOL(struct job, recompute, "recompute", 0),
    MEMBER_TIME(struct job, created_ms, "created", FIELD_NULLABLE),
    MEMBER_RECORD(struct job, rate, "rate", 0, &rate_record),
    MEMBER_OPTIONAL(struct job, limit, has_limit, "limit", 0, &rate_record),
    MEMBER_RECORDS(struct job, layers, layer_count, "layers", 0, &layer_record),
    MEMBER_LIST(struct job, tags, tag_count, "tags", FIELD_NULLABLE, &tag),
    MEMBER_JSON(struct job, spec, "spec", FIELD_NULLABLE),
    MEMBER_TEXT(struct job, secret, "secret", FIELD_INPUT),
};
static const struct record job_record = RECORD(struct job, "job", job_fields);

static const struct job defaults = {.id = "job_1",
                                    .name = "none",
                                    .batch = 4,
                                    .steps = 5,
                                    .momentum = 0.9,
                                    .rate = {.value = 0.05, .warmup = 7}};

struct outcome {
    struct job job;
    struct record_faults faults;
    struct err err;
    int rc;
};

static void read_job(struct outcome *out, const char *text)
{
    *out = (struct outcome){.job = defaults};
    json_auto_t *value = NULL;
    assert_ok(json_parse(text, strlen(text), &value, &out->err), &out->err);
    out->rc = record_read(&job_record, value, "", &out->job, &out->faults, &out->err);
}

static void check_written(const struct job *job, const char *part)
{
    struct err err = {0};
    json_auto_t *value = record_write(&job_record, job);
    assert_non_null(value);
    BUF_AUTO struct buf text;
    buf_init(&text, 10000);
    assert_ok(json_write(value, &text, &err), &err);
    assert_holds(text.data, part);
}

/* The text must have exactly this one fault. */
static void check_fault(const char *text, const char *pointer, const char *message)
{
    struct outcome out;
    read_job(&out, text);
    assert_int_equal(out.rc, ERR_INVALID);
    assert_int_equal(out.faults.count, 1);
    assert_false(out.faults.more);
    assert_string_equal(out.faults.fault[0].pointer, pointer);
    assert_string_equal(out.faults.fault[0].message, message);
    record_done(&job_record, &out.job);
}

static void absent_fields_keep_their_defaults(void **state)
{
    (void)state;
    struct outcome out;
    read_job(&out, "{}");
    assert_ok(out.rc, &out.err);
    assert_memory_equal(&out.job, &defaults, sizeof(defaults));
    assert_int_equal(out.faults.count, 0);
}

static void every_type_is_read(void **state)
{
    (void)state;
    struct outcome out;
    read_job(&out, "{\"name\":\"1234567\",\"batch\":8,\"seed\":-9223372036854775808,\"steps\":9,"
                   "\"momentum\":0,"
                   "\"any/number\":-1e300,\"strategy\":\"gossip\",\"recompute\":true,"
                   "\"created\":\"2026-01-31T12:00:00.123Z\",\"rate\":{\"value\":1},\"limit\":{"
                   "\"value\":0.5,\"warmup\":3},"
                   "\"layers\":[{\"name\":\"a\",\"shape\":[1,2.5]},{\"name\":\"b\",\"units\":64}],"
                   "\"tags\":[\"x\",\"yy\"],\"spec\":{\"free\":[1]},\"secret\":\"s\"}");
    assert_ok(out.rc, &out.err);
    const struct job *job = &out.job;
    assert_string_equal(job->name, "1234567");
    assert_int_equal(job->batch, 8);
    assert_int_equal(job->seed, INT64_MIN);
    assert_int_equal(job->steps, 9);
    assert_int_equal(job->strategy, 1);
    assert_true(job->recompute && job->has_limit);
    assert_int_equal(job->created_ms, 1769860800123);
    assert_int_equal(job->rate.warmup, 7);
    assert_int_equal(job->limit.warmup, 3);
    assert_int_equal(job->layer_count, 2);
    assert_int_equal(job->layers[0].shape_count, 2);
    assert_string_equal(job->layers[1].name, "b");
    assert_int_equal(job->tag_count, 2);
    assert_string_equal(job->tags[1], "yy");
    assert_string_equal(job->secret, "s");
    const double numbers[] = {job->momentum, job->any_number, job->rate.value, job->limit.value,
                              job->layers[0].shape[1]};
    const double expected[] = {0, -1e300, 1, 0.5, 2.5};
    for (size_t i = 0; i < 5; i++) {
        assert_close(&numbers[i], &expected[i], 1, 0);
    }
    assert_int_equal(json_array_size(json_object_get(job->spec, "free")), 1);
    record_done(&job_record, &out.job);
    assert_null(out.job.spec);
    assert_string_equal(out.job.name, "1234567");
}

static void a_written_value_reads_back_unchanged(void **state)
{
    (void)state;
    struct outcome out;
    read_job(&out, "{\"name\":\"\xC3\xA9\",\"momentum\":0.1,\"limit\":{\"value\":0.3},\"created\":"
                   "\"2026-01-31T12:00:00Z\","
                   "\"layers\":[{\"name\":\"a\",\"units\":2,\"extra\":{\"k\":[null]}}],\"tags\":["
                   "\"t\"],\"spec\":[1]}");
    assert_ok(out.rc, &out.err);
    json_auto_t *written = record_write(&job_record, &out.job);
    assert_non_null(written);
    assert_int_equal(json_object_del(written, "id"), 0);
    struct job again = defaults;
    assert_ok(record_read(&job_record, written, "", &again, NULL, &out.err), &out.err);
    json_auto_t *twice = record_write(&job_record, &again);
    assert_int_equal(json_object_del(twice, "id"), 0);
    assert_true(json_equal(written, twice));
    record_done(&job_record, &again);
    record_done(&job_record, &out.job);
}

static void null_reads_as_the_zero_value_of_nullable_fields_and_back(void **state)
{
    (void)state;
    struct outcome out;
    read_job(&out, "{\"steps\":null,\"created\":null,\"limit\":null,\"tags\":null,\"spec\":null}");
    assert_ok(out.rc, &out.err);
    assert_int_equal(out.job.steps, 0);
    assert_false(out.job.has_limit);
    assert_int_equal(out.job.tag_count, 0);
    assert_null(out.job.spec);
    check_written(&out.job, "\"steps\":null");
    check_written(&out.job, "\"created\":null");
    check_written(&out.job, "\"limit\":null,\"layers\":[],\"tags\":null,\"spec\":null}");
    check_fault("{\"batch\":null}", "/batch", "expected an integer, got null");
    check_fault("{\"rate\":null}", "/rate",
                "expected an object with the members value, warmup, got null");
    check_fault("{\"layers\":[null]}", "/layers/0",
                "expected an object with the members name, units, shape, extra, got null");
}

static void unknown_fields_name_the_nearest_known_one(void **state)
{
    (void)state;
    check_fault("{\"momentun\":0.5}", "/momentun", "unknown field; did you mean 'momentum'?");
    check_fault("{\"something\":1}", "/something", "unknown field");
    check_fault("{\"rate\":{\"value\":1,\"warmups\":1}}", "/rate/warmups",
                "unknown field; did you mean 'warmup'?");
    check_fault("{\"modle\":1}", "/modle", "unknown field");
    check_fault("{\"bacth\":1}", "/bacth", "unknown field; did you mean 'batch'?");
    check_fault("{\"batch_size\":1}", "/batch_size", "unknown field; did you mean 'batch'?");
    check_fault("{\"warmup\":1}", "/warmup", "unknown field; did you mean 'rate.warmup'?");
    check_fault("{\"a~b/c\":1}", "/a~0b~1c", "unknown field");
    check_fault("{\"\":1}", "/", "unknown field");
}

static void fields_of_the_server_are_refused_and_never_suggested(void **state)
{
    (void)state;
    check_fault("{\"id\":\"job_2\"}", "/id", "is read-only");
    check_fault("{\"ids\":\"job_2\"}", "/ids", "unknown field");
    check_written(&defaults, "{\"id\":\"job_1\",\"name\"");
}

static void fields_of_the_client_are_never_written(void **state)
{
    (void)state;
    struct job job = defaults;
    memcpy(job.secret, "s", 2);
    json_auto_t *value = record_write(&job_record, &job);
    assert_null(json_object_get(value, "secret"));
}

static void wrong_types_are_named(void **state)
{
    (void)state;
    check_fault("[]", "", "expected an object, got an array");
    check_fault("{\"name\":1}", "/name", "expected a string, got an integer");
    check_fault("{\"batch\":\"1\"}", "/batch", "expected an integer, got a string");
    check_fault("{\"batch\":1.0}", "/batch",
                "expected an integer, got a number with a fraction or exponent");
    check_fault("{\"rate\":0.1}", "/rate",
                "expected an object with the members value, warmup, got a number");
    check_fault("{\"momentum\":true}", "/momentum", "expected a number, got a boolean");
    check_fault("{\"recompute\":0}", "/recompute", "expected a boolean, got an integer");
    check_fault("{\"strategy\":0}", "/strategy", "expected a string, got an integer");
    check_fault("{\"created\":5}", "/created", "expected a string, got an integer");
    check_fault("{\"layers\":{}}", "/layers", "expected an array, got an object");
    check_fault("{\"layers\":[{\"name\":\"a\"},7]}", "/layers/1",
                "expected an object with the members name, units, shape, extra, got an integer");
}

static void a_value_out_of_bounds_is_reported_with_the_bound(void **state)
{
    (void)state;
    check_fault("{\"batch\":0}", "/batch", "must be at least 1");
    check_fault("{\"batch\":9}", "/batch", "must be at most 8");
    check_fault("{\"momentum\":0.9991}", "/momentum", "must be at most 0.999");
    check_fault("{\"momentum\":-1e-9}", "/momentum", "must be at least 0");
    check_fault("{\"name\":\"12345678\"}", "/name", "is 8 bytes long; at most 7 are allowed");
    check_fault("{\"strategy\":\"magic\"}", "/strategy",
                "unknown value 'magic'; expected one of pipeline, gossip");
    check_fault("{\"created\":\"yesterday\"}", "/created",
                "'yesterday' is not a time; expected RFC 3339 such as 2026-01-31T12:00:00Z");
    check_fault("{\"tags\":[\"a\",\"b\",\"c\"]}", "/tags", "has 3 elements; at most 2 are allowed");
    check_fault("{\"layers\":[{\"name\":\"a\",\"shape\":[1,101]}]}", "/layers/0/shape/1",
                "must be at most 100");
    check_fault("{\"rate\":{}}", "/rate/value", "is required");
}

static void integer_bounds_are_exact_where_doubles_are_not(void **state)
{
    (void)state;
    struct outcome out;
    read_job(&out, "{\"large\":9007199254740992,\"seed\":9223372036854775807}");
    assert_ok(out.rc, &out.err);
    assert_int_equal(out.job.large, INT64_C(9007199254740992));
    assert_int_equal(out.job.seed, INT64_MAX);
    check_written(&out.job, "\"seed\":9223372036854775807");
    check_fault("{\"large\":9007199254740993}", "/large", "must be at most 9007199254740992");
    check_fault("{\"large\":-9007199254740993}", "/large", "must be at least -9007199254740992");
}

struct wide {
    int64_t value;
};

static int read_wide(double min, double max, int64_t value)
{
    const struct field fields[] = {MEMBER_INT(struct wide, value, "value", 0, min, max)};
    const struct record record = RECORD(struct wide, "wide", fields);
    json_auto_t *object = json_pack("{sI}", "value", (json_int_t)value);
    struct wide wide = {0};
    return record_read(&record, object, "", &wide, NULL, NULL);
}

static void integer_bounds_may_lie_beyond_int64_or_between_integers(void **state)
{
    (void)state;
    assert_int_equal(read_wide(-INFINITY, INFINITY, INT64_MIN), 0);
    assert_int_equal(read_wide(-0x1p63, 0x1p63, INT64_MAX), 0);
    assert_int_equal(read_wide(-0x1p63, 0x1p63, INT64_MIN), 0);
    assert_int_equal(read_wide(0x1p63, 0x1p64, INT64_MAX), ERR_INVALID);
    assert_int_equal(read_wide(-0x1p64, -0x1.8p63, INT64_MIN), ERR_INVALID);
    assert_int_equal(read_wide(-0x1p63, -0x1p63, INT64_MIN), 0);
    assert_int_equal(read_wide(-0x1p63, -0x1p63, INT64_MIN + 1), ERR_INVALID);
    assert_int_equal(read_wide(0.5, 2.5, 0), ERR_INVALID);
    assert_int_equal(read_wide(0.5, 2.5, 1), 0);
    assert_int_equal(read_wide(0.5, 2.5, 2), 0);
    assert_int_equal(read_wide(0.5, 2.5, 3), ERR_INVALID);
    assert_int_equal(read_wide(-2.5, -0.5, -3), ERR_INVALID);
    assert_int_equal(read_wide(-2.5, -0.5, -2), 0);
}

static void all_faults_are_collected_at_any_depth(void **state)
{
    (void)state;
    struct outcome out;
    read_job(&out, "{\"batch\":0,\"batchs\":1,\"layers\":[{\"units\":0,\"shape\":[0]},{\"name\":"
                   "\"b\",\"x\":1}]}");
    assert_int_equal(out.rc, ERR_INVALID);
    static const char *const pointers[] = {"/batchs",           "/batch",
                                           "/layers/0/name",    "/layers/0/units",
                                           "/layers/0/shape/0", "/layers/1/x"};
    assert_int_equal(out.faults.count, 6);
    for (size_t i = 0; i < 6; i++) {
        assert_string_equal(out.faults.fault[i].pointer, pointers[i]);
    }
    assert_string_equal(out.err.text, "/batchs: unknown field; did you mean 'batch'?");
    record_done(&job_record, &out.job);
}

static void faults_beyond_the_bound_are_only_remembered_as_more(void **state)
{
    (void)state;
    struct outcome out;
    char text[1000] = "{";
    size_t size = 1;
    for (int i = 0; i < RECORD_FAULTS_MAX + 1; i++) {
        size +=
            (size_t)snprintf(text + size, sizeof(text) - size, "%s\"zzzz%d\":1", i ? "," : "", i);
    }
    memcpy(text + size, "}", 2);
    read_job(&out, text);
    assert_int_equal(out.rc, ERR_INVALID);
    assert_int_equal(out.faults.count, RECORD_FAULTS_MAX);
    assert_true(out.faults.more);
}

const char *__real_parse_nearest(const char *text, const char *const *candidates, size_t count);
const char *__wrap_parse_nearest(const char *text, const char *const *candidates, size_t count);
static size_t searches;

const char *__wrap_parse_nearest(const char *text, const char *const *candidates, size_t count)
{
    searches++;
    return __real_parse_nearest(text, candidates, count);
}

static void nearest_names_are_searched_only_for_the_faults_that_are_kept(void **state)
{
    (void)state;
    struct outcome out = {0};
    json_auto_t *value = json_object();
    for (int i = 0; i < 5000; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "batc%d", i);
        assert_int_equal(json_object_set_new(value, name, json_true()), 0);
    }
    searches = 0;
    assert_int_equal(record_read(&job_record, value, "", &out.job, &out.faults, &out.err),
                     ERR_INVALID);
    assert_int_equal(out.faults.count, RECORD_FAULTS_MAX);
    assert_string_equal(out.faults.fault[RECORD_FAULTS_MAX - 1].message,
                        "unknown field; did you mean 'batch'?");
    assert_true(out.faults.more);
    assert_true(searches <= RECORD_FAULTS_MAX + 1);

    searches = 0;
    assert_int_equal(record_read(&job_record, value, "", &out.job, NULL, &out.err), ERR_INVALID);
    assert_int_equal(searches, 1);
}

static void a_full_list_of_faults_does_not_hide_the_first_new_one(void **state)
{
    (void)state;
    struct outcome out;
    read_job(&out, "{}");
    for (int i = 0; i < RECORD_FAULTS_MAX; i++) {
        record_fault(&out.faults, "/x", "is %s", "wrong");
    }
    assert_false(out.faults.more);
    json_auto_t *value = json_pack("{si}", "batch", 99);
    assert_int_equal(record_read(&job_record, value, "/deep", &out.job, &out.faults, &out.err),
                     ERR_INVALID);
    assert_string_equal(out.err.text, "/deep/batch: must be at most 8");
    assert_true(out.faults.more);
    assert_string_equal(out.faults.fault[RECORD_FAULTS_MAX - 1].message, "is wrong");
}

static void faults_of_the_whole_document_name_the_record_in_the_error(void **state)
{
    (void)state;
    struct outcome out;
    read_job(&out, "7");
    assert_string_equal(out.err.text, "job: expected an object, got an integer");
}

static void long_names_are_truncated_to_one_line(void **state)
{
    (void)state;
    struct outcome out;
    char text[1000] = "{\"line\\n";
    memset(text + 8, '/', 900);
    memcpy(text + 908, "\":1}", 5);
    read_job(&out, text);
    assert_int_equal(out.rc, ERR_INVALID);
    const char *pointer = out.faults.fault[0].pointer;
    assert_int_equal(strlen(pointer), RECORD_POINTER_MAX - 1);
    assert_memory_equal(pointer, "/line?~1~1", 10);
    assert_string_equal(pointer + RECORD_POINTER_MAX - 4, "...");
}

static void a_shorter_list_frees_elements_of_the_longer_default(void **state)
{
    (void)state;
    struct err err = {0};
    struct job job = defaults;
    job.layer_count = 2;
    job.layers[0].extra = json_integer(1);
    job.layers[1].extra = json_pack("[s]", "x");
    json_auto_t *value = json_pack("{s[{ssss}]}", "layers", "name", "a", "extra", "new");
    assert_ok(record_read(&job_record, value, "", &job, NULL, &err), &err);
    assert_int_equal(job.layer_count, 1);
    assert_string_equal(json_string_value(job.layers[0].extra), "new");
    assert_null(job.layers[1].extra);
    record_done(&job_record, &job);
    assert_null(job.layers[0].extra);
}

static void values_outside_json_are_written_as_valid_json(void **state)
{
    (void)state;
    struct job job = defaults;
    job.momentum = NAN;
    job.any_number = INFINITY;
    memcpy(job.name, "a\xFF\xC3\xA9", 5);
    check_written(&job, "\"momentum\":null");
    check_written(&job, "\"any/number\":null");
    check_written(&job, "\"name\":\"a?\xC3\xA9\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(absent_fields_keep_their_defaults),
        cmocka_unit_test(every_type_is_read),
        cmocka_unit_test(a_written_value_reads_back_unchanged),
        cmocka_unit_test(null_reads_as_the_zero_value_of_nullable_fields_and_back),
        cmocka_unit_test(unknown_fields_name_the_nearest_known_one),
        cmocka_unit_test(fields_of_the_server_are_refused_and_never_suggested),
        cmocka_unit_test(fields_of_the_client_are_never_written),
        cmocka_unit_test(wrong_types_are_named),
        cmocka_unit_test(a_value_out_of_bounds_is_reported_with_the_bound),
        cmocka_unit_test(integer_bounds_are_exact_where_doubles_are_not),
        cmocka_unit_test(integer_bounds_may_lie_beyond_int64_or_between_integers),
        cmocka_unit_test(all_faults_are_collected_at_any_depth),
        cmocka_unit_test(faults_beyond_the_bound_are_only_remembered_as_more),
        cmocka_unit_test(nearest_names_are_searched_only_for_the_faults_that_are_kept),
        cmocka_unit_test(a_full_list_of_faults_does_not_hide_the_first_new_one),
        cmocka_unit_test(faults_of_the_whole_document_name_the_record_in_the_error),
        cmocka_unit_test(long_names_are_truncated_to_one_line),
        cmocka_unit_test(a_shorter_list_frees_elements_of_the_longer_default),
        cmocka_unit_test(values_outside_json_are_written_as_valid_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
