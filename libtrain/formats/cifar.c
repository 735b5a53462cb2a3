/* CIFAR-10's binary format: records of one label and three planes of 32 x 32. There is no header;
 * the size of the file gives the count. */
#include <inttypes.h>

#include "libtrain/formats/part.h"

#define CLASSES 10

bool cifar_recognise(const uint8_t *bytes, size_t available)
{
    return available > 0 && bytes[0] < CLASSES;
}

int cifar_read(struct stream *stream, struct part *part, struct labels *labels, struct err *err)
{
    static const uint64_t shape[] = {32, 32, 3};
    int rc = part_set_shape(part, shape, 3, err);
    part->kind = PART_CIFAR;
    part->element = element_u8;
    part->label_first = labels->count;
    while (rc == 0) {
        uint8_t record[CIFAR_RECORD_BYTES];
        size_t got = 0;
        rc = stream_read(stream, record, sizeof(record), &got, err);
        if (rc || got == 0) {
            break;
        }
        if (got < sizeof(record)) {
            return err_set(err, ERR_FORMAT,
                           "%s: record %" PRIu64 " ends %zu bytes early, at byte %" PRIu64,
                           part->name, part->count, sizeof(record) - got, stream->position);
        }
        if (record[0] >= CLASSES) {
            return err_set(err, ERR_FORMAT,
                           "%s: record %" PRIu64 " has label %u; CIFAR-10 has 0 to 9", part->name,
                           part->count, record[0]);
        }
        part->count++;
        rc = labels_append(labels, record[0], part->name, err);
    }
    return rc ? rc : stream_finish(stream, err);
}

void cifar_interleave(const uint8_t planes[CIFAR_IMAGE_BYTES], uint8_t out[CIFAR_IMAGE_BYTES])
{
    for (size_t i = 0; i < CIFAR_PIXELS; i++) {
        for (size_t plane = 0; plane < 3; plane++) {
            out[3 * i + plane] = planes[plane * CIFAR_PIXELS + i];
        }
    }
}
