/* access.h: the callers that this device's peer server accepts, and the work that takes their
 * tensors. Set by the control and the compute thread, read by the receiver. Any thread. */
#ifndef AGENT_PEER_ACCESS_H
#define AGENT_PEER_ACCESS_H

#include <stddef.h>
#include <stdint.h>

#include "agent/core/admission.h"
#include "agent/runtime/work.h"
#include "net/http_server.h"

struct access;
NODISCARD int access_new(struct access **out, struct err *err);
void access_free(struct access **access);

/* Accept the callers of the assignment only. */
void access_set_callers(struct access *access, const struct assignment *assignment);
/* Set the work that takes tensors from now on; NULL: none. A reference is taken. */
void access_set_work(struct access *access, struct work *work);
/* Take no more tensors if this is still the work that takes them. */
void access_clear_work(struct access *access, const struct work *work);

/* Return the verdict of admission_judge on the request, by the key that its connection proves.
 * caller: out, the owner of the ticket; NULL: not needed. */
enum admission_verdict access_judge(struct access *access, struct http_exchange *exchange,
                                    const char *job, int64_t generation, const char *bearer,
                                    struct device_id *caller);
/* As admission_replica_bytes. */
int64_t access_replica_bytes(struct access *access, const char *job, int64_t generation);
/* Return the work of that generation, as a reference to be released. NULL: see the verdict. */
struct work *access_work(struct access *access, const char *job, int64_t generation,
                         enum admission_verdict *verdict);

#endif
