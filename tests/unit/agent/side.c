#include "tests/unit/agent/side.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/test.h"

const float side_values[4 * 8 * 8 * 4 + 1] = {0};

static void let_in(struct side *device)
{
    struct assignment *assignment = calloc(1, sizeof(*assignment));
    assert_non_null(assignment);
    assignment->has_run = true;
    (void)snprintf(assignment->run.job.text, ID_SIZE, SIDE_JOB);
    assignment->run.generation = SIDE_GENERATION;
    assignment->run.replica_bytes = SIDE_REPLICA_BYTES;
    assignment->caller_count = 1;
    (void)snprintf(assignment->caller[0].job.text, ID_SIZE, SIDE_JOB);
    assignment->caller[0].generation = SIDE_GENERATION;
    (void)snprintf(assignment->caller[0].ticket, TICKET_SIZE, SIDE_TICKET);
    access_set_callers(device->access, assignment);
    free(assignment);
}

static void make_stage(struct side *device, size_t index, enum codec codec)
{
    const struct job_spec spec = tiny_spec();
    const bool last = index == 1;
    struct stage_config config = tiny_whole(&spec);
    config.job = (struct job_id){SIDE_JOB};
    config.generation = SIDE_GENERATION;
    config.index = index;
    config.count = 2;
    config.first = last ? SIDE_BORDER : 0;
    config.end = last ? TINY_UNITS : SIDE_BORDER;
    config.in_flight = last ? 1 : 2;
    config.previous_in_flight = last ? 2 : 0;
    config.codec[last ? STAGE_TO_PREVIOUS : STAGE_TO_NEXT] = codec;
    config.room_fd = peer_server_room_fd(device->server);
    device->stage = tiny_stage(&config);
    access_set_work(device->access, stage_work(device->stage));
}

static void ignore_change(void *arg)
{
    (void)arg;
}

static void open_side(struct side *device, size_t stage, enum codec codec, const char *directory)
{
    struct peer_server_config peers = {0};
    struct err err = {0};
    memset(device, 0, sizeof(*device));
    assert_ok(address_parse("127.0.0.1:0", &peers.listen, &err), &err);
    assert_ok(access_new(&device->access, &err), &err);
    assert_ok(snapshot_store_new(directory, &device->snapshots, &err), &err);
    assert_ok(snapshot_routes_open(device->access, device->snapshots, &device->routes, &err), &err);
    peers.access = device->access;
    peers.more = &device->routes;
    peers.more_count = 1;
    assert_ok(peer_server_open(&peers, &device->server, &err), &err);
    assert_ok(http_client_new(&device->client, &err), &err);
    assert_ok(troubles_new(ignore_change, NULL, &device->troubles, &err), &err);
    (void)snprintf(device->url, sizeof(device->url), "http://%s",
                   peer_server_address(device->server)->text);
    let_in(device);
    make_stage(device, stage, codec);
}

void side_open(struct side *device, size_t stage, const char *directory)
{
    open_side(device, stage, CODEC_NONE, directory);
}

void side_open_coded(struct side *device, size_t stage, enum codec codec)
{
    open_side(device, stage, codec, NULL);
}

void side_close(struct side *device)
{
    http_client_free(&device->client);
    access_set_work(device->access, NULL);
    stage_release(&device->stage);
    peer_server_close(&device->server);
    device->routes.free(device->routes.context);
    access_free(&device->access);
    snapshot_store_free(&device->snapshots);
    troubles_free(&device->troubles);
}

/* ---- calls ---- */

int side_call(struct side *device, const char *method, const char *path, const char *ticket,
              const void *header, size_t header_size, const void *data, size_t data_size)
{
    char url[512];
    BUF_AUTO struct buf reply;
    struct http_result result;
    struct err err = {0};
    buf_init(&reply, sizeof(device->reply) - 1);
    (void)snprintf(url, sizeof(url), "%s%s", device->url, path);
    const struct http_call http = {.method = method,
                                   .url = url,
                                   .bearer = ticket,
                                   .body = {{header, header_size}, {data, data_size}},
                                   .reply = &reply};
    assert_ok(http_client_call(device->client, &http, &result, &err), &err);
    (void)snprintf(device->reply, sizeof(device->reply), "%s", reply.data ? reply.data : "");
    return result.status;
}

int side_get(struct side *device, const char *path, const char *ticket)
{
    return side_call(device, "GET", path, ticket, NULL, 0, NULL, 0);
}

int side_put_tensor(struct side *device, const char *kind, int64_t step, size_t micro_batch,
                    size_t samples)
{
    const struct transfer transfer = {TRANSFER_ACTIVATION, step, micro_batch};
    struct work_tensor tensor = stage_expect(device->stage, &transfer);
    char header[MESSAGE_HEADER_MAX];
    char path[256];
    tensor.samples = samples;
    const size_t data_size = message_data_bytes(&tensor);
    assert_true(data_size <= sizeof(side_values));
    const size_t size =
        message_write_header(&tensor, &(struct message_note){.last = samples == 0}, header);
    (void)snprintf(path, sizeof(path), "/peer/v1/%s/%d/%lld/%zu/%d/%s", SIDE_JOB, SIDE_GENERATION,
                   (long long)step, micro_batch, SIDE_BORDER, kind);
    return side_call(device, "PUT", path, SIDE_TICKET, header, size, side_values, data_size);
}

int side_put_half(const struct side *device, const char *path, size_t body_size)
{
    const struct address *address = peer_server_address(device->server);
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address->storage, address->length), 0);
    char request[768];
    const int size = snprintf(request, sizeof(request),
                              "PUT %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " SIDE_TICKET
                              "\r\nContent-Length: %zu\r\n\r\nhalf",
                              path, body_size);
    assert_int_equal(write(fd, request, (size_t)size), size);
    return fd;
}
