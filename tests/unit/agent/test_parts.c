/* The small parts of an agent: messages, measurements, identity, options, reports, cancellation. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/config.h"
#include "agent/identity.h"
#include "agent/peer/message.h"
#include "agent/reports.h"
#include "agent/runtime/cancel.h"
#include "agent/runtime/inventory.h"
#include "base/file.h"
#include "base/utf8.h"
#include "libtrain/formats/safetensors.h"
#include "tests/support/test.h"
#include "tests/unit/agent/tiny.h"

/* ---- messages ---- */

static const struct work_tensor tensor = {.samples = 3, .shape = {.h = 4, .w = 5, .c = 6}};

static void a_header_is_read_as_it_was_written(void **state)
{
    (void)state;
    char text[MESSAGE_HEADER_MAX];
    struct message_note note = {.last = true};
    struct err err = {0};
    size_t size = message_write_header(&tensor, &(struct message_note){0}, text);
    assert_ok(message_read_header(text, size, &tensor, &note, &err), &err);
    assert_false(note.last);
    assert_int_equal(message_data_bytes(&tensor), 3 * 4 * 5 * 6 * 4);
}

static void the_stop_mark_is_an_empty_tensor(void **state)
{
    (void)state;
    const struct work_tensor empty = {.samples = 0, .shape = tensor.shape};
    char text[MESSAGE_HEADER_MAX];
    struct message_note note = {0};
    struct err err = {0};
    size_t size = message_write_header(&empty, &(struct message_note){.last = true}, text);
    assert_ok(message_read_header(text, size, &empty, &note, &err), &err);
    assert_true(note.last);
    assert_int_equal(message_data_bytes(&empty), 0);
}

static void a_sum_of_squares_is_one_double(void **state)
{
    (void)state;
    const struct work_tensor sum = {.samples = 1, .shape = {.h = 1, .w = 1, .c = 1}, .wide = true};
    struct work_tensor narrow = sum;
    narrow.wide = false;
    char text[MESSAGE_HEADER_MAX];
    struct message_note note = {0};
    struct err err = {0};
    size_t size = message_write_header(&sum, &note, text);
    assert_ok(message_read_header(text, size, &sum, &note, &err), &err);
    assert_int_equal(message_data_bytes(&sum), 8);
    assert_int_equal(message_read_header(text, size, &narrow, &note, &err), ERR_FORMAT);
    size = message_write_header(&narrow, &note, text);
    assert_int_equal(message_read_header(text, size, &sum, &note, &err), ERR_FORMAT);
    assert_holds(err.text, "expected one F64 tensor");
}

static void a_header_of_another_tensor_is_rejected(void **state)
{
    (void)state;
    char text[MESSAGE_HEADER_MAX];
    struct message_note note;
    struct err err = {0};
    struct work_tensor other = tensor;
    other.samples = 2;
    size_t size = message_write_header(&other, &(struct message_note){0}, text);
    assert_int_equal(message_read_header(text, size, &tensor, &note, &err), ERR_FORMAT);
    assert_holds(err.text, "[3, 4, 5, 6]");
    memset(text + 8, '{', 8);
    assert_int_equal(message_read_header(text, size, &tensor, &note, &err), ERR_FORMAT);
}

static void the_mark_of_a_round_travels_in_the_header(void **state)
{
    (void)state;
    char text[MESSAGE_HEADER_MAX];
    struct err err = {0};
    for (unsigned kinds = 0; kinds < 4; kinds++) {
        const struct message_note note = {.mark = {.kinds = kinds, .keep = {STEPS_MAX, 0, 450}}};
        struct message_note read;
        const size_t size = message_write_header(&tensor, &note, text);
        assert_ok(message_read_header(text, size, &tensor, &read, &err), &err);
        assert_int_equal(read.mark.kinds, kinds);
        assert_int_equal(read.mark.keep[0], kinds ? STEPS_MAX : 0);
        assert_int_equal(read.mark.keep[2], kinds ? 450 : 0);
    }
}

