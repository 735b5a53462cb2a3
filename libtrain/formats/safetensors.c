#include "libtrain/formats/safetensors.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/json_text.h"
#include "base/sort.h"
#include "libtrain/formats/scanner.h"

#define PREFIX_BYTES 8
#define DATA_ALIGNMENT 64
#define METADATA_KEY "__metadata__"

static const enum dtype known_dtypes[] = {DTYPE_U8, DTYPE_I32, DTYPE_I64, DTYPE_F32, DTYPE_F64};

/* ---- reading ---- */

/* The formats of torch.save: a zip, or a pickle of protocol 2 before release 1.6. */
static bool is_pytorch(const uint8_t prefix[8])
{
    return memcmp(prefix, "PK\3\4", 4) == 0 || memcmp(prefix, "\x80\2\x8a\n", 4) == 0;
}

int safetensors_header_bytes(const uint8_t prefix[8], uint64_t *out_bytes, struct err *err)
{
    uint64_t length = 0;
    for (size_t i = PREFIX_BYTES; i > 0; i--) {
        length = length << 8 | prefix[i - 1];
    }
    if (is_pytorch(prefix)) {
        return err_set(
            err, ERR_FORMAT,
            "safetensors: this is a PyTorch file; tools/from_torch.py makes safetensors of it");
    }
    if (length < 2 || length > SAFETENSORS_HEADER_MAX - PREFIX_BYTES) {
        return err_set(err, ERR_FORMAT,
                       "safetensors: the header claims %" PRIu64 " bytes; 2 to %u are possible",
                       length, SAFETENSORS_HEADER_MAX - PREFIX_BYTES);
    }
    *out_bytes = PREFIX_BYTES + length;
    return 0;
}

/* Store a short value in its entry, a long one in the memory of the caller. Skip a value that does
 * not fit there. */
static int read_value(struct scanner *scanner, struct safetensors_header *header, size_t *text_used,
                      struct safetensors_metadata *entry, struct err *err)
{
    const size_t start = scanner->at;
    size_t size = 0;
    entry->value[0] = '\0';
    entry->long_value = NULL;
    int rc = scanner_skip_text(scanner, &size, err);
    if (rc || (size >= sizeof(entry->value) && size >= header->text_capacity - *text_used)) {
        return rc;
    }
    scanner->at = start;
    if (size < sizeof(entry->value)) {
        return scanner_text(scanner, entry->value, sizeof(entry->value), err);
    }
    char *text = header->text + *text_used;
    entry->long_value = text;
    *text_used += size + 1;
    return scanner_text(scanner, text, size + 1, err);
}

static int read_metadata(struct scanner *scanner, struct safetensors_header *header,
                         struct err *err)
{
    size_t text_used = 0;
    int rc = scanner_expect(scanner, '{', err);
    if (rc || scanner_take(scanner, '}')) {
        return rc;
    }
    do {
        if (header->metadata_count == SAFETENSORS_METADATA_MAX) {
            return err_set(err, ERR_LIMIT, "more than %d entries of metadata",
                           SAFETENSORS_METADATA_MAX);
        }
        struct safetensors_metadata *entry = &header->metadata[header->metadata_count];
        if ((rc = scanner_text(scanner, entry->key, sizeof(entry->key), err)) ||
            (rc = scanner_expect(scanner, ':', err)) ||
            (rc = read_value(scanner, header, &text_used, entry, err))) {
            return rc;
        }
        if (safetensors_metadata(header, entry->key)) {
            return err_set(err, ERR_FORMAT, "metadata '%s' occurs twice", entry->key);
        }
        header->metadata_count++;
    } while (scanner_take(scanner, ','));
    return scanner_expect(scanner, '}', err);
}

static int read_dtype(struct scanner *scanner, enum dtype *out, struct err *err)
{
    char name[16];
    int rc = scanner_text(scanner, name, sizeof(name), err);
    if (rc) {
        return rc;
    }
    for (size_t i = 0; i < sizeof(known_dtypes) / sizeof(known_dtypes[0]); i++) {
        if (strcmp(name, dtype_name(known_dtypes[i])) == 0) {
            *out = known_dtypes[i];
            return 0;
        }
    }
    const bool half = strcmp(name, "F16") == 0 || strcmp(name, "BF16") == 0;
    return err_set(err, ERR_FORMAT, "dtype '%s' is not one of U8, I32, I64, F32, F64%s", name,
                   half ? "; tools/from_torch.py makes F32 of it" : "");
}

