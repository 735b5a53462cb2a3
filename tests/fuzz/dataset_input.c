#include "tests/fuzz/dataset_input.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/assert.h"
#include "base/buf.h"
#include "base/file.h"
#include "libtrain/formats/dataset.h"

#define RESULT_BYTES_MAX (1 << 20)
#define BLOCK_BYTES 512
#define CHECKSUM_AT 148
#define CHECKSUM_BYTES 8
#define MAGIC_AT 257

static int memory_file(const void *mark, size_t mark_size, const uint8_t *data, size_t size)
{
    struct err err = {0};
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    ASSERT(fd >= 0);
    ASSERT(file_write_at(fd, mark, mark_size, 0, &err) == 0);
    ASSERT(file_write_at(fd, data, size, mark_size, &err) == 0);
    return fd;
}

static int append(void *arg, const void *data, size_t size, struct err *err)
{
    return buf_append(arg, data, size, err);
}

/* A result agrees with its info and reads back unchanged. */
static void check_result(const struct buf *result, const struct dataset_info *info, bool unlabelled)
{
    struct dataset_info again;
    struct err err = {0};
    ASSERT(result->size == info->total_bytes);
    ASSERT(info->count >= 1 && info->classes <= DATASET_CLASSES_MAX &&
           (info->classes >= 1 || unlabelled));
    int fd = memory_file("", 0, (const uint8_t *)result->data, result->size);
    ASSERT(dataset_read_info(fd, &again, &err) == 0);
    ASSERT(again.count == info->count && again.h == info->h && again.w == info->w &&
           again.c == info->c);
    ASSERT(again.labels_offset == info->labels_offset && again.positions == info->positions &&
           again.labels_bytes == 4 * info->count * info->positions);
    for (uint64_t i = 0; i < info->count * info->positions; i++) {
        int32_t label;
        memcpy(&label, result->data + info->labels_offset + 4 * i, sizeof(label));
        ASSERT(label >= 0 && (uint32_t)label < (info->classes ? info->classes : 1));
    }
    for (uint64_t at = 0; info->dtype == DTYPE_F32 && at < info->inputs_bytes;
         at += sizeof(float)) {
        float number;
        memcpy(&number, result->data + info->inputs_offset + at, sizeof(number));
        ASSERT(__builtin_isfinite(number));
    }
    file_close(&fd);
}

/* Whether it was taken. */
static bool convert_with(const int *fd, size_t count, const struct reading *reading,
                         bool unlabelled)
{
    struct dataset_names names AUTO(dataset_names_done) = {0};
    const struct dataset_limits limits = {
        .total_bytes = RESULT_BYTES_MAX, .entries = 16, .unlabelled = unlabelled, .names = &names};
    BUF_AUTO struct buf result;
    struct dataset_info info;
    struct err err = {0};
    buf_init(&result, RESULT_BYTES_MAX);
    int rc = dataset_convert(fd, count, reading, &limits, append, &result, &info, &err);
    ASSERT(rc == err.code && (rc == 0 || err.text[0] != '\0'));
    if (rc == 0) {
        check_result(&result, &info, unlabelled);
        ASSERT(names.sample.count == 0 || names.sample.count == info.count);
        ASSERT(names.class.count == 0 || names.class.count == info.classes);
    }
    return rc == 0;
}

/* A data set with labels is also valid where labels are not needed. */
static void convert_files(const int *fd, size_t count, const struct reading *reading)
{
    const bool labelled = convert_with(fd, count, reading, false);
    ASSERT(convert_with(fd, count, reading, true) || !labelled);
}

void convert_one(const uint8_t *data, size_t size)
{
    int fd = memory_file("", 0, data, size);
    convert_files(&fd, 1, &reading_default);
    file_close(&fd);
}

void convert_two(const uint8_t *data, size_t size, const char *mark, size_t mark_size)
{
    if (size < 2) {
        return;
    }
    size_t first = (size_t)data[0] | (size_t)data[1] << 8;
    data += 2;
    size -= 2;
    first = first < size ? first : size;
    int fd[2] = {memory_file(mark, mark_size, data, first),
                 memory_file(mark, mark_size, data + first, size - first)};
    convert_files(fd, 2, &reading_default);
    file_close(&fd[0]);
    file_close(&fd[1]);
}

static void repair_checksum(uint8_t *block)
{
    unsigned sum = 0;
    memset(block + CHECKSUM_AT, ' ', CHECKSUM_BYTES);
    for (size_t i = 0; i < BLOCK_BYTES; i++) {
        sum += block[i];
    }
    char text[CHECKSUM_BYTES];
    (void)snprintf(text, sizeof(text), "%06o", sum & 0777777);
    memcpy(block + CHECKSUM_AT, text, sizeof(text) - 1);
}

void convert_archive(const uint8_t *data, size_t size, const char *how)
{
    struct reading reading = reading_default;
    struct err err = {0};
    ASSERT(how[0] == '\0' || reading_parse(how, &reading, &err) == 0);
    uint8_t *copy = malloc(size + 1);
    ASSERT(copy);
    if (size > 0) {
        memcpy(copy, data, size);
    }
    for (size_t at = 0; at + BLOCK_BYTES <= size; at += BLOCK_BYTES) {
        if (memcmp(copy + at + MAGIC_AT, "ustar", 5) == 0) {
            repair_checksum(copy + at);
        }
    }
    int fd = memory_file("", 0, copy, size);
    convert_files(&fd, 1, &reading);
    file_close(&fd);
    free(copy);
}
