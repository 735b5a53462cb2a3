#include "schema/wire.h"

#include "schema/limits.h"

int wire_read(const struct record *record, const char *text, size_t size, void *out,
              struct record_faults *faults, struct err *err)
{
    json_auto_t *document = NULL;
    int rc = json_parse(text, size, &document, err);
    if (rc) {
        record_done(record, out);
        return rc;
    }
    return wire_read_version(record, RECORD_NEWEST, document, out, faults, err);
}

int wire_read_version(const struct record *record, int version, const json_t *document, void *out,
                      struct record_faults *faults, struct err *err)
{
    int rc = record_read_version(record, version, document, "", out, faults, err);
    if (rc) {
        record_done(record, out);
    }
    return rc;
}

int wire_write(const struct record *record, const void *value, struct buf *out, struct err *err)
{
    return wire_write_version(record, RECORD_NEWEST, value, out, err);
}

int wire_write_version(const struct record *record, int version, const void *value, struct buf *out,
                       struct err *err)
{
    json_auto_t *document = record_write_version(record, version, value);
    if (!document) {
        return err_set(err, ERR_MEMORY, "no memory to write a %s", record->name);
    }
    return json_write(document, out, err);
}

int wire_protocol(const json_t *document, int *version, struct err *err)
{
    *version = PROTOCOL_VERSION;
    const json_t *protocol = json_object_get(document, "protocol");
    if (!json_is_integer(protocol)) {
        return 0;
    }
    json_int_t spoken = json_integer_value(protocol);
    if (spoken >= PROTOCOL_VERSION_MIN && spoken <= PROTOCOL_VERSION) {
        *version = (int)spoken;
        return 0;
    }
    return err_set(err, ERR_PROTOCOL,
                   "the agent speaks protocol %" JSON_INTEGER_FORMAT
                   "; this coordinator speaks %d to %d",
                   spoken, PROTOCOL_VERSION_MIN, PROTOCOL_VERSION);
}
