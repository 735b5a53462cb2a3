/* The peer side over loopback: who is let in, what a body must be, waiting for a slot; and two stages joined by their
 * senders and servers, which allocate nothing once they run. */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/peer/message.h"
#include "agent/peer/sender.h"
#include "agent/peer/server.h"
#include "agent/runtime/stage_loop.h"
#include "base/log.h"
#include "net/http_client.h"
#include "tests/support/test.h"
#include "tests/unit/agent/tiny.h"

#define JOB "job_00000000000000000000000001"
#define GENERATION 4
#define TICKET "ticket-of-a-friend"
#define BORDER 2
#define REPLICA_BYTES 4096

/* ---- counted allocations: every call of ours is linked to these, those inside shared libraries are not ---- */

static atomic_ulong allocations;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);

void *__wrap_malloc(size_t size)
{
    (void)atomic_fetch_add(&allocations, 1);
    return __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    (void)atomic_fetch_add(&allocations, 1);
    return __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    (void)atomic_fetch_add(&allocations, 1);
    return __real_realloc(old, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    (void)atomic_fetch_add(&allocations, 1);
    return __real_aligned_alloc(alignment, size);
}

/* ---- a device: a server and one of two stages ---- */

static struct tiny_data train_data, test_data;
static struct tiny_result expected;

struct side {
    struct access *access;
    struct snapshot_store *snapshots;
    struct peer_server *server;
    struct troubles *troubles;
    struct stage *stage;
    struct http_client *client; /* a neighbour's */
    char url[URL_SIZE];
};

static void let_in(struct side *device)
{
    struct assignment *assignment = calloc(1, sizeof(*assignment));
    assert_non_null(assignment);
    assignment->has_run = true;
    (void)snprintf(assignment->run.job.text, ID_SIZE, JOB);
    assignment->run.generation = GENERATION;
    assignment->run.replica_bytes = REPLICA_BYTES;
    assignment->caller_count = 1;
    (void)snprintf(assignment->caller[0].job.text, ID_SIZE, JOB);
    assignment->caller[0].generation = GENERATION;
    (void)snprintf(assignment->caller[0].ticket, TICKET_SIZE, TICKET);
    access_set_callers(device->access, assignment);
    free(assignment);
}

static void make_stage(struct side *device, size_t index)
{
    const struct job_spec spec = tiny_spec();
    const bool last = index == 1;
    struct stage_config config = tiny_whole(&spec, &train_data, &test_data);
    config.job = (struct job_id){JOB};
    config.generation = GENERATION;
    config.index = index;
    config.count = 2;
    config.first = last ? BORDER : 0;
    config.end = last ? TINY_UNITS : BORDER;
    config.in_flight = last ? 1 : 2;
    config.previous_in_flight = last ? 2 : 0;
    config.room_fd = peer_server_room_fd(device->server);
    device->stage = tiny_stage(&config);
    access_set_stage(device->access, device->stage);
}

static void ignore_change(void *arg)
{
    (void)arg;
}

static void open_device_in(struct side *device, size_t stage, const char *directory)
{
    struct address listen;
    struct err err = {0};
    memset(device, 0, sizeof(*device));
    assert_ok(address_parse("127.0.0.1:0", &listen, &err), &err);
    assert_ok(access_new(&device->access, &err), &err);
    assert_ok(snapshot_store_new(directory, &device->snapshots, &err), &err);
    assert_ok(peer_server_open(&listen, device->access, device->snapshots, &device->server, &err), &err);
    assert_ok(http_client_new(&device->client, &err), &err);
    assert_ok(troubles_new(ignore_change, NULL, &device->troubles, &err), &err);
    (void)snprintf(device->url, sizeof(device->url), "http://%s", peer_server_address(device->server)->text);
    let_in(device);
    make_stage(device, stage);
}

static void open_device(struct side *device, size_t stage)
{
    open_device_in(device, stage, NULL);
}

static void close_device(struct side *device)
{
    http_client_free(&device->client);
    access_set_stage(device->access, NULL);
    stage_release(&device->stage);
    peer_server_close(&device->server);
    access_free(&device->access);
    snapshot_store_free(&device->snapshots);
    troubles_free(&device->troubles);
}

/* ---- calls ---- */

static char reply_text[4096];

static int call(struct side *device, const char *method, const char *path, const char *ticket, const void *header,
                size_t header_size, const void *data, size_t data_size)
{
    char url[512];
    BUF_AUTO struct buf reply;
    struct http_result result;
    struct err err = {0};
    buf_init(&reply, sizeof(reply_text) - 1);
    (void)snprintf(url, sizeof(url), "%s%s", device->url, path);
    const struct http_call http = {.method = method,
                                   .url = url,
                                   .bearer = ticket,
                                   .body = {{header, header_size}, {data, data_size}},
                                   .reply = &reply};
    assert_ok(http_client_call(device->client, &http, &result, &err), &err);
    (void)snprintf(reply_text, sizeof(reply_text), "%s", reply.data ? reply.data : "");
    return result.status;
}

static int get(struct side *device, const char *path, const char *ticket)
{
    return call(device, "GET", path, ticket, NULL, 0, NULL, 0);
}

static float values[4 * 8 * 8 * 4 + 1];

/* PUT a tensor; its header may be that of another number of samples. */
static int put(struct side *device, const char *kind, int64_t step, size_t micro_batch, size_t samples)
{
    const struct transfer transfer = {TRANSFER_ACTIVATION, step, micro_batch};
    struct stage_tensor tensor = stage_expect(device->stage, &transfer);
    char header[MESSAGE_HEADER_MAX];
    char path[256];
    tensor.samples = samples;
    const size_t data_size = message_data_bytes(&tensor);
    assert_true(data_size <= sizeof(values));
    const size_t size = message_write_header(&tensor, &(struct message_note){.last = samples == 0}, header);
    (void)snprintf(path, sizeof(path), "/peer/v1/%s/%d/%lld/%zu/%d/%s", JOB, GENERATION, (long long)step, micro_batch,
                   BORDER, kind);
    return call(device, "PUT", path, TICKET, header, size, values, data_size);
}

static void only_callers_with_a_ticket_are_let_in(void **state)
{
    (void)state;
    struct side device;
    open_device(&device, 1);
    assert_int_equal(get(&device, "/peer/v1/" JOB "/4/ping", NULL), 401);
    assert_holds(reply_text, "ticket_missing");
    assert_int_equal(get(&device, "/peer/v1/" JOB "/4/ping", "ticket-of-a-foe"), 403);
    assert_int_equal(get(&device, "/peer/v1/" JOB "/4/ping", ""), 403);
    assert_int_equal(get(&device, "/peer/v1/" JOB "/4/ping", TICKET), 204);
    assert_int_equal(get(&device, "/peer/v1/" JOB "/3/ping", TICKET), 409);
    assert_holds(reply_text, "stale_generation");
    assert_int_equal(get(&device, "/peer/v1/" JOB "/5/ping", TICKET), 503);
    assert_int_equal(get(&device, "/peer/v1/job_x/4/ping", TICKET), 503);
    assert_int_equal(get(&device, "/peer/v1/" JOB "/four/ping", TICKET), 400);
    assert_int_equal(get(&device, "/peer/v1/" JOB, TICKET), 404);
    assert_int_equal(call(&device, "POST", "/peer/v1/" JOB "/4/ping", TICKET, NULL, 0, NULL, 0), 405);
    close_device(&device);
}

static void snapshots_are_given_to_callers(void **state)
{
    (void)state;
    struct side device;
    struct err err = {0};
    const struct job_id job = {JOB};
    open_device(&device, 1);
    struct holding holding = {.job = job, .generation = 3, .version = 9, .unit = 2, .bytes = 17};
    sha256_text("weights of unit 2", 17, holding.sha256);
    assert_ok(snapshot_keep(device.snapshots, &holding, SNAPSHOT_OWN, strdup("weights of unit 2"), NULL, &err), &err);
    assert_int_equal(get(&device, "/peer/v1/" JOB "/4/snapshots/9/2", NULL), 401);
    assert_int_equal(get(&device, "/peer/v1/" JOB "/4/snapshots/9/2", TICKET), 200);
    assert_string_equal(reply_text, "weights of unit 2");
    assert_int_equal(get(&device, "/peer/v1/" JOB "/4/snapshots/9/3", TICKET), 404);
    close_device(&device);
}

/* PUT a replica of unit 2; body NULL: ask whether the same bytes are there. */
static int put_replica(struct side *device, int64_t version, const char *blob, bool body)
{
    char path[512];
    char hash[HASH_TEXT_SIZE];
    sha256_text(blob, strlen(blob), hash);
    (void)snprintf(path, sizeof(path), "/peer/v1/" JOB "/%d/snapshots/%lld/2?sha256=%s&bytes=%zu", GENERATION,
                   (long long)version, hash, strlen(blob));
    return call(device, "PUT", path, TICKET, blob, body ? strlen(blob) : 0, NULL, 0);
}

static void replicas_are_asked_for_taken_and_given_back(void **state)
{
    const char *directories[] = {NULL, *state};
    for (size_t i = 0; i < 2; i++) {
        struct side device;
        open_device_in(&device, 1, directories[i]);
        assert_int_equal(put_replica(&device, 9, "weights of unit 2", false), 404);
        assert_holds(reply_text, "unknown_blob");
        assert_int_equal(put_replica(&device, 9, "weights of unit 2", true), 204);
        assert_int_equal(put_replica(&device, 9, "weights of unit 2", true), 204);
        assert_int_equal(put_replica(&device, 10, "weights of unit 2", false), 204);
        assert_int_equal(get(&device, "/peer/v1/" JOB "/4/snapshots/10/2", TICKET), 200);
        assert_string_equal(reply_text, "weights of unit 2");
        static struct holding list[HOLDINGS_MAX];
        assert_int_equal(snapshot_list(device.snapshots, list), 2);
        assert_int_equal(list[0].generation, GENERATION);
        snapshot_drop(device.snapshots, &(struct drop){.job = {JOB}, .below_version = INT64_MAX});
        close_device(&device);
    }
}

static void a_replica_that_is_not_what_it_says_is_refused(void **state)
{
    (void)state;
    struct side device;
    char hash[HASH_TEXT_SIZE];
    char path[512];
    static const char base[] = "/peer/v1/" JOB "/4/snapshots/9/2";
    open_device(&device, 1);
    sha256_text("other", 5, hash);
    (void)snprintf(path, sizeof(path), "%s?sha256=%s&bytes=5", base, hash);
    assert_int_equal(call(&device, "PUT", path, TICKET, "bytes", 5, NULL, 0), 422);
    assert_holds(reply_text, "another hash");
    assert_int_equal(call(&device, "PUT", path, TICKET, "byte", 4, NULL, 0), 422);
    assert_int_equal(call(&device, "PUT", path, NULL, "other", 5, NULL, 0), 401);
    assert_int_equal(call(&device, "PUT", base, TICKET, "other", 5, NULL, 0), 400);
    (void)snprintf(path, sizeof(path), "%s?sha256=%s&bytes=0", base, hash);
    assert_int_equal(call(&device, "PUT", path, TICKET, "", 0, NULL, 0), 400);
    (void)snprintf(path, sizeof(path), "/peer/v1/" JOB "/4/snapshots/9007199254740993/2?sha256=%s&bytes=5", hash);
    assert_int_equal(call(&device, "PUT", path, TICKET, "other", 5, NULL, 0), 400);
    (void)snprintf(path, sizeof(path), "/peer/v1/" JOB "/3/snapshots/9/2?sha256=%s&bytes=5", hash);
    assert_int_equal(call(&device, "PUT", path, TICKET, "other", 5, NULL, 0), 409);
    (void)snprintf(path, sizeof(path), "/peer/v1/" JOB "/5/snapshots/9/2?sha256=%s&bytes=5", hash);
    assert_int_equal(call(&device, "PUT", path, TICKET, "other", 5, NULL, 0), 503);
    assert_int_equal(put_replica(&device, 9, "other", true), 204);
    close_device(&device);
}

static void replicas_stay_within_their_bound(void **state)
{
    (void)state;
    struct side device;
    char blob[REPLICA_BYTES / 2 + 1];
    open_device(&device, 1);
    memset(blob, 'a', sizeof(blob) - 1);
    blob[sizeof(blob) - 1] = '\0';
    assert_int_equal(put_replica(&device, 1, blob, true), 204);
    blob[0] = 'b';
    assert_int_equal(put_replica(&device, 2, blob, true), 204);
    blob[0] = 'c';
    assert_int_equal(put_replica(&device, 3, blob, false), 507);
    assert_holds(reply_text, "no_room");
    assert_int_equal(put_replica(&device, 3, blob, true), 507);
    snapshot_drop(device.snapshots, &(struct drop){.job = {JOB}, .below_version = 2});
    assert_int_equal(put_replica(&device, 3, blob, true), 204);
    close_device(&device);
}

/* Begin a PUT and send half of its body. */
static int put_half(const struct side *device, const char *path, size_t body_size)
{
    const struct address *address = peer_server_address(device->server);
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address->storage, address->length), 0);
    char request[768];
    const int size =
        snprintf(request, sizeof(request),
                 "PUT %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " TICKET "\r\nContent-Length: %zu\r\n\r\nhalf",
                 path, body_size);
    assert_int_equal(write(fd, request, (size_t)size), size);
    return fd;
}

