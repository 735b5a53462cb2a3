/* The choice of the requests of a step: whole, of no two servers, and auto's of the faster way. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/parameter_server/transfers.h"
#include "base/clock.h"
#include "base/log.h"
#include "libtrain/model/segments.h"
#include "libtrain/schedule/link.h"
#include "schema/parameter_server.h"
#include "tests/support/test.h"

#define LAYERS 6

static const double layer_bytes[LAYERS] = {4e3, 4e3, 8e5, 4e3, 4e6, 4e3};

static struct transfers *make(int way, size_t own, size_t workers)
{
    const struct transfers_config config = {.transfers = way,
                                            .segment_bytes = 10000,
                                            .layers = LAYERS,
                                            .servers = 3,
                                            .layer_end = {2, 2, LAYERS}, /* one keeps none */
                                            .own = own,
                                            .workers = workers,
                                            .block = {1},
                                            .blocks = 1,
                                            .bytes = layer_bytes};
    struct transfers *transfers = NULL;
    struct err err = {0};
    assert_ok(transfers_new(&config, &transfers, &err), &err);
    return transfers;
}

static void measure(struct transfers *transfers)
{
    static const double seconds[LAYERS] = {1e-3, 1e-3, 2e-3, 1e-3, 5e-3, 1e-3};
    transfers_note_pass(transfers, true, seconds, 1);
    transfers_note_pass(transfers, false, seconds, 2);
    for (size_t server = 0; server < 3; server += 2) {
        for (int i = 1; i <= 8; i++) {
            transfers_note_link(transfers, true, server, i * 1e5, 2e-3 + i * 1e-3);
            transfers_note_link(transfers, false, server, i * 1e5, 2e-3 + i * 1e-3);
        }
    }
}

static void check_ends(const size_t *end, size_t count)
{
    bool border = false;
    assert_in_range(count, 2, LAYERS);
    for (size_t i = 0; i < count; i++) {
        assert_true(i == 0 ? end[i] > 0 : end[i] > end[i - 1]);
        border = border || end[i] == 2;
    }
    assert_true(border);
    assert_int_equal(end[count - 1], LAYERS);
}

static void check(struct transfers *transfers, struct exchange_segments *out)
{
    transfers_read_links(transfers);
    transfers_choose(transfers, out);
    check_ends(out->pull.end, out->pull.count);
    check_ends(out->push[0].end, out->push[0].count);
    assert_in_range(out->window, 1, transfers_window(transfers));
}

static void each_way_covers_all_layers(void **state)
{
    (void)state;
    for (int way = SEGMENTS_OPTIMAL; way <= TRANSFERS_AUTO; way++) {
        for (size_t own = 0; own <= 3; own++) {
            struct transfers *transfers = make(way, own, 2);
            struct exchange_segments segments;
            check(transfers, &segments); /* nothing is measured yet */
            measure(transfers);
            check(transfers, &segments);
            assert_int_equal(segments.streams, way == SEGMENTS_STREAM);
            assert_int_equal(segments.window, way == SEGMENTS_STREAM         ? 3
                                              : way == SEGMENTS_LAYER_WINDOW ? SEGMENTS_WINDOW
                                                                             : 1);
            if (way == SEGMENTS_LAYER || way == SEGMENTS_LAYER_WINDOW) {
                assert_int_equal(segments.pull.count, LAYERS);
                assert_int_equal(segments.push[0].count, LAYERS);
            } else if (way == SEGMENTS_STREAM || way == SEGMENTS_WHOLE) {
                assert_int_equal(segments.pull.count, 2);
                assert_int_equal(segments.push[0].count, 2);
            }
            transfers_free(&transfers);
        }
    }
}

static void the_window_leaves_room_at_a_server_for_all_workers(void **state)
{
    (void)state;
    static const struct {
        int way;
        size_t window;
    } ways[] = {{SEGMENTS_OPTIMAL, 1},
                {SEGMENTS_LAYER_WINDOW, SEGMENTS_WINDOW},
                {SEGMENTS_STREAM, 3}, /* a request to each server */
                {TRANSFERS_AUTO, 3}};
    for (size_t workers = 1; workers < 32; workers++) {
        for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
            struct transfers *transfers = make(ways[i].way, 3, workers);
            const size_t window = transfers_window(transfers);
            assert_in_range(window, 1, ways[i].window);
            assert_true(window == 1 || 2 * window * workers <= 48);
            assert_true(workers > 6 || window == ways[i].window);
            transfers_free(&transfers);
        }
    }
}

