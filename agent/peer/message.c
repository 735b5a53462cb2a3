#include "agent/peer/message.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "libtrain/formats/safetensors.h"

#define RANK 4 /* N, H, W, C */

struct message_path message_tensor_path(const char *url, const struct job_id *job, int64_t generation,
                                        const struct transfer *transfer, size_t boundary)
{
    struct message_path path;
    (void)snprintf(path.text, sizeof(path.text), "%s/peer/v1/%s/%" PRId64 "/%" PRId64 "/%zu/%zu/%s", url, job->text,
                   generation, transfer->step, transfer->micro_batch, boundary, transfer_kind_names[transfer->kind]);
    return path;
}

struct message_path message_snapshot_path(const char *url, const struct job_id *job, int64_t generation,
                                          int64_t version, int64_t unit)
{
    struct message_path path;
    (void)snprintf(path.text, sizeof(path.text), "%s/peer/v1/%s/%" PRId64 "/snapshots/%" PRId64 "/%" PRId64, url,
                   job->text, generation, version, unit);
    return path;
}

struct message_path message_ping_path(const char *url, const struct job_id *job, int64_t generation)
{
    struct message_path path;
    (void)snprintf(path.text, sizeof(path.text), "%s/peer/v1/%s/%" PRId64 "/ping", url, job->text, generation);
    return path;
}

static void fill(const struct stage_tensor *tensor, struct safetensors_tensor *out)
{
    *out = (struct safetensors_tensor){.name = "data",
                                       .dtype = DTYPE_F32,
                                       .rank = RANK,
                                       .dim = {tensor->samples, tensor->shape.h, tensor->shape.w, tensor->shape.c}};
}

size_t message_write_header(const struct stage_tensor *tensor, bool last, char out[MESSAGE_HEADER_MAX])
{
    struct safetensors_tensor own;
    fill(tensor, &own);
    struct safetensors_header header = {.tensor = &own, .tensor_capacity = 1, .tensor_count = 1};
    if (last) {
        header.metadata[0] = (struct safetensors_metadata){.key = "last", .value = "1"};
        header.metadata_count = 1;
    }
    size_t size = 0;
    struct err err = {0};
    const int rc = safetensors_write(&header, out, MESSAGE_HEADER_MAX, &size, &err);
    ASSERT(rc == 0); /* one short name and bounded numbers */
    return size;
}

int message_read_header(const void *bytes, size_t size, const struct stage_tensor *expected, bool *last,
                        struct err *err)
{
    struct safetensors_tensor tensor;
    struct safetensors_tensor wanted;
    struct safetensors_header header = {.tensor = &tensor, .tensor_capacity = 1};
    int rc = safetensors_parse(bytes, size, &header, err);
    if (rc != 0) {
        return rc;
    }
    fill(expected, &wanted);
    if (header.tensor_count != 1 || strcmp(tensor.name, wanted.name) != 0 || tensor.dtype != wanted.dtype ||
        tensor.rank != RANK || memcmp(tensor.dim, wanted.dim, RANK * sizeof(tensor.dim[0])) != 0) {
        return err_set(err, ERR_FORMAT, "expected one F32 tensor \"data\" of [%zu, %u, %u, %u]", expected->samples,
                       expected->shape.h, expected->shape.w, expected->shape.c);
    }
    const char *mark = safetensors_metadata(&header, "last");
    *last = mark && strcmp(mark, "1") == 0;
    return 0;
}

size_t message_data_bytes(const struct stage_tensor *tensor)
{
    return tensor->samples * shape_elements(tensor->shape) * sizeof(float);
}
