/* control.h: the edge of the control side. Carries out the actions of the session (core/session),
 * such as calls to the coordinator, generations and snapshots, and returns their outcomes to it as
 * events. One thread, inside the loop. */
#ifndef AGENT_CONTROL_H
#define AGENT_CONTROL_H

#include "agent/core/session.h"
#include "agent/device.h"
#include "agent/reports.h"
#include "agent/status.h"
#include "net/http_client.h"
#include "schema/device.h"

struct control;

struct control_config {
    struct device_context *device; /* borrowed; its id is set at enrolment */
    struct reports *reports;       /* borrowed */
    struct status *status;         /* borrowed; the data of /metrics */
    struct http_multi
        *multi; /* borrowed; freed before control_free, so that no call is under way then */
    struct enroll_request enroll; /* this device's description of itself */
};

NODISCARD int control_new(const struct control_config *config, struct control **out,
                          struct err *err);
/* Free it. No generation may be running (control_leave). */
void control_free(struct control **control);

/* Begin. */
void control_start(struct control *control);
/* Pass reports, changed holdings and due times to the session, and carry out its actions. */
void control_turn(struct control *control);
/* Return a descriptor that is readable when a turn is due; -1: none now. */
int control_probe_fd(const struct control *control);
/* Return the time of the next turn; INT64_MAX for never. */
int64_t control_deadline_ms(const struct control *control);
/* Return the phase that the heartbeat reports, as a word. */
const char *control_phase(const struct control *control);
/* Return the reason why the agent must exit; NULL: it need not exit. */
const char *control_exit_reason(const struct control *control);
/* Announce that the device leaves: its work moves to other devices. */
void control_begin_leave(struct control *control);
/* Return how far the leave has progressed. */
enum leave_state control_leaves(const struct control *control);
/* Cancel everything. true: all work has ended; false: call again soon. */
bool control_leave(struct control *control);

#endif