static void a_stream_makes_no_pauses_that_break_its_connection(void **state)
{
    (void)state;
    static const double slow[LAYERS] = {0.1, 0.1, 7, 0.1, 0.1, 0.1};
    struct transfers *transfers = make(SEGMENTS_STREAM, 3, 2);
    struct exchange_segments segments;
    transfers_note_pass(transfers, true, slow, 1); /* a forward pass makes none */
    check(transfers, &segments);
    assert_true(segments.streams);
    transfers_note_pass(transfers, false, slow, 1);
    check(transfers, &segments);
    assert_false(segments.streams);
    transfers_free(&transfers);
}

/* ---- changes ---- */

#define MANY 40

/* What a device and its link to one server need. */
struct times {
    double slower, latency, rate;
};

static double many_bytes[MANY], many_seconds[2][MANY]; /* backward, forward */

/* blocks: of the share, of one micro-batch each. */
static struct transfers *make_many(size_t blocks)
{
    const struct transfers_config config = {.transfers = SEGMENTS_OPTIMAL,
                                            .layers = MANY,
                                            .servers = 1,
                                            .layer_end = {MANY},
                                            .own = 1,
                                            .workers = 2,
                                            .block = {1, 1, 1},
                                            .blocks = blocks,
                                            .bytes = many_bytes};
    struct transfers *transfers = NULL;
    struct err err = {0};
    for (size_t l = 0; l < MANY; l++) {
        many_bytes[l] = 2e3 * (double)(1 + 7 * l % 60);
    }
    assert_ok(transfers_new(&config, &transfers, &err), &err);
    return transfers;
}

static void set_seconds(const struct times *times)
{
    for (size_t l = 0; l < MANY; l++) {
        many_seconds[1][l] = times->slower * 1e-3 * (double)(1 + l % 3);
        many_seconds[0][l] = 2 * many_seconds[1][l];
    }
}

/* The passes and the transfers of a step. The first request for parameters waits `queue` seconds
 * behind pushes, then for its version. */
static void make_step(struct transfers *transfers, const struct times *times, double queue)
{
    struct exchange_segments segments;
    set_seconds(times);
    transfers_read_links(transfers);
    transfers_choose(transfers, &segments);
    for (size_t pull = 0; pull < 2; pull++) {
        const size_t *end = pull ? segments.pull.end : segments.push[0].end;
        transfers_note_pass(transfers, pull, many_seconds[pull], 1);
        for (size_t i = 0, l = 0; i < (pull ? segments.pull.count : segments.push[0].count); i++) {
            double bytes = 0;
            for (; l < end[i]; l++) {
                bytes += many_bytes[l];
            }
            double seconds = times->latency + bytes / times->rate;
            if (pull && i == 0) {
                seconds =
                    transfers_parked_seconds(transfers, 0, seconds + queue, bytes / times->rate);
            }
            transfers_note_link(transfers, pull, 0, bytes, seconds);
        }
    }
}

/* The seconds of what is chosen over the best ones: of pulls, or of pushes if that is more. */
static double over_best(struct transfers *transfers, const struct times *times)
{
    static const size_t server[MANY] = {0};
    const struct segments_link link = {.request_seconds = times->latency,
                                       .bytes_per_second = times->rate};
    struct segments_scratch *scratch = NULL;
    struct exchange_segments segments;
    struct err err = {0};
    size_t best[MANY], count;
    double worst = 1;
    assert_ok(segments_scratch_new(MANY, &scratch, &err), &err);
    set_seconds(times);
    transfers_read_links(transfers);
    transfers_choose(transfers, &segments);
    for (size_t pull = 0; pull < 2; pull++) {
        const struct segments_problem problem = {.count = MANY,
                                                 .bytes = many_bytes,
                                                 .seconds = many_seconds[pull],
                                                 .server = server,
                                                 .link = &link,
                                                 .pull = pull,
                                                 .first_request_seconds = times->latency / 2};
        const double least = segments_solve(&problem, scratch, best, &count);
        const double chosen =
            pull ? segments_evaluate(&problem, segments.pull.end, segments.pull.count)
                 : segments_evaluate(&problem, segments.push[0].end, segments.push[0].count);
        worst = chosen / least > worst ? chosen / least : worst;
    }
    segments_scratch_free(&scratch);
    return worst;
}

