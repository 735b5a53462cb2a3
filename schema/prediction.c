#include "schema/prediction.h"

static const struct field question_fields[] = {
    MEMBER_FORM(struct prediction_question, device.text, "device", FIELD_REQUIRED, &device_id_form),
    MEMBER_FORM(struct prediction_question, model, "model", FIELD_SKIP_EMPTY, &name_form,
                .about = "A model of the zoo or a posted one, trained by a job with default "
                         "fields. Either this or `job`."),
    MEMBER_FORM(struct prediction_question, dataset, "dataset", FIELD_SKIP_EMPTY, &name_form,
                .about = "The data set that defines the model's input; default: the input that "
                         "`GET /v1/models/{name}` assumes.",
                .rule = "with `model` only"),
    MEMBER_FORM(struct prediction_question, job.text, "job", FIELD_SKIP_EMPTY, &job_id_form,
                .about =
                    "An active job, which gives model, kernels, frozen units and `recompute`."),
    MEMBER_INT(struct prediction_question, batch, "batch", FIELD_SKIP_EMPTY, 1, BATCH_MAX,
               .about = "Default: the job's.", .rule = "divisible by `micro_batches`"),
    MEMBER_INT(struct prediction_question, micro_batches, "micro_batches", FIELD_SKIP_EMPTY, 1,
               MICRO_BATCHES_MAX, .about = "Default: the job's."),
};
const struct record prediction_question_record = RECORD_WITH(
    struct prediction_question, "prediction_question", question_fields,
    .about =
        "The model and the device to predict. The device need not have run the model's units.");

static const struct field unit_fields[] = {
    MEMBER_TEXT(struct prediction_unit, name, "name", FIELD_REQUIRED),
    MEMBER_DOUBLE(struct prediction_unit, forward_seconds, "forward_seconds", FIELD_REQUIRED, 0, 0,
                  .about = "Seconds of the forward pass of one micro-batch."),
    MEMBER_DOUBLE(struct prediction_unit, forward_sd_seconds, "forward_sd_seconds", FIELD_REQUIRED,
                  0, 0, .about = "The standard deviation of `forward_seconds`."),
    MEMBER_DOUBLE(
        struct prediction_unit, backward_seconds, "backward_seconds", FIELD_REQUIRED, 0, 0,
        .about = "Seconds of the backward pass of one micro-batch; 0: the unit has none."),
    MEMBER_DOUBLE(struct prediction_unit, backward_sd_seconds, "backward_sd_seconds",
                  FIELD_REQUIRED, 0, 0),
    MEMBER_DOUBLE(struct prediction_unit, update_seconds, "update_seconds", FIELD_REQUIRED, 0, 0,
                  .about = "Seconds of the update in a step, by the bytes of trained parameters. "
                           "This time has no deviation."),
    MEMBER_BOOL(struct prediction_unit, measured, "measured", FIELD_REQUIRED,
                .about = "The times were measured on this device, and recently. Otherwise plans "
                         "add one deviation to them."),
};
static const struct record unit_record =
    RECORD(struct prediction_unit, "prediction_unit", unit_fields);

static const struct field prediction_fields[] = {
    MEMBER_FORM(struct prediction, device.text, "device", FIELD_REQUIRED, &device_id_form),
    MEMBER_TEXT(struct prediction, model, "model", FIELD_REQUIRED),
    MEMBER_INT(struct prediction, batch, "batch", FIELD_REQUIRED, 1, BATCH_MAX),
    MEMBER_INT(struct prediction, micro_batches, "micro_batches", FIELD_REQUIRED, 1,
               MICRO_BATCHES_MAX),
    MEMBER_RECORDS(struct prediction, unit, unit_count, "units", FIELD_REQUIRED, &unit_record),
    MEMBER_DOUBLE(struct prediction, processor_share, "processor_share", FIELD_REQUIRED, 0, 1,
                  .about = "Part of the time for which the device has its processor when it always "
                           "has work. It is below 1 under a quota or beside other programs. The "
                           "times in this answer do not include the stops."),
    MEMBER_DOUBLE(struct prediction, overhead_seconds, "overhead_seconds", FIELD_REQUIRED, 0, 0,
                  .about = "Seconds of a stage on the device beyond those of its units, per "
                           "micro-batch; 0: not measured."),
    MEMBER_DOUBLE(struct prediction, overhead_seconds_per_byte, "overhead_seconds_per_byte",
                  FIELD_REQUIRED, 0, 0,
                  .about = "The same for each byte of the stage's boundary tensors."),
};
const struct record prediction_record =
    RECORD_WITH(struct prediction, "prediction", prediction_fields,
                .about = "The expected times of a model's units on a device.");
