#include "tests/unit/agent/fake_coordinator.h"

#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/parse.h"
#include "net/http_server.h"
#include "schema/assignment.h"
#include "schema/device.h"
#include "schema/heartbeat.h"
#include "schema/wire.h"
#include "tests/support/test.h"

#define JOB "job_00000000000000000000000001"
#define INTERVAL_MS 50
#define WAIT_MS 60000
#define BLOB_MAX 65536

struct fake_agent {
    bool enrolled;
    char address[URL_SIZE];
    int64_t revision;
    struct heartbeat beat; /* the last */
    struct holding holding[64];
    size_t holding_count;
    struct http_exchange *parked;
    int64_t parked_after;
};

struct blob {
    char sha256[HASH_TEXT_SIZE];
    unsigned char data[BLOB_MAX];
    size_t size;
    int64_t version;
};

enum fake_state {
    FAKE_ENROLLING,
    FAKE_PREPARING,
    FAKE_RUNNING,
    FAKE_STOPPING,
    FAKE_FINISHING,
    FAKE_CLEARING,
    FAKE_OVER
};

struct fake_coordinator {
    struct fake_script script;
    const struct tiny_data *train, *test;
    struct http_server *server;
    char url[URL_SIZE];
    pthread_t thread;
    int stop_fd, over_fd;
    struct fake_agent agent[FAKE_AGENTS_MAX];
    enum fake_state state;
    size_t generation; /* index in the script; numbers are one more */
    int64_t resume_version;
    bool through_center;
    int64_t stopped_at[8];
    struct blob center[TINY_UNITS];
    struct tiny_result result;
    char problem[MESSAGE_SIZE];
    struct heartbeat beat;
    struct assignment assignment;
};

static void device_text(size_t index, char out[ID_SIZE])
{
    (void)snprintf(out, ID_SIZE, "dev_000000000000000000000000%02u", (unsigned)index % 100);
}

static struct fake_agent *agent_of(struct fake_coordinator *fake, const char *id)
{
    char text[ID_SIZE];
    for (size_t i = 0; i < fake->script.agent_count; i++) {
        device_text(i, text);
        if (id && strcmp(text, id) == 0) {
            return &fake->agent[i];
        }
    }
    return NULL;
}

static const struct fake_generation *present(const struct fake_coordinator *fake)
{
    return &fake->script.generation[fake->generation];
}

static void over(struct fake_coordinator *fake, const char *problem)
{
    if (fake->state != FAKE_OVER) {
        fake->state = FAKE_OVER;
        (void)snprintf(fake->problem, sizeof(fake->problem), "%.200s", problem);
        (void)eventfd_write(fake->over_fd, 1);
    }
}

/* ---- assignments ---- */

static void ticket(int64_t generation, size_t from, size_t to, char out[TICKET_SIZE])
{
    (void)snprintf(out, TICKET_SIZE, "ticket-%" PRId64 "-%zu-%zu", generation, from, to);
}

static void fill_peer(const struct fake_coordinator *fake, size_t from, size_t to, struct peer *out)
{
    device_text(to, out->device.text);
    (void)snprintf(out->url, sizeof(out->url), "%s", fake->agent[to].address);
    (void)snprintf(out->codec, sizeof(out->codec), "none");
    ticket((int64_t)fake->generation + 1, from, to, out->ticket);
}

/* Who holds the unit at the resumed version; agent_count: nobody. */
static size_t holder(const struct fake_coordinator *fake, int64_t unit, size_t preferred, struct holding *out)
{
    for (size_t step = 0; step < fake->script.agent_count; step++) {
        const size_t index = (preferred + step) % fake->script.agent_count;
        const struct fake_agent *agent = &fake->agent[index];
        for (size_t i = 0; i < agent->holding_count; i++) {
            if (agent->holding[i].unit == unit && agent->holding[i].version == fake->resume_version) {
                *out = agent->holding[i];
                return index;
            }
        }
    }
    return fake->script.agent_count;
}

