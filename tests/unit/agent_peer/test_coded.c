/* Coded tensors over loopback: what a link with a codec takes, and what a hostile neighbour gets.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "tests/support/test.h"
#include "tests/unit/agent/side.h"

#define VALUES (4 * 8 * 8 * 4) /* of an activation at SIDE_BORDER */
#define GROUPS 4

/* A coder of the neighbour, with an activation in its buffer. */
struct parcel {
    struct coder *coder;
    size_t size;
};

static struct parcel pack(enum codec codec)
{
    struct parcel parcel = {0};
    float values[VALUES];
    struct err err = {0};
    for (size_t i = 0; i < VALUES; i++) {
        values[i] = i % 3 ? (float)(i % 50) : 0;
    }
    assert_ok(coder_new(codec, VALUES, &parcel.coder, &err), &err);
    parcel.size = coder_encode(parcel.coder, CODER_ACTIVATION, values, VALUES);
    return parcel;
}

/* PUT the first `size` bytes of a parcel's buffer as the activation of a micro-batch of step 1. */
static int put(struct side *device, struct parcel *parcel, enum codec named, size_t size,
               size_t micro_batch)
{
    char header[MESSAGE_HEADER_MAX];
    char path[256];
    const struct work_tensor tensor = {
        .samples = 4, .shape = {.h = 8, .w = 8, .c = 4}, .codec = named};
    const struct message_note note = {.coded_bytes = size};
    (void)snprintf(path, sizeof(path), "/peer/v1/%s/%d/1/%zu/%d/activation", SIDE_JOB,
                   SIDE_GENERATION, micro_batch, SIDE_BORDER);
    return side_call(device, "PUT", path, SIDE_TICKET, header,
                     message_write_header(&tensor, &note, header), coder_buffer(parcel->coder),
                     size);
}

static void a_coded_tensor_and_its_repeat_are_taken(void **state)
{
    (void)state;
    struct side device;
    side_open_coded(&device, 1, CODEC_Q8);
    struct parcel parcel = pack(CODEC_Q8);
    assert_int_equal(put(&device, &parcel, CODEC_Q8, parcel.size, 0), 204);
    assert_int_equal(put(&device, &parcel, CODEC_Q8, parcel.size, 0), 204);
    assert_int_equal(put(&device, &parcel, CODEC_Q8, parcel.size, 1), 204);
    coder_free(&parcel.coder);
    side_close(&device);
}

static void only_the_agreed_codec_is_taken(void **state)
{
    (void)state;
    struct side device;
    struct parcel q8 = pack(CODEC_Q8), q4 = pack(CODEC_Q4);
    side_open_coded(&device, 1, CODEC_Q8);
    assert_int_equal(put(&device, &q4, CODEC_Q4, q4.size, 0), 422);
    assert_holds(device.reply, "its codec is 'q4'; the link's is 'q8'");
    assert_int_equal(put(&device, &q4, CODEC_Q8, q4.size, 0), 422);
    assert_holds(device.reply, "its table asks for");
    assert_int_equal(put(&device, &q8, CODEC_Q8, q8.size, 0), 204);
    side_close(&device);
    side_open(&device, 1, NULL);
    assert_int_equal(put(&device, &q8, CODEC_Q8, q8.size, 0), 422);
    assert_int_equal(side_put_tensor(&device, "activation", 1, 0, 4), 204);
    coder_free(&q8.coder);
    coder_free(&q4.coder);
    side_close(&device);
}

static void a_plain_tensor_is_not_taken_where_a_codec_is_agreed(void **state)
{
    (void)state;
    struct side device;
    char header[MESSAGE_HEADER_MAX];
    const struct work_tensor plain = {.samples = 4, .shape = {.h = 8, .w = 8, .c = 4}};
    side_open_coded(&device, 1, CODEC_Q8);
    const size_t size = message_write_header(&plain, &(struct message_note){0}, header);
    assert_int_equal(side_call(&device, "PUT", "/peer/v1/" SIDE_JOB "/4/1/0/2/activation",
                               SIDE_TICKET, header, size, side_values, message_data_bytes(&plain)),
                     422);
    assert_holds(device.reply, "its codec is 'none'; the link's is 'q8'");
    side_close(&device);
}

static void hostile_bodies_are_refused_and_leave_the_slot_free(void **state)
{
    (void)state;
    struct side device;
    side_open_coded(&device, 1, CODEC_Q8);
    struct parcel parcel = pack(CODEC_Q8);
    unsigned char *buffer = coder_buffer(parcel.coder);
    const float nan = NAN;
    assert_int_equal(put(&device, &parcel, CODEC_Q8, parcel.size - 1, 0), 422);
    assert_int_equal(put(&device, &parcel, CODEC_Q8, parcel.size + 1, 0), 422);
    assert_int_equal(put(&device, &parcel, CODEC_Q8, GROUPS * CODEC_ENTRY_BYTES - 1, 0), 422);
    assert_holds(device.reply, "less than the table of 4 groups");
    assert_int_equal(put(&device, &parcel, CODEC_Q8, 0, 0), 422);
    memcpy(buffer + sizeof(nan), &nan, sizeof(nan));
    assert_int_equal(put(&device, &parcel, CODEC_Q8, parcel.size, 0), 422);
    assert_holds(device.reply, "group 0 has an impossible range");
    coder_free(&parcel.coder);
    parcel = pack(CODEC_Q8);
    assert_int_equal(put(&device, &parcel, CODEC_Q8, parcel.size, 0), 204);
    coder_free(&parcel.coder);
    side_close(&device);
}

