/* gossip_form.h: how a job of groups that train apart begins: which devices are its groups, and the
 * job of each. */
#ifndef COORDINATOR_CORE_GOSSIP_GOSSIP_FORM_H
#define COORDINATOR_CORE_GOSSIP_GOSSIP_FORM_H

#include "coordinator/core/placement/matching.h"
#include "coordinator/plan/levels.h"

struct event_classes;
struct parent_slot;
struct plan_question;

/* A device that may train a group. */
struct recruit {
    struct device_id device;
    size_t candidate; /* its index in core->planning, until the next question to the planner */
    double speed;     /* expected samples per second */
};

/* The groups that a job would have. */
struct gossip_wanted {
    const struct job_spec *spec;
    const struct model *model;
    const struct event_classes *classes;  /* NULL: the data stay on devices */
    const struct plan_question *question; /* with hypothetical devices and links; NULL: none */
    enum candidates candidates;
};

/* Choose the devices of the groups, the fastest first, and divide the data among them into
 * core->shard.
 *
 *     there  out: devices that may train a group, at most as many as the job wants
 *
 * Returns the number of groups; 0: too few devices, or too few samples for so many. */
size_t gossip_recruit(struct core *core, const struct gossip_wanted *wanted,
                      struct recruit out[GROUPS_MAX], size_t *there);

/* Return the samples of a planned group: its shard in core->shard, or the offer of its device. */
int64_t gossip_recruit_samples(const struct core *core, const struct job_spec *spec,
                               const struct model *model, size_t class_count,
                               const struct recruit *recruit, size_t group);
/* The speeds and links of groups, before they train. */
struct prospect {
    struct levels_problem problem; /* of the arrays below */
    double speed[GROUPS_MAX], seconds[GROUPS_MAX * GROUPS_MAX];
    double rate[GROUPS_MAX]; /* bytes per second of the link of each group; 0: unknown */
};
/* Fill `out` for the devices that gossip_recruit has just chosen. */
void gossip_prospect(const struct core *core, const struct job_spec *spec,
                     const struct recruit *recruit, size_t count, struct prospect *out);

/* Divide the data among the free devices, if there are enough of them. Otherwise write to
 * parent->work.wait what is missing. */
void gossip_form(struct core *core, struct parent_slot *parent);
/* Begin the job of a group on its shard in core->shard, from the newest average if there is one. A
 * group waits while its device does not offer its data. */
void gossip_begin_group(struct core *core, struct parent_slot *parent, size_t group);

#endif
