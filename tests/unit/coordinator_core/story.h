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
/* Submit a job j cut at 1 and 2 and bring it to run. Its id goes into id. */
void story_run(struct world *world, char id[ID_SIZE], int64_t steps);
void story_submit(struct world *world, char id[ID_SIZE], const struct job_spec *spec);
void assert_state(const struct world *world, const char *job, enum job_state state);
void assert_trace(struct world *world, const char *expected);
/* The whole way to the end. */
void story_finish(struct world *world, const char *id);

#endif
