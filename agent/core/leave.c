#include "agent/core/leave.h"

int64_t leave_deadline_ms(const struct leave *leave, const struct leave_contact *contact)
{
    const int64_t away_ms = 3 * contact->interval_ms;
    if (!leave->wanted || !contact->failing) {
        return INT64_MAX;
    }
    return contact->heard_ms + (away_ms > LEAVE_ALONE_MS ? away_ms : LEAVE_ALONE_MS);
}

enum leave_state leave_state(const struct leave *leave, const struct leave_contact *contact,
                             int64_t now_ms)
{
    if (!leave->wanted) {
        return LEAVE_WAITS;
    }
    if (leave->drained) {
        return LEAVE_DRAINED;
    }
    const bool idle = contact->failing && !contact->works;
    return idle || leave_deadline_ms(leave, contact) <= now_ms ? LEAVE_ALONE : LEAVE_WAITS;
}
