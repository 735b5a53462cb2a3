/* The faults of single fields and the rules between them: schema/examples/invalid. */
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#include "schema/job.h"
#include "schema/job_check.h"
#include "schema/wire.h"

static void a_job_ends_in_three_states(void **state)
{
    (void)state;
    size_t ended = 0;
    for (int i = JOB_QUEUED; i <= JOB_CANCELLED; i++) {
        ended += job_state_ended(i);
    }
    assert_int_equal(ended, 3);
    assert_true(job_state_ended(JOB_SUCCEEDED) && job_state_ended(JOB_FAILED) &&
                job_state_ended(JOB_CANCELLED));
}

static void the_steps_of_a_job_end_with_the_earlier_of_steps_and_epochs(void **state)
{
    (void)state;
    struct job_spec spec = job_spec_default;
    spec.epochs = 2;
    assert_int_equal(job_total_steps(&spec, 3000), 2 * 93);
    spec.steps = 100;
    assert_int_equal(job_total_steps(&spec, 3000), 100);
    spec.steps = 1000;
    assert_int_equal(job_total_steps(&spec, 3000), 2 * 93);
    assert_int_equal(job_total_steps(&spec, 31), 0);
}

/* A job with these fields, and all that follows from them. */
static void read_completed(const char *fields, struct job_spec *spec)
{
    char text[512];
    struct err err = {0};
    const int size =
        snprintf(text, sizeof(text),
                 "{\"model\":{\"name\":\"lenet5\"},\"dataset\":{\"train\":\"t\"},%s}", fields);
    *spec = job_spec_default;
    assert_ok(wire_read(&job_spec_record, text, (size_t)size, spec, NULL, &err), &err);
    job_spec_complete(spec);
}

static void the_learning_rate_follows_the_optimizer_unless_it_is_stated(void **state)
{
    (void)state;
    static const struct {
        const char *recipe;
        double rate;
    } cases[] = {
        {"\"steps\":1", 0.01},
        {"\"optimizer\":{\"type\":\"sgd\"}", 0.01},
        {"\"optimizer\":{\"type\":\"adam\"}", 0.001},
        {"\"optimizer\":{\"type\":\"adamw\"},\"learning_rate\":{\"value\":null,\"type\":"
         "\"cosine\"}",
         0.001},
        {"\"optimizer\":{\"type\":\"adamw\"},\"learning_rate\":{\"value\":0.05}", 0.05},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct job_spec spec;
        read_completed(cases[i].recipe, &spec);
        assert_true(spec.learning_rate.value == cases[i].rate);
        job_spec_complete(&spec);
        assert_true(spec.learning_rate.value == cases[i].rate);
    }
}

static void a_model_of_the_zoo_brings_its_own_rate_for_sgd(void **state)
{
    (void)state;
    static const struct {
        const char *model;
        int optimizer;
        double rate;
    } cases[] = {
        {"resnet50", OPTIMIZER_SGD, 0.003},   {"resnet50", OPTIMIZER_ADAM, 0.001},
        {"resnet50", OPTIMIZER_ADAMW, 0.001}, {"resnet18", OPTIMIZER_SGD, 0.01},
        {"mine", OPTIMIZER_SGD, 0.01},        {"", OPTIMIZER_SGD, 0.01},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct job_spec spec = job_spec_default;
        (void)snprintf(spec.model.name, sizeof(spec.model.name), "%s", cases[i].model);
        spec.optimizer.type = cases[i].optimizer;
        job_spec_complete(&spec);
        assert_true(spec.learning_rate.value == cases[i].rate);
        spec.learning_rate.value = 0.05;
        job_spec_complete(&spec);
        assert_true(spec.learning_rate.value == 0.05);
    }
}

static void the_micro_batches_follow_the_pipeline_unless_they_are_stated(void **state)
{
    (void)state;
    static const struct {
        const char *fields;
        int64_t micro_batches;
    } cases[] = {
        {"\"steps\":1", 4},
        {"\"pipeline\":\"sync\",\"micro_batches\":null", 4},
        {"\"pipeline\":\"async\"", 1},
        {"\"pipeline\":\"async\",\"micro_batches\":1", 1},
        {"\"micro_batches\":8", 8},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct err err = {0};
        struct job_spec spec;
        read_completed(cases[i].fields, &spec);
        assert_int_equal(spec.micro_batches, cases[i].micro_batches);
        assert_ok(job_spec_check(&spec, NULL, &err), &err);
    }
}

