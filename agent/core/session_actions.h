/* session_actions.h: the actions that a session requests from its owner. One list per event, in
 * order. Pure. */
#ifndef AGENT_CORE_SESSION_ACTIONS_H
#define AGENT_CORE_SESSION_ACTIONS_H

#include <stddef.h>
#include <stdint.h>

#include "agent/core/rounds.h"
#include "schema/assignment.h"
#include "schema/heartbeat.h"
#include "schema/limits.h"

enum session_action_type {
    SESSION_DO_ENROLL,
    SESSION_DO_BEAT, /* send session_heartbeat; like POLL it replaces a call under way, whose answer
                      * is ignored */
    SESSION_DO_POLL, /* ask for the assignment after `after` */
    SESSION_DO_CALLERS, /* accept the callers of this event's assignment only */
    SESSION_DO_DROP,    /* drop snapshots */
    SESSION_DO_PREPARE, /* the run of the assignment of this event, as `serial`; ends an earlier
                         * one. Drop snapshots of the job with a version above its resume_version */
    SESSION_DO_RUN,
    SESSION_DO_STOP,
    SESSION_DO_HOLD, /* begin no further step */
    SESSION_DO_RELEASE,
    SESSION_DO_AWAY,         /* open no round of replication */
    SESSION_DO_BACK,         /* the coordinator answers again */
    SESSION_DO_ROUNDS,       /* `round`: the state of the rounds that stage 0 opened */
    SESSION_DO_UPLOAD,       /* `version` of the stage's units to the center */
    SESSION_DO_MIX,          /* a group: take the matches of this event's assignment */
    SESSION_DO_MIXES_STORED, /* a group: the records of the last heartbeat are stored */
    SESSION_DO_DISCARD,      /* end the run; snapshots stay */
    SESSION_DO_EXIT,         /* `text` says why */
};

struct session_action {
    enum session_action_type type;
    int64_t connect_ms, timeout_ms; /* ENROLL, BEAT, POLL: for the connection, for the whole call */
    int64_t serial;                 /* PREPARE */
    int64_t version;                /* UPLOAD */
    int64_t after;                  /* POLL */
    struct drop drop;               /* DROP */
    struct round round[REPLICA_KINDS]; /* ROUNDS, by enum replica_kind */
    char text[MESSAGE_SIZE];           /* EXIT */
};

#define SESSION_ACTIONS_MAX (DROPS_MAX + 16)
struct session_actions {
    struct session_action item[SESSION_ACTIONS_MAX];
    size_t count;
};

/* Append an action with its type, otherwise zeroed. */
struct session_action *session_actions_add(struct session_actions *actions,
                                           enum session_action_type type);

#endif
