/* reach.h: calls from a device of a plan to another one, retried until one is answered, as
 * core/repeat decides. The result of each try goes to the list of troubles. A reach is constant and
 * may be shared; each thread calls with its own client. */
#ifndef AGENT_PEER_REACH_H
#define AGENT_PEER_REACH_H

#include <stdbool.h>

#include "agent/core/repeat.h"
#include "agent/peer/trust.h"
#include "agent/peer/ways.h"
#include "agent/runtime/cancel.h"
#include "agent/runtime/trouble.h"

/* All pointers are borrowed. */
struct reach_config {
    const struct peer *peer;
    const struct plan_id *plan;
    const struct job_id *job;
    int64_t generation;
    struct ways *ways;
    const struct trust *trust; /* NULL: no TLS */
    struct troubles *troubles;
    enum trouble_source source;
    struct cancel *cancel;
    int64_t peer_ms; /* no answer in this time is a stall */
};

struct reach {
    struct reach_config config;
    struct tls_client tls;
};

void reach_init(struct reach *reach, const struct reach_config *config);

/* One thread's calls. */
struct reach_caller {
    struct http_client *client;
    struct buf reply;
};
/* *caller is zero. */
NODISCARD int reach_caller_init(struct reach_caller *caller, struct err *err);
void reach_caller_done(struct reach_caller *caller);

/* Return a call to that URL, without its body and sink. url must outlive it. */
struct http_call reach_call(const struct reach *reach, struct reach_caller *caller,
                            const char *method, const char *url, int64_t stall_ms);
/* Make one try. Codes of http_client_call. */
NODISCARD int reach_try(const struct reach *reach, struct reach_caller *caller,
                        const struct http_call *call, struct http_result *out, struct err *err);
/* Return the meaning of the answer's status: repeat_code, with the problem as text. */
NODISCARD int reach_judge(const struct reach *reach, const struct reach_caller *caller,
                          enum repeat_kind kind, int status, struct err *err);

/* One complete call, as the user defines it. */
struct reach_tries {
    int (*once)(void *arg, struct err *err); /* a code of repeat.h */
    bool (*wanted)(void *arg);               /* called before each try; NULL: always wanted */
    void *arg;
};
/* Try until a try is answered. Codes of `once`; ERR_CANCELLED; ERR_STALE: it is no longer
 * wanted. */
NODISCARD int reach_repeat(const struct reach *reach, const struct reach_caller *caller,
                           struct repeat *repeat, const struct reach_tries *tries, struct err *err);
/* Check that the device is reachable; any answer proves it. */
void reach_ask(const struct reach *reach, struct reach_caller *caller);

#endif