static void a_spec_is_checked_without_a_list_of_faults_too(void **state)
{
    (void)state;
    struct err err = {0};
    struct job_spec spec = job_spec_default;
    memcpy(spec.model.name, "lenet5", sizeof("lenet5"));
    memcpy(spec.dataset_train, "digits", sizeof("digits"));
    assert_int_equal(job_spec_check(&spec, NULL, &err), 0);
    spec.devices_min = 9;
    assert_int_equal(job_spec_check(&spec, NULL, &err), ERR_INVALID);
    assert_string_equal(err.text, "/devices/min: must be at most max (8)");
}

static void a_codec_that_the_build_lacks_is_refused_with_one_that_it_has(void **state)
{
    (void)state;
    for (int codec = CODEC_NONE; codec <= COMPRESSION_AUTO; codec++) {
        struct err err = {0};
        struct job_spec spec = job_spec_default;
        memcpy(spec.model.name, "lenet5", sizeof("lenet5"));
        memcpy(spec.dataset_train, "digits", sizeof("digits"));
        spec.compression = codec;
        if (codec == COMPRESSION_AUTO || codec_available((enum codec)codec)) {
            assert_ok(job_spec_check(&spec, NULL, &err), &err);
            continue;
        }
        assert_int_equal(job_spec_check(&spec, NULL, &err), ERR_INVALID);
        assert_holds(err.text, "/compression: this build has no zstd; use '");
        assert_holds(err.text, codec_info(codec_info((enum codec)codec)->plain)->name);
    }
}

static void compressions_have_the_names_of_the_codecs(void **state)
{
    (void)state;
    for (int codec = CODEC_NONE; codec < CODECS; codec++) {
        assert_string_equal(compression_names[codec], codec_info((enum codec)codec)->name);
        assert_string_equal(codec_names[codec], codec_info((enum codec)codec)->name);
    }
    assert_string_equal(compression_names[COMPRESSION_AUTO], "auto");
    assert_null(compression_names[COMPRESSION_AUTO + 1]);
}

static void borders_lie_within_the_model(void **state)
{
    (void)state;
    struct err err = {0};
    struct record_faults faults = {0};
    const int64_t cuts[] = {1, 4, 5};
    assert_int_equal(job_cuts_check(cuts, 2, 5, &faults, &err), 0);
    assert_int_equal(job_cuts_check(cuts, 3, 5, &faults, &err), ERR_INVALID);
    assert_int_equal(faults.count, 1);
    assert_string_equal(faults.fault[0].pointer, "/cuts/2");
    assert_string_equal(faults.fault[0].message, "must be below 5, the model's number of units");
    assert_int_equal(job_cuts_check(NULL, 0, 1, NULL, &err), 0);
}

static struct job_spec read_augment(const char *list)
{
    char text[512];
    struct err err = {0};
    struct job_spec spec = job_spec_default;
    int size = snprintf(
        text, sizeof(text),
        "{\"model\": {\"name\": \"lenet5\"}, \"dataset\": {\"train\": \"t\"}, \"augment\": %s}",
        list);
    assert_in_range(size, 1, sizeof(text) - 1);
    assert_ok(wire_read(&job_spec_record, text, (size_t)size, &spec, NULL, &err), &err);
    assert_ok(job_spec_check(&spec, NULL, &err), &err);
    return spec;
}

static void check_augment(const char *list, struct shape sample, const char *expected)
{
    struct err err = {0};
    struct job_spec spec = read_augment(list);
    assert_int_equal(job_augment_check(&spec, sample, NULL, &err), expected ? ERR_INVALID : 0);
    assert_string_equal(err.text, expected ? expected : "");
    record_done(&job_spec_record, &spec);
}

