/* gossip_result.h: the averages of a job of groups that train apart: they become checkpoints, are
 * judged by the test set or by held-out samples, and the last one is the result. */
#ifndef COORDINATOR_CORE_GOSSIP_GOSSIP_RESULT_H
#define COORDINATOR_CORE_GOSSIP_GOSSIP_RESULT_H

#include "coordinator/core/core.h"
#include "schema/mix_duty.h"

struct parent_slot;

/* Take the evaluation by a group of the present average on the samples that its device holds out.
 * Ignore impossible sums. To be called before gossip_hear. */
void gossip_note_tests(struct parent_slot *parent, size_t group, const struct mix_report *report);
/* Judge the present average by the evaluations of its groups, as soon as these are complete. The
 * job may end. The mean lacks devices that were lost before they reported. */
void gossip_judge(struct core *core, struct parent_slot *parent);
/* Let another group than the author of the last average compute the next one while the newest
 * averages are good: the job may end by their accuracy, which only their authors state. */
void gossip_vary_author(struct parent_slot *parent);
/* Return whether the last average is stored. */
bool gossip_has_result(const struct parent_slot *parent);
/* End the job with the last average, as no group is left: at once, or when gossip_judge decides. */
void gossip_end_without_groups(struct core *core, struct parent_slot *parent);
/* End the job with the checkpoint, which is an average. without: the groups that it lacks. */
void gossip_succeed(struct core *core, struct parent_slot *parent,
                    const struct checkpoint_id *checkpoint, const char *reason,
                    const bool without[GROUPS_MAX]);

#endif