/* 30 bytes that claim to be 2 GiB. */
static void a_zstd_bomb_is_refused(void **state)
{
    static const unsigned char bomb[] = {0x28, 0xb5, 0x2f, 0xfd, 0xa0, 0, 0,
                                         0,    0x80, 0x03, 0xff, 0xff, 7};
    (void)state;
    if (!codec_available(CODEC_Q8_ZSTD)) {
        test_skip("this build has no zstd");
    }
    struct side device;
    side_open_coded(&device, 1, CODEC_Q8_ZSTD);
    struct parcel parcel = pack(CODEC_Q8_ZSTD);
    memcpy(coder_buffer(parcel.coder) + GROUPS * CODEC_ENTRY_BYTES, bomb, sizeof(bomb));
    assert_int_equal(
        put(&device, &parcel, CODEC_Q8_ZSTD, GROUPS * CODEC_ENTRY_BYTES + sizeof(bomb), 0), 422);
    assert_holds(device.reply, "not one zstd frame of 1024 bytes");
    coder_free(&parcel.coder);
    side_close(&device);
}

#define REST 100 /* bytes */

/* Begin a PUT of a parcel: a connection that has sent all but the last REST bytes. */
static int put_most(const struct side *device, const struct parcel *parcel)
{
    const struct address *address = peer_server_address(device->server);
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address->storage, address->length), 0);
    char header[MESSAGE_HEADER_MAX];
    char request[4096];
    const struct work_tensor tensor = {
        .samples = 4, .shape = {.h = 8, .w = 8, .c = 4}, .codec = CODEC_Q8};
    const struct message_note note = {.coded_bytes = parcel->size};
    const size_t header_size = message_write_header(&tensor, &note, header);
    int size = snprintf(request, sizeof(request),
                        "PUT /peer/v1/" SIDE_JOB "/4/1/0/2/activation HTTP/1.1\r\nHost: x\r\n"
                        "Authorization: Bearer " SIDE_TICKET "\r\nContent-Length: %zu\r\n\r\n",
                        header_size + parcel->size);
    memcpy(request + size, header, header_size);
    memcpy(request + size + header_size, coder_buffer(parcel->coder), parcel->size - REST);
    size += (int)(header_size + parcel->size - REST);
    assert_int_equal(write(fd, request, (size_t)size), size);
    return fd;
}

/* Send the rest. Returns the status. */
static int put_rest(int fd, const struct parcel *parcel)
{
    char reply[4096] = "";
    int status = 0;
    assert_int_equal(write(fd, coder_buffer(parcel->coder) + parcel->size - REST, REST), REST);
    assert_true(read(fd, reply, sizeof(reply) - 1) > 0);
    assert_int_equal(sscanf(reply, "HTTP/1.1 %d", &status), 1);
    return status;
}

static void an_older_connection_s_half_tensor_does_not_spoil_a_newer_one(void **state)
{
    (void)state;
    struct side device;
    side_open_coded(&device, 1, CODEC_Q8);
    struct parcel parcel = pack(CODEC_Q8);
    const int fd = put_most(&device, &parcel);
    /* Of another micro-batch: both have a slot, and one buffer. */
    assert_int_equal(put(&device, &parcel, CODEC_Q8, parcel.size, 1), 204);
    /* The buffer has the newer tensor now. */
    assert_int_equal(put_rest(fd, &parcel), 503);
    assert_int_equal(put(&device, &parcel, CODEC_Q8, parcel.size, 0), 204);
    (void)close(fd);
    coder_free(&parcel.coder);
    side_close(&device);
}

static void the_stop_mark_has_no_codec(void **state)
{
    (void)state;
    struct side device;
    side_open_coded(&device, 1, CODEC_Q8);
    const struct transfer mark = {TRANSFER_ACTIVATION, 1, 4};
    const struct transfer evaluation = {TRANSFER_EVALUATION, 1, 0};
    const struct transfer activation = {TRANSFER_ACTIVATION, 1, 0};
    assert_int_equal(stage_expect(device.stage, &mark).codec, CODEC_NONE);
    assert_int_equal(stage_expect(device.stage, &evaluation).codec, CODEC_NONE);
    assert_int_equal(stage_expect(device.stage, &activation).codec, CODEC_Q8);
    side_close(&device);
}

int main(void)
{
    log_set_level(LOG_LEVEL_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_coded_tensor_and_its_repeat_are_taken),
        cmocka_unit_test(only_the_agreed_codec_is_taken),
        cmocka_unit_test(a_plain_tensor_is_not_taken_where_a_codec_is_agreed),
        cmocka_unit_test(hostile_bodies_are_refused_and_leave_the_slot_free),
        cmocka_unit_test(a_zstd_bomb_is_refused),
        cmocka_unit_test(an_older_connection_s_half_tensor_does_not_spoil_a_newer_one),
        cmocka_unit_test(the_stop_mark_has_no_codec),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