static void an_augment_fits_the_samples(void **state)
{
    (void)state;
    static const char two[] = "[{\"type\": \"normalise\", \"mean\": [1, 2], \"std\": [3, 4]}]";
    static const char uneven[] = "[{\"type\": \"normalise\", \"mean\": [1, 2], \"std\": [3]}]";
    check_augment("[]", (struct shape){1, 1, 20}, NULL);
    check_augment("[{\"type\": \"flip\"}]", (struct shape){64, 1, 1},
                  "/augment/0: is for images; samples of 64 x 1 x 1 are none");
    check_augment("[{\"type\": \"crop\", \"padding\": 5}]", (struct shape){6, 9, 1}, NULL);
    check_augment("[{\"type\": \"crop\", \"padding\": 6}]", (struct shape){6, 9, 1},
                  "/augment/0/padding: must be below the samples' shorter side, 6");
    check_augment(two, (struct shape){6, 9, 2}, NULL);
    check_augment(two, (struct shape){6, 9, 3},
                  "/augment/0/mean: has 2 numbers; the samples have 3 channels");
    check_augment(uneven, (struct shape){6, 9, 2},
                  "/augment/0/std: has 1 numbers; the samples have 2 channels");
    struct job_spec spec = read_augment(two);
    assert_int_equal(job_normalise(&spec)->mean_count, 2);
    spec.augment[0].normalise.std_count = 0;
    assert_int_equal(job_normalise(&spec)->mean_count, 0);
    spec.augment_count = 0;
    assert_int_equal(job_normalise(&spec)->mean_count, 0);
    record_done(&job_spec_record, &spec);
}

static void units_are_those_of_the_model_each_once(void **state)
{
    (void)state;
    struct unit unit[] = {{.name = "conv1"}, {.name = "dense1"}, {.name = "head"}};
    const struct model model = {.unit = unit, .unit_count = 3};
    const struct unit_name name[] = {{"head"}, {"conv1"}, {"head"}, {"conf1"}, {"stem"}};
    struct record_faults faults = {0};
    struct err err = {0};
    assert_int_equal(job_units_check(name, 2, &model, "/init/except", &faults, &err), 0);
    assert_int_equal(job_units_check(name, 5, &model, "/init/except", &faults, &err), ERR_INVALID);
    assert_int_equal(faults.count, 3);
    assert_string_equal(faults.fault[0].pointer, "/init/except/2");
    assert_string_equal(faults.fault[0].message, "is the same unit as /init/except/0");
    assert_string_equal(faults.fault[1].message,
                        "the model has no unit 'conf1'; did you mean 'conv1'?");
    assert_string_equal(faults.fault[2].message,
                        "the model has no unit 'stem'; its units are 'conv1' to 'head'");
    assert_string_equal(err.text, "/init/except/2: is the same unit as /init/except/0");
}

const char *__real_parse_nearest(const char *text, const char *const *candidates, size_t count);
const char *__wrap_parse_nearest(const char *text, const char *const *candidates, size_t count);
static size_t searches;

const char *__wrap_parse_nearest(const char *text, const char *const *candidates, size_t count)
{
    searches++;
    return __real_parse_nearest(text, candidates, count);
}

static void nearest_units_are_searched_only_for_the_faults_that_are_kept(void **state)
{
    (void)state;
    struct unit unit[] = {{.name = "conv1"}, {.name = "head"}};
    const struct model model = {.unit = unit, .unit_count = 2};
    struct job_spec spec = job_spec_default;
    struct record_faults faults = {0};
    struct err err = {0};
    bool frozen[MODEL_UNITS_MAX];
    searches = 0;
    for (spec.freeze_count = 0; spec.freeze_count < UNITS_MAX; spec.freeze_count++) {
        struct unit_name *name = &spec.freeze[spec.freeze_count];
        (void)snprintf(name->text, sizeof(name->text), "conv1%zu", spec.freeze_count);
    }
    assert_int_equal(job_freeze(&spec, &model, frozen, &faults, &err), ERR_INVALID);
    assert_int_equal(faults.count, RECORD_FAULTS_MAX);
    assert_true(faults.more);
    assert_int_equal(searches, RECORD_FAULTS_MAX + 1);
    assert_int_equal(job_units_check(spec.freeze, spec.freeze_count, &model, "", NULL, &err),
                     ERR_INVALID);
    assert_int_equal(searches, RECORD_FAULTS_MAX + 2);
}

