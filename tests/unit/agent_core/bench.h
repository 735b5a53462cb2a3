/* bench.h: a session with what goes in and comes out of it: for the tests of core/session. */
#ifndef TESTS_UNIT_AGENT_CORE_BENCH_H
#define TESTS_UNIT_AGENT_CORE_BENCH_H

#include "agent/core/session.h"

#define BENCH_DEVICE "dev_01J9ZQ4X7C8E2N5R3T6V9W0Y1A"
#define BENCH_JOB "job_01J9ZQ4X7C8E2N5R3T6V9W0Y1A"

struct bench {
    struct session *session;
    struct session_actions actions; /* of the last step */
    struct assignment assignment;   /* the last */
    struct heartbeat heartbeat;     /* bench_beat */
    int64_t now_ms;
};

/* A test with a bench: `struct bench *bench = *state`. */
#define bench_test(function)                                                                       \
    cmocka_unit_test_setup_teardown(function, bench_set_up, bench_tear_down)
int bench_set_up(void **state);
int bench_tear_down(void **state);

/* ---- events ---- */

/* One event, now. */
void bench_step(struct bench *bench, struct session_event event);
/* From the first event to an idle device that has reported and asks for its assignment. */
void bench_start(struct bench *bench);
void bench_enrol(struct bench *bench);
void bench_answer_beat(struct bench *bench, int64_t revision);
/* A call fails. */
void bench_break_off(struct bench *bench, enum session_event_type type,
                     enum session_failure failure);
/* A new assignment; job NULL: idle. */
void bench_assign(struct bench *bench, const char *job, int64_t generation, int phase,
                  int64_t version);
/* One that prepares a group of a gossip job. */
void bench_assign_group(struct bench *bench, int64_t generation);
/* An event of the runtime. */
void bench_report(struct bench *bench, enum session_event_type type, int64_t serial,
                  int64_t version);
/* A run of one generation that trains; its serial. */
int64_t bench_run(struct bench *bench, int64_t generation);

/* ---- what came of it ---- */

/* NULL when it is not among the actions. */
const struct session_action *bench_find(const struct bench *bench, enum session_action_type type);
void bench_expect(const struct bench *bench, enum session_action_type type);
void bench_expect_not(const struct bench *bench, enum session_action_type type);
/* Look at the heartbeat. */
void bench_beat(struct bench *bench);

#endif
