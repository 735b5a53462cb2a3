/* leave.h: decides when a device that was asked to leave may go. Part of a session. Pure. */
#ifndef AGENT_CORE_LEAVE_H
#define AGENT_CORE_LEAVE_H

#include <stdbool.h>
#include <stdint.h>

#define LEAVE_ALONE_MS 3000 /* of failed calls; then the device leaves without an answer */

enum leave_state {
    LEAVE_WAITS,   /* or the device was not asked to leave */
    LEAVE_DRAINED, /* no work needs the device any more */
    LEAVE_ALONE,   /* no coordinator knows it or answers: waiting would save nothing */
};

struct leave {
    bool wanted;
    bool drained; /* the coordinator's answer */
};

/* The session's knowledge of its coordinator. */
struct leave_contact {
    bool works;   /* on a run */
    bool failing; /* not enrolled, or the last heartbeat failed */
    int64_t heard_ms, interval_ms;
};

/* Return when the state becomes LEAVE_ALONE by itself; INT64_MAX: not yet known. */
int64_t leave_deadline_ms(const struct leave *leave, const struct leave_contact *contact);
enum leave_state leave_state(const struct leave *leave, const struct leave_contact *contact,
                             int64_t now_ms);

#endif
