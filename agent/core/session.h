/* session.h: the control side of an agent, one pure, deterministic state machine. It decides when
 * to enrol, to report and to ask for the assignment, and what the runtime does to reach the
 * assigned state. Same events, same actions. No clock, files, sockets, JSON, threads; no allocation
 * after session_new. Used by agent/control; one thread.
 *
 * Rules (docs/agent.md):
 * - Failed calls are retried with growing, jittered waits; a success of any call ends them.
 * - An unknown device enrols again and goes on training. A device whose boot was replaced ends its
 *   run and enrols again, and exits if it is refused (two agents share one identity).
 * - Without its coordinator the agent stays in its phase and begins no further step after
 *   autonomy_seconds (at least three heartbeats). After three intervals without an answer the
 *   coordinator is away, and no round is opened until it answers.
 * - The agent never changes generation by itself and refuses lower ones than it has seen of a job.
 * - The last state of a run is reported before an assignment ends it, so that the coordinator knows
 *   how many steps are lost.
 * - Metrics are kept until METRIC_SETTLE_MS after their acknowledgement, at most METRIC_QUEUE_MAX,
 *   and sent again after a failed call.
 * - A challenge, an opened round and trouble with a peer are reported at once, and so are holdings
 *   once a version is whole. While more are likely to follow, at most every 50 ms. */
#ifndef AGENT_CORE_SESSION_H
#define AGENT_CORE_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/core/session_actions.h"
#include "base/err.h"
#include "schema/assignment.h"
#include "schema/heartbeat.h"
#include "schema/id.h"
#include "schema/limits.h"
#include "schema/problem.h"

#define SESSION_WAIT_SECONDS 30 /* of a long poll */

struct session_config {
    uint64_t seed; /* of the jitter */
    char boot[ID_SIZE];
};

enum session_event_type {
    SESSION_START, /* always the first */
    SESSION_TICK,  /* session_deadline_ms has come */
    SESSION_ENROLLED,
    SESSION_ENROLL_FAILED,
    SESSION_BEATEN, /* the answer to a heartbeat */
    SESSION_BEAT_FAILED,
    SESSION_ASSIGNED,   /* the answer to a poll */
    SESSION_POLL_ENDED, /* the wait is over, nothing is new */
    SESSION_POLL_FAILED,
    SESSION_PREPARED, /* from the runtime, as all that follow */
    SESSION_METRIC,
    SESSION_STOPPED,
    SESSION_UPLOADED,
    SESSION_FAILED,
    SESSION_HOLDINGS_CHANGED,
    SESSION_ROUND_OPENED,    /* stage 0, from the runtime: report it at once */
    SESSION_TROUBLE_CHANGED, /* a peer became unreachable or reachable: report it at once */
};

enum session_failure {
    FAILURE_NETWORK,    /* no answer, or one that says to try again */
    FAILURE_UNKNOWN,    /* the coordinator does not know this device or boot */
    FAILURE_STALE_BOOT, /* another boot of this device has enrolled */
    FAILURE_REFUSED,    /* repeating cannot help; `text` says why */
};

/* What an answer other than 2xx means for a call. */
enum session_failure session_failure_of(int status, enum problem_code code);

struct session_event {
    enum session_event_type type;
    int64_t now_ms;
    int64_t serial; /* runtime's events: of the SESSION_DO_PREPARE they are about */
    bool partial;   /* HOLDINGS_CHANGED: more of it is likely to come; the list may wait a little */
    union {
        struct enroll_reply enrolled;
        struct {
            enum session_failure failure;
            int64_t retry_after_ms; /* 0: not stated */
            char text[MESSAGE_SIZE];
        } failed;                            /* *_FAILED of a call */
        const struct heartbeat_reply *reply; /* BEATEN */
        const struct assignment *assignment; /* ASSIGNED; borrowed for the step */
        struct metric metric;
        int64_t version; /* STOPPED, UPLOADED */
        struct device_error error;
    };
};

struct session;
NODISCARD int session_new(const struct session_config *config, struct session **out,
                          struct err *err);
void session_free(struct session **session);

/* One event in, actions out (appended; the caller clears). */
void session_step(struct session *session, const struct session_event *event,
                  struct session_actions *actions);
/* When the session wants a SESSION_TICK; INT64_MAX for never. */
int64_t session_deadline_ms(const struct session *session);

/* The session's part of a heartbeat, right after SESSION_DO_BEAT: identity, generation, phase,
 * metrics, error; `all_holdings`: list the holdings. The caller adds step, address, measurements,
 * open rounds, unreachable peers, holdings. */
void session_heartbeat(const struct session *session, struct heartbeat *out);

/* The phase it reports: enum phase. */
int session_phase(const struct session *session);
/* Metrics dropped from a full queue: the coordinator was away for too long. */
uint64_t session_metrics_lost(const struct session *session);

#endif
