/* control.h: the edge of the control side. Carries out the actions of the session (core/session):
 * calls to the coordinator, generations, snapshots; and returns their outcome as events. One
 * thread, inside the loop. */
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
    struct status *status;         /* borrowed: what /metrics shows */
    struct http_multi
        *multi; /* borrowed; freed before control_free, so that no call is under way then */
    struct enroll_request enroll; /* what this device says of itself */
};

NODISCARD int control_new(const struct control_config *config, struct control **out,
                          struct err *err);
/* The generation that may still be at work must be over (control_leave). */
void control_free(struct control **control);

/* Begin. */
void control_start(struct control *control);
/* Take reports, changed holdings and due times to the session, and do what it says. */
void control_turn(struct control *control);
/* A descriptor that asks for a turn when it is readable; -1: none now. */
int control_probe_fd(const struct control *control);
/* When the next turn is due; INT64_MAX for never. */
int64_t control_deadline_ms(const struct control *control);
/* The phase that it reports, as a word. */
const char *control_phase(const struct control *control);
/* Why the agent must exit; NULL while it need not. */
const char *control_exit_reason(const struct control *control);
/* Announce that the device leaves: its work moves to other devices. */
void control_begin_leave(struct control *control);
/* How far that is. */
enum leave_state control_leaves(const struct control *control);
/* Cancel everything. true: it has ended; false: call again soon. */
bool control_leave(struct control *control);

#endif
