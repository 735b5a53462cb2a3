#include "libtrain/formats/part.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/assert.h"

#define LABELS_FIRST_CAPACITY 4096

const struct element element_u8 = {.kind = ELEMENT_UNSIGNED, .size = 1};
const struct element element_i32 = {.kind = ELEMENT_SIGNED, .size = sizeof(int32_t)};
const struct element element_f32 = {.kind = ELEMENT_FLOAT, .size = sizeof(float)};

void labels_done(struct labels *labels)
{
    free(labels->value);
    *labels = (struct labels){0};
}

int labels_append(struct labels *labels, int64_t label, const char *name, struct err *err)
{
    if (label < 0 || label >= DATASET_CLASSES_MAX) {
        return err_set(err, ERR_INVALID, "%s: label %" PRId64 " is not in 0 to %d", name, label,
                       DATASET_CLASSES_MAX - 1);
    }
    if (labels->count == DATASET_SAMPLES_MAX) {
        return err_set(err, ERR_LIMIT, "%s: more than %d labels", name, DATASET_SAMPLES_MAX);
    }
    if (labels->count == labels->capacity) {
        size_t capacity = labels->capacity ? 2 * labels->capacity : LABELS_FIRST_CAPACITY;
        int32_t *grown = realloc(labels->value, capacity * sizeof(*grown));
        if (!grown) {
            return err_set(err, ERR_MEMORY, "%s: no memory for %zu labels", name, capacity);
        }
        labels->value = grown;
        labels->capacity = capacity;
    }
    labels->value[labels->count++] = (int32_t)label;
    labels->largest = (int32_t)label > labels->largest ? (int32_t)label : labels->largest;
    return 0;
}

void labels_tally(const int32_t *label, const struct dataset_info *info,
                  const struct dataset_limits *limits)
{
    struct dataset_counts *counts = limits->counts;
    if (!counts || info->positions > 1 || info->classes > DATASET_COUNTED_CLASSES_MAX) {
        return;
    }
    counts->classes = info->classes;
    for (uint64_t i = 0; i < info->count && info->classes > 0; i++) {
        counts->samples[label[i]]++;
    }
}

int part_set_shape(struct part *part, const uint64_t *dim, size_t rank, struct err *err)
{
    ASSERT(rank >= 1 && rank <= 3);
    uint64_t elements = 1;
    for (size_t i = 0; i < rank; i++) {
        if (dim[i] == 0 || dim[i] > DATASET_SAMPLE_ELEMENTS_MAX ||
            (elements *= dim[i]) > DATASET_SAMPLE_ELEMENTS_MAX) {
            return err_set(err, ERR_INVALID, "%s: a sample has from 1 to %d elements", part->name,
                           DATASET_SAMPLE_ELEMENTS_MAX);
        }
    }
    part->h = rank == 1 ? 1 : (uint32_t)dim[0];
    part->w = rank == 1 ? 1 : (uint32_t)dim[1];
    part->c = rank == 1 ? (uint32_t)dim[0] : rank == 3 ? (uint32_t)dim[2] : 1;
    return 0;
}

uint64_t part_image_elements(const struct part *part)
{
    return (uint64_t)part->h * part->w * part->c;
}

enum dtype part_dtype(const struct part *part)
{
    return part->element.kind == ELEMENT_FLOAT ? DTYPE_F32 : DTYPE_U8;
}

uint64_t part_label_count(const struct part *part)
{
    return part->count * (part->positions ? part->positions : 1);
}

int part_pass_images(struct part *part, struct stream *stream, struct err *err)
{
    if (part->count > DATASET_SAMPLES_MAX) {
        return err_set(err, ERR_LIMIT, "%s: %" PRIu64 " samples; at most %d", part->name,
                       part->count, DATASET_SAMPLES_MAX);
    }
    part->skip = stream->position;
    return stream_skip(stream, part->count * part_image_elements(part) * part->element.size,
                       "the samples end", err);
}

int part_read_labels(struct part *part, struct stream *stream, struct element element,
                     struct labels *labels, struct err *err)
{
    uint8_t buffer[8192];
    const uint64_t count = part->count > DATASET_SAMPLES_MAX ? part->count : part_label_count(part);
    if (count > DATASET_SAMPLES_MAX) {
        return err_set(err, ERR_LIMIT, "%s: %" PRIu64 " labels; at most %d", part->name, count,
                       DATASET_SAMPLES_MAX);
    }
    const size_t size = element.size;
    uint64_t left = count * size;
    part->label_first = labels->count;
    while (left > 0) {
        size_t wanted = left < sizeof(buffer) ? (size_t)left : sizeof(buffer);
        size_t got = 0;
        int rc = stream_read(stream, buffer, wanted, &got, err);
        for (size_t i = 0; i + size <= got && rc == 0; i += size) {
            rc = labels_append(labels, element_integer(element, buffer + i), part->name, err);
        }
        if (rc) {
            return rc;
        }
        left -= got;
        if (got < wanted) {
            return stream_ends_early(stream, "the labels end", left, err);
        }
    }
    return 0;
}
