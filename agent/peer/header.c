#include "agent/peer/header.h"

#include <inttypes.h>
#include <string.h>

#include "base/assert.h"
#include "libtrain/formats/safetensors.h"

#define PREFIX 8 /* bytes that state the size */

int header_take(struct header *header, size_t most, const void *data, size_t size, size_t *taken,
                struct err *err)
{
    ASSERT(most <= HEADER_MAX && !header_is_whole(header));
    *taken = 0;
    while (*taken < size && !header_is_whole(header)) {
        const size_t left = (header->size > 0 ? header->size : PREFIX) - header->got;
        const size_t count = size - *taken < left ? size - *taken : left;
        memcpy(header->text + header->got, (const char *)data + *taken, count);
        header->got += count;
        *taken += count;
        if (header->size == 0 && header->got == PREFIX) {
            uint64_t bytes = 0;
            int rc = safetensors_header_bytes((const uint8_t *)header->text, &bytes, err);
            if (rc == 0 && bytes > most) {
                rc = err_set(err, ERR_LIMIT, "a header of %" PRIu64 " bytes", bytes);
            }
            if (rc != 0) {
                return rc;
            }
            header->size = (size_t)bytes;
        }
    }
    return 0;
}
