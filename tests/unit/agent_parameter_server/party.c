#include "tests/unit/agent_parameter_server/party.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/parameter_server/member_loop.h"
#include "tests/support/test.h"
#include "tests/unit/agent/tiny.h"

#define REPLY_MAX (1 << 20)

const char *const party_ticket[PARTY_STAGES + 1] = {"ticket-0", "ticket-1", "ticket-2",
                                                    "ticket-of-a-stranger"};
static const char *const device[PARTY_STAGES + 1] = {"dev_0", "dev_1", "dev_2", "dev_x"};
const float party_zeros[8192] = {0};

struct assignment_run *party_run(size_t stage, int64_t peer_ms)
{
    static const struct assigned_stage stages[PARTY_STAGES] = {
        {.first = 0, .end = TINY_UNITS},
        {.first = TINY_UNITS, .end = TINY_UNITS, .share_first = 0, .share_end = 2},
        {.first = TINY_UNITS, .end = TINY_UNITS, .share_first = 2, .share_end = 4},
    };
    struct assignment_run *run = calloc(1, sizeof(*run));
    assert_non_null(run);
    (void)snprintf(run->job.text, ID_SIZE, PARTY_JOB);
    run->generation = PARTY_GENERATION;
    run->stage_index = (int64_t)stage;
    run->stage_count = PARTY_STAGES;
    run->stages_listed = PARTY_STAGES;
    for (size_t s = 0; s < PARTY_STAGES; s++) {
        run->stage[s] = stages[s];
        (void)snprintf(run->stage[s].peer.device.text, ID_SIZE, "%s", device[s]);
        (void)snprintf(run->stage[s].peer.ticket, TICKET_SIZE, "%s", party_ticket[stage]);
    }
    run->first = stages[stage].first;
    run->end = stages[stage].end;
    run->in_flight = 1;
    run->step_ms = run->peer_ms = peer_ms;
    run->total_steps = TINY_STEPS;
    run->job_spec = tiny_spec();
    run->job_spec.strategy = STRATEGY_PARAMETER_SERVER;
    run->data = (struct job_data){.train_samples = TINY_SAMPLES, .test_samples = TINY_TESTS};
    return run;
}

struct member *party_member(const struct assignment_run *run, int room_fd)
{
    const struct tiny_data *train = &tiny_job()->train;
    const struct tiny_data *test = &tiny_job()->test;
    const struct work_config config = {
        .run = run,
        .data = {train->inputs, test->inputs, train->labels, test->labels},
        .threads = 1,
        .slowdown = 1,
        .room_fd = room_fd};
    struct model *model = tiny_model();
    struct member *member = NULL;
    struct err err = {0};
    for (size_t unit = 0; unit < run->job_spec.freeze_count; unit++) {
        model->unit[unit].frozen = true;
    }
    assert_ok(member_new(&config, &model, &member, &err), &err);
    for (size_t unit = 0; unit < TINY_UNITS; unit++) {
        assert_ok(keeper_load_unit(member_work(member)->keeper, unit, NULL, 0, &err), &err);
    }
    member_follow(member, &(struct orders){.run = true});
    return member;
}

static void let_in(struct party *party)
{
    struct assignment *assignment = calloc(1, sizeof(*assignment));
    assert_non_null(assignment);
    assignment->has_run = true;
    (void)snprintf(assignment->run.job.text, ID_SIZE, PARTY_JOB);
    assignment->run.generation = PARTY_GENERATION;
    for (size_t i = 1; i <= PARTY_STAGES; i++) {
        struct caller *caller = &assignment->caller[assignment->caller_count++];
        caller->generation = PARTY_GENERATION;
        (void)snprintf(caller->job.text, ID_SIZE, PARTY_JOB);
        (void)snprintf(caller->device.text, ID_SIZE, "%s", device[i]);
        (void)snprintf(caller->ticket, TICKET_SIZE, "%s", party_ticket[i]);
    }
    access_set_callers(party->access, assignment);
    free(assignment);
}

