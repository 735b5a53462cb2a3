#include "schema/what_if.h"

#include <stdio.h>
#include <string.h>

#include "libtrain/quant/codec.h"
#include "schema/check.h"

#define ID_FORM "what_if_%02zu" /* sorts after "dev_" */

/* ---- the question ---- */

static const struct field device_fields[] = {
    MEMBER_FORM(struct what_if_device, id.text, "id", FIELD_SKIP_EMPTY, &device_id_form,
                .about = "An existing device. The id alone is enough.",
                .rule = "without the other fields"),
    MEMBER_FORM(struct what_if_device, name, "name", FIELD_SKIP_EMPTY, &name_form,
                .about = "The name of a hypothetical device.",
                .rule = "each once; not as an id begins"),
    MEMBER_FORM(struct what_if_device, like.text, "like", FIELD_SKIP_EMPTY, &device_id_form,
                .about =
                    "The device that the hypothetical one resembles. Either this or `gflops`."),
    MEMBER_DOUBLE(struct what_if_device, speed, "speed", FIELD_SKIP_EMPTY, 0.0001, 10000,
                  .about = "The device's speed divided by that of `like`; default: 1."),
    MEMBER_DOUBLE(struct what_if_device, gflops, "gflops", FIELD_SKIP_EMPTY, 0.001, 1e6,
                  .about =
                      "GFLOPS of the device's matrix products, as a probe would measure them."),
    MEMBER_DOUBLE(struct what_if_device, memory_bytes_per_second, "memory_bytes_per_second",
                  FIELD_SKIP_EMPTY, 1e6, 1e13,
                  .about = "Memory bandwidth of the device, as a probe would measure it.",
                  .rule = "with `gflops` only, and then required"),
    MEMBER_INT(struct what_if_device, memory_bytes, "memory_bytes", FIELD_SKIP_EMPTY, 1,
               INTEGER_MAX, .about = "Bytes of free memory of the device; default: that of `like`.",
               .rule = "required with `gflops`"),
};
static const struct record what_if_device_record =
    RECORD_WITH(struct what_if_device, "what_if_device", device_fields, .first_alone = true,
                .about = "An existing device, or a hypothetical one.");

static const struct field between_element = {.type = FIELD_TEXT, .size = NAME_SIZE};

static const struct field link_fields[] = {
    {.name = "between",
     .type = FIELD_LIST,
     .flags = FIELD_REQUIRED,
     .offset = offsetof(struct what_if_link, between),
     .min = 2,
     .max = 2,
     .size = 2,
     .element_size = NAME_SIZE,
     .count_offset = offsetof(struct what_if_link, between_count),
     .element = &between_element,
     .about = "Two devices: ids, or names of hypothetical devices."},
    MEMBER_DOUBLE(struct what_if_link, latency_seconds, "latency_seconds", 0, 0, 3600,
                  .about = "Seconds of a round trip."),
    MEMBER_DOUBLE(struct what_if_link, bytes_per_second, "bytes_per_second", FIELD_REQUIRED, 1,
                  1e11),
};
static const struct record what_if_link_record =
    RECORD_WITH(struct what_if_link, "what_if_link", link_fields,
                .about = "A link that replaces the measured one, in both directions.");

static const struct field micro_batches_element = {
    .type = FIELD_INT, .min = 1, .max = MICRO_BATCHES_MAX};
static const struct field compression_element = {.type = FIELD_ENUM, .names = compression_names};
static const struct field pipeline_element = {.type = FIELD_ENUM, .names = job_pipeline_names};
static const struct field devices_element = {.type = FIELD_INT, .min = 1, .max = STAGES_MAX};

static const struct field vary_fields[] = {
    MEMBER_LIST(struct plan_vary, micro_batches, micro_batches_count, "micro_batches",
                FIELD_SKIP_EMPTY, &micro_batches_element),
    MEMBER_LIST(struct plan_vary, compression, compression_count, "compression", FIELD_SKIP_EMPTY,
                &compression_element),
    MEMBER_LIST(struct plan_vary, pipeline, pipeline_count, "pipeline", FIELD_SKIP_EMPTY,
                &pipeline_element),
    MEMBER_LIST(struct plan_vary, devices, devices_count, "devices", FIELD_SKIP_EMPTY,
                &devices_element, .about = "Numbers of devices, for `devices.min` and `max`."),
};
static const struct record vary_record =
    RECORD_WITH(struct plan_vary, "plan_vary", vary_fields,
                .about = "Values that fields of the job take in turn, in all combinations.");

