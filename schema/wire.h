/* wire.h: reads messages from JSON text, with all their faults, and writes them as text. For edges;
 * pure except for memory. */
#ifndef SCHEMA_WIRE_H
#define SCHEMA_WIRE_H

#include <stddef.h>

#include "base/buf.h"
#include "base/record.h"

/* Parse `text` and fill *out (which holds the defaults). ERR_FORMAT: not JSON; ERR_INVALID:
 * `faults` has the places. On failure *out is released. */
NODISCARD int wire_read(const struct record *record, const char *text, size_t size, void *out,
                        struct record_faults *faults, struct err *err);
/* The same from a parsed document, with the fields of protocol version `version`. */
NODISCARD int wire_read_version(const struct record *record, int version, const json_t *document,
                                void *out, struct record_faults *faults, struct err *err);
/* Append compact JSON. */
NODISCARD int wire_write(const struct record *record, const void *value, struct buf *out,
                         struct err *err);
/* The same with the fields of protocol version `version`. */
NODISCARD int wire_write_version(const struct record *record, int version, const void *value,
                                 struct buf *out, struct err *err);

/* Read only the member "protocol" of an enrolment, so that the tables of that version can check the
 * rest. ERR_PROTOCOL when it is outside PROTOCOL_VERSION_MIN .. PROTOCOL_VERSION: the text names
 * both sides' versions. A document without a protocol counts as the newest version and returns 0:
 * wire_read_version reports its faults. */
NODISCARD int wire_protocol(const json_t *document, int *version, struct err *err);

#endif