void party_open(struct party *party, int64_t peer_ms)
{
    struct peer_server_config peers = {0};
    struct err err = {0};
    memset(party, 0, sizeof(*party));
    buf_init(&party->reply, REPLY_MAX);
    assert_ok(address_parse("127.0.0.1:0", &peers.listen, &err), &err);
    assert_ok(access_new(&party->access, &err), &err);
    assert_ok(exchange_routes_open(party->access, &party->routes, &err), &err);
    peers.access = party->access;
    peers.more = &party->routes;
    peers.more_count = 1;
    assert_ok(peer_server_open(&peers, &party->server, &err), &err);
    assert_ok(http_client_new(&party->client, &err), &err);
    (void)snprintf(party->url, sizeof(party->url), "http://%s",
                   peer_server_address(party->server)->text);
    let_in(party);
    party->run = party_run(0, peer_ms);
    party->member = party_member(party->run, peer_server_room_fd(party->server));
    access_set_work(party->access, member_work(party->member));
}

static void take_metric(void *arg, const struct metric *metric)
{
    struct party *party = arg;
    if (metric->name == METRIC_LOSS) {
        party->loss = metric->value;
    }
}

static void *compute(void *arg)
{
    struct party *party = arg;
    const struct work_listener listener = {.metric = take_metric, .arg = party};
    int64_t version = 0;
    party->rc = member_loop(party->member, &listener, &version, &party->err);
    atomic_store(&party->ended, true);
    return NULL;
}

void party_compute(struct party *party)
{
    assert_int_equal(pthread_create(&party->thread, NULL, compute, party), 0);
    party->computes = true;
}

void party_wait(struct party *party)
{
    assert_true(party->computes);
    assert_int_equal(pthread_join(party->thread, NULL), 0);
    party->computes = false;
}

void party_close(struct party *party)
{
    http_client_free(&party->client);
    member_cancel(party->member);
    if (party->computes) {
        party_wait(party);
    }
    access_set_work(party->access, NULL);
    struct work *work = member_work(party->member);
    work_release(&work);
    peer_server_close(&party->server);
    party->routes.free(party->routes.context);
    access_free(&party->access);
    buf_done(&party->reply);
    free(party->run);
}

/* ---- calls ---- */

int party_call(struct party *party, size_t from, const char *method, const char *path,
               const void *header, size_t header_size, const void *data, size_t data_size)
{
    char url[512];
    struct http_result result;
    struct err err = {0};
    (void)snprintf(url, sizeof(url), "%s%s", party->url, path);
    const struct http_call http = {.method = method,
                                   .url = url,
                                   .bearer = party_ticket[from],
                                   .body = {{header, header_size}, {data, data_size}},
                                   .reply = &party->reply,
                                   .stall_ms = 20000};
    assert_ok(http_client_call(party->client, &http, &result, &err), &err);
    return result.status;
}

int party_get(struct party *party, size_t from, const char *path)
{
    return party_call(party, from, "GET", path, NULL, 0, NULL, 0);
}

struct exchange_message party_sum(size_t worker, int64_t step, size_t first, size_t end)
{
    return (struct exchange_message){.kind = EXCHANGE_CONTRIBUTION,
                                     .from = worker,
                                     .step = step,
                                     .block = worker - 1,
                                     .first = first,
                                     .end = end,
                                     .done = first == 0};
}

int party_put(struct party *party, const struct exchange_message *message, const void *data)
{
    char header[BODY_HEADER_MAX];
    const struct job_id job = {PARTY_JOB};
    const struct message_path path = message_kind_path("", &job, PARTY_GENERATION, message);
    const struct body body = member_view(party->member, message, false).body;
    const size_t size = body_write_header(&body, &(struct body_note){0}, header);
    assert_true(body_bytes(&body) <= sizeof(party_zeros));
    return party_call(party, message->from, "PUT", path.text, header, size, data,
                      body_bytes(&body));
}

static void send_head(int fd, size_t from, const char *method, const char *path, size_t size)
{
    char request[768];
    const int length = snprintf(
        request, sizeof(request),
        "%s %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %zu\r\n\r\n",
        method, path, party_ticket[from], size);
    assert_int_equal(write(fd, request, (size_t)length), length);
}

int party_send(const struct party *party, size_t from, const char *method, const char *path,
               size_t size)
{
    const struct address *address = peer_server_address(party->server);
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address->storage, address->length), 0);
    send_head(fd, from, method, path, size);
    return fd;
}

int party_ask(const struct party *party, size_t from, const char *path)
{
    return party_send(party, from, "GET", path, 0);
}

void party_ask_again(int fd, size_t from, const char *path)
{
    send_head(fd, from, "GET", path, 0);
}

size_t party_statistics(struct member *member)
{
    size_t first, end;
    train_statistics_of(keeper_train(member_work(member)->keeper), 0, &first, &end);
    assert_int_equal(first, 0);
    assert_true(end > 0);
    return end;
}
