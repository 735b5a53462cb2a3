/* gossip_jobs.h: jobs of strategy gossip in drawn worlds: which seeds have them, and what they are.
 * One thread. */
#ifndef TESTS_SIM_GOSSIP_JOBS_H
#define TESTS_SIM_GOSSIP_JOBS_H

#include "tests/sim/agent.h"
#include "tests/sim/users.h"

/* In worlds of these seeds all jobs are of strategy gossip; from the second number on the first job
 * is, beside others of any strategy. */
#define GOSSIP_FROM 3000000
#define MIXED_FROM 4000000

bool gossip_seed(const struct world *world);
bool gossip_job_is(const struct world *world, const struct user_job *job);
/* Make it one: of no draw. After all of its other fields. */
void gossip_job_draw(const struct world *world, struct user_job *job);
/* Whether copies of the agent's state are not finite, so that no group takes them: of one device in
 * some worlds. */
bool gossip_spoils(const struct world *world, const struct agent *agent);
/* How many devices, the first ones, stay once everything else is healed: all, one, or, where groups
 * wait for each other, all but one. Fewer only if each job of groups has its groups by then: a job
 * needs several devices to begin. Data that are bound to devices are not all lost. */
size_t gossip_devices_left(const struct world *world);

#endif
