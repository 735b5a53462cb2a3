#include "tests/unit/agent/fake_parts.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/parse.h"
#include "schema/device.h"
#include "schema/wire.h"
#include "tests/support/test.h"

#define WAIT_MS 60000

static struct fake_agent *agent_of(struct fake_coordinator *fake, const char *id)
{
    char text[ID_SIZE];
    for (size_t i = 0; i < fake->script.agent_count; i++) {
        fake_device_text(i, text);
        if (id && strcmp(text, id) == 0) {
            return &fake->agent[i];
        }
    }
    return NULL;
}

void fake_over(struct fake_coordinator *fake, const char *problem)
{
    if (fake->state != FAKE_OVER) {
        fake->state = FAKE_OVER;
        (void)snprintf(fake->problem, sizeof(fake->problem), "%.200s", problem);
        (void)eventfd_write(fake->over_fd, 1);
    }
}

/* ---- replies ---- */

static void reply_record(struct http_exchange *exchange, const struct record *record,
                         const void *value)
{
    BUF_AUTO struct buf body;
    struct err err = {0};
    buf_init(&body, 4 << 20);
    if (wire_write(record, value, &body, &err) != 0) {
        (void)fprintf(stderr, "fake coordinator: %s\n", err.text);
    }
    http_reply(exchange, 200, "application/json", body.data, body.size);
}

static void answer_poll(struct fake_coordinator *fake, size_t device,
                        struct http_exchange *exchange)
{
    struct assignment *assignment = &fake->assignment;
    fake_fill_assignment(fake, device, assignment);
    if (assignment->has_run) {
        assignment->run.job_spec.model.description = tiny_description();
    }
    reply_record(exchange, &assignment_record, assignment);
    record_done(&assignment_record, assignment);
}

void fake_wake_all(struct fake_coordinator *fake)
{
    for (size_t i = 0; i < fake->script.agent_count; i++) {
        struct fake_agent *agent = &fake->agent[i];
        agent->revision++;
        if (agent->parked) {
            struct http_exchange *exchange = agent->parked;
            agent->parked = NULL;
            http_on_end(exchange, NULL, NULL);
            answer_poll(fake, i, exchange);
        }
    }
}

/* ---- the script ---- */

static bool all_report(const struct fake_coordinator *fake, int phase)
{
    const struct fake_generation *script = fake_present(fake);
    for (size_t stage = 0; stage < script->stage_count; stage++) {
        const struct heartbeat *beat = &fake->agent[script->device[stage]].beat;
        if (beat->phase != phase || beat->generation != (int64_t)fake->generation + 1) {
            return false;
        }
    }
    return true;
}

static bool all_clear(const struct fake_coordinator *fake)
{
    for (size_t i = 0; i < fake->script.agent_count; i++) {
        const struct fake_agent *agent = &fake->agent[i];
        if (!agent->lost && (agent->beat.phase != PHASE_IDLE || agent->holding_count > 0)) {
            return false;
        }
    }
    return true;
}

static void go(struct fake_coordinator *fake, enum fake_state state)
{
    fake->state = state;
    fake_wake_all(fake);
}

static void next_generation(struct fake_coordinator *fake, bool through_center)
{
    fake->resume_version = fake->stopped_at[fake->generation];
    fake->through_center = through_center;
    fake->generation++;
    go(fake, FAKE_PREPARING);
}

/* One agent is gone: the others go on from what they hold. */
static void take_loss(struct fake_coordinator *fake, const struct heartbeat *beat)
{
    for (size_t i = 0; i < beat->peer_report_count; i++) {
        struct fake_agent *agent = agent_of(fake, beat->peer_report[i].device.text);
        if (!agent || agent->lost || beat->peer_report[i].kind != PEER_REFUSED) {
            continue;
        }
        agent->lost = true;
        fake->stopped_at[fake->generation] = fake_newest_cut(fake);
        next_generation(fake, false);
        return;
    }
}

static void take_stop(struct fake_coordinator *fake)
{
    const struct fake_generation *script = fake_present(fake);
    const int64_t version = fake->agent[script->device[0]].beat.stopped_version;
    for (size_t stage = 0; stage < script->stage_count; stage++) {
        if (fake->agent[script->device[stage]].beat.stopped_version != version) {
            fake_over(fake, "the stages stopped at different versions");
            return;
        }
    }
    fake->stopped_at[fake->generation] = version;
    if (version < TINY_STEPS && script->how == FAKE_REPLAN) {
        next_generation(fake, false);
    } else {
        go(fake, FAKE_FINISHING);
    }
}