static void an_impossible_mark_is_rejected(void **state)
{
    (void)state;
    static const char *const marks[][2] = {{"neighbour", "0,0,0"},  {"neighbor", "0,0"},
                                           {"neighbor", "0,0,0,0"}, {"center", "0,-1,0"},
                                           {"center", "0,1e3,0"},   {"", "0,0,0"}};
    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
        struct safetensors_tensor data = {
            .name = "data", .dtype = DTYPE_F32, .rank = 4, .dim = {3, 4, 5, 6}};
        struct safetensors_header header = {
            .tensor = &data, .tensor_capacity = 1, .tensor_count = 1};
        struct message_note note;
        char text[MESSAGE_HEADER_MAX];
        size_t size = 0;
        struct err err = {0};
        header.metadata_count = 2;
        (void)snprintf(header.metadata[0].key, SAFETENSORS_KEY_MAX, "snapshot");
        (void)snprintf(header.metadata[0].value, SAFETENSORS_VALUE_MAX, "%s", marks[i][0]);
        (void)snprintf(header.metadata[1].key, SAFETENSORS_KEY_MAX, "keep");
        (void)snprintf(header.metadata[1].value, SAFETENSORS_VALUE_MAX, "%s", marks[i][1]);
        assert_ok(safetensors_write(&header, text, sizeof(text), &size, &err), &err);
        assert_int_equal(message_read_header(text, size, &tensor, &note, &err), ERR_FORMAT);
    }
}

static void paths_name_every_part_of_the_key(void **state)
{
    (void)state;
    const struct job_id job = {"job_x"};
    const struct transfer transfer = {TRANSFER_GRADIENT, 12, 3};
    assert_string_equal(message_tensor_path("http://h:1", &job, 7, &transfer, 5).text,
                        "http://h:1/peer/v1/job_x/7/12/3/5/gradient");
    assert_string_equal(message_snapshot_path("http://h:1", &job, 7, 40, 2).text,
                        "http://h:1/peer/v1/job_x/7/snapshots/40/2");
    assert_string_equal(message_ping_path("http://h:1", &job, 7).text,
                        "http://h:1/peer/v1/job_x/7/ping");
}

/* ---- measurements ---- */

static void the_machine_has_an_inventory(void **state)
{
    (void)state;
    struct device_inventory inventory;
    inventory_read(&inventory);
    assert_true(inventory.cores >= 1);
    assert_true(inventory.memory_bytes > 0);
    assert_true(inventory.architecture[0] != '\0' && inventory.cpu[0] != '\0');
    assert_true(inventory_free_memory() > 0);
    assert_true(inventory_resident() > 0);
}

/* ---- identity ---- */

