/* fake_parts.h: what fake_coordinator.c (the script and the routes) and fake_assignment.c (what
 * each agent is told) share. For these two only. */
#ifndef TESTS_UNIT_AGENT_FAKE_PARTS_H
#define TESTS_UNIT_AGENT_FAKE_PARTS_H

#include <pthread.h>

#include "net/http_server.h"
#include "schema/assignment.h"
#include "schema/heartbeat.h"
#include "tests/unit/agent/fake_coordinator.h"

#define FAKE_JOB "job_00000000000000000000000001"
#define FAKE_INTERVAL_MS 50
#define FAKE_BLOB_MAX 65536

struct fake_agent {
    bool enrolled;
    char address[URL_SIZE];
    int64_t revision;
    struct heartbeat beat; /* the last */
    struct holding holding[64];
    size_t holding_count;
    struct http_exchange *parked; /* its poll, which waits for news */
    bool lost;
};

struct fake_blob {
    char sha256[HASH_TEXT_SIZE];
    unsigned char data[FAKE_BLOB_MAX];
    size_t size;
    uint64_t versions; /* that were stored: a bit each */
};

/* What the group has said and sent. */
struct fake_mixes {
    bool wanted, applied;
    size_t stored, reported; /* records: acknowledged, and reported all the same */
    size_t averages;
};

enum fake_state {
    FAKE_ENROLLING,
    FAKE_PREPARING,
    FAKE_RUNNING,
    FAKE_STOPPING,
    FAKE_FINISHING,
    FAKE_CLEARING,
    FAKE_OVER
};

struct fake_coordinator {
    struct fake_script script;
    const struct tiny_data *train, *test;
    struct http_server *server;
    char url[URL_SIZE];
    pthread_t thread;
    int stop_fd, over_fd, commit_fd;
    struct fake_agent agent[FAKE_AGENTS_MAX];
    enum fake_state state;
    size_t generation; /* index in the script; numbers are one more */
    int64_t resume_version;
    bool through_center;
    int64_t stopped_at[8];
    struct fake_blob center[TINY_UNITS];
    int64_t committed[REPLICA_KINDS]; /* newest version */
    int64_t commits[REPLICA_KINDS];
    struct fake_mixes mixes;
    struct tiny_result result;
    char problem[MESSAGE_SIZE];
    struct heartbeat beat;
    struct assignment assignment;
};

static inline const struct fake_generation *fake_present(const struct fake_coordinator *fake)
{
    return &fake->script.generation[fake->generation];
}

/* fake_coordinator.c: the script has ended; problem: "" or what went wrong. */
void fake_over(struct fake_coordinator *fake, const char *problem);

/* fake_coordinator.c: an agent that waits for its assignment gets the present one. */
void fake_wake_all(struct fake_coordinator *fake);

/* fake_rounds.c: what a heartbeat says of rounds; fills in the reply's. */
void fake_take_rounds(struct fake_coordinator *fake, const struct heartbeat *beat,
                      struct heartbeat_reply *reply);
/* Whether every unit of the version has two copies on agents, or one in the center. */
bool fake_is_whole(struct fake_coordinator *fake, enum replica_kind kind, int64_t version);
/* The newest version of which every unit is held by an agent that is not lost; 0: none. */
int64_t fake_newest_cut(struct fake_coordinator *fake);

/* fake_mixes.c */
void fake_fill_mix(const struct fake_coordinator *fake, struct assignment_run *run);
void fake_take_mix(struct fake_coordinator *fake, const struct heartbeat *beat);
/* Whether everything that it was asked for is there. */
bool fake_has_mixed(const struct fake_coordinator *fake);
void fake_answer_average(void *context, struct http_exchange *exchange);

/* fake_assignment.c */
void fake_device_text(size_t index, char out[ID_SIZE]);
/* The assignment of a device at this point of the script, without the model's description. */
void fake_fill_assignment(struct fake_coordinator *fake, size_t device, struct assignment *out);

#endif