/* [1, 2, 3] into out[capacity]. */
static int read_integers(struct scanner *scanner, uint64_t *out, size_t capacity, size_t *count,
                         struct err *err)
{
    *count = 0;
    int rc = scanner_expect(scanner, '[', err);
    if (rc || scanner_take(scanner, ']')) {
        return rc;
    }
    do {
        if (*count == capacity) {
            return err_set(err, ERR_FORMAT, "header byte %zu: more than %zu numbers", scanner->at,
                           capacity);
        }
        if ((rc = scanner_integer(scanner, &out[*count], err))) {
            return rc;
        }
        (*count)++;
    } while (scanner_take(scanner, ','));
    return scanner_expect(scanner, ']', err);
}

/* Bytes of a tensor from dtype and shape; false when they do not fit 63 bits. */
static bool tensor_bytes(const struct safetensors_tensor *tensor, uint64_t *out)
{
    uint64_t bytes = dtype_size(tensor->dtype);
    for (size_t i = 0; i < tensor->rank; i++) {
        if (__builtin_mul_overflow(bytes, tensor->dim[i], &bytes) || bytes > INT64_MAX) {
            return false;
        }
    }
    *out = bytes;
    return true;
}

/* The members of one tensor's object, each exactly once. */
static int read_tensor(struct scanner *scanner, struct safetensors_tensor *tensor, struct err *err)
{
    static const char *const members[] = {"dtype", "shape", "data_offsets"};
    unsigned seen = 0;
    uint64_t offsets[2];
    size_t offset_count = 0;
    int rc = scanner_expect(scanner, '{', err);
    if (rc) {
        return rc;
    }
    do {
        char key[16];
        if ((rc = scanner_text(scanner, key, sizeof(key), err)) ||
            (rc = scanner_expect(scanner, ':', err))) {
            return rc;
        }
        size_t member = 0;
        while (member < 3 && strcmp(key, members[member]) != 0) {
            member++;
        }
        if (member == 3 || seen & 1u << member) {
            return err_set(err, ERR_FORMAT, "'%s' %s", key,
                           member == 3 ? "is not a known member" : "occurs twice");
        }
        seen |= 1u << member;
        rc = member == 0 ? read_dtype(scanner, &tensor->dtype, err)
             : member == 1
                 ? read_integers(scanner, tensor->dim, SAFETENSORS_RANK_MAX, &tensor->rank, err)
                 : read_integers(scanner, offsets, 2, &offset_count, err);
        if (rc) {
            return rc;
        }
    } while (scanner_take(scanner, ','));
    if ((rc = scanner_expect(scanner, '}', err))) {
        return rc;
    }
    uint64_t bytes;
    if (seen != 7 || offset_count != 2) {
        return err_set(err, ERR_FORMAT, "dtype, shape and two data_offsets are needed");
    }
    if (!tensor_bytes(tensor, &bytes) || offsets[0] > offsets[1] ||
        offsets[1] - offsets[0] != bytes) {
        return err_set(err, ERR_FORMAT,
                       "its offsets [%" PRIu64 ", %" PRIu64 "] are not dtype x shape apart",
                       offsets[0], offsets[1]);
    }
    tensor->begin = offsets[0];
    tensor->end = offsets[1];
    return 0;
}

static int compare_names(const void *left, const void *right)
{
    const struct safetensors_tensor *a = left, *b = right;
    return strcmp(a->name, b->name);
}

/* Empty tensors share an offset, hence the second and third key. */
static int compare_offsets(const void *left, const void *right)
{
    const struct safetensors_tensor *a = left, *b = right;
    if (a->begin != b->begin) {
        return a->begin < b->begin ? -1 : 1;
    }
    if (a->end != b->end) {
        return a->end < b->end ? -1 : 1;
    }
    return strcmp(a->name, b->name);
}

/* Check that names are unique and the data is covered from 0 without overlap or gap. Sorts the
 * tensors by offset. */
