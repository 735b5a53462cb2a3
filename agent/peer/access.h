/* access.h: the callers that this device's peer side accepts, and the stage that takes their
 * tensors. Set by the control and the compute thread, read by the receiver. Any thread. */
#ifndef AGENT_PEER_ACCESS_H
#define AGENT_PEER_ACCESS_H

#include <stddef.h>
#include <stdint.h>

#include "agent/runtime/stage.h"
#include "schema/assignment.h"

struct access;
NODISCARD int access_new(struct access **out, struct err *err);
void access_free(struct access **access);

/* Accept the callers of the assignment only. */
void access_set_callers(struct access *access, const struct assignment *assignment);
/* The stage that takes tensors from now on; NULL: none. A reference is taken. */
void access_set_stage(struct access *access, struct stage *stage);
/* No tensors any more, if it is still this stage. */
void access_clear_stage(struct access *access, const struct stage *stage);

enum access_verdict {
    ACCESS_GRANTED,
    ACCESS_NO_TICKET,    /* 401 */
    ACCESS_WRONG_TICKET, /* 403 */
    ACCESS_STALE,        /* 409: the job has a newer generation here */
    ACCESS_EARLY,        /* 503: this device has not heard of that generation yet */
};
/* bearer: NULL when the request has none. Constant time in the ticket. */
enum access_verdict access_judge(struct access *access, const char *job, int64_t generation,
                                 const char *bearer);
/* The most bytes of replicas to hold for others in that generation of the job; 0: it is not the
 * present one. */
int64_t access_replica_bytes(struct access *access, const char *job, int64_t generation);
/* The stage of that generation, a reference to be released. NULL: it is not built yet (EARLY) or
 * over (STALE). */
struct stage *access_stage(struct access *access, const char *job, int64_t generation,
                           enum access_verdict *verdict);

#endif
