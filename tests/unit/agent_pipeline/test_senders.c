/* Senders: lost and silent neighbours; and two stages joined by their senders and servers, which
 * allocate nothing once they run. */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/pipeline/sender.h"
#include "agent/pipeline/stage_loop.h"
#include "base/log.h"
#include "tests/support/test.h"
#include "tests/unit/agent/side.h"

/* ---- counted allocations: every call of ours is linked to these, those inside shared libraries
 * are not ---- */

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

/* ---- neighbours in trouble ---- */

static void sender_failed(void *arg, const struct err *why)
{
    (void)arg;
    print_error("%s\n", why->text);
}

static struct ways *ways;

static int open_ways(void **state)
{
    struct err err = {0};
    (void)state;
    assert_ok(ways_new("http://127.0.0.1:7410", &ways, &err), &err);
    return 0;
}

static int close_ways(void **state)
{
    (void)state;
    ways_free(&ways);
    return 0;
}

static struct sender *start_patient_sender(struct side *from, struct side *to,
                                           enum stage_direction direction, int64_t peer_ms)
{
    struct sender_config config = {.stage = from->stage,
                                   .direction = direction,
                                   .ways = ways,
                                   .peer_ms = peer_ms,
                                   .troubles = from->troubles,
                                   .failed = sender_failed};
    struct sender *sender = NULL;
    struct err err = {0};
    (void)snprintf(config.peer.url, sizeof(config.peer.url), "%s", to->url);
    (void)snprintf(config.peer.device.text, ID_SIZE, "dev_%s",
                   direction == STAGE_TO_NEXT ? "next" : "previous");
    (void)snprintf(config.peer.ticket, sizeof(config.peer.ticket), SIDE_TICKET);
    assert_ok(sender_start(&config, &sender, &err), &err);
    return sender;
}

static struct sender *start_sender(struct side *from, struct side *to,
                                   enum stage_direction direction)
{
    return start_patient_sender(from, to, direction, 20000);
}

/* Wait until the device reports `count` peers: what it reports of them. */
static const struct peer_report *wait_for_trouble(struct side *device, size_t count)
{
    static struct heartbeat heartbeat; /* too large for a stack */
    struct cancel pause;
    struct err err = {0};
    assert_ok(cancel_init(&pause, &err), &err);
    troubles_list(device->troubles, &heartbeat);
    for (int i = 0; i < 2000 && heartbeat.peer_report_count != count; i++) {
        (void)cancel_wait(&pause, 5000000);
        troubles_list(device->troubles, &heartbeat);
    }
    cancel_done(&pause);
    assert_int_equal(heartbeat.peer_report_count, count);
    return heartbeat.peer_report;
}

static void a_sender_reports_a_lost_neighbour_and_continues_after_its_return(void **state)
{
    (void)state;
    struct side device[2];
    side_open(&device[0], 0, NULL);
    side_open(&device[1], 1, NULL);
    struct sender *sender = start_sender(&device[0], &device[1], STAGE_TO_NEXT);
    const struct peer_server_config again = {.listen = *peer_server_address(device[1].server),
                                             .access = device[1].access};
    peer_server_close(&device[1].server);
    /* Nothing is to be sent: it asks. */
    const struct peer_report *report = wait_for_trouble(&device[0], 1);
    assert_string_equal(report->device.text, "dev_next");
    assert_int_equal(report->kind, PEER_REFUSED);
    struct err err = {0};
    assert_ok(peer_server_open(&again, &device[1].server, &err), &err);
    (void)wait_for_trouble(&device[0], 0);
    stage_cancel(device[0].stage);
    sender_free(&sender);
    side_close(&device[0]);
    side_close(&device[1]);
}

static void a_silent_neighbour_stalls(void **state)
{
    (void)state;
    struct side device;
    struct side silent = {.url = ""};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    (void)snprintf(silent.url, sizeof(silent.url), "http://127.0.0.1:%d", ntohs(address.sin_port));
    side_open(&device, 0, NULL);
    struct sender *sender = start_patient_sender(&device, &silent, STAGE_TO_NEXT, 300);
    assert_int_equal(wait_for_trouble(&device, 1)->kind, PEER_STALLED);
    stage_cancel(device.stage);
    sender_free(&sender);
    (void)close(fd);
    side_close(&device);
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
    const struct work_listener listener = {.metric = take_metric, .arg = compute};
    int64_t version = 0;
    compute->rc = stage_loop(compute->stage, &listener, &version, &compute->err);
    return NULL;
}

static void start_compute(struct compute *compute_, struct stage *stage, struct tiny_result *result)
{
    memset(compute_, 0, sizeof(*compute_));
    compute_->stage = stage;
    compute_->result = result;
    stage_follow(stage, &(struct orders){.run = true});
    assert_int_equal(pthread_create(&compute_->thread, NULL, compute, compute_), 0);
}

