/* offers.h: data sets that devices offer and that never leave them (schema/offer.h). What a device
 * has may change between two starts of its agent. Of no draw. One thread. */
#ifndef TESTS_SIM_OFFERS_H
#define TESTS_SIM_OFFERS_H

#include "schema/device.h"
#include "tests/sim/agent.h"
#include "tests/sim/users.h"

/* What the device offers in its present life. */
void offers_fill(const struct world *world, const struct agent *agent, struct enroll_request *out);
/* Whether these are its data. */
bool offers_has(const struct world *world, const struct agent *agent,
                const struct local_train *local);
/* Let the job train on what devices offer. After users_mix. */
void offers_use(struct user_job *job);

#endif
