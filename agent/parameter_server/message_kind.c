#include "agent/parameter_server/message_kind.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    enum exchange_kind kind;
    bool done;
} kinds[] = {
    {"contribution", EXCHANGE_CONTRIBUTION, false},
    {"done", EXCHANGE_CONTRIBUTION, true},
    {"result", EXCHANGE_RESULT, false},
    {"commit", EXCHANGE_COMMIT, false},
    {"norm", EXCHANGE_NORM, false},
    {"norm_total", EXCHANGE_NORM_TOTAL, false},
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static const char *name_of(const struct exchange_message *message)
{
    size_t i = 0;
    while (kinds[i].kind != message->kind || kinds[i].done != message->done) {
        i++;
    }
    return kinds[i].name;
}

bool message_kind_find(const char *name, struct exchange_message *message)
{
    for (size_t i = 0; i < KINDS; i++) {
        if (strcmp(name, kinds[i].name) == 0) {
            message->kind = kinds[i].kind;
            message->done = kinds[i].done;
            return true;
        }
    }
    return false;
}

struct message_path message_kind_path(const char *url, const struct job_id *job, int64_t generation,
                                      const struct exchange_message *message)
{
    struct message_path path;
    if (message->kind == EXCHANGE_PARAMETERS) {
        (void)snprintf(path.text, sizeof(path.text),
                       "%s/peer/v1/%s/%" PRId64 "/parameters/%" PRId64 "/%zu/%zu%s", url, job->text,
                       generation, message->step, message->first, message->end,
                       message->statistics ? "?statistics=1" : "");
        return path;
    }
    const size_t index = message->kind == EXCHANGE_RESULT ? message->micro_batch : message->block;
    (void)snprintf(path.text, sizeof(path.text),
                   "%s/peer/v1/%s/%" PRId64 "/exchange/%s/%" PRId64 "/%zu/%zu/%zu", url, job->text,
                   generation, name_of(message), message->step, index, message->first,
                   message->end);
    return path;
}

bool message_kind_notifies(const struct assignment_run *run, size_t other)
{
    return stage_role_notifies(assignment_role(run, (size_t)run->stage_index),
                               assignment_role(run, other), run->job_spec.optimizer.clip_norm > 0);
}