static void advance(struct fake_coordinator *fake)
{
    const struct fake_generation *script = fake_present(fake);
    switch (fake->state) {
    case FAKE_ENROLLING:
        for (size_t i = 0; i < fake->script.agent_count; i++) {
            if (!fake->agent[i].enrolled) {
                return;
            }
        }
        go(fake, FAKE_PREPARING);
        break;
    case FAKE_PREPARING:
        if (all_report(fake, PHASE_READY)) {
            go(fake, FAKE_RUNNING);
        }
        break;
    case FAKE_RUNNING:
    case FAKE_STOPPING:
        if (all_report(fake, PHASE_STOPPED) && fake_has_mixed(fake)) {
            take_stop(fake);
        } else if (fake->state == FAKE_RUNNING && script->how != FAKE_TO_THE_END &&
                   script->how != FAKE_LOSS &&
                   fake->agent[script->device[0]].beat.generation ==
                       (int64_t)fake->generation + 1) {
            go(fake, FAKE_STOPPING);
        }
        break;
    case FAKE_FINISHING:
        if (!all_report(fake, PHASE_FINISHED) ||
            !fake_is_whole(fake, REPLICA_CENTER, fake->stopped_at[fake->generation])) {
            break;
        }
        if (fake->stopped_at[fake->generation] < TINY_STEPS) {
            next_generation(fake, fake->stopped_at[fake->generation] > 0); /* 0: the seed */
        } else {
            go(fake, FAKE_CLEARING);
        }
        break;
    case FAKE_CLEARING:
        if (all_clear(fake)) {
            fake_over(fake, "");
        }
        break;
    case FAKE_OVER: break;
    }
}

/* ---- routes ---- */

static void answer_enroll(void *context, struct http_exchange *exchange)
{
    struct fake_coordinator *fake = context;
    struct enroll_request request = {0};
    struct err err = {0};
    size_t size = 0;
    const char *body = http_body(exchange, &size);
    size_t index = fake->script.agent_count;
    if (wire_read(&enroll_request_record, body, size, &request, NULL, &err) == 0) {
        int64_t number = -1;
        if (strncmp(request.name, "agent", 5) == 0 &&
            parse_i64(request.name + 5, 0, 99, &number, NULL) == 0) {
            index = (size_t)number;
        }
    }
    if (index >= fake->script.agent_count) {
        fake_over(fake, err.text[0] ? err.text : "an enrolment of a stranger");
        http_reply(exchange, 422, NULL, NULL, 0);
        return;
    }
    struct fake_agent *agent = &fake->agent[index];
    agent->enrolled = true;
    agent->revision = 1;
    (void)snprintf(agent->address, sizeof(agent->address), "%s", request.address);
    struct enroll_reply reply = {.protocol = PROTOCOL_VERSION, .interval_ms = FAKE_INTERVAL_MS};
    fake_device_text(index, reply.device.text);
    reply_record(exchange, &enroll_reply_record, &reply);
    advance(fake);
}

static void take_metrics(struct fake_coordinator *fake, const struct heartbeat *beat)
{
    for (size_t i = 0; i < beat->metric_count; i++) {
        if (beat->metric[i].step < 1 || beat->metric[i].step > TINY_STEPS) {
            fake_over(fake, "a metric of an impossible step");
            return;
        }
        tiny_result_add(&fake->result, &beat->metric[i]);
    }
}

static void answer_beat(void *context, struct http_exchange *exchange)
{
    struct fake_coordinator *fake = context;
    struct err err = {0};
    size_t size = 0;
    const char *body = http_body(exchange, &size);
    struct heartbeat *beat = &fake->beat;
    memset(beat, 0, sizeof(*beat));
    struct fake_agent *agent = NULL;
    if (wire_read(&heartbeat_record, body, size, beat, NULL, &err) == 0) {
        agent = agent_of(fake, beat->device.text);
    }
    if (!agent) {
        fake_over(fake, err.text[0] ? err.text : "a heartbeat of a stranger");
        http_reply(exchange, 422, NULL, NULL, 0);
        return;
    }
    agent->beat = *beat;
    take_metrics(fake, beat);
    fake_take_mix(fake, beat);
    if (beat->all_holdings) {
        agent->holding_count = beat->holding_count < 64 ? beat->holding_count : 64;
        memcpy(agent->holding, beat->holding, agent->holding_count * sizeof(beat->holding[0]));
    }
    struct heartbeat_reply reply = {.interval_ms = FAKE_INTERVAL_MS};
    fake_take_rounds(fake, beat, &reply);
    reply.revision = agent->revision;
    reply_record(exchange, &heartbeat_reply_record, &reply);
    if (beat->has_error) {
        fake_over(fake, beat->error.message);
    }
    if (fake->state == FAKE_RUNNING && fake_present(fake)->how == FAKE_LOSS) {
        take_loss(fake, beat);
    }
    advance(fake);
}

