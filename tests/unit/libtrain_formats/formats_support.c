#include "tests/unit/libtrain_formats/formats_support.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <zlib.h>

#include "base/file.h"
#include "tests/support/test.h"

void put(struct bytes *bytes, const void *data, size_t size)
{
    assert_true(size <= sizeof(bytes->data) - bytes->size);
    memcpy(bytes->data + bytes->size, data, size);
    bytes->size += size;
}

void put_zeros(struct bytes *bytes, size_t size)
{
    assert_true(size <= sizeof(bytes->data) - bytes->size);
    memset(bytes->data + bytes->size, 0, size);
    bytes->size += size;
}

void put_idx_header(struct bytes *bytes, const uint32_t *dim, size_t rank)
{
    uint8_t mark[4] = {0, 0, 8, (uint8_t)rank};
    put(bytes, mark, 4);
    for (size_t i = 0; i < rank; i++) {
        uint8_t big[4] = {(uint8_t)(dim[i] >> 24), (uint8_t)(dim[i] >> 16), (uint8_t)(dim[i] >> 8),
                          (uint8_t)dim[i]};
        put(bytes, big, 4);
    }
}

void put_idx_images(struct bytes *bytes, uint32_t count, uint32_t h, uint32_t w)
{
    uint32_t dim[] = {count, h, w};
    put_idx_header(bytes, dim, 3);
    for (size_t i = 0; i < (size_t)count * h * w; i++) {
        uint8_t pixel = (uint8_t)i;
        put(bytes, &pixel, 1);
    }
}

void put_idx_labels(struct bytes *bytes, uint32_t count)
{
    put_idx_header(bytes, &count, 1);
    for (uint32_t i = 0; i < count; i++) {
        uint8_t label = (uint8_t)(i % 3);
        put(bytes, &label, 1);
    }
}

void put_npy(struct bytes *bytes, const char *dictionary, const void *data, size_t size)
{
    size_t length = strlen(dictionary);
    uint8_t start[10] = {
        0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (uint8_t)length, (uint8_t)(length >> 8)};
    put(bytes, start, sizeof(start));
    put(bytes, dictionary, length);
    put(bytes, data, size);
}

void put_cifar_record(struct bytes *bytes, uint8_t label)
{
    put(bytes, &label, 1);
    for (size_t i = 0; i < 3072; i++) {
        uint8_t pixel = (uint8_t)(i / 1024 * 50 + i % 50);
        put(bytes, &pixel, 1);
    }
}

static void put_little_endian(struct bytes *bytes, size_t value, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        uint8_t byte = (uint8_t)(value >> 8 * i);
        put(bytes, &byte, 1);
    }
}

void put_wav(struct bytes *bytes, unsigned format, unsigned channels, unsigned rate, unsigned bits,
             const void *data, size_t size)
{
    put(bytes, "RIFF", 4);
    put_little_endian(bytes, 36 + size + size % 2, 4);
    put(bytes, "WAVEfmt ", 8);
    put_little_endian(bytes, 16, 4);
    put_little_endian(bytes, format, 2);
    put_little_endian(bytes, channels, 2);
    put_little_endian(bytes, rate, 4);
    put_little_endian(bytes, (size_t)rate * channels * bits / 8, 4);
    put_little_endian(bytes, channels * bits / 8, 2);
    put_little_endian(bytes, bits, 2);
    put(bytes, "data", 4);
    put_little_endian(bytes, size, 4);
    put(bytes, data, size);
    put_zeros(bytes, size % 2);
}

void put_tar_entry(struct bytes *bytes, const char *name, char type, const void *data, size_t size)
{
    char block[512] = {0};
    (void)snprintf(block, 100, "%s", name);
    (void)snprintf(block + 100, 8, "0000644");
    (void)snprintf(block + 124, 12, "%011zo", size);
    (void)snprintf(block + 136, 12, "00000000000");
    block[156] = type;
    memcpy(block + 257,
           "ustar\0"
           "00",
           8);
    memset(block + 148, ' ', 8);
    unsigned sum = 0;
    for (size_t i = 0; i < sizeof(block); i++) {
        sum += (uint8_t)block[i];
    }
    (void)snprintf(block + 148, 8, "%06o", sum);
    put(bytes, block, sizeof(block));
    put(bytes, data, size);
    put_zeros(bytes, (512 - size % 512) % 512);
}

void put_tar_end(struct bytes *bytes)
{
    put_zeros(bytes, 1024);
}

void compress_gzip(struct bytes *bytes)
{
    static struct bytes plain;
    plain = *bytes;
    z_stream z = {.next_in = plain.data,
                  .avail_in = (unsigned)plain.size,
                  .next_out = bytes->data,
                  .avail_out = sizeof(bytes->data)};
    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    bytes->size = z.total_out;
    assert_int_equal(deflateEnd(&z), Z_OK);
}

int memory_file(const struct bytes *bytes)
{
    struct err err = {0};
    int fd = memfd_create("test", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_ok(file_write_at(fd, bytes->data, bytes->size, 0, &err), &err);
    return fd;
}

static int append(void *arg, const void *data, size_t size, struct err *err)
{
    return buf_append(arg, data, size, err);
}

int convert(const struct bytes *first, const struct bytes *second, struct converted *out,
            struct err *err)
{
    static const struct dataset_limits limits = {.total_bytes = 1 << 20, .entries = 8};
    int fd[2] = {memory_file(first), second ? memory_file(second) : -1};
    buf_init(&out->file, 1 << 20);
    int rc = dataset_convert(fd, second ? 2 : 1, &reading_default, &limits, append, &out->file,
                             &out->info, err);
    file_close(&fd[0]);
    if (second) {
        file_close(&fd[1]);
    }
    return rc;
}

void converted_done(struct converted *converted)
{
    buf_done(&converted->file);
}

void convert_ok(const struct bytes *first, const struct bytes *second, struct converted *out)
{
    struct err err = {0};
    assert_ok(convert(first, second, out, &err), &err);
    assert_int_equal(out->file.size, out->info.total_bytes);

    struct dataset_info again;
    int fd = memfd_create("result", MFD_CLOEXEC);
    assert_ok(file_write_at(fd, out->file.data, out->file.size, 0, &err), &err);
    assert_ok(dataset_read_info(fd, &again, &err), &err);
    file_close(&fd);
    assert_int_equal(again.classes, 0);
    again.classes = out->info.classes;
    assert_int_equal(again.count, out->info.count);
    assert_int_equal(again.inputs_offset, out->info.inputs_offset);
    assert_int_equal(again.labels_offset, out->info.labels_offset);
    assert_int_equal(again.total_bytes, out->info.total_bytes);
    assert_int_equal(again.dtype, out->info.dtype);
}

void convert_fails(const struct bytes *first, const struct bytes *second, int code,
                   const char *part)
{
    struct converted converted;
    struct err err = {0};
    int rc = convert(first, second, &converted, &err);
    converted_done(&converted);
    assert_int_equal(rc, err.code);
    assert_holds(err.text, part);
    assert_int_equal(rc, code);
}

int32_t label_of(const struct converted *converted, size_t index)
{
    int32_t label;
    assert_true(index < converted->info.count * converted->info.positions);
    memcpy(&label, converted->file.data + converted->info.labels_offset + index * sizeof(label),
           sizeof(label));
    return label;
}

const uint8_t *inputs_of(const struct converted *converted)
{
    return (const uint8_t *)converted->file.data + converted->info.inputs_offset;
}