static void segments_follow_a_change_within_ten_steps(void **state)
{
    (void)state;
    static const struct times all[] = {
        {1, 1e-3, 12.5e6}, {3, 1e-3, 2.5e6}, {1, 1e-3, 12.5e6}, {1, 2e-2, 12.5e6}, {1, 1e-4, 125e6},
    };
    for (size_t from = 0; from < sizeof(all) / sizeof(all[0]); from++) {
        for (size_t to = 0; to < sizeof(all) / sizeof(all[0]); to++) {
            struct transfers *transfers = make_many(1);
            for (int s = 0; s < 60; s++) {
                make_step(transfers, s < 50 ? &all[from] : &all[to], 0);
            }
            const double over = over_best(transfers, &all[to]);
            /* Large requests do not tell a latency from a bandwidth: there it takes longer. */
            assert_true(over <= (from < 3 ? 1.05 : 1.15));
            transfers_free(&transfers);
        }
    }
}

static void a_request_that_waits_behind_pushes_says_nothing_of_the_latency(void **state)
{
    (void)state;
    static const struct times times = {1, 1e-3, 12.5e6};
    for (double queue = 1e-3; queue < 1; queue *= 3) {
        struct transfers *transfers = make_many(1);
        make_step(transfers, &times, 0); /* there are no pushes yet */
        for (int s = 0; s < 50; s++) {
            make_step(transfers, &times, queue);
        }
        assert_true(over_best(transfers, &times) <= 1.02);
        transfers_free(&transfers);
    }
}

/* The seconds of a push of these requests that finds its link busy. */
static double push_seconds(const struct times *times, double busy_seconds,
                           const struct exchange_requests *push)
{
    static const size_t server[MANY] = {0};
    const struct segments_link link = {.request_seconds = times->latency,
                                       .bytes_per_second = times->rate};
    const struct segments_problem problem = {.count = MANY,
                                             .bytes = many_bytes,
                                             .seconds = many_seconds[0],
                                             .server = server,
                                             .link = &link,
                                             .busy_seconds = busy_seconds};
    return segments_evaluate(&problem, push->end, push->count);
}

static void later_blocks_find_their_link_busy(void **state)
{
    (void)state;
    static const struct times times = {1, 5e-3, 2.5e6}; /* a push takes longer than its passes */
    const struct exchange_requests whole = {(const size_t[]){MANY}, 1};
    struct transfers *transfers = make_many(3);
    struct exchange_segments segments;
    double each = 0, busy = 0;
    for (int s = 0; s < 50; s++) {
        make_step(transfers, &times, 0);
    }
    transfers_read_links(transfers);
    transfers_choose(transfers, &segments);
    for (size_t l = 0; l < MANY; l++) {
        each += many_seconds[0][l] + many_seconds[1][l];
    }
    assert_in_range(segments.push[0].count, 2, MANY);
    for (size_t b = 0; b < 3; b++) {
        const double seconds = push_seconds(&times, busy, &segments.push[b]);
        assert_true(seconds <= push_seconds(&times, busy, &segments.push[0]));
        assert_true(seconds <= push_seconds(&times, busy, &whole));
        busy = seconds > each ? seconds - each : 0;
    }
    assert_true(busy > 0);
    /* Every gradient is final before the link is free. */
    assert_int_equal(segments.push[2].count, 1);
    transfers_free(&transfers);
}

static void spin(double seconds)
{
    for (const double began = clock_now_seconds(); clock_now_seconds() - began < seconds;) {
    }
}

/* Steps of that many seconds each, until auto has compared both. */
static bool compare(struct transfers *transfers, double optimal, double stream)
{
    struct exchange_segments segments;
    size_t streams = 0;
    for (int step = 0; step < 20; step++) {
        check(transfers, &segments);
        streams += segments.streams;
        assert_int_equal(segments.streams, step >= 10);
        spin(segments.streams ? stream : optimal);
    }
    assert_int_equal(streams, 10);
    check(transfers, &segments);
    return segments.streams;
}

