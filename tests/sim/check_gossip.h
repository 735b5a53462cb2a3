/* check_gossip.h: what must hold of jobs whose groups train apart and mix (docs/adr/0144 to 0146).
 * One thread. */
#ifndef TESTS_SIM_CHECK_GOSSIP_H
#define TESTS_SIM_CHECK_GOSSIP_H

#include "agent/core/mixing.h"
#include "coordinator/core/core.h"
#include "tests/sim/check.h"

struct check_gossip;

int check_gossip_new(struct check_gossip **out, struct err *err);
void check_gossip_free(struct check_gossip **gossip);

/* ---- at the coordinator ---- */
/* An assignment leaves: a match has one name, one place and one incarnation on each side; a group
 * has one at a time, and none before it has reported. */
void check_orders(struct world *world, const struct assignment *assignment);
/* And the group that fetches a copy names its device as relays know it. */
void check_ticket(struct world *world, const struct assignment *assignment,
                  const struct core_ticket *ticket);
/* A report is about to be taken. */
void check_mix_report(struct world *world, const struct call *call);
/* A group begins to be matched, says an event of its parent. */
void check_group_started(struct world *world, const struct action *action);
/* A transaction is about to be committed. */
void check_mix_rows(struct world *world, const struct transaction *transaction);
/* The rows of such a parent agree, and averages never decrease. */
void check_gossip_parent(struct world *world, const struct job *job, const struct parent *parent);
/* A device has died: the others depend on no record that died with it. */
void check_records_due(struct world *world);
/* Rows of an earlier time were put back: names that were given since come again. */
void check_mix_backup(struct world *world);
/* All parents were looked at. */
void check_records_done(struct world *world);

/* ---- at devices ---- */
/* A match is about to be applied: once, and across no copy for an adopted average. */
void check_applied(struct world *world, const struct run *run, const struct mixing *mixing,
                   enum mixing_place place);
/* A group has computed an average of that content. */
void check_computed(struct world *world, const struct run *run, struct mix_xid xid, uint64_t file);
/* The coordinator has acknowledged what the report had: each record has a row. */
void check_acknowledged(struct world *world, const struct run *run,
                        const struct mix_report *report);
/* A group keeps a unit of its state. */
void check_group_keeps(struct world *world, const struct holding *holding, uint64_t digest);
/* Whether a group has ever kept that state of a unit. */
bool check_group_kept(const struct world *world, const char *job, int64_t version, size_t unit,
                      uint64_t digest);
/* Whether the job is a group that mixes. */
bool check_is_group(const struct job *job);

#endif