static void fill_source(struct fake_coordinator *fake, int64_t unit, size_t own, struct source *out)
{
    struct holding holding;
    out->unit = unit;
    out->from = SOURCE_SEED;
    if (fake->resume_version == 0) {
        return;
    }
    if (fake->through_center) {
        out->from = SOURCE_CENTER;
        (void)snprintf(out->sha256, sizeof(out->sha256), "%s", fake->center[unit].sha256);
        out->bytes = (int64_t)fake->center[unit].size;
        return;
    }
    const size_t index = holder(fake, unit, own, &holding);
    if (index == fake->script.agent_count) {
        over(fake, "a unit is held by nobody");
        return;
    }
    out->from = index == own ? SOURCE_SELF : SOURCE_DEVICE;
    out->bytes = holding.bytes;
    memcpy(out->sha256, holding.sha256, sizeof(out->sha256));
    if (index != own) {
        device_text(index, out->device.text);
        memcpy(out->url, fake->agent[index].address, sizeof(out->url));
        ticket((int64_t)fake->generation + 1, own, index, out->ticket);
    }
}

static int phase_told(const struct fake_coordinator *fake)
{
    static const int phases[] = {PHASE_IDLE, PHASE_PREPARE, PHASE_RUN, PHASE_STOPPING, PHASE_FINISHED, PHASE_IDLE};
    return fake->state == FAKE_OVER ? PHASE_IDLE : phases[fake->state];
}

static void fill_run(struct fake_coordinator *fake, size_t device, size_t stage, struct assignment_run *run)
{
    const struct fake_generation *script = present(fake);
    (void)snprintf(run->job.text, sizeof(run->job.text), "%s", JOB);
    run->generation = (int64_t)fake->generation + 1;
    run->phase = phase_told(fake);
    run->resume_version = fake->state == FAKE_FINISHING ? fake->stopped_at[fake->generation] : fake->resume_version;
    run->stage_index = (int64_t)stage;
    run->stage_count = (int64_t)script->stage_count;
    run->first = stage > 0 ? (int64_t)script->end[stage - 1] : 0;
    run->end = (int64_t)script->end[stage];
    run->job_spec = tiny_spec();
    (void)snprintf(run->job_spec.dataset_train, NAME_SIZE, "train");
    (void)snprintf(run->job_spec.dataset_test, NAME_SIZE, "test");
    (void)snprintf(run->job_spec.name, NAME_SIZE, "tiny");
    (void)snprintf(run->job_spec.model.name, NAME_SIZE, "tiny");
    const size_t left = script->stage_count - stage;
    run->in_flight = left < 4 ? (int64_t)left : 4;
    run->previous_in_flight = stage == 0 ? 0 : left + 1 < 4 ? (int64_t)left + 1 : 4;
    for (int64_t unit = run->first; unit < run->end; unit++) {
        fill_source(fake, unit, device, &run->source[run->source_count++]);
    }
    run->has_previous = stage > 0;
    run->has_next = stage + 1 < script->stage_count;
    if (run->has_previous) {
        fill_peer(fake, device, script->device[stage - 1], &run->previous);
    }
    if (run->has_next) {
        fill_peer(fake, device, script->device[stage + 1], &run->next);
    }
    run->step_ms = 60000;
    run->peer_ms = 20000;
    run->lease_ms = 60000;
    run->total_steps = TINY_STEPS;
    memcpy(run->data.train_sha256, fake->train->sha256, SHA256_SIZE);
    memcpy(run->data.test_sha256, fake->test->sha256, SHA256_SIZE);
    run->data.train_samples = TINY_SAMPLES;
    run->data.test_samples = TINY_TESTS;
}

static void fill_assignment(struct fake_coordinator *fake, size_t device, struct assignment *out)
{
    memset(out, 0, sizeof(*out));
    out->revision = fake->agent[device].revision;
    out->interval_ms = INTERVAL_MS;
    if (fake->state == FAKE_CLEARING) {
        out->drop_count = 1;
        (void)snprintf(out->drop[0].job.text, ID_SIZE, "%s", JOB);
        out->drop[0].below_version = INT64_MAX;
        return;
    }
    if (fake->state == FAKE_ENROLLING || fake->state == FAKE_OVER) {
        return;
    }
    /* All may call all: this coordinator is not about tickets. */
    for (size_t other = 0; other < fake->script.agent_count; other++) {
        struct caller *caller = &out->caller[out->caller_count++];
        (void)snprintf(caller->job.text, ID_SIZE, "%s", JOB);
        caller->generation = (int64_t)fake->generation + 1;
        device_text(other, caller->device.text);
        ticket(caller->generation, other, device, caller->ticket);
    }
    const struct fake_generation *script = present(fake);
    for (size_t stage = 0; stage < script->stage_count; stage++) {
        if (script->device[stage] == device) {
            out->has_run = true;
            fill_run(fake, device, stage, &out->run);
        }
    }
    if (!out->has_run) {
        out->run = (struct assignment_run){0};
    }
}