static void forget_poll(void *arg)
{
    struct fake_agent *agent = arg;
    agent->parked = NULL;
}

static void answer_assignment(void *context, struct http_exchange *exchange)
{
    struct fake_coordinator *fake = context;
    struct fake_agent *agent = agent_of(fake, http_query(exchange, "device"));
    int64_t after = 0;
    const char *text = http_query(exchange, "after");
    if (!agent || !text || parse_i64(text, 0, INT64_MAX, &after, NULL) != 0) {
        http_reply(exchange, 400, NULL, NULL, 0);
    } else if (after < agent->revision) {
        answer_poll(fake, (size_t)(agent - fake->agent), exchange);
    } else {
        agent->parked = exchange;
        http_on_end(exchange, forget_poll, agent);
    }
}

static void answer_data(void *context, struct http_exchange *exchange)
{
    struct fake_coordinator *fake = context;
    const char *sha256 = http_param(exchange, "sha256");
    const struct tiny_data *data = strcmp(sha256, fake->train->sha256) == 0  ? fake->train
                                   : strcmp(sha256, fake->test->sha256) == 0 ? fake->test
                                                                             : NULL;
    uint64_t offset = 0;
    uint64_t length = 0;
    const char *range = http_header(exchange, "Range");
    if (!data || !range || http_parse_range(range, data->file_size, &offset, &length) != 1) {
        http_reply(exchange, 404, NULL, NULL, 0);
        return;
    }
    http_reply(exchange, 206, "application/octet-stream", data->file + offset, (size_t)length);
}

static void answer_blob_get(void *context, struct http_exchange *exchange)
{
    struct fake_coordinator *fake = context;
    const char *sha256 = http_param(exchange, "sha256");
    for (size_t unit = 0; unit < TINY_UNITS; unit++) {
        const struct fake_blob *blob = &fake->center[unit];
        if (blob->size > 0 && strcmp(blob->sha256, sha256) == 0) {
            http_reply(exchange, 200, "application/octet-stream", blob->data, blob->size);
            return;
        }
    }
    http_reply(exchange, 404, NULL, NULL, 0);
}

static void answer_blob_put(void *context, struct http_exchange *exchange)
{
    struct fake_coordinator *fake = context;
    int64_t unit = -1;
    int64_t version = 0;
    size_t size = 0;
    const char *body = http_body(exchange, &size);
    char hash[HASH_TEXT_SIZE];
    (void)snprintf(hash, sizeof(hash), "%s", http_param(exchange, "sha256"));
    if (size > 0) {
        sha256_text(body, size, hash);
    }
    if (parse_i64(http_query(exchange, "unit"), 0, TINY_UNITS - 1, &unit, NULL) != 0 ||
        parse_i64(http_query(exchange, "version"), 0, TINY_STEPS, &version, NULL) != 0 ||
        strcmp(hash, http_param(exchange, "sha256")) != 0) {
        fake_over(fake, "an upload that is not what it says");
        http_reply(exchange, 422, NULL, NULL, 0);
        return;
    }
    struct fake_blob *blob = &fake->center[unit];
    if (size == 0 && strcmp(blob->sha256, hash) != 0) {
        http_reply(exchange, 404, NULL, NULL, 0); /* these bytes are not here */
        return;
    }
    memcpy(blob->data, body, size);
    size = size > 0 ? size : blob->size;
    memcpy(blob->sha256, hash, sizeof(hash));
    memcpy(fake->result.unit_sha256[unit], hash, sizeof(hash));
    blob->size = size;
    blob->versions |= UINT64_C(1) << version;
    http_reply(exchange, 204, NULL, NULL, 0);
    advance(fake);
}

static void answer_bad(void *context, struct http_exchange *exchange)
{
    fake_over(context, "a request to a route that does not exist");
    http_reply(exchange, 404, NULL, NULL, 0);
}