static void auto_takes_the_faster_way_and_compares_again(void **state)
{
    (void)state;
    struct transfers *transfers = make(TRANSFERS_AUTO, 3, 2);
    struct exchange_segments segments;
    measure(transfers);
    assert_true(compare(transfers, 3e-3, 1e-4));
    for (int step = 21; step < 500; step++) {
        check(transfers, &segments);
        assert_true(segments.streams);
    }
    assert_false(compare(transfers, 1e-4, 3e-3));
    transfers_free(&transfers);
}

static void auto_compares_again_when_a_link_has_changed(void **state)
{
    (void)state;
    struct transfers *transfers = make(TRANSFERS_AUTO, 3, 2);
    struct exchange_segments segments;
    measure(transfers);
    assert_true(compare(transfers, 3e-3, 1e-4));
    for (int i = 1; i <= 20; i++) {
        transfers_note_link(transfers, true, 0, i * 1e5, 2e-3 + i * 1e-2);
    }
    check(transfers, &segments); /* the last step before the comparison */
    assert_true(segments.streams);
    assert_false(compare(transfers, 1e-4, 3e-3));
    transfers_free(&transfers);
}

static void evaluations_do_not_count_for_a_way(void **state)
{
    (void)state;
    struct transfers *transfers = make(TRANSFERS_AUTO, 3, 2);
    struct exchange_segments segments;
    measure(transfers);
    for (int step = 0; step < 20; step++) {
        check(transfers, &segments);
        if (step == 4) {
            transfers_note_evaluation(transfers);
            spin(0.1);
        }
        spin(segments.streams ? 3e-3 : 1e-4);
    }
    check(transfers, &segments);
    assert_false(segments.streams);
    transfers_free(&transfers);
}

/* What transfers_log writes at a level. */
static void logged(const struct transfers *transfers, enum log_level level, char *out, size_t size)
{
    int ends[2];
    const int saved = dup(STDERR_FILENO);
    assert_int_equal(pipe(ends), 0);
    assert_true(saved >= 0 && dup2(ends[1], STDERR_FILENO) >= 0);
    log_set_level(level);
    transfers_log(transfers, 7);
    log_set_level(LOG_LEVEL_INFO);
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    (void)close(saved);
    (void)close(ends[1]);
    const ssize_t length = read(ends[0], out, size - 1);
    (void)close(ends[0]);
    assert_in_range(length, 0, size - 1);
    out[length] = '\0';
}

static void the_log_has_the_choice_and_its_times(void **state)
{
    (void)state;
    static char line[8192], expected[128];
    struct transfers *transfers = make(SEGMENTS_WHOLE, 3, 2);
    struct exchange_segments segments;
    measure(transfers);
    check(transfers, &segments);
    logged(transfers, LOG_LEVEL_INFO, line, sizeof(line));
    assert_string_equal(line, "");
    logged(transfers, LOG_LEVEL_DEBUG, line, sizeof(line));
    assert_non_null(strstr(line, " event=segments step=7 pull=2,6 push=2,6 pull_links="));
    assert_non_null(strstr(line, " bytes=4000,4000,800000,4000,4000000,4000 "));
    assert_non_null(strstr(line, " forward_us=1000,1000,2000,1000,5000,1000 "));
    assert_non_null(strstr(line, " backward_us=2000,2000,4000,2000,10000,2000\n"));
    const struct link_sums none = {0}; /* of the server without layers */
    const struct link_speed usual = link_estimate(&none);
    (void)snprintf(expected, sizeof(expected), ",%.0f,%.0f,", 1e6 * usual.latency_seconds,
                   usual.bytes_per_second);
    assert_non_null(strstr(strstr(line, " push_links="), expected));
    transfers_free(&transfers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_way_covers_all_layers),
        cmocka_unit_test(the_window_leaves_room_at_a_server_for_all_workers),
        cmocka_unit_test(a_stream_makes_no_pauses_that_break_its_connection),
        cmocka_unit_test(segments_follow_a_change_within_ten_steps),
        cmocka_unit_test(a_request_that_waits_behind_pushes_says_nothing_of_the_latency),
        cmocka_unit_test(later_blocks_find_their_link_busy),
        cmocka_unit_test(auto_takes_the_faster_way_and_compares_again),
        cmocka_unit_test(auto_compares_again_when_a_link_has_changed),
        cmocka_unit_test(evaluations_do_not_count_for_a_way),
        cmocka_unit_test(the_log_has_the_choice_and_its_times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