static void reply_record(struct http_exchange *exchange, const struct record *record, const void *value)
{
    BUF_AUTO struct buf body;
    struct err err = {0};
    buf_init(&body, 4 << 20);
    if (wire_write(record, value, &body, &err) != 0) {
        (void)fprintf(stderr, "fake coordinator: %s\n", err.text);
    }
    http_reply(exchange, 200, "application/json", body.data, body.size);
}

static void answer_poll(struct fake_coordinator *fake, size_t device, struct http_exchange *exchange)
{
    struct assignment *assignment = &fake->assignment;
    fill_assignment(fake, device, assignment);
    if (assignment->has_run) {
        assignment->run.job_spec.model.description = tiny_description();
    }
    reply_record(exchange, &assignment_record, assignment);
    record_done(&assignment_record, assignment);
}

static void wake_all(struct fake_coordinator *fake)
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
    const struct fake_generation *script = present(fake);
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
        if (fake->agent[i].beat.phase != PHASE_IDLE || fake->agent[i].holding_count > 0) {
            return false;
        }
    }
    return true;
}

static bool center_is_whole(const struct fake_coordinator *fake, int64_t version)
{
    for (size_t unit = 0; unit < TINY_UNITS; unit++) {
        if (fake->center[unit].size == 0 || fake->center[unit].version != version) {
            return false;
        }
    }
    return true;
}

static void go(struct fake_coordinator *fake, enum fake_state state)
{
    fake->state = state;
    wake_all(fake);
}

static void next_generation(struct fake_coordinator *fake, bool through_center)
{
    fake->resume_version = fake->stopped_at[fake->generation];
    fake->through_center = through_center;
    fake->generation++;
    go(fake, FAKE_PREPARING);
}

