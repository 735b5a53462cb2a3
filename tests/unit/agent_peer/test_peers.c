/* The peer side over loopback: admitted callers, valid bodies of tensors, waiting for a slot. */
#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "tests/support/test.h"
#include "tests/unit/agent/side.h"

static void only_callers_with_a_ticket_are_admitted(void **state)
{
    (void)state;
    struct side device;
    side_open(&device, 1, NULL);
    assert_int_equal(side_get(&device, "/peer/v1/" SIDE_JOB "/4/ping", NULL), 401);
    assert_holds(device.reply, "ticket_missing");
    assert_int_equal(side_get(&device, "/peer/v1/" SIDE_JOB "/4/ping", "ticket-of-a-foe"), 403);
    assert_int_equal(side_get(&device, "/peer/v1/" SIDE_JOB "/4/ping", ""), 403);
    assert_int_equal(side_get(&device, "/peer/v1/" SIDE_JOB "/4/ping", SIDE_TICKET), 204);
    assert_int_equal(side_get(&device, "/peer/v1/" SIDE_JOB "/3/ping", SIDE_TICKET), 409);
    assert_holds(device.reply, "stale_generation");
    assert_int_equal(side_get(&device, "/peer/v1/" SIDE_JOB "/5/ping", SIDE_TICKET), 503);
    assert_int_equal(side_get(&device, "/peer/v1/job_x/4/ping", SIDE_TICKET), 503);
    assert_int_equal(side_get(&device, "/peer/v1/" SIDE_JOB "/four/ping", SIDE_TICKET), 400);
    assert_int_equal(side_get(&device, "/peer/v1/" SIDE_JOB, SIDE_TICKET), 404);
    assert_int_equal(
        side_call(&device, "POST", "/peer/v1/" SIDE_JOB "/4/ping", SIDE_TICKET, NULL, 0, NULL, 0),
        405);
    side_close(&device);
}

static void connections_of_strangers_leave_room_for_others(void **state)
{
    (void)state;
    struct side device;
    side_open(&device, 1, NULL);
    const struct address *listens = peer_server_address(device.server);
    struct sockaddr_in stranger = {.sin_family = AF_INET};
    stranger.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
    int fd[80];
    for (size_t i = 0; i < sizeof(fd) / sizeof(fd[0]); i++) {
        fd[i] = socket(AF_INET, SOCK_STREAM, 0);
        assert_int_equal(bind(fd[i], (const struct sockaddr *)&stranger, sizeof(stranger)), 0);
        assert_int_equal(
            connect(fd[i], (const struct sockaddr *)&listens->storage, listens->length), 0);
    }
    assert_int_equal(side_get(&device, "/peer/v1/" SIDE_JOB "/4/ping", SIDE_TICKET), 204);
    for (size_t i = 0; i < sizeof(fd) / sizeof(fd[0]); i++) {
        (void)close(fd[i]);
    }
    side_close(&device);
}

static void a_tensor_and_its_repeat_are_taken(void **state)
{
    (void)state;
    struct side device;
    side_open(&device, 1, NULL);
    assert_int_equal(side_put_tensor(&device, "activation", 1, 0, 4), 204);
    assert_int_equal(side_put_tensor(&device, "activation", 1, 0, 4), 204);
    assert_int_equal(side_put_tensor(&device, "activation", 1, 1, 4), 204);
    side_close(&device);
}

