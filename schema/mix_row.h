/* mix_row.h: a row of a gossip job's log, for the list of GET /v1/jobs/{id}/mixes. Plain struct. */
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
    char id[MIX_ROW_ID_SIZE]; /* follows from the record's move: rows of a job sort by xid */
    struct job_id job;
    int64_t created_ms;
    struct mix_record record;
};
extern const struct record mix_row_record;

/* Write the id. A record that is reported again gets the same id. */
void mix_row_name(struct mix_row *row);

#endif
