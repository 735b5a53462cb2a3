/* The header of a body between a worker and a server: three numbers of elements that are expected,
 * then the header. An accepted one reads back the same after it was written. */
#include <math.h>
#include <string.h>

#include "agent/parameter_server/body.h"
#include "base/assert.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct body nothing = {{0}};
    struct body expected = {{0}};
    struct body_note note, again;
    struct err err = {0};
    char header[BODY_HEADER_MAX];
    if (size < BODY_PARTS) {
        return 0;
    }
    for (size_t p = 0; p < BODY_PARTS; p++) {
        expected.count[p] = data[p];
    }
    const int rc = body_read_header(data + BODY_PARTS, size - BODY_PARTS, &expected, &note, &err);
    ASSERT(rc == err.code);
    if (rc) {
        return 0;
    }
    ASSERT(note.version >= (note.last ? 0 : BODY_NO_VERSION) && note.parked_seconds >= 0);
    const size_t written = body_write_header(note.last ? &nothing : &expected, &note, header);
    ASSERT(body_read_header(header, written, &expected, &again, &err) == 0);
    ASSERT(again.last == note.last && again.version == note.version);
    ASSERT(fabs(again.parked_seconds - note.parked_seconds) < 1e-6);
    ASSERT(memcmp(&again.mark, &note.mark, sizeof(note.mark)) == 0);
    return 0;
}
