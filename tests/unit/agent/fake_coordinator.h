/* fake_coordinator.h: as much of a coordinator as agents need, on net/http_server: enrolment,
 * heartbeats, assignments, data, blobs. It follows a script: a list of generations, each with its
 * cuts and what ends it, and stops when the job is over and nothing of it is held any more. Its own
 * thread; the test waits for its end. */
#ifndef TESTS_UNIT_AGENT_FAKE_COORDINATOR_H
#define TESTS_UNIT_AGENT_FAKE_COORDINATOR_H

#include "tests/unit/agent/tiny.h"

#define FAKE_AGENTS_MAX 5

enum fake_end {
    FAKE_TO_THE_END, /* of the job */
    FAKE_REPLAN,     /* stop, and go on with the next generation from where it stopped */
    FAKE_PAUSE,      /* the same through the center */
    FAKE_LOSS, /* a peer reports that one refuses: go on without it, from the newest version that is
                  all there */
};

struct fake_generation {
    size_t end[FAKE_AGENTS_MAX]; /* of each stage */
    size_t stage_count;
    size_t device[FAKE_AGENTS_MAX]; /* which agent has which stage */
    enum fake_end how;
};

struct fake_script {
    size_t agent_count;
    struct fake_generation generation[8];
    size_t generation_count;
    int64_t neighbor_every, center_every; /* steps between rounds of replication */
    bool mixes; /* the only agent is a group that stores an average of itself */
};

struct fake_coordinator;
struct fake_coordinator *fake_start(const struct fake_script *script);
const char *fake_url(const struct fake_coordinator *fake);
/* Wait until a round of the present generation is committed (a minute at most). */
void fake_wait_for_commit(struct fake_coordinator *fake);
/* Wait for the end of the script (a minute at most). NULL, or what went wrong. */
const char *fake_wait(struct fake_coordinator *fake);
/* What came of it; after fake_wait. */
const struct tiny_result *fake_result(const struct fake_coordinator *fake);
/* Versions at which the generations stopped; where the one after a loss went on. */
int64_t fake_stopped_at(const struct fake_coordinator *fake, size_t generation);
/* Bytes of snapshots that agents said to have sent, together; rounds that were committed, by enum
 * replica_kind. */
int64_t fake_bytes_sent(const struct fake_coordinator *fake);
int64_t fake_commits(const struct fake_coordinator *fake, size_t kind);
void fake_free(struct fake_coordinator **fake);

#endif
