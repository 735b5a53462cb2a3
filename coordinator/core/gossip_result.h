/* gossip_result.h: the averages of a job of groups that train apart: they become checkpoints, are
 * judged by the test set or by held-out samples, and the last one is the result. */
#ifndef COORDINATOR_CORE_GOSSIP_RESULT_H
#define COORDINATOR_CORE_GOSSIP_RESULT_H

#include "coordinator/core/core.h"
#include "schema/mix_duty.h"

struct parent_slot;

/* Take what a group says of the present average on the samples that its device holds out: sums that
 * can be true. Before gossip_hear. */
void gossip_note_tests(struct parent_slot *parent, size_t group, const struct mix_report *report);
/* Judge the present average by what its groups have said of it, as soon as it is known. The job may
 * end. A device that is lost before it has said so is not in the mean. */
void gossip_judge(struct core *core, struct parent_slot *parent);
/* A job may end by the accuracy of its averages, as their authors claim it: while the newest ones
 * are good, the author of the last one does not compute the next. */
void gossip_vary_author(struct parent_slot *parent);
/* Return whether the last average is stored. */
bool gossip_has_result(const struct parent_slot *parent);
/* The job ends with it, as no group is left: at once, or as gossip_judge says. */
void gossip_end_without_groups(struct core *core, struct parent_slot *parent);
/* The job ends with that checkpoint, which is an average without some groups. */
void gossip_succeed(struct core *core, struct parent_slot *parent,
                    const struct checkpoint_id *checkpoint, const char *reason,
                    const bool without[GROUPS_MAX]);

#endif