static void a_body_that_its_sender_gave_up_takes_no_room(void **state)
{
    (void)state;
    struct side device;
    char blob[REPLICA_BYTES / 2 + 1];
    char path[512];
    char hash[HASH_TEXT_SIZE];
    open_device(&device, 1);
    memset(blob, 'a', sizeof(blob) - 1);
    blob[sizeof(blob) - 1] = '\0';
    sha256_text(blob, sizeof(blob) - 1, hash);
    (void)snprintf(path, sizeof(path), "/peer/v1/" JOB "/%d/snapshots/1/2?sha256=%s&bytes=%zu", GENERATION, hash,
                   sizeof(blob) - 1);
    const int fd = put_half(&device, path, sizeof(blob) - 1);
    assert_int_equal(put_replica(&device, 1, blob, true), 204);
    blob[0] = 'b';
    assert_int_equal(put_replica(&device, 2, blob, true), 204);
    /* The rest of it comes late, and harms nobody. */
    assert_true(write(fd, blob, sizeof(blob) - 1 - strlen("half")) > 0);
    (void)snprintf(path, sizeof(path), "/peer/v1/" JOB "/%d/snapshots/2/2", GENERATION);
    assert_int_equal(get(&device, path, TICKET), 200);
    assert_string_equal(reply_text, blob);
    (void)close(fd);
    close_device(&device);
}

