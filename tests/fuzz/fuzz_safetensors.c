/* A whole header: an accepted one covers its data without hole or overlap, and reads back the same
 * after it was written. */
#include <string.h>

#include "base/assert.h"
#include "libtrain/formats/safetensors.h"

#define TENSORS_MAX 64
#define WRITTEN_MAX (1 << 18)
#define TEXT_MAX 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_order(const struct safetensors_header *header)
{
    uint64_t end = 0;
    for (size_t i = 0; i < header->tensor_count; i++) {
        const struct safetensors_tensor *tensor = &header->tensor[i];
        uint64_t bytes = dtype_size(tensor->dtype);
        for (size_t k = 0; k < tensor->rank; k++) {
            bytes *= tensor->dim[k];
        }
        ASSERT(tensor->begin == end && tensor->end - tensor->begin == bytes);
        ASSERT(safetensors_find(header, tensor->name) == tensor);
        end = tensor->end;
    }
    ASSERT(header->data_bytes == end);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct safetensors_tensor tensor[TENSORS_MAX], tensor_again[TENSORS_MAX];
    static char written[WRITTEN_MAX], written_again[WRITTEN_MAX];
    static char text[TEXT_MAX], text_again[TEXT_MAX];
    struct safetensors_header header = {
        .tensor = tensor, .tensor_capacity = TENSORS_MAX, .text = text, .text_capacity = TEXT_MAX};
    struct safetensors_header again = {.tensor = tensor_again,
                                       .tensor_capacity = TENSORS_MAX,
                                       .text = text_again,
                                       .text_capacity = TEXT_MAX};
    struct err err = {0};
    size_t written_size, again_size;
    int rc = safetensors_parse(data, size, &header, &err);
    ASSERT(rc == err.code);
    if (rc) {
        return 0;
    }
    check_order(&header);
    ASSERT(safetensors_write(&header, written, sizeof(written), &written_size, &err) == 0);
    ASSERT(safetensors_parse(written, written_size, &again, &err) == 0);
    ASSERT(again.tensor_count == header.tensor_count &&
           again.metadata_count == header.metadata_count);
    for (size_t i = 0; i < header.metadata_count; i++) {
        ASSERT(strcmp(again.metadata[i].key, header.metadata[i].key) == 0);
        const char *key = header.metadata[i].key;
        ASSERT(strcmp(safetensors_metadata(&again, key), safetensors_metadata(&header, key)) == 0);
    }
    ASSERT(safetensors_write(&again, written_again, sizeof(written_again), &again_size, &err) == 0);
    ASSERT(again_size == written_size && memcmp(written, written_again, written_size) == 0);
    return 0;
}
