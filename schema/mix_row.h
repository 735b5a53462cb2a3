/* mix_row.h: a row of the log of a gossip job, as GET /v1/jobs/{id}/mixes lists it. Plain struct.
 */
#ifndef SCHEMA_MIX_ROW_H
#define SCHEMA_MIX_ROW_H

#include <stdint.h>

#include "base/record.h"
#include "schema/id.h"
#include "schema/mix.h"

#define MIX_ROW_ID_SIZE 96

/* "mix_", the job and the move. */
extern const struct text_form mix_id_form;

struct mix_row {
    char id[MIX_ROW_ID_SIZE]; /* by the move that the record is about: rows of a job sort by xid */
    struct job_id job;
    int64_t created_ms;
    struct mix_record record;
};
extern const struct record mix_row_record;

/* Write the id: the same for a record that is reported again. */
void mix_row_name(struct mix_row *row);

#endif
