#include "agent/gossip/mix_body.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/record.h"
#include "libtrain/formats/safetensors.h"

#define PARTS 2
#define NOTE_KEY "mix"
#define PARKED_SECONDS_MAX 86400

static const struct field note_fields[] = {
    MEMBER_RECORD(struct mix_note, copy, "copy", FIELD_REQUIRED, &mix_member_record),
    MEMBER_DOUBLE(struct mix_note, parked_seconds, "parked_seconds", FIELD_SKIP_EMPTY, 0,
                  PARKED_SECONDS_MAX),
    MEMBER_RECORDS(struct mix_note, record, record_count, "records", FIELD_SKIP_EMPTY,
                   &mix_record_record),
};
static const struct record note_record = RECORD(struct mix_note, "mix_note", note_fields);

/* The tensors of a body. Returns how many. */
static size_t list(const struct mix_body *body, struct safetensors_tensor out[PARTS])
{
    static const char *const names[PARTS] = {"data", "statistics"};
    const size_t floats[PARTS] = {body->parameters, body->statistics};
    size_t count = 0;
    for (size_t i = 0; i < PARTS; i++) {
        if (floats[i] > 0) {
            struct safetensors_tensor *tensor = &out[count++];
            *tensor =
                (struct safetensors_tensor){.dtype = DTYPE_F32, .rank = 1, .dim = {floats[i]}};
            (void)snprintf(tensor->name, sizeof(tensor->name), "%s", names[i]);
        }
    }
    return count;
}

void mix_body_forget(struct buf *buf)
{
    if (buf->capacity > MIX_BODY_KEPT_MAX) {
        buf_done(buf);
    } else {
        buf_clear(buf);
    }
}

int mix_body_write_header(const struct mix_body *body, const struct mix_note *note,
                          struct buf *text, struct buf *out, struct err *err)
{
    struct safetensors_tensor tensor[PARTS];
    struct safetensors_header header = {
        .tensor = tensor, .tensor_capacity = PARTS, .metadata_count = 1};
    mix_body_forget(text);
    json_auto_t *value = record_write(&note_record, note);
    int rc = value ? json_write(value, text, err) : err_set(err, ERR_MEMORY, "a note on a mix");
    if (rc != 0) {
        return rc;
    }
    header.tensor_count = list(body, tensor);
    (void)snprintf(header.metadata[0].key, SAFETENSORS_KEY_MAX, NOTE_KEY);
    header.metadata[0].long_value = text->data;
    /* Escaping makes two bytes of each quotation mark. */
    const size_t most = 2 * text->size + 1024;
    char *place = buf_reserve(out, most, err);
    size_t size = 0;
    rc = place ? safetensors_write(&header, place, most, &size, err) : err->code;
    out->size += rc == 0 ? size : 0;
    return rc;
}

static int read_note(const char *text, struct mix_note *note, struct err *err)
{
    json_auto_t *value = NULL;
    if (!text) {
        return err_set(err, ERR_FORMAT, "it does not say whose copy it is");
    }
    int rc = json_parse(text, strlen(text), &value, err);
    memset(note, 0, sizeof(*note));
    return rc ? rc : record_read(&note_record, value, "", note, NULL, err);
}

static bool is_expected(const struct safetensors_header *header, const struct mix_body *expected)
{
    struct safetensors_tensor wanted[PARTS];
    const size_t count = list(expected, wanted);
    bool same = header->tensor_count == count;
    for (size_t i = 0; same && i < count; i++) {
        const struct safetensors_tensor *tensor = &header->tensor[i];
        same = strcmp(tensor->name, wanted[i].name) == 0 && tensor->dtype == wanted[i].dtype &&
               tensor->rank == wanted[i].rank && tensor->dim[0] == wanted[i].dim[0];
    }
    return same;
}

int mix_body_read_header(const char *bytes, size_t size, const struct mix_body *expected,
                         struct buf *text, struct mix_note *note, struct err *err)
{
    struct safetensors_tensor tensor[PARTS];
    mix_body_forget(text);
    struct safetensors_header header = {.tensor = tensor,
                                        .tensor_capacity = PARTS,
                                        .text = buf_reserve(text, size, err),
                                        .text_capacity = size + 1};
    int rc = header.text ? safetensors_parse(bytes, size, &header, err) : err->code;
    if (rc == 0 && !is_expected(&header, expected)) {
        rc = err_set(err, ERR_FORMAT, "expected %zu parameters and %zu statistics",
                     expected->parameters, expected->statistics);
    }
    return rc ? rc : read_note(safetensors_metadata(&header, NOTE_KEY), note, err);
}