static void something_is_left_to_train(void **state)
{
    (void)state;
    struct op op = {.tensor = {{.suffix = "weight", .role = TENSOR_PARAMETER}}, .tensor_count = 1};
    struct op flat = {0};
    struct unit unit[] = {{.name = "conv1", .op = &op, .op_count = 1},
                          {.name = "flat", .op = &flat, .op_count = 1},
                          {.name = "head", .op = &op, .op_count = 1}};
    const struct model model = {.unit = unit, .unit_count = 3};
    struct job_spec spec = job_spec_default;
    struct err err = {0};
    bool frozen[MODEL_UNITS_MAX];
    assert_ok(job_freeze(&spec, &model, frozen, NULL, &err), &err);
    assert_false(frozen[0] || frozen[1] || frozen[2]);
    memcpy(spec.freeze[0].text, "conv1", sizeof("conv1"));
    spec.freeze_count = 1;
    assert_ok(job_freeze(&spec, &model, frozen, NULL, &err), &err);
    assert_true(frozen[0] && !frozen[1] && !frozen[2]);
    unit[2].frozen = true; /* by the description */
    assert_int_equal(job_freeze(&spec, &model, frozen, NULL, &err), ERR_INVALID);
    assert_string_equal(err.text,
                        "/freeze: names every unit that has parameters: nothing is left to train");
    memcpy(spec.freeze[0].text, "haed", sizeof("haed"));
    unit[2].frozen = false;
    assert_int_equal(job_freeze(&spec, &model, frozen, NULL, &err), ERR_INVALID);
    assert_string_equal(err.text, "/freeze/0: the model has no unit 'haed'; did you mean 'head'?");
    memcpy(spec.freeze[0].text, "tail", sizeof("tail"));
    assert_int_equal(job_freeze(&spec, &model, frozen, NULL, &err), ERR_INVALID);
    assert_string_equal(err.text,
                        "/freeze/0: the model has no unit 'tail'; its units are 'conv1' to 'head'");
}

static void name_joint_unit(struct submodel_options *options, size_t index, const char *name)
{
    (void)snprintf(options->joint_unit[index].text, NAME_SIZE, "%s", name);
    options->joint_unit_count = index + 1;
    options->joint_units = JOINT_NAMED;
}

static void the_joint_phase_trains_the_units_that_are_named(void **state)
{
    (void)state;
    struct op op = {.tensor = {{.suffix = "weight", .role = TENSOR_PARAMETER}}, .tensor_count = 1};
    struct op flat = {0};
    struct unit unit[] = {{.name = "conv1", .op = &op, .op_count = 1},
                          {.name = "conv2", .op = &op, .op_count = 1},
                          {.name = "flat", .op = &flat, .op_count = 1}};
    const struct model model = {.unit = unit, .unit_count = 3};
    struct submodel_options options = SUBMODEL_OPTIONS_DEFAULT;
    struct record_faults faults = {0};
    struct err err = {0};
    bool frozen[MODEL_UNITS_MAX];
    assert_true(submodel_joint_frozen(&options, &model, frozen));
    assert_true(frozen[0] && !frozen[1] && frozen[2]); /* head: the last that has parameters */
    options.joint_units = JOINT_ALL;
    assert_true(submodel_joint_frozen(&options, &model, frozen));
    assert_false(frozen[0] || frozen[1] || frozen[2]);
    name_joint_unit(&options, 0, "conv1");
    name_joint_unit(&options, 1, "flat");
    assert_ok(submodel_joint_check(&options, &model, &faults, &err), &err);
    assert_true(submodel_joint_frozen(&options, &model, frozen));
    assert_true(!frozen[0] && frozen[1] && !frozen[2]);
    name_joint_unit(&options, 1, "tail");
    assert_int_equal(submodel_joint_check(&options, &model, &faults, &err), ERR_INVALID);
    assert_string_equal(faults.fault[0].pointer, "/submodel/joint/units/1");
    name_joint_unit(&options, 0, "flat");
    assert_int_equal(submodel_joint_check(&options, &model, NULL, &err), ERR_INVALID);
    assert_string_equal(err.text, "/submodel/joint/units: names no unit that has parameters: "
                                  "nothing is left to train");
}