static void a_replica_of_a_version_that_was_cut_off_is_stale(void **state)
{
    (void)state;
    struct side device;
    open_device(&device, 1);
    snapshot_cut(device.snapshots, &(struct job_id){JOB}, GENERATION + 1, 8);
    assert_int_equal(put_replica(&device, 9, "weights of unit 2", true), 409);
    assert_int_equal(put_replica(&device, 8, "weights of unit 2", true), 204);
    close_device(&device);
}

static void a_damaged_file_is_not_given_away(void **state)
{
    struct side device;
    char path[TEST_PATH_MAX];
    char hash[HASH_TEXT_SIZE];
    BUF_AUTO struct buf reply;
    struct http_result result;
    struct err err = {0};
    open_device_in(&device, 1, *state);
    assert_int_equal(put_replica(&device, 9, "weights of unit 2", true), 204);
    sha256_text("weights of unit 2", 17, hash);
    (void)snprintf(path, sizeof(path), "%s/" JOB "/9-2-%d-%s.blob", (const char *)*state, GENERATION, hash);
    FILE *file = fopen(path, "r+e");
    assert_non_null(file);
    assert_int_equal(fputc('W', file), 'W');
    assert_int_equal(fclose(file), 0);
    char url[512];
    (void)snprintf(url, sizeof(url), "%s/peer/v1/" JOB "/4/snapshots/9/2", device.url);
    buf_init(&reply, 4096);
    const struct http_call http = {.method = "GET", .url = url, .bearer = TICKET, .reply = &reply};
    assert_true(http_client_call(device.client, &http, &result, &err) < 0);
    assert_int_equal(get(&device, "/peer/v1/" JOB "/4/snapshots/9/2", TICKET), 404);
    close_device(&device);
}