static const struct field question_fields[] = {
    MEMBER_FORM(struct plan_question, job.text, "job", FIELD_SKIP_EMPTY, &job_id_form,
                .about = "An active job. Either this or `spec`."),
    MEMBER_OPTIONAL(struct plan_question, spec, has_spec, "spec", FIELD_SKIP_EMPTY,
                    &job_spec_record, .about = "The fields of a job, as for `POST /v1/jobs`."),
    MEMBER_LIST(struct plan_question, without, without_count, "without", FIELD_SKIP_EMPTY,
                &device_id_element, .about = "Devices to leave out."),
    {.name = "devices",
     .type = FIELD_LIST,
     .flags = FIELD_SKIP_EMPTY | FIELD_NULLABLE | FIELD_PRESENCE,
     .offset = offsetof(struct plan_question, device),
     .min = 1,
     .max = WHAT_IF_DEVICES_MAX,
     .size = WHAT_IF_DEVICES_MAX,
     .element_size = sizeof(struct what_if_device),
     .count_offset = offsetof(struct plan_question, device_count),
     .presence_offset = offsetof(struct plan_question, has_devices),
     .record = &what_if_device_record,
     .about = "The only devices to use, counted as free; null: the present devices."},
    MEMBER_RECORDS(struct plan_question, link, link_count, "links", FIELD_SKIP_EMPTY,
                   &what_if_link_record),
    MEMBER_OPTIONAL(struct plan_question, vary, has_vary, "vary", FIELD_SKIP_EMPTY, &vary_record,
                    .about = "Values that fields of the job take in turn.",
                    .rule = "at most 64 combinations"),
};
const struct record plan_question_record =
    RECORD_WITH(struct plan_question, "plan_question", question_fields,
                .about = "The plan that a job would get, with other devices, links or fields.");

/* ---- the answer ---- */

static const struct field share_fields[] = {
    MEMBER_INT(struct combination_stage, share_first, "first", 0, 0, MICRO_BATCHES_MAX),
    MEMBER_INT(struct combination_stage, share_end, "end", 0, 0, MICRO_BATCHES_MAX,
               .about = "One past its last micro-batch."),
};
static const struct record share_group =
    RECORD(struct combination_stage, "plan_share", share_fields);

static const struct field stage_fields[] = {
    MEMBER_FORM(struct combination_stage, device.text, "device", FIELD_REQUIRED | FIELD_NULLABLE,
                &device_id_form, .about = "The stage's device; null: a hypothetical device."),
    MEMBER_TEXT(struct combination_stage, name, "name", FIELD_REQUIRED,
                .about = "The device's name."),
    MEMBER_INT(struct combination_stage, first, "first", FIELD_REQUIRED, 0, UNITS_MAX,
               .about = "Units [first, end)."),
    MEMBER_INT(struct combination_stage, end, "end", FIELD_REQUIRED, 0, UNITS_MAX),
    MEMBER_INT(struct combination_stage, in_flight, "in_flight", FIELD_REQUIRED, 0,
               MICRO_BATCHES_MAX),
    MEMBER_GROUP("share", FIELD_SKIP_EMPTY, &share_group,
                 .about = "`parameter_server`: the device's micro-batches; absent: none."),
    MEMBER_ENUM(struct combination_stage, codec, "codec", FIELD_REQUIRED, codec_names,
                .about = "Codec of the link to the next stage."),
    MEMBER_INT(struct combination_stage, memory_bytes, "memory_bytes", FIELD_REQUIRED, 0,
               INTEGER_MAX),
    MEMBER_DOUBLE(struct combination_stage, predicted_busy, "predicted_busy", FIELD_REQUIRED, 0, 0,
                  .about = "Share of the step in which the stage computes."),
};
static const struct record stage_record =
    RECORD(struct combination_stage, "combination_stage", stage_fields);

static const struct field combination_fields[] = {
    MEMBER_INT(struct plan_combination, micro_batches, "micro_batches", FIELD_REQUIRED, 1,
               MICRO_BATCHES_MAX),
    MEMBER_ENUM(struct plan_combination, compression, "compression", FIELD_REQUIRED,
                compression_names),
    MEMBER_ENUM(struct plan_combination, pipeline, "pipeline", FIELD_REQUIRED, job_pipeline_names),
    MEMBER_INT(struct plan_combination, devices, "devices", FIELD_REQUIRED | FIELD_NULLABLE, 1,
               STAGES_MAX, .about = "The number of devices; null: as many as the job allows."),
    MEMBER_TEXT(struct plan_combination, failure, "failure", FIELD_REQUIRED | FIELD_NULLABLE,
                .about = "Why there is no plan; null: there is a plan."),
    MEMBER_DOUBLE(struct plan_combination, predicted_step_seconds, "predicted_step_seconds",
                  FIELD_REQUIRED | FIELD_NULLABLE, 0, 0,
                  .about = "Predicted seconds of one step; null: there is no plan."),
    MEMBER_BOOL(struct plan_combination, optimal, "optimal", FIELD_REQUIRED,
                .about = "Proven: no plan in the greedy order is faster by more than 1 %."),
    MEMBER_DOUBLE(struct plan_combination, gap, "gap", FIELD_REQUIRED, 0, 0,
                  .about = "The predicted step time divided by a proven lower bound, minus 1."),
    MEMBER_RECORD(struct plan_combination, bottleneck, "bottleneck", FIELD_REQUIRED,
                  &plan_bottleneck_record),
    MEMBER_RECORDS(struct plan_combination, stage, stage_count, "stages", FIELD_REQUIRED,
                   &stage_record, .about = "Empty: there is no plan."),
};
static const struct record combination_record =
    RECORD_WITH(struct plan_combination, "plan_combination", combination_fields,
                .about = "One combination of varied fields, and its plan.");

