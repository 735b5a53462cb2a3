#include "schema/job_dataset.h"

#include "schema/check.h"
#include "schema/job.h"

static const struct field train_fields[] = {
    MEMBER_FORM(struct job_spec, dataset_train, "name", FIELD_SKIP_EMPTY, &name_form, .since = 6,
                .about = "A data set of `/v1/datasets`, as the text alone.",
                .rule = "either `name` or `local`"),
    MEMBER_FORM(
        struct job_spec, train_local.name, "local", FIELD_SKIP_EMPTY, &name_form, .since = 6,
        .about = "The name of a data set that devices offer (`--data` of an agent). The data stay "
                 "there: each group trains on those of its device. See [Local data](#local-data).",
        .rule = "with strategy `gossip` or `submodel`"),
    MEMBER_TEXT(struct job_spec, train_local.form, "form", FIELD_SKIP_EMPTY, .since = 6,
                .about = "Shape, type and classes of the data sets that the job accepts.",
                .rule = "set by the coordinator, as the next three"),
    MEMBER_INT(struct job_spec, train_local.classes, "classes", FIELD_SKIP_EMPTY, 0, UINT32_MAX,
               .since = 6,
               .about = "Number of classes of the model: the largest number in any of these data "
                        "sets or in `test`."),
    MEMBER_FORM(struct job_spec, train_local.device.text, "device", FIELD_SKIP_EMPTY,
                &device_id_form, .since = 6,
                .about = "In the job of a group: the device whose data it trains on."),
    MEMBER_FORM(struct job_spec, train_local.sha256, "sha256", FIELD_SKIP_EMPTY, &sha256_form,
                .since = 6, .about = "In the job of a group: the hash of these data."),
};
static const struct record train_group =
    RECORD_WITH(struct job_spec, "job_train", train_fields, .first_alone = true,
                .about = "An uploaded data set, or one that devices offer.");

static const struct field test_fields[] = {
    MEMBER_FORM(struct job_spec, dataset_test, "name", FIELD_SKIP_EMPTY, &name_form, .since = 6,
                .about = "A data set of `/v1/datasets`, as the text alone.",
                .rule = "either `name` or `holdout`"),
    MEMBER_DOUBLE(
        struct job_spec, test_local.holdout, "holdout", FIELD_SKIP_EMPTY, TEST_HOLDOUT_MIN,
        TEST_HOLDOUT_MAX, .since = 6,
        .about = "The share of its own samples that each device holds out of training. The device "
                 "evaluates averages on them. See [Held-out samples](#held-out-samples).",
        .rule = "with `dataset.train.local`"),
    MEMBER_INT(struct job_spec, test_local.classes, "classes", FIELD_SKIP_EMPTY, 0,
               OFFER_CLASSES_MAX, .since = 6,
               .about = "In the job of a group: the number of classes of which samples are held "
                        "out, class by class. Left out: they are drawn from all samples.",
               .rule = "set by the coordinator"),
};
static const struct record test_group =
    RECORD_WITH(struct job_spec, "job_test", test_fields, .first_alone = true,
                .about = "An uploaded data set, or samples that devices hold out.");

static const struct field dataset_fields[] = {
    MEMBER_GROUP("train", FIELD_REQUIRED, &train_group,
                 .about = "A data set of `/v1/datasets`: its name, or an object."),
    MEMBER_GROUP("test", FIELD_NULLABLE, &test_group,
                 .about = "The data set of evaluations: its name, or an object; null: no "
                          "evaluation.",
                 .rule = "same shape and type as `train`"),
};
const struct record job_dataset_group = RECORD(struct job_spec, "job_dataset", dataset_fields);

