#include "schema/service.h"

static const struct field status_fields[] = {
    MEMBER_TEXT(struct service_status, status, "status", FIELD_REQUIRED),
};
const struct record service_status_record =
    RECORD(struct service_status, "service_status", status_fields);

static const struct field version_fields[] = {
    MEMBER_TEXT(struct service_version, name, "name", FIELD_REQUIRED),
    MEMBER_TEXT(struct service_version, version, "version", FIELD_REQUIRED),
    MEMBER_INT(struct service_version, protocol, "protocol", FIELD_REQUIRED, 0, 1e6),
    MEMBER_INT(struct service_version, protocol_min, "protocol_min", FIELD_REQUIRED, 0, 1e6),
};
const struct record service_version_record =
    RECORD(struct service_version, "service_version", version_fields);
