/* admission.h: decides which callers this device's peer server accepts: those that the assignment
 * names. Others get the status of their verdict. Pure; guarded by its owner. */
#ifndef AGENT_CORE_ADMISSION_H
#define AGENT_CORE_ADMISSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schema/assignment.h"

struct admission {
    struct caller caller[STAGES_MAX];
    size_t caller_count;
    struct job_id job; /* of the run, "" when idle */
    int64_t generation;
    int64_t replica_bytes;
};

/* Each value is the HTTP status of the answer. */
enum admission_verdict {
    ADMISSION_GRANTED = 0,
    ADMISSION_NO_TICKET = 401,
    ADMISSION_WRONG_TICKET = 403, /* or the ticket of another device */
    ADMISSION_STALE = 409,        /* the job has a newer generation here */
    ADMISSION_EARLY = 503,        /* this device does not know that generation yet */
};

/* Accept the callers of the assignment only. */
void admission_set(struct admission *admission, const struct assignment *assignment);
/* Judge a request. caller: out, the owner of the ticket if the verdict is GRANTED; NULL: not
 * needed. bearer: NULL when the request has none. peer_key: the key that the caller proved to have,
 * in hexadecimal, "" for none; NULL: the connection has no TLS. Constant time in the ticket. */
enum admission_verdict admission_judge(const struct admission *admission, const char *job,
                                       int64_t generation, const char *bearer, const char *peer_key,
                                       struct device_id *caller);
/* Judge a tensor for a generation that has no stage on this device: the stage is not built yet
 * (EARLY), or the generation is over (STALE). */
enum admission_verdict admission_without_stage(const struct admission *admission, const char *job,
                                               int64_t generation);
/* Return the maximum bytes of replicas to hold for others in that generation of the job; 0: it is
 * not the current generation. */
int64_t admission_replica_bytes(const struct admission *admission, const char *job,
                                int64_t generation);

#endif
