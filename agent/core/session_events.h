/* session_events.h: the events of a session: answers to its calls, and reports of the runtime.
 * Pure. */
#ifndef AGENT_CORE_SESSION_EVENTS_H
#define AGENT_CORE_SESSION_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "schema/assignment.h"
#include "schema/heartbeat.h"
#include "schema/limits.h"

enum session_event_type {
    SESSION_START, /* always the first */
    SESSION_TICK,  /* session_deadline_ms has come */
    SESSION_LEAVE, /* the device was asked to leave; from now on each heartbeat says so */
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
    SESSION_MIX_CHANGED,     /* a group has news of its matches: report them soon */
    SESSION_MIX_AWAITED,     /* the same, and others wait for the news: report it at once */
    SESSION_DATA_CHANGED,    /* the device offers other data: enrol with them at once */
};

enum session_failure {
    FAILURE_NETWORK,    /* no answer, or an answer that asks for a retry */
    FAILURE_UNKNOWN,    /* the coordinator does not know this device or boot */
    FAILURE_STALE_BOOT, /* another boot of this device has enrolled */
    FAILURE_REFUSED,    /* repeating cannot help; `text` says why */
};

struct session_event {
    enum session_event_type type;
    int64_t now_ms;
    int64_t serial; /* runtime's events: of the SESSION_DO_PREPARE they are about */
    bool partial;   /* HOLDINGS_CHANGED: more is likely to come; the report may wait a little */
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

#endif
