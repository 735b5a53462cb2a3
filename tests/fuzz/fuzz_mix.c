/* The header of a copy of a group: two numbers of elements that are expected, then the header. An
 * accepted one reads back the same after it was written. */
#include <stdlib.h>
#include <string.h>

#include "agent/gossip/mix_body.h"
#include "base/assert.h"

#define COUNTS 2

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err = {0};
    if (size < COUNTS) {
        return 0;
    }
    const struct mix_body expected = {.parameters = data[0], .statistics = data[1]};
    struct mix_note *note = malloc(2 * sizeof(*note)), *again = note + 1;
    ASSERT(note);
    BUF_AUTO struct buf text;
    buf_init(&text, MIX_BODY_HEADER_MAX);
    const int rc = mix_body_read_header((const char *)data + COUNTS, size - COUNTS, &expected,
                                        &text, note, &err);
    ASSERT(rc == err.code);
    if (rc == 0) {
        ASSERT(note->record_count <= MIXING_RECORDS_MAX && note->copy.group >= 0 &&
               note->copy.group < GROUPS_MAX && note->parked_seconds >= 0);
        BUF_AUTO struct buf header;
        buf_init(&header, 2 * MIX_BODY_HEADER_MAX);
        ASSERT(mix_body_write_header(&expected, note, &text, &header, &err) == 0);
        ASSERT(mix_body_read_header(header.data, header.size, &expected, &text, again, &err) == 0);
        ASSERT(again->record_count == note->record_count &&
               again->copy.version == note->copy.version);
        for (size_t i = 0; i < note->record_count; i++) {
            ASSERT(mix_record_is(&again->record[i], &note->record[i]) &&
                   again->record[i].peer_count == note->record[i].peer_count);
        }
    }
    free(note);
    return 0;
}
