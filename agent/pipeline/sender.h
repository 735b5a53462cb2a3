/* sender.h: one thread that sends a stage's tensors to one neighbour, in order, over one kept
 * connection, with the retries of core/repeat. If the neighbour is in a newer generation, the
 * thread ends silently, because this device's new assignment is on its way. While it has nothing to
 * send, the sender pings periodically, so that it also notices a neighbour that dies while the
 * whole pipeline waits for it. Allocates nothing per tensor. */
#ifndef AGENT_PIPELINE_SENDER_H
#define AGENT_PIPELINE_SENDER_H

#include "agent/peer/trust.h"
#include "agent/peer/ways.h"
#include "agent/pipeline/stage.h"
#include "agent/runtime/trouble.h"
#include "schema/assignment.h"
#include "schema/heartbeat.h"

struct sender;

struct sender_config {
    struct stage *stage; /* a reference is taken */
    enum stage_direction direction;
    struct peer peer;
    struct plan_id plan;
    struct ways *ways;         /* borrowed */
    const struct trust *trust; /* borrowed; NULL: no TLS */
    int64_t peer_ms;           /* no answer in this time is a stall */
    struct troubles *troubles; /* borrowed */
    /* Called once on the sender's thread when the neighbour refuses a tensor; the stage is
     * cancelled then. */
    void (*failed)(void *arg, const struct err *err);
    void *arg;
};

NODISCARD int sender_start(const struct sender_config *config, struct sender **out,
                           struct err *err);
/* Wait for the thread's end and free it, after stage_cancel. */
void sender_free(struct sender **sender);
/* Report the transfers since the last call. Any thread. */
void sender_report_link(struct sender *sender, struct heartbeat *out);

#endif