static void a_unit_is_from_the_checkpoint_unless_it_is_excepted(void **state)
{
    (void)state;
    struct job_spec spec = job_spec_default;
    assert_false(job_from_checkpoint(&spec, "head"));
    memcpy(spec.init_checkpoint.text, "ckpt_1", sizeof("ckpt_1"));
    assert_true(job_from_checkpoint(&spec, "head"));
    memcpy(spec.init_except[0].text, "head", sizeof("head"));
    spec.init_except_count = 1;
    assert_false(job_from_checkpoint(&spec, "head"));
    assert_true(job_from_checkpoint(&spec, "conv1"));
}

static struct replan_request read_replan(const char *text)
{
    struct err err = {0};
    struct replan_request request = {0};
    assert_ok(wire_read(&replan_request_record, text, strlen(text), &request, NULL, &err), &err);
    return request;
}

static void a_replan_tells_no_borders_from_one_stage(void **state)
{
    (void)state;
    assert_false(read_replan("{}").has_cuts);
    assert_false(read_replan("{\"cuts\": null}").has_cuts);
    struct replan_request one_stage = read_replan("{\"cuts\": []}");
    assert_true(one_stage.has_cuts);
    assert_int_equal(one_stage.cut_count, 0);
    struct replan_request two_stages = read_replan("{\"cuts\": [3], \"devices\": null}");
    assert_true(two_stages.has_cuts);
    assert_int_equal(two_stages.cut_count, 1);
    assert_int_equal(two_stages.cut[0], 3);
    assert_int_equal(two_stages.device_count, 0);
}

static void a_loss_of_nothing_is_null_and_a_loss_of_zero_is_zero(void **state)
{
    (void)state;
    struct job job = {.id = {"job_1"}, .progress = {.has_loss = true}};
    json_auto_t *written = record_write(&job_record, &job);
    const json_t *progress = json_object_get(written, "progress");
    assert_true(json_is_real(json_object_get(progress, "loss")));
    assert_true(json_is_null(json_object_get(progress, "accuracy")));
}

static void a_description_lives_as_long_as_its_spec(void **state)
{
    (void)state;
    struct err err = {0};
    struct job_spec spec = job_spec_default;
    static const char text[] =
        "{\"model\": {\"description\": {\"name\": \"m\"}}, \"dataset\": {\"train\": \"t\"}}";
    assert_ok(wire_read(&job_spec_record, text, sizeof(text) - 1, &spec, NULL, &err), &err);
    assert_string_equal(json_string_value(json_object_get(spec.model.description, "name")), "m");
    assert_int_equal(spec.batch, 32);
    record_done(&job_spec_record, &spec);
    assert_null(spec.model.description);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_ends_in_three_states),
        cmocka_unit_test(a_codec_that_the_build_lacks_is_refused_with_one_that_it_has),
        cmocka_unit_test(compressions_have_the_names_of_the_codecs),
        cmocka_unit_test(the_steps_of_a_job_end_with_the_earlier_of_steps_and_epochs),
        cmocka_unit_test(the_learning_rate_follows_the_optimizer_unless_it_is_stated),
        cmocka_unit_test(a_model_of_the_zoo_brings_its_own_rate_for_sgd),
        cmocka_unit_test(the_micro_batches_follow_the_pipeline_unless_they_are_stated),
        cmocka_unit_test(a_spec_is_checked_without_a_list_of_faults_too),
        cmocka_unit_test(borders_lie_within_the_model),
        cmocka_unit_test(an_augment_fits_the_samples),
        cmocka_unit_test(units_are_those_of_the_model_each_once),
        cmocka_unit_test(nearest_units_are_searched_only_for_the_faults_that_are_kept),
        cmocka_unit_test(something_is_left_to_train),
        cmocka_unit_test(the_joint_phase_trains_the_units_that_are_named),
        cmocka_unit_test(a_unit_is_from_the_checkpoint_unless_it_is_excepted),
        cmocka_unit_test(a_replan_tells_no_borders_from_one_stage),
        cmocka_unit_test(a_loss_of_nothing_is_null_and_a_loss_of_zero_is_zero),
        cmocka_unit_test(a_description_lives_as_long_as_its_spec),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
