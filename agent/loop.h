/* loop.h: the whole agent: the peer server, the control side, their shared state, and the loop that
 * drives the control side. Only the owner's thread calls these functions. */
#ifndef AGENT_LOOP_H
#define AGENT_LOOP_H

#include <stdbool.h>

#include "agent/config.h"
#include "agent/identity.h"
#include "schema/device.h"

struct loop;
struct offers;

/* Listen and prepare to enrol. config, identity and offers are borrowed. From now on the loop
 * watches for changes of the offered data. */
NODISCARD int loop_open(const struct config *config, const struct identity *identity,
                        const struct device_probe *probe, struct offers *offers, struct loop **out,
                        struct err *err);
/* Run until a signal comes from leave_fd (stop_signals.h). Then wait until other devices have taken
 * over the work, the time for that is over, or another signal comes, and return 0. ERR_STATE: the
 * session exits; err says why. */
NODISCARD int loop_run(struct loop *loop, int leave_fd, struct err *err);
/* Cancel the computation and wait up to two seconds for its end. true: everything is freed. false:
 * a long arithmetic operation is still running; *loop is unchanged, and the process should exit. */
bool loop_close(struct loop **loop);

#endif
