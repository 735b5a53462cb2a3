#include "agent/parameter_server/body.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/peer/message.h"
#include "base/assert.h"
#include "base/parse.h"
#include "libtrain/formats/safetensors.h"

#define PARKED_SECONDS_MAX 86400.0

static const struct {
    const char *name;
    enum dtype dtype;
    size_t size;
} parts[BODY_PARTS] = {
    [BODY_NUMBERS] = {"numbers", DTYPE_F64, sizeof(double)},
    [BODY_DATA] = {"data", DTYPE_F32, sizeof(float)},
    [BODY_STATISTICS] = {"statistics", DTYPE_F32, sizeof(float)},
};

size_t body_bytes(const struct body *body)
{
    size_t bytes = 0;
    for (size_t p = 0; p < BODY_PARTS; p++) {
        bytes += body->count[p] * parts[p].size;
    }
    return bytes;
}

/* The tensors of a body. Returns how many. */
static size_t list(const struct body *body, struct safetensors_tensor out[BODY_PARTS])
{
    size_t count = 0;
    for (size_t p = 0; p < BODY_PARTS; p++) {
        if (body->count[p] > 0) {
            struct safetensors_tensor *tensor = &out[count++];
            *tensor = (struct safetensors_tensor){
                .dtype = parts[p].dtype, .rank = 1, .dim = {body->count[p]}};
            (void)snprintf(tensor->name, sizeof(tensor->name), "%s", parts[p].name);
        }
    }
    return count;
}

static char *add(struct safetensors_header *header, const char *key)
{
    struct safetensors_metadata *metadata = &header->metadata[header->metadata_count++];
    (void)snprintf(metadata->key, sizeof(metadata->key), "%s", key);
    return metadata->value;
}

size_t body_write_header(const struct body *body, const struct body_note *note,
                         char out[BODY_HEADER_MAX])
{
    struct safetensors_tensor tensor[BODY_PARTS];
    struct safetensors_header header = {.tensor = tensor, .tensor_capacity = BODY_PARTS};
    header.tensor_count = list(body, tensor);
    const struct message_note marked = {.last = note->last, .mark = note->mark};
    message_write_note(&marked, &header);
    if (note->version != BODY_NO_VERSION) {
        (void)snprintf(add(&header, "version"), SAFETENSORS_VALUE_MAX, "%" PRId64, note->version);
    }
    if (note->parked_seconds > 0) {
        (void)snprintf(add(&header, "parked_seconds"), SAFETENSORS_VALUE_MAX, "%.6f",
                       note->parked_seconds);
    }
    size_t size = 0;
    struct err err = {0};
    const int rc = safetensors_write(&header, out, BODY_HEADER_MAX, &size, &err);
    ASSERT(rc == 0); /* short names and bounded numbers */
    return size;
}

static bool read_note(const struct safetensors_header *header, struct body_note *note)
{
    struct message_note marked;
    const char *version = safetensors_metadata(header, "version");
    const char *parked = safetensors_metadata(header, "parked_seconds");
    if (!message_read_note(header, &marked) || (marked.last && !version)) {
        return false;
    }
    *note =
        (struct body_note){.last = marked.last, .version = BODY_NO_VERSION, .mark = marked.mark};
    if (version && parse_i64(version, 0, STEPS_MAX, &note->version, NULL) != 0) {
        return false;
    }
    return !parked || parse_double(parked, 0, PARKED_SECONDS_MAX, &note->parked_seconds, NULL) == 0;
}

int body_read_header(const void *bytes, size_t size, const struct body *expected,
                     struct body_note *note, struct err *err)
{
    static const struct body nothing = {{0}};
    struct safetensors_tensor tensor[BODY_PARTS], wanted[BODY_PARTS];
    struct safetensors_header header = {.tensor = tensor, .tensor_capacity = BODY_PARTS};
    int rc = safetensors_parse(bytes, size, &header, err);
    if (rc != 0) {
        return rc;
    }
    if (!read_note(&header, note)) {
        return err_set(err, ERR_FORMAT, "its metadata cannot be read");
    }
    const size_t count = list(note->last ? &nothing : expected, wanted);
    bool same = header.tensor_count == count;
    for (size_t i = 0; same && i < count; i++) {
        same = strcmp(tensor[i].name, wanted[i].name) == 0 && tensor[i].dtype == wanted[i].dtype &&
               tensor[i].rank == wanted[i].rank && tensor[i].dim[0] == wanted[i].dim[0];
    }
    return same ? 0
                : err_set(err, ERR_FORMAT,
                          "expected %zu numbers, %zu elements of data and %zu statistics",
                          expected->count[BODY_NUMBERS], expected->count[BODY_DATA],
                          expected->count[BODY_STATISTICS]);
}