static const struct http_route routes[] = {
    {.method = "POST", .pattern = "/v1/agent/enroll", .handle = answer_enroll, .body_max = 1 << 20},
    {.method = "POST",
     .pattern = "/v1/agent/heartbeat",
     .handle = answer_beat,
     .body_max = 1 << 20},
    {.method = "GET", .pattern = "/v1/agent/assignment", .handle = answer_assignment},
    {.method = "GET", .pattern = "/v1/agent/datasets/{sha256}/content", .handle = answer_data},
    {.method = "GET", .pattern = "/v1/agent/blobs/{sha256}", .handle = answer_blob_get},
    {.method = "PUT",
     .pattern = "/v1/agent/blobs/{sha256}",
     .handle = answer_blob_put,
     .body_max = FAKE_BLOB_MAX},
    {.method = "PUT",
     .pattern = "/v1/agent/averages/{sha256}",
     .handle = fake_answer_average,
     .body_max = FAKE_BLOB_MAX},
};

/* ---- life ---- */

static void *serve(void *arg)
{
    struct fake_coordinator *fake = arg;
    for (;;) {
        struct pollfd fd[] = {{.fd = http_server_fd(fake->server), .events = POLLIN},
                              {.fd = fake->stop_fd, .events = POLLIN}};
        (void)poll(fd, 2, http_server_timeout_ms(fake->server));
        if (fd[1].revents) {
            return NULL;
        }
        http_server_run(fake->server);
    }
}

struct fake_coordinator *fake_start(const struct fake_script *script)
{
    struct fake_coordinator *fake = calloc(1, sizeof(*fake));
    assert_non_null(fake);
    fake->script = *script;
    fake->train = &tiny_job()->train;
    fake->test = &tiny_job()->test;
    tiny_result_init(&fake->result);
    fake->stop_fd = eventfd(0, EFD_CLOEXEC);
    fake->over_fd = eventfd(0, EFD_CLOEXEC);
    fake->commit_fd = eventfd(0, EFD_CLOEXEC);
    assert_true(fake->stop_fd >= 0 && fake->over_fd >= 0 && fake->commit_fd >= 0);
    struct http_server_config config = {
        .routes = routes,
        .route_count = sizeof(routes) / sizeof(routes[0]),
        .fallbacks = {answer_bad, answer_bad, answer_bad, answer_bad, answer_bad},
        .context = fake,
        .connections_max = 64,
        .idle_timeout_ms = 60000,
    };
    struct err err = {0};
    assert_ok(address_parse("127.0.0.1:0", &config.listen, &err), &err);
    assert_ok(http_server_open(&config, &fake->server, &err), &err);
    (void)snprintf(fake->url, sizeof(fake->url), "http://%s",
                   http_server_address(fake->server)->text);
    assert_int_equal(pthread_create(&fake->thread, NULL, serve, fake), 0);
    return fake;
}

const char *fake_url(const struct fake_coordinator *fake)
{
    return fake->url;
}

const char *fake_wait(struct fake_coordinator *fake)
{
    struct pollfd fd = {.fd = fake->over_fd, .events = POLLIN};
    const int ready = poll(&fd, 1, WAIT_MS);
    (void)eventfd_write(fake->stop_fd, 1);
    (void)pthread_join(fake->thread, NULL);
    if (ready != 1) {
        (void)snprintf(fake->problem, sizeof(fake->problem),
                       "still in state %d of generation %zu after %d s", (int)fake->state,
                       fake->generation + 1, WAIT_MS / 1000);
    }
    return fake->problem[0] ? fake->problem : NULL;
}

void fake_wait_for_commit(struct fake_coordinator *fake)
{
    struct pollfd fd = {.fd = fake->commit_fd, .events = POLLIN};
    assert_int_equal(poll(&fd, 1, WAIT_MS), 1);
}

int64_t fake_bytes_sent(const struct fake_coordinator *fake)
{
    int64_t bytes = 0;
    for (size_t i = 0; i < fake->script.agent_count; i++) {
        bytes += fake->agent[i].beat.replica_bytes_sent;
    }
    return bytes;
}

int64_t fake_commits(const struct fake_coordinator *fake, size_t kind)
{
    return fake->commits[kind];
}

const struct tiny_result *fake_result(const struct fake_coordinator *fake)
{
    return &fake->result;
}

int64_t fake_stopped_at(const struct fake_coordinator *fake, size_t generation)
{
    return fake->stopped_at[generation];
}

void fake_free(struct fake_coordinator **fake)
{
    http_server_close(&(*fake)->server);
    (void)close((*fake)->stop_fd);
    (void)close((*fake)->over_fd);
    (void)close((*fake)->commit_fd);
    free(*fake);
    *fake = NULL;
}