static int check_tensors(struct safetensors_header *header, struct err *err)
{
    struct safetensors_tensor *tensor = header->tensor;
    sort_in_place(tensor, header->tensor_count, sizeof(*tensor), compare_names);
    for (size_t i = 1; i < header->tensor_count; i++) {
        if (strcmp(tensor[i - 1].name, tensor[i].name) == 0) {
            return err_set(err, ERR_FORMAT, "tensor '%s' occurs twice", tensor[i].name);
        }
    }
    sort_in_place(tensor, header->tensor_count, sizeof(*tensor), compare_offsets);
    uint64_t end = 0;
    for (size_t i = 0; i < header->tensor_count; i++) {
        if (tensor[i].begin != end) {
            return err_set(
                err, ERR_FORMAT, "tensor '%s' starts at byte %" PRIu64 " of the data, %s %" PRIu64,
                tensor[i].name, tensor[i].begin, tensor[i].begin < end ? "before" : "after", end);
        }
        end = tensor[i].end;
    }
    header->data_bytes = end;
    return 0;
}

static int read_entry(struct scanner *scanner, struct safetensors_header *header,
                      bool *has_metadata, struct err *err)
{
    char name[SAFETENSORS_NAME_MAX];
    int rc;
    if ((rc = scanner_text(scanner, name, sizeof(name), err)) ||
        (rc = scanner_expect(scanner, ':', err))) {
        return rc;
    }
    if (strcmp(name, METADATA_KEY) == 0) {
        if (*has_metadata) {
            return err_set(err, ERR_FORMAT, METADATA_KEY " occurs twice");
        }
        *has_metadata = true;
        return read_metadata(scanner, header, err);
    }
    if (header->tensor_count == header->tensor_capacity) {
        return err_set(err, ERR_LIMIT, "more than %zu tensors", header->tensor_capacity);
    }
    struct safetensors_tensor *tensor = &header->tensor[header->tensor_count];
    memcpy(tensor->name, name, sizeof(name));
    if ((rc = read_tensor(scanner, tensor, err))) {
        return err ? err_wrap(err, "tensor '%s'", name) : rc;
    }
    header->tensor_count++;
    return 0;
}

static int read_header(struct scanner *scanner, struct safetensors_header *header, struct err *err)
{
    bool has_metadata = false;
    if (scanner->text[0] != '{') {
        return err_set(err, ERR_FORMAT, "header byte 0: expected '{'");
    }
    scanner->at = 1;
    if (!scanner_take(scanner, '}')) {
        do {
            int rc = read_entry(scanner, header, &has_metadata, err);
            if (rc) {
                return rc;
            }
        } while (scanner_take(scanner, ','));
        int rc = scanner_expect(scanner, '}', err);
        if (rc) {
            return rc;
        }
    }
    if (!scanner_at_end(scanner)) {
        return err_set(err, ERR_FORMAT, "header byte %zu: something follows the last '}'",
                       scanner->at);
    }
    return check_tensors(header, err);
}

int safetensors_parse(const void *bytes, size_t size, struct safetensors_header *header,
                      struct err *err)
{
    header->tensor_count = header->metadata_count = 0;
    header->data_offset = header->data_bytes = 0;
    if (size < PREFIX_BYTES) {
        return err_set(err, ERR_FORMAT, "safetensors: %zu bytes are no header", size);
    }
    uint64_t header_bytes = 0;
    int rc = safetensors_header_bytes(bytes, &header_bytes, err);
    if (rc) {
        return rc;
    }
    if (header_bytes != size) {
        return err_set(err, ERR_FORMAT,
                       "safetensors: the header has %" PRIu64 " bytes, %zu were given",
                       header_bytes, size);
    }
    struct scanner scanner = {.text = (const char *)bytes + PREFIX_BYTES,
                              .size = size - PREFIX_BYTES};
    rc = read_header(&scanner, header, err);
    if (rc) {
        return err ? err_wrap(err, "safetensors") : rc;
    }
    header->data_offset = size;
    return 0;
}

