#include "libtrain/formats/safetensors_head.h"

#include "libtrain/formats/safetensors.h"

#define PREFIX_BYTES 8

void safetensors_head_init(struct safetensors_head *head)
{
    head->complete = false;
    buf_init(&head->bytes, SAFETENSORS_HEADER_MAX);
}

void safetensors_head_done(struct safetensors_head *head)
{
    buf_done(&head->bytes);
}

int safetensors_head_take(struct safetensors_head *head, const void *data, size_t size,
                          size_t *taken, struct err *err)
{
    const char *left = data;
    uint64_t wanted = PREFIX_BYTES;
    int rc = 0;
    *taken = 0;
    while (rc == 0 && !head->complete) {
        if (head->bytes.size >= PREFIX_BYTES) {
            rc = safetensors_header_bytes((const uint8_t *)head->bytes.data, &wanted, err);
            head->complete = rc == 0 && head->bytes.size == wanted;
            if (rc != 0 || head->complete) {
                break;
            }
        }
        const uint64_t missing = wanted - head->bytes.size;
        const size_t part = size - *taken < missing ? size - *taken : (size_t)missing;
        if (part == 0) {
            break;
        }
        rc = buf_append(&head->bytes, left + *taken, part, err);
        *taken += rc == 0 ? part : 0;
    }
    return rc;
}