/* ---- neighbours in trouble ---- */

static void sender_failed(void *arg, const struct err *why)
{
    (void)arg;
    print_error("%s\n", why->text);
}

static struct sender *start_patient_sender(struct side *from, struct side *to, enum stage_direction direction,
                                           int64_t peer_ms)
{
    struct sender_config config = {.stage = from->stage,
                                   .direction = direction,
                                   .peer_ms = peer_ms,
                                   .troubles = from->troubles,
                                   .failed = sender_failed};
    struct sender *sender = NULL;
    struct err err = {0};
    (void)snprintf(config.peer.url, sizeof(config.peer.url), "%s", to->url);
    (void)snprintf(config.peer.device.text, ID_SIZE, "dev_%s", direction == STAGE_TO_NEXT ? "next" : "previous");
    (void)snprintf(config.peer.ticket, sizeof(config.peer.ticket), TICKET);
    assert_ok(sender_start(&config, &sender, &err), &err);
    return sender;
}

static struct sender *start_sender(struct side *from, struct side *to, enum stage_direction direction)
{
    return start_patient_sender(from, to, direction, 20000);
}

static size_t wait_for_trouble(struct side *device, struct peer_report out[PEER_REPORTS_MAX], size_t count)
{
    struct cancel pause;
    struct err err = {0};
    assert_ok(cancel_init(&pause, &err), &err);
    size_t found = troubles_list(device->troubles, out);
    for (int i = 0; i < 2000 && found != count; i++) {
        (void)cancel_wait(&pause, 5000000);
        found = troubles_list(device->troubles, out);
    }
    cancel_done(&pause);
    return found;
}

