/* session.h: the control side of an agent, one pure, deterministic state machine. It decides when
 * to enrol, when to report, when to ask for the assignment, and what the runtime does to reach the
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
 * - A device that is to leave says so in each heartbeat. It may go once the coordinator answers
 *   that nothing needs it. It does not wait for one that it has not reached for three seconds and
 *   three intervals, or, without work, for one that does not answer a call.
 * - A device that offers other data than before enrols again, and goes on with all else.
 * - A challenge, an opened round, news of mixes that others wait for and trouble with a peer are
 *   reported at once, and so are holdings once a version is whole. While more are likely to follow,
 *   at most every 50 ms; other news of mixes within 250 ms. */
#ifndef AGENT_CORE_SESSION_H
#define AGENT_CORE_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/core/leave.h"
#include "agent/core/session_actions.h"
#include "agent/core/session_events.h"
#include "base/err.h"
#include "schema/assignment.h"
#include "schema/heartbeat.h"
#include "schema/id.h"
#include "schema/limits.h"

#define SESSION_WAIT_SECONDS 30 /* of a long poll */

struct session_config {
    uint64_t seed; /* of the jitter */
    char boot[ID_SIZE];
};

struct session;
NODISCARD int session_new(const struct session_config *config, struct session **out,
                          struct err *err);
void session_free(struct session **session);

/* Take one event and append actions; the caller clears the list. */
void session_step(struct session *session, const struct session_event *event,
                  struct session_actions *actions);
/* Return when the session wants a SESSION_TICK; INT64_MAX for never. */
int64_t session_deadline_ms(const struct session *session);

/* Fill in the session's part of a heartbeat, right after SESSION_DO_BEAT: identity, generation,
 * phase, metrics, error; `all_holdings`: list the holdings. The caller adds step, address,
 * measurements, open rounds, unreachable peers, holdings. */
void session_heartbeat(const struct session *session, struct heartbeat *out);

/* Return the progress of leaving since SESSION_LEAVE. */
enum leave_state session_leave(const struct session *session, int64_t now_ms);

/* Return the phase that the heartbeat reports: enum phase. */
int session_phase(const struct session *session);
/* Return how many metrics a full queue dropped, because the coordinator was away for too long. */
uint64_t session_metrics_lost(const struct session *session);

#endif