static void a_slot_that_gets_free_lets_the_next_tensor_in(void **state)
{
    (void)state;
    struct side device;
    struct compute last;
    struct tiny_result result;
    tiny_result_init(&result);
    side_open(&device, 1, NULL);
    assert_int_equal(side_put_tensor(&device, "activation", 1, 0, 4), 204);
    assert_int_equal(side_put_tensor(&device, "activation", 1, 1, 4), 204);
    start_compute(&last, device.stage, &result);
    /* Its gradients are never fetched: two buffers' worth of work is done, no more. */
    assert_int_equal(side_put_tensor(&device, "activation", 1, 2, 4), 204);
    stage_cancel(device.stage);
    assert_int_equal(pthread_join(last.thread, NULL), 0);
    assert_int_equal(last.rc, ERR_CANCELLED);
    side_close(&device);
}

/* Train on two stages joined by a link. link: out, what the first one's sender reports. */
static void train_joined(enum codec codec, struct tiny_result *result, struct link_report *link)
{
    struct side device[2];
    struct compute stage[2];
    tiny_result_init(result);
    side_open_coded(&device[0], 0, codec);
    side_open_coded(&device[1], 1, codec);
    struct sender *forward = start_sender(&device[0], &device[1], STAGE_TO_NEXT);
    struct sender *backward = start_sender(&device[1], &device[0], STAGE_TO_PREVIOUS);
    start_compute(&stage[0], device[0].stage, result);
    start_compute(&stage[1], device[1].stage, result);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(stage[i].thread, NULL), 0);
        assert_ok(stage[i].rc, &stage[i].err);
    }
    assert_int_equal(stage[1].end - stage[1].warm, 0);
    static struct heartbeat heartbeat; /* too large for a stack */
    heartbeat.link_count = 0;
    sender_report_link(forward, &heartbeat);
    assert_int_equal(heartbeat.link_count, 1);
    *link = heartbeat.link[0];
    sender_report_link(forward, &heartbeat);
    assert_int_equal(heartbeat.link_count, 1);
    for (int i = 0; i < 2; i++) {
        stage_cancel(device[i].stage);
    }
    sender_free(&forward);
    sender_free(&backward);
    side_close(&device[0]);
    side_close(&device[1]);
}

static void two_joined_stages_give_the_same_bits_and_allocate_nothing(void **state)
{
    (void)state;
    struct tiny_result result;
    struct link_report link;
    train_joined(CODEC_NONE, &result, &link);
    for (int64_t step = 1; step <= TINY_STEPS; step++) {
        assert_memory_equal(&result.loss[step], &tiny_job()->expected.loss[step], sizeof(double));
    }
    assert_int_equal(link.count, TINY_STEPS * 4);
    assert_true(link.seconds_sum > 0);
    assert_string_equal(link.codec, "");
    /* Sizes and seconds are not related within a report. */
    assert_close(&link.bytes_seconds_sum,
                 &(double){link.bytes_sum * link.seconds_sum / (double)link.count}, 1, 1e-12);
}

static void coded_links_give_about_the_same_losses_and_allocate_nothing(void **state)
{
    static const enum codec codecs[] = {CODEC_BFLOAT16, CODEC_Q8, CODEC_Q4, CODEC_Q8_ZSTD};
    struct tiny_result plain, coded, again;
    struct link_report plain_link, link;
    (void)state;
    train_joined(CODEC_NONE, &plain, &plain_link);
    for (size_t c = 0; c < sizeof(codecs) / sizeof(codecs[0]); c++) {
        const struct codec_info *info = codec_info(codecs[c]);
        if (!codec_available(codecs[c])) {
            continue;
        }
        train_joined(codecs[c], &coded, &link);
        assert_int_equal(link.count, plain_link.count);
        assert_string_equal(link.codec, info->name);
        assert_true(link.bytes_sum < plain_link.bytes_sum * 0.75);
        /* Its rounding is seen, and is small. */
        assert_memory_not_equal(coded.loss, plain.loss, sizeof(coded.loss));
        for (int64_t step = 1; step <= TINY_STEPS; step++) {
            const double off = coded.loss[step] - plain.loss[step];
            assert_true(off > -0.2 && off < 0.2);
        }
        train_joined(codecs[c], &again, &link);
        assert_memory_equal(coded.loss, again.loss, sizeof(coded.loss));
    }
}

int main(void)
{
    log_set_level(LOG_LEVEL_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sender_reports_a_lost_neighbour_and_continues_after_its_return),
        cmocka_unit_test(a_silent_neighbour_stalls),
        cmocka_unit_test(a_slot_that_gets_free_lets_the_next_tensor_in),
        cmocka_unit_test(two_joined_stages_give_the_same_bits_and_allocate_nothing),
        cmocka_unit_test(coded_links_give_about_the_same_losses_and_allocate_nothing),
    };
    return cmocka_run_group_tests(tests, open_ways, close_ways);
}
