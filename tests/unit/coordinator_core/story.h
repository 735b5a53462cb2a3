/* story.h: what the tests of the core begin with. */
#ifndef TESTS_UNIT_COORDINATOR_CORE_STORY_H
#define TESTS_UNIT_COORDINATOR_CORE_STORY_H

#include "tests/unit/coordinator_core/world.h"

#define STORY(function) cmocka_unit_test_setup_teardown(function, story_setup, story_teardown)
/* *state is a world. */
int story_setup(void **state);
int story_teardown(void **state);

/* Devices a, b and c. */
void story_devices(struct world *world);
/* A job j of `steps` steps with stage boundaries 1 and 2. */
struct job_spec story_spec(int64_t steps);
/* Devices a, b and c run a job of 100 steps with stage boundaries 1 and 2, these periods and the
 * shortest deadlines. */
void story_replicated(struct world *world, char id[ID_SIZE], int64_t neighbor_every,
                      int64_t center_every);
/* The device's current assignment; valid until the next call. */
const struct assignment *story_assignment(const struct world *world, const struct agent *agent);
/* Let `ms` milliseconds pass in steps of 100 ms, with all agents at work. */
void story_work(struct world *world, int64_t ms);
/* Submit the job and let it start. Writes its id. */
void story_run(struct world *world, char id[ID_SIZE], int64_t steps);
/* Devices a, b and c run the job of story_spec and have trained `rounds` rounds of it. */
void story_train(struct world *world, char id[ID_SIZE], int64_t steps, int64_t rounds);
/* The agent reports that the units of its stage take `seconds` each, forward and backward. */
void story_measure(struct world *world, struct agent *agent, double seconds);
/* Request a plan of three stages with these boundaries. */
void story_replan(struct world *world, const char *id, int64_t first, int64_t second);
/* Each running agent once follows, trains a step, stores a unit if `upload`, and beats. */
void story_round(struct world *world, bool upload);
/* Rounds until the job's next generation is made. */
void story_next(struct world *world, const char *id);
void story_submit(struct world *world, char id[ID_SIZE], const struct job_spec *spec);
/* Devices a, b and c have trained that job for 3 steps; a has stored its unit, the first of 5. */
void story_half_stored(struct world *world, char id[ID_SIZE]);
void assert_state(const struct world *world, const char *job, enum job_state state);
void assert_trace(struct world *world, const char *expected);
/* Train to the end. */
void story_finish(struct world *world, const char *id);
/* Devices a, b and c run story_replicated with rounds of 5 steps; version 5 is committed. */
void story_committed(struct world *world, char id[ID_SIZE]);
/* The agent claims to have seen that generation of its job: a failure that excludes no device. */
void story_claim(struct world *world, struct agent *agent, int64_t generation);
/* Let `ms` milliseconds pass; all devices but one (NULL: all) send heartbeats. */
void story_others_beat(struct world *world, const struct agent *except, int64_t ms);
/* c, the last stage, reports the duration of its last step. */
void story_measure_step(struct world *world, double seconds);
/* Stage 0 reports `count` steps that took `seconds` each. */
void story_report_steps(struct world *world, struct agent *agent, int count, double seconds);
/* The device gets its assignment and reports an error of this code. */
void story_report(struct world *world, struct agent *agent, const char *code);
/* The plan has the other two of three devices. */
void assert_excluded(const struct plan *plan, const struct agent *agent);

#endif
