#include "agent/peer/answers.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/parse.h"

void answers_problem(struct http_exchange *exchange, int status, const char *code,
                     const char *detail)
{
    char body[512];
    /* Details consist of our own words, checked words of the path, and numbers, so only quotes need
     * escaping. */
    char plain[256];
    (void)snprintf(plain, sizeof(plain), "%s", detail);
    for (char *at = plain; *at; at++) {
        if (*at == '"' || *at == '\\' || (unsigned char)*at < 0x20 || (unsigned char)*at > 0x7e) {
            *at = '?';
        }
    }
    const int size = snprintf(body, sizeof(body),
                              "{\"title\":\"%s\",\"status\":%d,\"code\":\"%s\",\"detail\":\"%s\"}",
                              code, status, code, plain);
    ASSERT(size > 0 && (size_t)size < sizeof(body));
    if (status == 503) {
        http_reply_header(exchange, "Retry-After", "1");
    }
    http_reply(exchange, status, "application/problem+json", body, (size_t)size);
}

/* Reply with the problem of a verdict other than GRANTED. */
static void refuse(struct http_exchange *exchange, enum admission_verdict verdict)
{
    switch (verdict) {
    case ADMISSION_GRANTED: break;
    case ADMISSION_NO_TICKET:
        http_reply_header(exchange, "WWW-Authenticate", "Bearer");
        answers_problem(exchange, 401, "ticket_missing", "a ticket is required");
        break;
    case ADMISSION_WRONG_TICKET:
        answers_problem(exchange, 403, "ticket_wrong",
                        "the ticket is not valid for this job, generation and caller");
        break;
    case ADMISSION_STALE:
        answers_problem(exchange, 409, "stale_generation",
                        "this device is in a newer generation of the job");
        break;
    case ADMISSION_EARLY:
        answers_problem(exchange, 503, "early", "this device is not in that generation yet");
        break;
    }
}

const char *answers_bearer(const struct http_exchange *exchange)
{
    static const char scheme[] = "Bearer ";
    const char *text = http_header(exchange, "Authorization");
    return text && strncmp(text, scheme, sizeof(scheme) - 1) == 0 ? text + sizeof(scheme) - 1
                                                                  : NULL;
}

bool answers_number(struct http_exchange *exchange, const char *name, int64_t *out)
{
    struct err err = {0};
    if (parse_i64(http_param(exchange, name), 0, INT64_MAX, out, &err) == 0) {
        return true;
    }
    answers_problem(exchange, 400, "invalid_parameter", err.text);
    return false;
}

bool answers_let_in(struct access *access, struct http_exchange *exchange, int64_t *generation,
                    struct device_id *caller)
{
    if (!answers_number(exchange, "generation", generation)) {
        return false;
    }
    const enum admission_verdict verdict =
        access_judge(access, exchange, http_param(exchange, "job"), *generation,
                     answers_bearer(exchange), caller);
    if (verdict != ADMISSION_GRANTED) {
        refuse(exchange, verdict);
        return false;
    }
    http_know_client(exchange);
    return true;
}

struct work *answers_work(struct access *access, struct http_exchange *exchange,
                          struct device_id *caller)
{
    int64_t generation = 0;
    enum admission_verdict verdict;
    if (!answers_let_in(access, exchange, &generation, caller)) {
        return NULL;
    }
    struct work *work = access_work(access, http_param(exchange, "job"), generation, &verdict);
    if (!work) {
        refuse(exchange, verdict);
    }
    return work;
}