static void an_identity_is_made_once_and_kept(void **state)
{
    struct identity first = {.lock = -1};
    struct identity second = {.lock = -1};
    struct err err = {0};
    struct test_path directory = test_path_in(*state, "agent");
    assert_ok(identity_open(directory.text, &first, &err), &err);
    identity_done(&first);
    assert_ok(identity_open(directory.text, &second, &err), &err);
    identity_done(&second);
    assert_int_equal(strlen(first.public_key), 64);
    assert_string_equal(first.public_key, second.public_key);
    assert_string_not_equal(first.boot, second.boot);
    struct stat status;
    assert_int_equal(stat(test_path_in(directory.text, "identity").text, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
}

static void two_agents_do_not_share_a_directory(void **state)
{
    struct identity first = {.lock = -1};
    struct identity second = {.lock = -1};
    struct err err = {0};
    assert_ok(identity_open(*state, &first, &err), &err);
    assert_int_equal(identity_open(*state, &second, &err), ERR_STATE);
    assert_holds(err.text, "--state-dir");
    identity_done(&first);
    assert_ok(identity_open(*state, &second, &err), &err);
    identity_done(&second);
}

static void a_damaged_identity_is_not_replaced_in_silence(void **state)
{
    struct identity identity = {.lock = -1};
    struct err err = {0};
    const char *const texts[] = {
        "", "short\n", "zz4e5bd1d0dbd3c1a9f5ad6d0d2a5c7bb2d16e1c6a9d2e02b6f9c0e4d3a1b2c3\n"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        assert_ok(file_write_atomic(test_path_in(*state, "identity").text, texts[i],
                                    strlen(texts[i]), 0600, &err),
                  &err);
        assert_int_equal(identity_open(*state, &identity, &err), ERR_FORMAT);
        assert_holds(err.text, "not an identity");
    }
}

/* ---- options ---- */

static int read_options(struct config *config, struct err *err, const char *const *words)
{
    char *argv[16] = {NULL};
    int argc = 0;
    for (; words[argc]; argc++) {
        argv[argc] = strdup(words[argc]);
    }
    bool done = false;
    int rc = config_read(argc, argv, config, &done, err);
    for (int i = 0; i < argc; i++) {
        free(argv[i]);
    }
    return rc;
}

#define OPTIONS(...) ((const char *const[]){"paceline-agent", __VA_ARGS__, NULL})

static void options_have_defaults(void **state)
{
    (void)state;
    struct config config;
    struct err err = {0};
    assert_ok(read_options(&config, &err, OPTIONS("--state-dir", "/none/x")), &err);
    assert_string_equal(config.coordinator, "http://127.0.0.1:7410");
    assert_int_equal(config.listen.port, 7411);
    assert_true(config.threads >= 1);
    assert_true(config.slowdown == 1);
    assert_true(config.name[0] != '\0');
    config_done(&config);
}

static void options_are_read(void **state)
{
    (void)state;
    struct config config;
    struct err err = {0};
    assert_ok(read_options(&config, &err,
                           OPTIONS("--coordinator=http://c:1/", "--advertise=http://a:2/",
                                   "--listen=127.0.0.1:0", "--label=gpu=no", "--label=room=2",
                                   "--threads=3", "--slowdown=2.5", "--name=anna",
                                   "--state-dir=/none/x")),
              &err);
    assert_string_equal(config.coordinator, "http://c:1");
    assert_string_equal(config.advertise, "http://a:2");
    assert_int_equal(config.threads, 3);
    assert_int_equal(config.label_count, 2);
    assert_string_equal(config.label[1].key, "room");
    assert_string_equal(config.label[1].value, "2");
    config_done(&config);
}

static void wrong_options_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *option, *part;
    } wrong[] = {
        {"--listen=10.0.0.5:7411", "--insecure"},
        {"--label=nothing", "KEY=VALUE"},
        {"--label=A b=c", "a-z"},
        {"--slowdown=0.5", "slowdown"},
        {"--threads=0", "threads"},
        {"--coordinator=ftp://x", "http"},
        {"--advertise=somewhere", "--advertise"},
        {"--advertise=http://a:1/path", "--advertise"},
        {"--name=A B", "--name"},
        {"--log-level=loud", "loud"},
        {"--colour=red", "colour"},
        {"--listen=nowhere", "nowhere"},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct config config;
        struct err err = {0};
        assert_int_not_equal(read_options(&config, &err, OPTIONS(wrong[i].option)), 0);
        assert_holds(err.text, wrong[i].part);
        config_done(&config);
    }
}

/* ---- reports and cancellation ---- */

static bool is_readable(int fd)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    return poll(&poll_fd, 1, 0) == 1;
}

static void reports_come_in_order_and_wake(void **state)
{
    (void)state;
    struct reports *reports AUTO(reports_free) = NULL;
    struct report_batch *batch = calloc(1, sizeof(*batch));
    struct err err = {0};
    assert_non_null(batch);
    assert_ok(reports_new(&reports, &err), &err);
    assert_false(is_readable(reports_fd(reports)));
    for (int64_t step = 1; step <= REPORTS_METRICS_MAX + 2; step++) {
        reports_metric(reports, 5, &(struct metric){.step = step});
    }
    reports_event(reports, &(struct session_event){.type = SESSION_STOPPED, .version = 9});
    assert_true(is_readable(reports_fd(reports)));
    reports_take(reports, batch);
    assert_false(is_readable(reports_fd(reports)));
    assert_int_equal(batch->metric_count, REPORTS_METRICS_MAX);
    assert_int_equal(batch->metric[0].metric.step, 1);
    assert_int_equal(batch->metric[0].serial, 5);
    assert_int_equal(batch->lost, 2);
    assert_int_equal(batch->event_count, 1);
    assert_int_equal(batch->event[0].version, 9);
    reports_take(reports, batch);
    assert_int_equal(batch->metric_count + batch->event_count + batch->lost, 0);
    free(batch);
}

