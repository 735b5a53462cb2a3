#include "agent/peer/message.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/parse.h"
#include "libtrain/formats/safetensors.h"

#define RANK 4 /* N, H, W, C */

struct message_path message_tensor_path(const char *url, const struct job_id *job,
                                        int64_t generation, const struct transfer *transfer,
                                        size_t boundary)
{
    struct message_path path;
    (void)snprintf(path.text, sizeof(path.text), "%s/peer/v1/%s/%" PRId64 "/%" PRId64 "/%zu/%zu/%s",
                   url, job->text, generation, transfer->step, transfer->micro_batch, boundary,
                   transfer_info(transfer)->name);
    return path;
}

struct message_path message_snapshot_path(const char *url, const struct job_id *job,
                                          int64_t generation, int64_t version, int64_t unit)
{
    struct message_path path;
    (void)snprintf(path.text, sizeof(path.text),
                   "%s/peer/v1/%s/%" PRId64 "/snapshots/%" PRId64 "/%" PRId64, url, job->text,
                   generation, version, unit);
    return path;
}

struct message_path message_ping_path(const char *url, const struct job_id *job, int64_t generation)
{
    struct message_path path;
    (void)snprintf(path.text, sizeof(path.text), "%s/peer/v1/%s/%" PRId64 "/ping", url, job->text,
                   generation);
    return path;
}

/* Fill in the header's tensor. A coded tensor is a list of bytes; its shape follows from the
 * path. */
static void fill(const struct work_tensor *tensor, size_t coded_bytes,
                 struct safetensors_tensor *out)
{
    if (tensor->codec != CODEC_NONE) {
        *out = (struct safetensors_tensor){
            .name = "data", .dtype = DTYPE_U8, .rank = 1, .dim = {coded_bytes}};
        return;
    }
    *out = (struct safetensors_tensor){
        .name = "data",
        .dtype = tensor->wide ? DTYPE_F64 : DTYPE_F32,
        .rank = RANK,
        .dim = {tensor->samples, tensor->shape.h, tensor->shape.w, tensor->shape.c}};
}

static const char *const mark_names[] = {
    [REPLICA_MARK(REPLICA_NEIGHBOR)] = "neighbor",
    [REPLICA_MARK(REPLICA_CENTER)] = "center",
    [REPLICA_MARK(REPLICA_NEIGHBOR) | REPLICA_MARK(REPLICA_CENTER)] = "neighbor,center",
};
#define MARKS (sizeof(mark_names) / sizeof(mark_names[0]))

static struct safetensors_metadata *add_metadata(struct safetensors_header *header, const char *key)
{
    struct safetensors_metadata *metadata = &header->metadata[header->metadata_count++];
    (void)snprintf(metadata->key, sizeof(metadata->key), "%s", key);
    return metadata;
}

void message_write_note(const struct message_note *note, struct safetensors_header *header)
{
    if (note->last) {
        (void)snprintf(add_metadata(header, "last")->value, SAFETENSORS_VALUE_MAX, "1");
    }
    if (note->mark.kinds != 0) {
        const int64_t *keep = note->mark.keep;
        ASSERT(note->mark.kinds < MARKS);
        (void)snprintf(add_metadata(header, "snapshot")->value, SAFETENSORS_VALUE_MAX, "%s",
                       mark_names[note->mark.kinds]);
        (void)snprintf(add_metadata(header, "keep")->value, SAFETENSORS_VALUE_MAX,
                       "%" PRId64 ",%" PRId64 ",%" PRId64, keep[0], keep[1], keep[2]);
    }
}

/* "1,2,3" */
static bool read_keep(const char *text, int64_t keep[ROUND_KEEP_MAX])
{
    char part[SAFETENSORS_VALUE_MAX];
    for (size_t i = 0; i < ROUND_KEEP_MAX; i++) {
        const size_t length = strcspn(text, ",");
        if (length >= sizeof(part) || (text[length] == ',') != (i + 1 < ROUND_KEEP_MAX)) {
            return false;
        }
        memcpy(part, text, length);
        part[length] = '\0';
        if (parse_i64(part, 0, STEPS_MAX, &keep[i], NULL) != 0) {
            return false;
        }
        text += length + 1;
    }
    return true;
}