static void unexpected_tensors_are_rejected(void **state)
{
    (void)state;
    struct side device;
    side_open(&device, 1, NULL);
    assert_int_equal(side_put_tensor(&device, "activation", 1, 0, 3), 422);
    assert_int_equal(side_put_tensor(&device, "activation", 1, 0, 0), 422);
    assert_int_equal(side_put_tensor(&device, "activation", 5, 0, 4), 422);
    assert_int_equal(side_put_tensor(&device, "gradient", 1, 0, 4), 422);
    assert_int_equal(side_put_tensor(&device, "evaluation", 3, 0, 4), 422);
    assert_int_equal(side_put_tensor(&device, "norm_total", 1, 0, 4),
                     422); /* this job does not clip */
    assert_int_equal(side_put_tensor(&device, "rumour", 1, 0, 4), 400);
    /* A mark that is not the empty tensor after the last micro-batch, and the other way round. */
    assert_int_equal(side_put_tensor(&device, "activation", 1, 4, 4), 422);
    assert_int_equal(side_put_tensor(&device, "activation", 1, 0, 4), 204);
    side_close(&device);
}

static void a_body_with_a_wrong_header_leaves_its_slot_free(void **state)
{
    (void)state;
    struct side device;
    char header[MESSAGE_HEADER_MAX];
    side_open(&device, 1, NULL);
    const struct transfer transfer = {TRANSFER_ACTIVATION, 1, 0};
    const struct work_tensor tensor = stage_expect(device.stage, &transfer);
    const struct message_note none = {0};
    const size_t size = message_write_header(&tensor, &none, header);
    static const char path[] = "/peer/v1/" SIDE_JOB "/4/1/0/2/activation";
    header[12] = '?';
    assert_int_equal(side_call(&device, "PUT", path, SIDE_TICKET, header, size, side_values,
                               message_data_bytes(&tensor)),
                     422);
    memset(header, 0xff, 8);
    assert_int_equal(side_call(&device, "PUT", path, SIDE_TICKET, header, size, side_values,
                               message_data_bytes(&tensor)),
                     422);
    /* One more byte of data than the header says. */
    (void)message_write_header(&tensor, &none, header);
    assert_int_equal(side_call(&device, "PUT", path, SIDE_TICKET, header, size, side_values,
                               message_data_bytes(&tensor) + 1),
                     422);
    assert_int_equal(side_put_tensor(&device, "activation", 1, 0, 4), 204);
    side_close(&device);
}

static void a_connection_that_breaks_leaves_its_slot_free(void **state)
{
    (void)state;
    struct side device;
    side_open(&device, 1, NULL);
    const struct transfer transfer = {TRANSFER_ACTIVATION, 1, 0};
    const struct work_tensor tensor = stage_expect(device.stage, &transfer);
    const int fd = side_put_half(&device, "/peer/v1/" SIDE_JOB "/4/1/0/2/activation",
                                 message_data_bytes(&tensor) + 128);
    /* The same tensor by another connection wins, whether or not the first is known to be dead. */
    assert_int_equal(side_put_tensor(&device, "activation", 1, 0, 4), 204);
    (void)close(fd);
    assert_int_equal(side_put_tensor(&device, "activation", 1, 1, 4), 204);
    side_close(&device);
}

static void a_full_slot_is_waited_for_but_not_for_ever(void **state)
{
    (void)state;
    struct side device;
    side_open(&device, 1, NULL);
    assert_int_equal(side_put_tensor(&device, "activation", 1, 0, 4), 204);
    assert_int_equal(side_put_tensor(&device, "activation", 1, 1, 4), 204);
    assert_int_equal(side_put_tensor(&device, "activation", 1, 2, 4), 503);
    assert_holds(device.reply, "no_room");
    side_close(&device);
}

int main(void)
{
    log_set_level(LOG_LEVEL_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_callers_with_a_ticket_are_admitted),
        cmocka_unit_test(connections_of_strangers_leave_room_for_others),
        cmocka_unit_test(a_tensor_and_its_repeat_are_taken),
        cmocka_unit_test(unexpected_tensors_are_rejected),
        cmocka_unit_test(a_body_with_a_wrong_header_leaves_its_slot_free),
        cmocka_unit_test(a_connection_that_breaks_leaves_its_slot_free),
        cmocka_unit_test(a_full_slot_is_waited_for_but_not_for_ever),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
