/* IDX, the format of MNIST: two zero bytes, element type, number of dimensions, big-endian
 * dimensions, data. */
#include "base/assert.h"
#include "libtrain/formats/part.h"

#define TYPE_U8 0x08
#define DIMENSIONS_MAX 4

static uint32_t big_endian(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

/* Bytes of one element by type; 0 for an unknown type. */
static size_t element_size(uint8_t type)
{
    static const uint8_t size[16] = {
        [0x08] = 1, [0x09] = 1, [0x0B] = 2, [0x0C] = 4, [0x0D] = 4, [0x0E] = 8};
    return type < 16 ? size[type] : 0;
}

/* The file size according to the header, modulo 2^64. */
static uint64_t stated_size(const uint8_t *bytes, size_t available)
{
    uint64_t size = element_size(bytes[2]);
    size_t header = 4 + 4 * (size_t)bytes[3];
    for (size_t i = 4; i < header && header <= available; i += 4) {
        size *= big_endian(bytes + i);
    }
    return header + size;
}

bool idx_recognise(const uint8_t *bytes, size_t available, uint64_t size)
{
    if (available < 4 || bytes[0] != 0 || bytes[1] != 0 || element_size(bytes[2]) == 0 ||
        bytes[3] < 1 || bytes[3] > DIMENSIONS_MAX) {
        return false;
    }
    /* A CIFAR file with the label 0 and dark first pixels may start like an IDX file. A file that
     * can be CIFAR must therefore have the size that its IDX header states. */
    return size % CIFAR_RECORD_BYTES != 0 || size == stated_size(bytes, available);
}

int idx_read(struct stream *stream, struct part *part, struct labels *labels, struct err *err)
{
    uint8_t mark[4];
    uint8_t dimensions[4 * DIMENSIONS_MAX];
    uint64_t dim[DIMENSIONS_MAX] = {0};
    int rc;
    if ((rc = stream_read_all(stream, mark, sizeof(mark), "the IDX header ends", err))) {
        return rc;
    }
    ASSERT(mark[3] >= 1 && mark[3] <= DIMENSIONS_MAX); /* idx_recognise */
    if ((rc = stream_read_all(stream, dimensions, 4 * (size_t)mark[3], "the IDX header ends",
                              err))) {
        return rc;
    }
    if (mark[2] != TYPE_U8) {
        return err_set(err, ERR_UNSUPPORTED,
                       "%s: IDX elements of type 0x%02x; only unsigned bytes (0x08) are read",
                       part->name, mark[2]);
    }
    if (mark[3] == 2) {
        return err_set(err, ERR_FORMAT, "%s: IDX with 2 dimensions; images have 3 or 4, labels 1",
                       part->name);
    }
    for (size_t i = 0; i < mark[3]; i++) {
        dim[i] = big_endian(dimensions + 4 * i);
    }
    part->count = dim[0];
    part->element = element_u8;
    part->kind = mark[3] == 1 ? PART_LABELS : PART_IMAGES;
    if (part->kind == PART_LABELS) {
        rc = part_read_labels(part, stream, element_u8, labels, err);
    } else if ((rc = part_set_shape(part, dim + 1, mark[3] - 1u, err)) == 0) {
        rc = part_pass_images(part, stream, err);
    }
    return rc ? rc : stream_finish(stream, err);
}
