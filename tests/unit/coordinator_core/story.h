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
/* A job j of so many steps, cut at 1 and 2. */
struct job_spec story_spec(int64_t steps);
/* Devices a, b and c run a job of 100 steps, cut at 1 and 2, with these periods and the shortest
 * deadlines. */
void story_replicated(struct world *world, char id[ID_SIZE], int64_t neighbor_every,
                      int64_t center_every);
/* What a device is told now; valid until the next call. */
const struct assignment *story_told(const struct world *world, const struct agent *agent);
/* Time passes while agents do all there is to do, step by step of 100 ms. */
void story_work(struct world *world, int64_t ms);
/* Submit it and bring it to run. Its id goes into id. */
void story_run(struct world *world, char id[ID_SIZE], int64_t steps);
/* Devices a, b and c run such a job and have trained so many rounds of it. */
void story_train(struct world *world, char id[ID_SIZE], int64_t steps, int64_t rounds);
/* The agent reports that the units of its stage take `seconds` each, forward and backward. */
void story_measure(struct world *world, struct agent *agent, double seconds);
/* Ask for three stages with these borders. */
void story_replan(struct world *world, const char *id, int64_t first, int64_t second);
/* Each agent that runs follows, trains a step, stores a unit if `upload` says so, and beats: once.
 */
void story_round(struct world *world, bool upload);
/* Rounds until the job's next generation is made. */
void story_next(struct world *world, const char *id);
void story_submit(struct world *world, char id[ID_SIZE], const struct job_spec *spec);
/* Devices a, b and c have trained such a job of 3 steps, and a has stored its unit, the first of 5.
 */
void story_half_stored(struct world *world, char id[ID_SIZE]);
void assert_state(const struct world *world, const char *job, enum job_state state);
void assert_trace(struct world *world, const char *expected);
/* The whole way to the end. */
void story_finish(struct world *world, const char *id);

#endif