const struct safetensors_tensor *safetensors_find(const struct safetensors_header *header,
                                                  const char *name)
{
    for (size_t i = 0; i < header->tensor_count; i++) {
        if (strcmp(header->tensor[i].name, name) == 0) {
            return &header->tensor[i];
        }
    }
    return NULL;
}

const char *safetensors_metadata(const struct safetensors_header *header, const char *key)
{
    for (size_t i = 0; i < header->metadata_count; i++) {
        if (strcmp(header->metadata[i].key, key) == 0) {
            const struct safetensors_metadata *entry = &header->metadata[i];
            return entry->long_value ? entry->long_value : entry->value;
        }
    }
    return NULL;
}

/* ---- writing ---- */

struct writer {
    char *out;
    size_t capacity;
    size_t size;
    bool full;
};

static void put_bytes(void *to, const char *bytes, size_t size)
{
    struct writer *writer = to;
    if (writer->full || size > writer->capacity - writer->size) {
        writer->full = true;
        return;
    }
    memcpy(writer->out + writer->size, bytes, size);
    writer->size += size;
}

static void put_metadata(struct json_text *text, const struct safetensors_header *header)
{
    json_text_object(text, METADATA_KEY);
    for (size_t i = 0; i < header->metadata_count; i++) {
        const char *key = header->metadata[i].key;
        json_text_string(text, key, safetensors_metadata(header, key));
    }
    json_text_end(text);
}

static void put_tensor(struct json_text *text, const struct safetensors_tensor *tensor)
{
    json_text_object(text, tensor->name);
    json_text_string(text, "dtype", dtype_name(tensor->dtype));
    json_text_list(text, "shape");
    for (size_t i = 0; i < tensor->rank; i++) {
        json_text_integer(text, NULL, (int64_t)tensor->dim[i]);
    }
    json_text_end(text);
    json_text_list(text, "data_offsets");
    json_text_integer(text, NULL, (int64_t)tensor->begin);
    json_text_integer(text, NULL, (int64_t)tensor->end);
    json_text_end(text);
    json_text_end(text);
}

static int place_tensors(struct safetensors_header *header, struct err *err)
{
    uint64_t end = 0;
    for (size_t i = 0; i < header->tensor_count; i++) {
        struct safetensors_tensor *tensor = &header->tensor[i];
        uint64_t bytes;
        ASSERT(tensor->rank <= SAFETENSORS_RANK_MAX);
        if (!tensor_bytes(tensor, &bytes) || __builtin_add_overflow(end, bytes, &end) ||
            end > INT64_MAX) {
            return err_set(err, ERR_LIMIT, "safetensors: tensor '%s' is too large", tensor->name);
        }
        tensor->begin = end - bytes;
        tensor->end = end;
    }
    header->data_bytes = end;
    return 0;
}

int safetensors_write(struct safetensors_header *header, char *out, size_t capacity,
                      size_t *out_size, struct err *err)
{
    static const char spaces[DATA_ALIGNMENT + 1] =
        "                                                                ";
    int rc = place_tensors(header, err);
    if (rc) {
        return rc;
    }
    struct writer writer = {.out = out, .capacity = capacity};
    put_bytes(&writer, spaces, PREFIX_BYTES);
    struct json_text text = {.put = put_bytes, .to = &writer};
    json_text_object(&text, NULL);
    if (header->metadata_count > 0) {
        put_metadata(&text, header);
    }
    for (size_t i = 0; i < header->tensor_count; i++) {
        put_tensor(&text, &header->tensor[i]);
    }
    json_text_end(&text);
    put_bytes(&writer, spaces, (DATA_ALIGNMENT - writer.size % DATA_ALIGNMENT) % DATA_ALIGNMENT);
    if (writer.full || writer.size > SAFETENSORS_HEADER_MAX) {
        return err_set(
            err, ERR_LIMIT, "safetensors: the header of %zu tensors is longer than %zu bytes",
            header->tensor_count, writer.full ? capacity : (size_t)SAFETENSORS_HEADER_MAX);
    }
    uint64_t length = writer.size - PREFIX_BYTES;
    for (size_t i = 0; i < PREFIX_BYTES; i++) {
        out[i] = (char)(length >> (8 * i) & 0xFF);
    }
    header->data_offset = writer.size;
    *out_size = writer.size;
    return 0;
}