static const struct field data_fields[] = {
    MEMBER_FORM(struct job_data, train_sha256, "train_sha256", FIELD_NULLABLE, &sha256_form,
                .about = "The hash of the training data."),
    MEMBER_FORM(struct job_data, test_sha256, "test_sha256", FIELD_NULLABLE, &sha256_form,
                .about = "The hash of the test data; null: there are none."),
    MEMBER_INT(struct job_data, train_samples, "train_samples", 0, 0, INTEGER_MAX,
               .about = "Samples of the training data."),
    MEMBER_INT(struct job_data, test_samples, "test_samples", 0, 0, INTEGER_MAX,
               .about = "Samples of the test data, or samples that devices hold out."),
    MEMBER_INT(struct job_data, epoch_samples, "epoch_samples", FIELD_SKIP_EMPTY, 0, INTEGER_MAX,
               .since = 3,
               .about = "Samples of an epoch, if it differs from `train_samples`: those of the "
                        "view, or those that devices do not hold out. Left out: `train_samples`."),
    MEMBER_INT(struct job_data, holdout_samples, "holdout_samples", FIELD_SKIP_EMPTY, 0,
               INTEGER_MAX, .since = 3, .about = "Samples of the view's hold-out. Left out: none."),
    MEMBER_FORM(struct job_data, checkpoint_sha256, "checkpoint_sha256", FIELD_NULLABLE,
                &sha256_form,
                .about = "The hash of the checkpoint that the job starts from; null: none."),
    MEMBER_INT(struct job_data, checkpoint_bytes, "checkpoint_size_bytes", 0, 0, INTEGER_MAX,
               .about = "The size of this checkpoint; 0: the job starts without one."),
    MEMBER_FORM(struct job_data, joint_sha256, "joint_sha256", FIELD_SKIP_EMPTY, &sha256_form,
                .since = 6,
                .about = "The hash of `submodel.joint.dataset`. Left out: there is none."),
    MEMBER_INT(struct job_data, joint_samples, "joint_samples", FIELD_SKIP_EMPTY, 0, INTEGER_MAX,
               .since = 6, .about = "Samples of `submodel.joint.dataset`."),
    MEMBER_BOOL(struct job_data, tune, "tune", 0,
                .about = "Whether devices with oneDNN measure kernels. See [Kernels](#kernels)."),
};
const struct record job_data_record =
    RECORD_WITH(struct job_data, "job_data", data_fields, .answer = true,
                .about = "The data sets and the checkpoint of the job, fixed at submission.");

bool job_is_local(const struct job_spec *spec)
{
    return spec->train_local.name[0] != '\0';
}

const char *job_train_name(const struct job_spec *spec)
{
    return job_is_local(spec) ? spec->train_local.name : spec->dataset_train;
}

bool job_has_test(const struct job_spec *spec)
{
    return spec->dataset_test[0] != '\0' || spec->test_local.holdout > 0;
}

struct holdout job_holdout(const struct job_spec *spec)
{
    return (struct holdout){.share = spec->test_local.holdout,
                            .seed = (uint64_t)spec->seed,
                            .classes = (size_t)spec->test_local.classes};
}

int64_t job_held(const struct job_spec *spec, const struct offer *offer)
{
    struct holdout holdout = job_holdout(spec);
    holdout.classes = offer->class_count_count;
    return holdout.share > 0
               ? (int64_t)holdout_count(&holdout, offer->class_count, (uint64_t)offer->samples)
               : 0;
}

static void check_test(struct check *check, const struct job_spec *spec)
{
    if (spec->test_local.classes > 0 && spec->test_local.holdout <= 0) {
        check_fault(check, "/dataset/test/classes", "is for 'holdout' only");
    }
    if (spec->test_local.holdout <= 0) {
        return;
    }
    if (spec->dataset_test[0] != '\0') {
        check_fault(check, "/dataset/test", "needs the name of a data set, or 'holdout', not both");
    }
    if (!job_is_local(spec)) {
        check_fault(check, "/dataset/test/holdout",
                    "is for data that stay on devices (dataset.train.local); use view.holdout, or "
                    "upload a test set");
    }
    if (spec->has_view) {
        check_fault(check, "/dataset/test/holdout", "is not for a job with a view");
    }
}

int job_dataset_check(const struct job_spec *spec, struct record_faults *faults, struct err *err)
{
    struct check check = {.faults = faults, .err = err};
    if (job_is_local(spec) == (spec->dataset_train[0] != '\0')) {
        check_fault(&check, "/dataset/train",
                    "needs the name of a data set, or 'local' with that of one that devices offer");
    }
    check_test(&check, spec);
    if (job_is_local(spec) && !strategy_has_parts(spec->strategy) &&
        spec->train_local.device.text[0] == '\0') {
        check_fault(&check, "/dataset/train/local",
                    "is for strategies 'gossip' and 'submodel': with '%s' samples would travel",
                    job_strategy_names[spec->strategy]);
    }
    return check.rc;
}
