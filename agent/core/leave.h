/* leave.h: when a device that is to leave may go. Part of a session. Pure. */
#ifndef AGENT_CORE_LEAVE_H
#define AGENT_CORE_LEAVE_H

#include <stdbool.h>
#include <stdint.h>

#define LEAVE_ALONE_MS 3000 /* calls fail for so long before the device goes without an answer */

enum leave_state {
    LEAVE_WAITS,   /* or the device is not to leave */
    LEAVE_DRAINED, /* nothing needs the device any more */
    LEAVE_ALONE,   /* no coordinator knows it or answers: waiting would save nothing */
};

struct leave {
    bool wanted;
    bool drained; /* the coordinator's answer */
};

/* What the session knows of its coordinator. */
struct leave_contact {
    bool works;   /* on a run */
    bool failing; /* not enrolled, or the last heartbeat failed */
    int64_t heard_ms, interval_ms;
};

/* When the state becomes LEAVE_ALONE by itself; INT64_MAX: not yet known. */
int64_t leave_deadline_ms(const struct leave *leave, const struct leave_contact *contact);
enum leave_state leave_state(const struct leave *leave, const struct leave_contact *contact,
                             int64_t now_ms);

#endif