static void a_sender_tells_of_a_neighbour_that_is_gone_and_goes_on_when_it_is_back(void **state)
{
    (void)state;
    struct side device[2];
    struct peer_report report[PEER_REPORTS_MAX];
    open_device(&device[0], 0);
    open_device(&device[1], 1);
    struct sender *sender = start_sender(&device[0], &device[1], STAGE_TO_NEXT);
    const struct address listened = *peer_server_address(device[1].server);
    peer_server_close(&device[1].server);
    /* Nothing is to be sent: it asks. */
    assert_int_equal(wait_for_trouble(&device[0], report, 1), 1);
    assert_string_equal(report[0].device.text, "dev_next");
    assert_int_equal(report[0].kind, PEER_REFUSED);
    struct err err = {0};
    assert_ok(peer_server_open(&listened, device[1].access, device[1].snapshots, &device[1].server, &err), &err);
    assert_int_equal(wait_for_trouble(&device[0], report, 0), 0);
    stage_cancel(device[0].stage);
    sender_free(&sender);
    close_device(&device[0]);
    close_device(&device[1]);
}

static void a_neighbour_that_says_nothing_stalls(void **state)
{
    (void)state;
    struct side device;
    struct side silent = {.url = ""};
    struct peer_report report[PEER_REPORTS_MAX];
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    (void)snprintf(silent.url, sizeof(silent.url), "http://127.0.0.1:%d", ntohs(address.sin_port));
    open_device(&device, 0);
    struct sender *sender = start_patient_sender(&device, &silent, STAGE_TO_NEXT, 300);
    assert_int_equal(wait_for_trouble(&device, report, 1), 1);
    assert_int_equal(report[0].kind, PEER_STALLED);
    stage_cancel(device.stage);
    sender_free(&sender);
    (void)close(fd);
    close_device(&device);
}

static void a_tensor_and_its_repeat_are_taken(void **state)
{
    (void)state;
    struct side device;
    open_device(&device, 1);
    assert_int_equal(put(&device, "activation", 1, 0, 4), 204);
    assert_int_equal(put(&device, "activation", 1, 0, 4), 204);
    assert_int_equal(put(&device, "activation", 1, 1, 4), 204);
    close_device(&device);
}