/* The reported error for the text `text`. */
static struct session_event tell_error(const char *text)
{
    struct reports *reports AUTO(reports_free) = NULL;
    struct report_batch *batch = calloc(1, sizeof(*batch));
    struct err err = {0};
    assert_non_null(batch);
    assert_ok(reports_new(&reports, &err), &err);
    assert_int_equal(err_set(&err, ERR_FULL, "%s", text), ERR_FULL);
    reports_error(reports, 7, "data", &err);
    reports_take(reports, batch);
    assert_int_equal(batch->event_count, 1);
    const struct session_event event = batch->event[0];
    free(batch);
    assert_int_equal(event.type, SESSION_FAILED);
    assert_int_equal(event.serial, 7);
    assert_string_equal(event.error.code, "data");
    return event;
}

static void an_error_that_is_too_long_keeps_its_reason(void **state)
{
    (void)state;
    static const char reason[] = ": write at byte 4194304: No space left on device";
    char text[400];
    assert_string_equal(tell_error(reason).error.message, reason);
    (void)snprintf(text, sizeof(text), "data set 0123456789ab: cache '/%0200d'%s", 1, reason);
    struct session_event event = tell_error(text);
    assert_int_equal(strlen(event.error.message), 120);
    assert_int_equal(strncmp(event.error.message, "data set 0123456789ab: cache '", 30), 0);
    assert_holds(event.error.message, "...");
    assert_string_equal(event.error.message + 120 - strlen(reason), reason);
    /* No cut goes through a character, wherever it falls: a heartbeat is UTF-8. */
    for (int shift = 0; shift < 3; shift++) {
        char *at = text + snprintf(text, sizeof(text), "%.*s", shift, "xxx");
        for (int i = 0; i < 100; i++) {
            memcpy(at, "\xe2\x82\xac", 4);
            at += 3;
        }
        event = tell_error(text);
        char repaired[MESSAGE_SIZE];
        memcpy(repaired, event.error.message, sizeof(repaired));
        utf8_repair(repaired);
        assert_string_equal(repaired, event.error.message);
        assert_in_range(strlen(repaired), 114, 120);
    }
}

static void a_cancelled_wait_returns_at_once(void **state)
{
    (void)state;
    struct cancel cancel;
    struct err err = {0};
    assert_ok(cancel_init(&cancel, &err), &err);
    assert_false(cancel_wait(&cancel, 1));
    cancel_set(&cancel);
    assert_true(cancel_wait(&cancel, INT64_C(3600000000000)));
    cancel_done(&cancel);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_header_is_read_as_it_was_written),
        cmocka_unit_test(the_stop_mark_is_an_empty_tensor),
        cmocka_unit_test(a_sum_of_squares_is_one_double),
        cmocka_unit_test(a_header_of_another_tensor_is_rejected),
        cmocka_unit_test(the_mark_of_a_round_travels_in_the_header),
        cmocka_unit_test(an_impossible_mark_is_rejected),
        cmocka_unit_test(paths_name_every_part_of_the_key),
        cmocka_unit_test(the_machine_has_an_inventory),
        test_with_directory(an_identity_is_made_once_and_kept),
        test_with_directory(two_agents_do_not_share_a_directory),
        test_with_directory(a_damaged_identity_is_not_replaced_in_silence),
        cmocka_unit_test(options_have_defaults),
        cmocka_unit_test(options_are_read),
        cmocka_unit_test(wrong_options_are_named),
        cmocka_unit_test(reports_come_in_order_and_wake),
        cmocka_unit_test(an_error_that_is_too_long_keeps_its_reason),
        cmocka_unit_test(a_cancelled_wait_returns_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
