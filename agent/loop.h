/* loop.h: an agent as a whole: peer server, control side and what they share, and the loop that
 * drives the control side. One thread (the owner's) calls everything here. */
#ifndef AGENT_LOOP_H
#define AGENT_LOOP_H

#include <stdbool.h>

#include "agent/config.h"
#include "agent/identity.h"
#include "schema/device.h"

struct loop;
struct offers;

/* Listen and get ready to enrol. config, identity and offers are borrowed. Looks for changes of
 * what is offered from now on. */
NODISCARD int loop_open(const struct config *config, const struct identity *identity,
                        const struct device_probe *probe, struct offers *offers, struct loop **out,
                        struct err *err);
/* Run until a signal comes from leave_fd (stop_signals.h) and other devices have taken the work,
 * the time for that is over, or another signal comes: 0. ERR_STATE: the session exits; err says
 * why. */
NODISCARD int loop_run(struct loop *loop, int leave_fd, struct err *err);
/* Cancel the computation and wait up to two seconds for its end. true: everything is freed. false:
 * a long step of the arithmetic is still under way; *loop stays as it is, and the process should
 * exit. */
bool loop_close(struct loop **loop);

#endif
