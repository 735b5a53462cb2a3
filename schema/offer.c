#include "schema/offer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "schema/device.h"

/* Limit for one device. The sum over all devices remains an integer that JSON represents
 * exactly. */
#define SAMPLES_MAX 100000000000

static const struct field class_count_element = {.type = FIELD_INT, .min = 0, .max = INTEGER_MAX};

static const struct field part_fields[] = {
    MEMBER_FORM(struct offer_part, sha256, "sha256", FIELD_REQUIRED, &sha256_form,
                .about = "The hash of these samples as a data set of their own."),
    MEMBER_INT(struct offer_part, samples, "samples", FIELD_REQUIRED, 1, SAMPLES_MAX),
};
const struct record offer_part_record =
    RECORD_WITH(struct offer_part, "offer_part", part_fields,
                .about = "A data set as it was before samples were appended: its first samples.");

#define OFFER_FIELDS(T, m)                                                                         \
    MEMBER_FORM(T, m name, "name", FIELD_REQUIRED, &name_form),                                    \
        MEMBER_FORM(T, m sha256, "sha256", FIELD_REQUIRED, &sha256_form,                           \
                    .about = "The hash of the converted file, which stays on the device."),        \
        MEMBER_INT(T, m samples, "samples", FIELD_REQUIRED, 1, SAMPLES_MAX),                       \
        MEMBER_INT(T, m height, "height", FIELD_REQUIRED, 1, UINT32_MAX),                          \
        MEMBER_INT(T, m width, "width", FIELD_REQUIRED, 1, UINT32_MAX),                            \
        MEMBER_INT(T, m channels, "channels", FIELD_REQUIRED, 1, UINT32_MAX),                      \
        MEMBER_FORM(T, m dtype, "dtype", FIELD_REQUIRED, &word_form),                              \
        MEMBER_INT(T, m classes, "classes", FIELD_REQUIRED, 1, UINT32_MAX),                        \
        MEMBER_INT(T, m positions, "positions", FIELD_SKIP_EMPTY, 2, POSITIONS_MAX,                \
                   .about = "Labels of a sample. Left out: one."),                                 \
        MEMBER_FORM(T, m class_names_sha256, "class_names_sha256", FIELD_NULLABLE, &sha256_form,   \
                    .about = "The hash of the list of class names, as for uploaded data sets; "    \
                             "null: the classes have none."),                                      \
        MEMBER_LIST(T, m class_count, m class_count_count, "class_counts", FIELD_SKIP_EMPTY,       \
                    &class_count_element,                                                          \
                    .about =                                                                       \
                        "Samples of each class, by class number. Left out: not counted, because "  \
                        "there are more than 256 classes or several labels a sample."),            \
        MEMBER_TEXT(T, m reading, "reading", FIELD_NULLABLE,                                       \
                    .about = "The parameters that converted the files to samples; null: none."),   \
        MEMBER_RECORDS(T, m part, m part_count, "extends", FIELD_SKIP_EMPTY, &offer_part_record,   \
                       .about = "Data sets that this one extends, the shortest first. Groups "     \
                                "that train on one of them continue with the longer data."),       \
        MEMBER_BOOL(T, m stale, "stale", FIELD_SKIP_EMPTY,                                         \
                    .about = "The files have changed, but the agent could not read them: its log " \
                             "says why. The device still offers the earlier samples.")

static const struct field offer_fields[] = {OFFER_FIELDS(struct offer, )};
const struct record offer_record =
    RECORD_WITH(struct offer, "offer", offer_fields,
                .about = "A data set that the device offers. Its samples never leave the device.");

static const struct field local_fields[] = {
    MEMBER_FORM(struct local_dataset, device.text, "device", FIELD_REQUIRED, &device_id_form,
                .about = "The device that offers the data set."),
    MEMBER_FORM(struct local_dataset, device_name, "device_name", FIELD_REQUIRED, &name_form),
    MEMBER_ENUM(struct local_dataset, device_state, "device_state", FIELD_REQUIRED,
                device_state_names),
    OFFER_FIELDS(struct local_dataset, offer.),
};
const struct record local_dataset_record =
    RECORD_WITH(struct local_dataset, "local_dataset", local_fields, .answer = true,
                .about = "A data set that a device offers: its agent's `--data`.");

bool offer_adds_up(const struct offer *offer)
{
    int64_t left = offer->samples;
    for (size_t c = 0; c < offer->class_count_count && left >= 0; c++) {
        left = offer->class_count[c] <= left ? left - offer->class_count[c] : -1;
    }
    return left == 0 || offer->class_count_count == 0;
}

bool offer_grows(const struct offer *offer)
{
    int64_t before = 0;
    for (size_t i = 0; i < offer->part_count; i++) {
        if (offer->part[i].samples <= before) {
            return false;
        }
        before = offer->part[i].samples;
    }
    return before < offer->samples;
}

const struct offer_part *offer_part(const struct offer *offer, const char *sha256)
{
    for (size_t i = 0; i < offer->part_count; i++) {
        if (strcmp(offer->part[i].sha256, sha256) == 0) {
            return &offer->part[i];
        }
    }
    return NULL;
}

bool offer_has(const struct offer *offer, const char *sha256)
{
    return strcmp(offer->sha256, sha256) == 0 || offer_part(offer, sha256);
}

const struct offer *offer_find(const struct offer *offer, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(offer[i].name, name) == 0) {
            return &offer[i];
        }
    }
    return NULL;
}

void offer_form(const struct offer *offer, char out[OFFER_FORM_SIZE])
{
    int used = snprintf(out, OFFER_FORM_SIZE, "%" PRId64 "x%" PRId64 "x%" PRId64 " %s",
                        offer->height, offer->width, offer->channels, offer->dtype);
    if (offer->positions > 1) {
        used += snprintf(out + used, OFFER_FORM_SIZE - (size_t)used, " labels=%" PRId64,
                         offer->positions);
    }
    if (offer->class_names_sha256[0] != '\0') {
        used += snprintf(out + used, OFFER_FORM_SIZE - (size_t)used, " names=%.16s",
                         offer->class_names_sha256);
    }
    if (offer->reading[0] != '\0') {
        used += snprintf(out + used, OFFER_FORM_SIZE - (size_t)used, " %s", offer->reading);
    }
    ASSERT(used < OFFER_FORM_SIZE);
}
