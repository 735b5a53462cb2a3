#include "schema/event.h"

static const struct field event_fields[] = {
    MEMBER_TEXT(struct public_event, id, "id", FIELD_REQUIRED),
    MEMBER_TEXT(struct public_event, type, "type", FIELD_REQUIRED),
    MEMBER_TEXT(struct public_event, subject, "subject", FIELD_NULLABLE),
    MEMBER_TEXT(struct public_event, message, "message", 0),
    MEMBER_TIME(struct public_event, created_ms, "created_at", FIELD_NULLABLE),
};
const struct record public_event_record = RECORD(struct public_event, "event", event_fields);
