#include "schema/audit.h"

#include "schema/id.h"

static const struct field audit_fields[] = {
    MEMBER_FORM(struct audit_entry, id, "id", FIELD_REQUIRED, &audit_id_form),
    MEMBER_TIME(struct audit_entry, created_ms, "created_at", FIELD_REQUIRED),
    MEMBER_TEXT(struct audit_entry, token, "token", FIELD_NULLABLE,
                .about = "The id of the caller's token; null: the coordinator required no token."),
    MEMBER_TEXT(struct audit_entry, token_name, "token_name", FIELD_NULLABLE,
                .about = "The name of the token."),
    MEMBER_TEXT(struct audit_entry, address, "address", FIELD_REQUIRED,
                .about = "The address of the client, or of the proxy before it."),
    MEMBER_TEXT(struct audit_entry, method, "method", FIELD_REQUIRED),
    MEMBER_TEXT(struct audit_entry, path, "path", FIELD_REQUIRED,
                .about = "The path of the request, without the query."),
    MEMBER_TEXT(struct audit_entry, subject, "subject", FIELD_NULLABLE,
                .about = "The id or name of the changed object."),
    MEMBER_INT(struct audit_entry, status, "status", FIELD_NULLABLE, 100, 599,
               .about = "The HTTP status of the answer; null: the client left before the answer."),
};
const struct record audit_entry_record =
    RECORD_WITH(struct audit_entry, "audit_entry", audit_fields, .answer = true,
                .about = "One change that a request made.");
