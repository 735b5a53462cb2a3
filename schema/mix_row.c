#include "schema/mix_row.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool is_mix_id(const char *text)
{
    static const char prefix[] = "mix_", letters[] = "0123456789abcdefghijklmnopqrstuvwxyz."
                                                     "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    const size_t length = strlen(text);
    return length < MIX_ROW_ID_SIZE && strncmp(text, prefix, sizeof(prefix) - 1) == 0 &&
           strspn(text + sizeof(prefix) - 1, letters) == length - (sizeof(prefix) - 1);
}

const struct text_form mix_id_form = {.valid = is_mix_id,
                                      .expected = "the id of a record: mix_ and what follows",
                                      .pattern = "^mix_[0-9A-Za-z.]{1,91}$"};

static const struct field row_fields[] = {
    MEMBER_FORM(struct mix_row, id, "id", FIELD_REQUIRED, &mix_id_form),
    MEMBER_FORM(struct mix_row, job.text, "job", FIELD_REQUIRED, &job_id_form),
    MEMBER_TIME(struct mix_row, created_ms, "created_at", FIELD_REQUIRED,
                .about = "When the coordinator received the record. Records can arrive in another "
                         "order than the moves happened."),
    MEMBER_RECORD(struct mix_row, record, "record", FIELD_REQUIRED, &mix_record_record),
};
const struct record mix_row_record = RECORD_WITH(struct mix_row, "mix", row_fields, .answer = true,
                                                 .about = "A record of what a group of a job did.");

void mix_row_name(struct mix_row *row)
{
    const struct mix_record *record = &row->record;
    (void)snprintf(row->id, sizeof(row->id),
                   "mix_%s.%06" PRIx64 ".%010" PRIx64 ".%d.%02" PRId64 ".%" PRIx64,
                   row->job.text + sizeof("job_") - 1, (uint64_t)record->xid.life,
                   (uint64_t)record->xid.counter, record->kind, record->own.group,
                   (uint64_t)record->own.generation);
}