static const struct field answer_fields[] = {
    MEMBER_RECORD(struct plan_answer, preview, "plan", FIELD_REQUIRED, &job_preview_record,
                  .about = "The plan of the fastest combination."),
    MEMBER_INT(struct plan_answer, resume_version, "resume_version", FIELD_REQUIRED, 0, INTEGER_MAX,
               .about = "The version that training would resume from."),
    MEMBER_INT(struct plan_answer, steps_lost, "steps_lost", FIELD_REQUIRED, 0, INTEGER_MAX,
               .about = "Steps that would be retrained."),
    MEMBER_RECORDS(struct plan_answer, combination, combination_count, "combinations",
                   FIELD_REQUIRED, &combination_record,
                   .about = "With `vary`: all combinations, the fastest first. Combinations "
                            "without a plan come last."),
};
const struct record plan_answer_record = RECORD(struct plan_answer, "plan_answer", answer_fields);

/* ---- rules ---- */

static void check_hypothetical(struct check *check, const char *at,
                               const struct what_if_device *device)
{
    const bool measured = device->gflops > 0;
    if (strncmp(device->name, "dev_", strlen("dev_")) == 0) {
        check_fault(check, at, "name '%s' begins like an id; take another name", device->name);
    } else if (measured == (device->like.text[0] != '\0')) {
        check_fault(check, at, "device '%s' needs either 'like' or 'gflops'", device->name);
    } else if (measured && (!(device->memory_bytes_per_second > 0) || device->memory_bytes == 0)) {
        check_fault(check, at,
                    "device '%s' with 'gflops' needs 'memory_bytes_per_second' and "
                    "'memory_bytes'",
                    device->name);
    } else if (measured ? device->speed > 0 : device->memory_bytes_per_second > 0) {
        check_fault(check, at,
                    measured ? "'speed' is for a device with 'like'"
                             : "'memory_bytes_per_second' is for a device with 'gflops'");
    }
}

static void check_devices(struct check *check, const struct plan_question *question)
{
    for (size_t i = 0; i < question->device_count; i++) {
        const struct what_if_device *device = &question->device[i];
        const bool exists = device->id.text[0] != '\0';
        char at[48];
        (void)snprintf(at, sizeof(at), "/devices/%zu", i);
        if (!exists && device->name[0] == '\0') {
            check_fault(check, at, "needs the 'id' of a device, or a 'name'");
            continue;
        }
        if (!exists) {
            check_hypothetical(check, at, device);
        } else if (device->name[0] || device->like.text[0] || device->speed > 0 ||
                   device->gflops > 0 || device->memory_bytes_per_second > 0 ||
                   device->memory_bytes > 0) {
            check_fault(check, at,
                        "has an 'id': leave the fields of hypothetical devices out, or "
                        "take 'like' in place of 'id'");
        }
        for (size_t k = 0; k < i; k++) {
            const struct what_if_device *other = &question->device[k];
            if (id_equal(other->id.text, device->id.text) &&
                (exists || strcmp(other->name, device->name) == 0)) {
                check_fault(check, at, "is the same device as /devices/%zu", k);
                break;
            }
        }
    }
}

static void check_without(struct check *check, const struct plan_question *question)
{
    for (size_t i = 0; i < question->without_count; i++) {
        for (size_t k = 0; k < i; k++) {
            if (id_equal(question->without[i].text, question->without[k].text)) {
                char at[48];
                (void)snprintf(at, sizeof(at), "/without/%zu", i);
                check_fault(check, at, "is the same device as /without/%zu", k);
                break;
            }
        }
    }
}

static bool is_pair(const struct what_if_link *a, const struct what_if_link *b)
{
    return (strcmp(a->between[0], b->between[0]) == 0 &&
            strcmp(a->between[1], b->between[1]) == 0) ||
           (strcmp(a->between[0], b->between[1]) == 0 && strcmp(a->between[1], b->between[0]) == 0);
}

