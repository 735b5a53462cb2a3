/* calls.h: the calls to the coordinator: enrolment, heartbeat, assignment. At most one call of each
 * kind is active at a time. The outcome of every call, even of one that could not begin, becomes an
 * event of the session (core/session). For control.c; one thread, inside the loop. */
#ifndef AGENT_CALLS_H
#define AGENT_CALLS_H

#include "agent/core/session.h"
#include "net/http_client.h"
#include "schema/assignment.h"
#include "schema/device.h"
#include "schema/heartbeat.h"

/* event: ENROLLED, BEATEN, ASSIGNED, POLL_ENDED or *_FAILED, without its time; its pointers are
 * borrowed for the call. assignment: the assignment of ASSIGNED, NULL with any other event. The
 * callee may take it (set *assignment = NULL). */
typedef void (*calls_answer_fn)(void *arg, struct session_event *event,
                                struct assignment **assignment);

struct calls_config {
    struct http_multi
        *multi; /* borrowed; freed before calls_free, so that no call is under way then */
    const char *coordinator;      /* borrowed: its URL */
    const struct tls_client *tls; /* borrowed; of its calls */
    calls_answer_fn answered;
    void *arg;
};

struct calls;
NODISCARD int calls_new(const struct calls_config *config, struct calls **out, struct err *err);
void calls_free(struct calls **calls);

/* Each function starts a call and replaces an unfinished call of the same kind; the answer to the
 * replaced call is ignored. action: the session's, with the call's timeouts. */
void calls_enroll(struct calls *calls, const struct session_action *action,
                  const struct enroll_request *request);
void calls_beat(struct calls *calls, const struct session_action *action,
                const struct heartbeat *heartbeat);
void calls_poll(struct calls *calls, const struct session_action *action,
                const struct device_id *device, const char *boot);

/* Free an assignment that was taken in `answered`. */
void assignment_free(struct assignment **assignment);

#endif
