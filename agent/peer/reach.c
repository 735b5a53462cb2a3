#include "agent/peer/reach.h"

#include "agent/peer/message.h"
#include "base/clock.h"
#include "schema/problem.h"

#define REPLY_MAX 4096

void reach_init(struct reach *reach, const struct reach_config *config)
{
    *reach = (struct reach){.config = *config};
    trust_peer(config->trust, config->peer->public_key, &reach->tls);
}

int reach_caller_init(struct reach_caller *caller, struct err *err)
{
    buf_init(&caller->reply, REPLY_MAX);
    return http_client_new(&caller->client, err);
}

void reach_caller_done(struct reach_caller *caller)
{
    http_client_free(&caller->client);
    buf_done(&caller->reply);
}

/* ---- a try ---- */

struct http_call reach_call(const struct reach *reach, struct reach_caller *caller,
                            const char *method, const char *url, int64_t stall_ms)
{
    return (struct http_call){
        .method = method,
        .url = url,
        .bearer = reach->config.peer->ticket,
        .tls = &reach->tls,
        .reply = &caller->reply,
        .connect_timeout_ms = stall_ms,
        .stall_ms = stall_ms,
        .cancel = &reach->config.cancel->flag,
    };
}

int reach_try(const struct reach *reach, struct reach_caller *caller, const struct http_call *call,
              struct http_result *out, struct err *err)
{
    const struct reach_config *config = &reach->config;
    const struct way_target target = {.device = &config->peer->device,
                                      .plan = config->plan,
                                      .relay_ticket = config->peer->relay_ticket};
    bool other; /* the next try follows anyway */
    return ways_call(config->ways, &target, caller->client, call, out, &other, err);
}

int reach_judge(const struct reach *reach, const struct reach_caller *caller, enum repeat_kind kind,
                int status, struct err *err)
{
    const int rc = repeat_code(kind, status);
    if (rc == 0) {
        return 0;
    }
    char message[MESSAGE_SIZE];
    (void)problem_read(caller->reply.data ? caller->reply.data : "", caller->reply.size, message);
    return err_set(err, rc, "%s answers %d %s", reach->config.peer->device.text, status, message);
}

/* ---- repeated ---- */

/* Note the result of a try for the device. */
static void take_try(const struct reach *reach, const struct reach_caller *caller,
                     struct repeat *repeat, int outcome, const struct err *why,
                     struct repeat_next *next)
{
    const struct repeat_try tried = {
        .code = outcome,
        .trouble = trouble_kind(outcome, http_client_breakage(caller->client)),
    };
    repeat_tried(repeat, &tried, next);
    troubles_note(reach->config.troubles, reach->config.source, &reach->config.peer->device,
                  next->news, tried.trouble, why);
}

int reach_repeat(const struct reach *reach, const struct reach_caller *caller,
                 struct repeat *repeat, const struct reach_tries *tries, struct err *err)
{
    struct repeat_next next;
    while (!tries->wanted || tries->wanted(tries->arg)) {
        const int rc = tries->once(tries->arg, err);
        take_try(reach, caller, repeat, rc, err, &next);
        if (!next.again) {
            return rc;
        }
        if (cancel_wait(reach->config.cancel, next.wait_ms * NS_PER_MS)) {
            return err_set(err, ERR_CANCELLED, "cancelled");
        }
    }
    return err_set(err, ERR_STALE, "nobody wants it any more");
}

void reach_ask(const struct reach *reach, struct reach_caller *caller)
{
    const struct reach_config *config = &reach->config;
    const struct message_path path =
        message_ping_path(config->peer->url, config->job, config->generation);
    struct repeat repeat;
    struct repeat_next next;
    repeat_begin(&repeat, REPEAT_ALIVE, config->peer_ms);
    const struct http_call call =
        reach_call(reach, caller, "GET", path.text, repeat_stall_ms(&repeat));
    struct http_result result;
    struct err err = {0};
    do {
        const int rc = reach_try(reach, caller, &call, &result, &err);
        take_try(reach, caller, &repeat, rc, &err, &next);
    } while (next.again);
}