static void tensors_that_are_not_expected_are_refused(void **state)
{
    (void)state;
    struct side device;
    open_device(&device, 1);
    assert_int_equal(put(&device, "activation", 1, 0, 3), 422);
    assert_int_equal(put(&device, "activation", 1, 0, 0), 422);
    assert_int_equal(put(&device, "activation", 5, 0, 4), 422);
    assert_int_equal(put(&device, "gradient", 1, 0, 4), 422);
    assert_int_equal(put(&device, "evaluation", 3, 0, 4), 422);
    assert_int_equal(put(&device, "rumour", 1, 0, 4), 400);
    /* A mark that is not the empty tensor behind the last micro-batch, and the other way round. */
    assert_int_equal(put(&device, "activation", 1, 4, 4), 422);
    assert_int_equal(put(&device, "activation", 1, 0, 4), 204);
    close_device(&device);
}

static void a_body_with_a_wrong_header_leaves_its_slot_free(void **state)
{
    (void)state;
    struct side device;
    char header[MESSAGE_HEADER_MAX];
    open_device(&device, 1);
    const struct transfer transfer = {TRANSFER_ACTIVATION, 1, 0};
    const struct stage_tensor tensor = stage_expect(device.stage, &transfer);
    const struct message_note none = {0};
    const size_t size = message_write_header(&tensor, &none, header);
    static const char path[] = "/peer/v1/" JOB "/4/1/0/2/activation";
    header[12] = '?';
    assert_int_equal(call(&device, "PUT", path, TICKET, header, size, values, message_data_bytes(&tensor)), 422);
    memset(header, 0xff, 8);
    assert_int_equal(call(&device, "PUT", path, TICKET, header, size, values, message_data_bytes(&tensor)), 422);
    /* One more byte of data than the header says. */
    (void)message_write_header(&tensor, &none, header);
    assert_int_equal(call(&device, "PUT", path, TICKET, header, size, values, message_data_bytes(&tensor) + 1), 422);
    assert_int_equal(put(&device, "activation", 1, 0, 4), 204);
    close_device(&device);
}

static void a_connection_that_breaks_leaves_its_slot_free(void **state)
{
    (void)state;
    struct side device;
    open_device(&device, 1);
    const struct transfer transfer = {TRANSFER_ACTIVATION, 1, 0};
    const struct stage_tensor tensor = stage_expect(device.stage, &transfer);
    const int fd = put_half(&device, "/peer/v1/" JOB "/4/1/0/2/activation", message_data_bytes(&tensor) + 128);
    /* The same tensor by another connection wins, whether or not the first is known to be dead. */
    assert_int_equal(put(&device, "activation", 1, 0, 4), 204);
    (void)close(fd);
    assert_int_equal(put(&device, "activation", 1, 1, 4), 204);
    close_device(&device);
}

static void a_full_slot_is_waited_for_but_not_for_ever(void **state)
{
    (void)state;
    struct side device;
    open_device(&device, 1);
    assert_int_equal(put(&device, "activation", 1, 0, 4), 204);
    assert_int_equal(put(&device, "activation", 1, 1, 4), 204);
    assert_int_equal(put(&device, "activation", 1, 2, 4), 503);
    assert_holds(reply_text, "no_room");
    close_device(&device);
}

/* ---- two stages ---- */

struct compute {
    struct stage *stage;
    struct tiny_result *result;
    unsigned long warm, end; /* allocations at two of its steps */
    int rc;
    struct err err;
    pthread_t thread;
};

static void take_metric(void *arg, const struct metric *metric)
{
    struct compute *compute = arg;
    tiny_result_add(compute->result, metric);
    if (metric->name == METRIC_LOSS && metric->step == 4) {
        compute->warm = atomic_load(&allocations);
    } else if (metric->name == METRIC_LOSS && metric->step == TINY_STEPS) {
        compute->end = atomic_load(&allocations);
    }
}

static void *compute(void *arg)
{
    struct compute *compute = arg;
    const struct stage_listener listener = {.metric = take_metric, .arg = compute};
    int64_t version = 0;
    compute->rc = stage_loop(compute->stage, &listener, &version, &compute->err);
    return NULL;
}