bool message_read_note(const struct safetensors_header *header, struct message_note *note)
{
    const char *last = safetensors_metadata(header, "last");
    const char *snapshot = safetensors_metadata(header, "snapshot");
    const char *keep = safetensors_metadata(header, "keep");
    *note = (struct message_note){.last = last && strcmp(last, "1") == 0};
    for (unsigned kinds = 1; snapshot && kinds < MARKS; kinds++) {
        if (strcmp(snapshot, mark_names[kinds]) == 0) {
            note->mark.kinds = kinds;
        }
    }
    if (!snapshot) {
        return true;
    }
    return note->mark.kinds != 0 && keep && read_keep(keep, note->mark.keep);
}

size_t message_write_header(const struct work_tensor *tensor, const struct message_note *note,
                            char out[MESSAGE_HEADER_MAX])
{
    struct safetensors_tensor own;
    fill(tensor, note->coded_bytes, &own);
    struct safetensors_header header = {.tensor = &own, .tensor_capacity = 1, .tensor_count = 1};
    if (tensor->codec != CODEC_NONE) {
        (void)snprintf(add_metadata(&header, "codec")->value, SAFETENSORS_VALUE_MAX, "%s",
                       codec_info(tensor->codec)->name);
    }
    message_write_note(note, &header);
    size_t size = 0;
    struct err err = {0};
    const int rc = safetensors_write(&header, out, MESSAGE_HEADER_MAX, &size, &err);
    ASSERT(rc == 0); /* one short name and bounded numbers */
    return size;
}

/* Check the codec that the header names, and take the bytes of a coded tensor. */
static int read_codec(const struct safetensors_header *header, const struct work_tensor *expected,
                      size_t *coded_bytes, struct err *err)
{
    const char *agreed = codec_info(expected->codec)->name;
    const char *named = safetensors_metadata(header, "codec");
    named = named ? named : codec_info(CODEC_NONE)->name;
    if (strcmp(named, agreed) != 0) {
        return err_set(err, ERR_FORMAT, "its codec is '%.20s'; the link's is '%s'", named, agreed);
    }
    *coded_bytes = 0;
    if (expected->codec != CODEC_NONE && header->tensor_count == 1) {
        const uint64_t bytes = header->tensor[0].dim[0];
        *coded_bytes = bytes <= message_data_bytes(expected) ? (size_t)bytes : 0;
    }
    return 0;
}

int message_read_header(const void *bytes, size_t size, const struct work_tensor *expected,
                        struct message_note *note, struct err *err)
{
    struct safetensors_tensor tensor = {0};
    struct safetensors_tensor wanted;
    struct safetensors_header header = {.tensor = &tensor, .tensor_capacity = 1};
    int rc = safetensors_parse(bytes, size, &header, err);
    if (rc != 0) {
        return rc;
    }
    size_t coded_bytes = 0;
    rc = read_codec(&header, expected, &coded_bytes, err);
    if (rc != 0) {
        return rc;
    }
    fill(expected, coded_bytes, &wanted);
    if (header.tensor_count != 1 || strcmp(tensor.name, wanted.name) != 0 ||
        tensor.dtype != wanted.dtype || tensor.rank != wanted.rank ||
        memcmp(tensor.dim, wanted.dim, wanted.rank * sizeof(tensor.dim[0])) != 0) {
        if (expected->codec != CODEC_NONE) {
            return err_set(err, ERR_FORMAT,
                           "expected one U8 tensor \"data\" of 1 to %zu bytes, coded by %s",
                           message_data_bytes(expected), codec_info(expected->codec)->name);
        }
        return err_set(err, ERR_FORMAT, "expected one %s tensor \"data\" of [%zu, %u, %u, %u]",
                       dtype_name(wanted.dtype), expected->samples, expected->shape.h,
                       expected->shape.w, expected->shape.c);
    }
    if (!message_read_note(&header, note)) {
        return err_set(err, ERR_FORMAT, "its mark of a snapshot cannot be read");
    }
    note->coded_bytes = coded_bytes;
    return 0;
}

size_t message_data_bytes(const struct work_tensor *tensor)
{
    const size_t values = tensor->samples * shape_elements(tensor->shape);
    return tensor->wide ? values * sizeof(double) : (size_t)codec_bytes_max(tensor->codec, values);
}
