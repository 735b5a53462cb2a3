/* gossip_records.h: the log of a job of groups that train apart. Its rows and the job determine
 * every bit of the averages (docs/adr/0144). */
#ifndef COORDINATOR_CORE_GOSSIP_GOSSIP_RECORDS_H
#define COORDINATOR_CORE_GOSSIP_GOSSIP_RECORDS_H

#include "coordinator/core/core.h"
#include "schema/mix_row.h"

struct parent_slot;

/* Rows of one step at most: the start of every group, and the records of a heartbeat. */
#define GOSSIP_ROWS_MAX (PARENTS_MAX * GROUPS_MAX + MIX_REPORTED_MAX)

/* Rows of the present step. */
struct gossip_rows {
    struct mix_row row[GOSSIP_ROWS_MAX];
    size_t count;
};

/* Return whether a reported record can belong to the parent. */
bool gossip_record_fits(const struct parent_slot *parent, const struct mix_record *record);
/* Write the row of the record, even if the row exists. */
void gossip_record(struct core *core, const struct parent_slot *parent,
                   const struct mix_record *record);

#endif