static void start_compute(struct compute *compute_, struct stage *stage, struct tiny_result *result)
{
    memset(compute_, 0, sizeof(*compute_));
    compute_->stage = stage;
    compute_->result = result;
    stage_run(stage);
    assert_int_equal(pthread_create(&compute_->thread, NULL, compute, compute_), 0);
}

static void a_slot_that_gets_free_lets_the_next_tensor_in(void **state)
{
    (void)state;
    struct side device;
    struct compute last;
    struct tiny_result result;
    tiny_result_init(&result);
    open_device(&device, 1);
    assert_int_equal(put(&device, "activation", 1, 0, 4), 204);
    assert_int_equal(put(&device, "activation", 1, 1, 4), 204);
    start_compute(&last, device.stage, &result);
    /* Its gradients are never fetched: two buffers' worth of work is done, no more. */
    assert_int_equal(put(&device, "activation", 1, 2, 4), 204);
    stage_cancel(device.stage);
    assert_int_equal(pthread_join(last.thread, NULL), 0);
    assert_int_equal(last.rc, ERR_CANCELLED);
    close_device(&device);
}

static void two_joined_stages_come_to_the_same_bits_and_allocate_nothing(void **state)
{
    (void)state;
    struct side device[2];
    struct compute stage[2];
    struct tiny_result result;
    tiny_result_init(&result);
    open_device(&device[0], 0);
    open_device(&device[1], 1);
    struct sender *forward = start_sender(&device[0], &device[1], STAGE_TO_NEXT);
    struct sender *backward = start_sender(&device[1], &device[0], STAGE_TO_PREVIOUS);
    start_compute(&stage[0], device[0].stage, &result);
    start_compute(&stage[1], device[1].stage, &result);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(stage[i].thread, NULL), 0);
        assert_ok(stage[i].rc, &stage[i].err);
    }
    assert_int_equal(stage[1].end - stage[1].warm, 0);
    for (int64_t step = 1; step <= TINY_STEPS; step++) {
        assert_memory_equal(&result.loss[step], &expected.loss[step], sizeof(double));
    }
    struct link_report link;
    assert_true(sender_take_link(forward, &link));
    assert_int_equal(link.count, TINY_STEPS * 4);
    assert_true(link.seconds_sum > 0);
    assert_false(sender_take_link(forward, &link));
    for (int i = 0; i < 2; i++) {
        stage_cancel(device[i].stage);
    }
    sender_free(&forward);
    sender_free(&backward);
    close_device(&device[0]);
    close_device(&device[1]);
}

static int prepare(void **state)
{
    (void)state;
    log_set_level(LOG_LEVEL_ERROR);
    tiny_make_data(&train_data, TINY_SAMPLES, 1);
    tiny_make_data(&test_data, TINY_TESTS, 2);
    tiny_reference(&train_data, &test_data, &expected);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_callers_with_a_ticket_are_let_in),
        cmocka_unit_test(snapshots_are_given_to_callers),
        test_with_directory(replicas_are_asked_for_taken_and_given_back),
        cmocka_unit_test(a_replica_that_is_not_what_it_says_is_refused),
        cmocka_unit_test(replicas_stay_within_their_bound),
        cmocka_unit_test(a_body_that_its_sender_gave_up_takes_no_room),
        cmocka_unit_test(a_replica_of_a_version_that_was_cut_off_is_stale),
        test_with_directory(a_damaged_file_is_not_given_away),
        cmocka_unit_test(a_sender_tells_of_a_neighbour_that_is_gone_and_goes_on_when_it_is_back),
        cmocka_unit_test(a_neighbour_that_says_nothing_stalls),
        cmocka_unit_test(a_tensor_and_its_repeat_are_taken),
        cmocka_unit_test(tensors_that_are_not_expected_are_refused),
        cmocka_unit_test(a_body_with_a_wrong_header_leaves_its_slot_free),
        cmocka_unit_test(a_connection_that_breaks_leaves_its_slot_free),
        cmocka_unit_test(a_full_slot_is_waited_for_but_not_for_ever),
        cmocka_unit_test(a_slot_that_gets_free_lets_the_next_tensor_in),
        cmocka_unit_test(two_joined_stages_come_to_the_same_bits_and_allocate_nothing),
    };
    return cmocka_run_group_tests(tests, prepare, NULL);
}