static void check_links(struct check *check, const struct plan_question *question)
{
    for (size_t i = 0; i < question->link_count; i++) {
        const struct what_if_link *link = &question->link[i];
        char at[48];
        (void)snprintf(at, sizeof(at), "/links/%zu/between", i);
        if (strcmp(link->between[0], link->between[1]) == 0) {
            check_fault(check, at, "names '%s' twice; a link connects two devices",
                        link->between[0]);
        }
        for (size_t k = 0; k < i; k++) {
            if (is_pair(link, &question->link[k])) {
                check_fault(check, at, "is the same link as /links/%zu", k);
                break;
            }
        }
    }
}

static void check_distinct(struct check *check, const char *name, const int64_t *value,
                           size_t count)
{
    for (size_t i = 1; i < count; i++) {
        for (size_t k = 0; k < i; k++) {
            if (value[i] == value[k]) {
                char at[48];
                (void)snprintf(at, sizeof(at), "/vary/%s/%zu", name, i);
                check_fault(check, at, "is the same value as /vary/%s/%zu", name, k);
                break;
            }
        }
    }
}

static void check_names(struct check *check, const char *name, const int *value, size_t count)
{
    int64_t number[WHAT_IF_VALUES_MAX];
    for (size_t i = 0; i < count; i++) {
        number[i] = value[i];
    }
    check_distinct(check, name, number, count);
}

static size_t at_least_one(size_t count)
{
    return count > 0 ? count : 1;
}

size_t what_if_combinations(const struct plan_question *question)
{
    const struct plan_vary *vary = &question->vary;
    return at_least_one(vary->micro_batches_count) * at_least_one(vary->compression_count) *
           at_least_one(vary->pipeline_count) * at_least_one(vary->devices_count);
}

int plan_question_check(const struct plan_question *question, struct record_faults *faults,
                        struct err *err)
{
    struct check check = {.faults = faults, .err = err};
    const struct plan_vary *vary = &question->vary;
    if (question->has_spec == (question->job.text[0] != '\0')) {
        check_fault(&check, question->has_spec ? "/spec" : "/job",
                    question->has_spec ? "the job has its fields; leave 'spec' or 'job' out"
                                       : "is required without 'spec'");
    }
    check_without(&check, question);
    check_devices(&check, question);
    check_links(&check, question);
    check_distinct(&check, "micro_batches", vary->micro_batches, vary->micro_batches_count);
    check_distinct(&check, "devices", vary->devices, vary->devices_count);
    check_names(&check, "compression", vary->compression, vary->compression_count);
    check_names(&check, "pipeline", vary->pipeline, vary->pipeline_count);
    const size_t count = what_if_combinations(question);
    if (count > WHAT_IF_COMBINATIONS_MAX) {
        check_fault(&check, "/vary", "makes %zu combinations; at most %d are allowed", count,
                    WHAT_IF_COMBINATIONS_MAX);
    }
    return check.rc;
}

/* ---- for the planner ---- */

bool what_if_assumes(const struct plan_question *question)
{
    return question->has_spec || question->has_devices || question->link_count > 0 ||
           question->has_vary;
}

void what_if_id(size_t index, struct device_id *out)
{
    (void)snprintf(out->text, sizeof(out->text), ID_FORM, index);
}

const struct what_if_device *what_if_device(const struct plan_question *question, const char *id)
{
    for (size_t i = 0; i < question->device_count; i++) {
        struct device_id assumed;
        what_if_id(i, &assumed);
        if (question->device[i].id.text[0] == '\0' && id_equal(assumed.text, id)) {
            return &question->device[i];
        }
    }
    return NULL;
}

/* The index of a variation has one digit per varied field; `count` is the base of the digit. Take
 * the next digit. */
static size_t digit(size_t *index, size_t count)
{
    const size_t base = at_least_one(count), value = *index % base;
    *index /= base;
    return value;
}

void what_if_vary(const struct plan_question *question, size_t index, struct job_spec *spec)
{
    const struct plan_vary *vary = &question->vary;
    const size_t devices = digit(&index, vary->devices_count);
    const size_t micro_batches = digit(&index, vary->micro_batches_count);
    const size_t compression = digit(&index, vary->compression_count);
    const size_t pipeline = digit(&index, vary->pipeline_count);
    if (vary->devices_count > 0) {
        spec->devices_min = spec->devices_max = vary->devices[devices];
    }
    if (vary->compression_count > 0) {
        spec->compression = vary->compression[compression];
    }
    if (vary->pipeline_count > 0 && spec->pipeline != vary->pipeline[pipeline]) {
        spec->pipeline = vary->pipeline[pipeline];
        spec->micro_batches = 0; /* 0: the default of that schedule */
    }
    if (vary->micro_batches_count > 0) {
        spec->micro_batches = vary->micro_batches[micro_batches];
    }
    job_spec_complete(spec);
}