static void take_stop(struct fake_coordinator *fake)
{
    const struct fake_generation *script = present(fake);
    const int64_t version = fake->agent[script->device[0]].beat.stopped_version;
    for (size_t stage = 0; stage < script->stage_count; stage++) {
        if (fake->agent[script->device[stage]].beat.stopped_version != version) {
            over(fake, "the stages stopped at different versions");
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
    const struct fake_generation *script = present(fake);
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
        if (all_report(fake, PHASE_STOPPED)) {
            take_stop(fake);
        } else if (script->how != FAKE_TO_THE_END && fake->agent[script->device[0]].beat.step >= script->stop_step &&
                   fake->agent[script->device[0]].beat.generation == (int64_t)fake->generation + 1) {
            go(fake, FAKE_STOPPING);
        }
        break;
    case FAKE_STOPPING:
        if (all_report(fake, PHASE_STOPPED)) {
            take_stop(fake);
        }
        break;
    case FAKE_FINISHING:
        if (!all_report(fake, PHASE_FINISHED) || !center_is_whole(fake, fake->stopped_at[fake->generation])) {
            break;
        }
        if (fake->stopped_at[fake->generation] < TINY_STEPS) {
            next_generation(fake, true);
        } else {
            go(fake, FAKE_CLEARING);
        }
        break;
    case FAKE_CLEARING:
        if (all_clear(fake)) {
            over(fake, "");
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
        if (strncmp(request.name, "agent", 5) == 0 && parse_i64(request.name + 5, 0, 99, &number, NULL) == 0) {
            index = (size_t)number;
        }
    }
    if (index >= fake->script.agent_count) {
        over(fake, err.text[0] ? err.text : "an enrolment of a stranger");
        http_reply(exchange, 422, NULL, NULL, 0);
        return;
    }
    struct fake_agent *agent = &fake->agent[index];
    agent->enrolled = true;
    agent->revision = 1;
    (void)snprintf(agent->address, sizeof(agent->address), "%s", request.address);
    struct enroll_reply reply = {.protocol = PROTOCOL_VERSION, .interval_ms = INTERVAL_MS};
    device_text(index, reply.device.text);
    reply_record(exchange, &enroll_reply_record, &reply);
    advance(fake);
}

static void take_metrics(struct fake_coordinator *fake, const struct heartbeat *beat)
{
    for (size_t i = 0; i < beat->metric_count; i++) {
        if (beat->metric[i].step < 1 || beat->metric[i].step > TINY_STEPS) {
            over(fake, "a metric of an impossible step");
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
        over(fake, err.text[0] ? err.text : "a heartbeat of a stranger");
        http_reply(exchange, 422, NULL, NULL, 0);
        return;
    }
    agent->beat = *beat;
    take_metrics(fake, beat);
    if (beat->all_holdings) {
        agent->holding_count = beat->holding_count < 64 ? beat->holding_count : 64;
        memcpy(agent->holding, beat->holding, agent->holding_count * sizeof(beat->holding[0]));
    }
    const struct heartbeat_reply reply = {.interval_ms = INTERVAL_MS, .revision = agent->revision};
    reply_record(exchange, &heartbeat_reply_record, &reply);
    if (beat->has_error) {
        over(fake, beat->error.message);
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
        const struct blob *blob = &fake->center[unit];
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
    sha256_text(body, size, hash);
    if (parse_i64(http_query(exchange, "unit"), 0, TINY_UNITS - 1, &unit, NULL) != 0 ||
        parse_i64(http_query(exchange, "version"), 0, TINY_STEPS, &version, NULL) != 0 ||
        strcmp(hash, http_param(exchange, "sha256")) != 0) {
        over(fake, "an upload that is not what it says");
        http_reply(exchange, 422, NULL, NULL, 0);
        return;
    }
    struct blob *blob = &fake->center[unit];
    memcpy(blob->data, body, size);
    memcpy(blob->sha256, hash, sizeof(hash));
    memcpy(fake->result.unit_sha256[unit], hash, sizeof(hash));
    blob->size = size;
    blob->version = version;
    http_reply(exchange, 204, NULL, NULL, 0);
    advance(fake);
}

static void answer_bad(void *context, struct http_exchange *exchange)
{
    over(context, "a request to a route that does not exist");
    http_reply(exchange, 404, NULL, NULL, 0);
}

static const struct http_route routes[] = {
    {.method = "POST", .pattern = "/v1/agent/enroll", .handle = answer_enroll, .body_max = 1 << 20},
    {.method = "POST", .pattern = "/v1/agent/heartbeat", .handle = answer_beat, .body_max = 1 << 20},
    {.method = "GET", .pattern = "/v1/agent/assignment", .handle = answer_assignment},
    {.method = "GET", .pattern = "/v1/agent/datasets/{sha256}/content", .handle = answer_data},
    {.method = "GET", .pattern = "/v1/agent/blobs/{sha256}", .handle = answer_blob_get},
    {.method = "PUT", .pattern = "/v1/agent/blobs/{sha256}", .handle = answer_blob_put, .body_max = BLOB_MAX},
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

struct fake_coordinator *fake_start(const struct fake_script *script, const struct tiny_data *train,
                                    const struct tiny_data *test)
{
    struct fake_coordinator *fake = calloc(1, sizeof(*fake));
    assert_non_null(fake);
    fake->script = *script;
    fake->train = train;
    fake->test = test;
    tiny_result_init(&fake->result);
    fake->stop_fd = eventfd(0, EFD_CLOEXEC);
    fake->over_fd = eventfd(0, EFD_CLOEXEC);
    assert_true(fake->stop_fd >= 0 && fake->over_fd >= 0);
    struct http_server_config config = {
        .routes = routes,
        .route_count = sizeof(routes) / sizeof(routes[0]),
        .fallbacks = {answer_bad, answer_bad, answer_bad, answer_bad},
        .context = fake,
        .connections_max = 64,
        .idle_timeout_ms = 60000,
    };
    struct err err = {0};
    assert_ok(address_parse("127.0.0.1:0", &config.listen, &err), &err);
    assert_ok(http_server_open(&config, &fake->server, &err), &err);
    (void)snprintf(fake->url, sizeof(fake->url), "http://%s", http_server_address(fake->server)->text);
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
        (void)snprintf(fake->problem, sizeof(fake->problem), "still in state %d of generation %zu after %d s",
                       (int)fake->state, fake->generation + 1, WAIT_MS / 1000);
    }
    return fake->problem[0] ? fake->problem : NULL;
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
    free(*fake);
    *fake = NULL;
}
