#include "coordinator/plan/timeline.h"

#include <stdbool.h>
#include <string.h>

#include "base/rng.h"
#include "libtrain/schedule/schedule.h"
#include "tests/support/test.h"

static struct timeline_stage stage_of(double forward, double backward, size_t in_flight)
{
    return (struct timeline_stage){
        .forward_seconds = forward, .backward_seconds = backward, .in_flight = in_flight};
}

static double clipped_step_of(const struct timeline_stage *stage, size_t count,
                              size_t micro_batches, bool clips)
{
    const struct timeline_rules rules = {.micro_batches = micro_batches, .clips_norm = clips};
    struct timeline_result result;
    timeline_play(stage, count, &rules, &result);
    return result.step_seconds;
}

static double step_of(const struct timeline_stage *stage, size_t count, size_t micro_batches)
{
    return clipped_step_of(stage, count, micro_batches, false);
}

static void assert_seconds(double actual, double expected)
{
    assert_close(&actual, &expected, 1, 1e-12);
}

/* ---- played by hand ---- */

static void one_stage_takes_the_sum_of_its_work(void **state)
{
    (void)state;
    struct timeline_stage stage = stage_of(2, 3, 1);
    stage.update_seconds = 0.5;
    assert_seconds(step_of(&stage, 1, 4), 20.5);
    assert_seconds(step_of(&stage, 1, 1), 5.5);
}

/* Two equal stages, four micro-batches of f = b = 1:
 *     0: F0 F1 .. B0 F2 B1 F3 B2 .. B3      1F1B: (M + N - 1) (f + b) = 10
 *     1:    F0 B0 F1 B1 F2 B2 F3 B3 */
static void two_equal_stages_take_m_plus_one_rounds(void **state)
{
    (void)state;
    const struct timeline_stage stage[] = {stage_of(1, 1, 2), stage_of(1, 1, 1)};
    assert_seconds(step_of(stage, 2, 4), 10);
}

/* Four micro-batches, f = 3, b = 1 before f = b = 1, three in flight. A gradient is back before the
 * next forward pass ends, and the greedy order takes it at once, so stage 1 gets its last input
 * later and stage 0 waits for the last gradient:
 *     greedy   0: F0 F1 B0 F2 B1 F3 B2 . B3
 *     strict   0: F0 F1 F2 B0 F3 B1 B2 B3 */
static void the_strict_order_may_save_a_wait(void **state)
{
    (void)state;
    const struct timeline_stage stage[] = {stage_of(3, 1, 3), stage_of(1, 1, 1)};
    struct timeline_rules rules = {.micro_batches = 4};
    struct timeline_result result;
    timeline_play(stage, 2, &rules, &result);
    assert_seconds(result.step_seconds, 17);
    rules.strict = true;
    timeline_play(stage, 2, &rules, &result);
    assert_seconds(result.step_seconds, 16);
}

static void equal_stages_have_the_bubble_of_the_field(void **state)
{
    (void)state;
    for (size_t count = 1; count <= 6; count++) {
        for (size_t micro_batches = 1; micro_batches <= 8; micro_batches++) {
            struct timeline_stage stage[6];
            for (size_t i = 0; i < count; i++) {
                stage[i] = stage_of(1, 2, schedule_in_flight(i, count, micro_batches));
            }
            assert_seconds(step_of(stage, count, micro_batches),
                           3.0 * (double)(micro_batches + count - 1));
        }
    }
}

/* With one micro-batch in flight every one of them goes all the way forth and back: 4 x (1 + 1 + 1
 * + 1). */
static void one_micro_batch_in_flight_does_not_overlap(void **state)
{
    (void)state;
    const struct timeline_stage stage[] = {stage_of(1, 1, 1), stage_of(1, 1, 1)};
    assert_seconds(step_of(stage, 2, 4), 16);
}

/* One micro-batch: there 1 + 5 - 2, F 1 B 1 there, back 5 - 2, B 1. */
static void a_tensor_arrives_before_its_answer(void **state)
{
    (void)state;
    struct timeline_stage stage[] = {stage_of(1, 1, 1), stage_of(1, 1, 1)};
    stage[0].send_forward_seconds = 5;
    stage[0].send_backward_seconds = 5;
    stage[0].after_seconds = -2;
    assert_seconds(step_of(stage, 2, 1), 10);
}

/* Stage 1 and the way there take no time: the forward link carries one tensor at a time, 5 s each:
 * 1 + 3 x 5, then F 0 B 0, back 0, B 1. */
static void a_link_carries_one_tensor_at_a_time(void **state)
{
    (void)state;
    struct timeline_stage stage[] = {stage_of(1, 1, 3), stage_of(0, 0, 1)};
    stage[0].send_forward_seconds = 5;
    assert_seconds(step_of(stage, 2, 3), 17);
}

/* The second stage's update of 10 s lies between its last gradient and the next step's first
 * activation: in the meantime the first one does B 1, update 0 and F 1 only. */
static void an_update_of_a_later_stage_delays_the_next_step(void **state)
{
    (void)state;
    struct timeline_stage stage[] = {stage_of(1, 1, 1), stage_of(1, 1, 1)};
    stage[1].update_seconds = 10;
    assert_seconds(step_of(stage, 2, 1), 12);
}

static void busy_shares_are_work_over_step(void **state)
{
    (void)state;
    struct timeline_stage stage[] = {stage_of(1, 1, 2), stage_of(2, 2, 1)};
    stage[0].update_seconds = 1;
    struct timeline_result result;
    timeline_play(stage, 2, &(struct timeline_rules){.micro_batches = 4}, &result);
    assert_seconds(result.busy[0], 9 / result.step_seconds);
    assert_seconds(result.busy[1], 16 / result.step_seconds);
}

/* A tenth of a processor: a stage that always works takes ten times as long. */
static void a_share_stretches_a_stage_that_always_works(void **state)
{
    (void)state;
    struct timeline_stage stage = stage_of(0.02, 0.03, 1);
    stage.share = 0.1;
    struct timeline_result result;
    timeline_play(&stage, 1, &(struct timeline_rules){.micro_batches = 4}, &result);
    assert_close(&result.step_seconds, &(double){2}, 1, 1e-9);
    assert_close(&result.busy[0], &(double){1}, 1, 1e-9);
    stage.forward_seconds = stage.backward_seconds = 0.000125;
    assert_close(&(double){step_of(&stage, 1, 4)}, &(double){0.01}, 1, 1e-9);
}

/* A stage works for 2 ms of each 100: it is never stopped. For 4 ms of each 20 it is, as its share
 * of them is 2 ms. */
static void short_work_after_a_wait_is_not_stopped(void **state)
{
    (void)state;
    struct timeline_stage stage[] = {stage_of(0.04, 0.058, 1), stage_of(0.001, 0.001, 1)};
    stage[1].share = 0.1;
    assert_seconds(step_of(stage, 2, 4), 4 * 0.1);
    stage[0] = stage_of(0.006, 0.01, 1);
    stage[1] = stage_of(0.002, 0.002, 1);
    stage[1].share = 0.1;
    const double seconds = step_of(stage, 2, 4);
    assert_true(seconds > 4 * 0.0399 && seconds < 4 * 0.0401);
}

/* More in flight hides a slow link: three equal stages whose links are as slow as a stage. */
static void more_in_flight_hides_slow_links(void **state)
{
    (void)state;
    struct timeline_stage stage[3];
    for (size_t i = 0; i < 3; i++) {
        stage[i] = stage_of(1, 1, 3 - i);
        stage[i].send_forward_seconds = stage[i].send_backward_seconds = 1;
    }
    double usual = step_of(stage, 3, 32);
    stage[0].in_flight = 5;
    stage[1].in_flight = 3;
    double more = step_of(stage, 3, 32);
    assert_true(more < usual * 0.8);
}

/* A limit that held up nothing may grow without any change. */
static void a_limit_that_held_up_a_forward_is_named(void **state)
{
    (void)state;
    const struct timeline_rules rules = {.micro_batches = 4};
    struct timeline_stage stage[] = {stage_of(1, 1, 2), stage_of(3, 3, 1)};
    struct timeline_result result;
    timeline_play(stage, 2, &rules, &result);
    assert_int_equal(result.held, 1);
    stage[0].in_flight = 4;
    timeline_play(stage, 2, &rules, &result);
    assert_int_equal(result.held, 0);
}

static void many_micro_batches_are_extrapolated(void **state)
{
    (void)state;
    const struct timeline_stage stage[] = {stage_of(1, 1, 2), stage_of(1, 1, 1)};
    assert_seconds(step_of(stage, 2, 1000), 2002);
}

/* The sum follows the last gradient over the link while stage 0 still works, so only the total's
 * way to stage 1 is added to its update, and the first forward pass of stage 0 hides it unless it
 * is longer. */
static void clipping_by_the_norm_adds_latency_that_work_does_not_hide(void **state)
{
    (void)state;
    struct timeline_stage stage[] = {stage_of(1, 1, 1), stage_of(1, 1, 1)};
    assert_seconds(clipped_step_of(stage, 2, 1, true), 4);
    stage[0].update_seconds = stage[1].update_seconds = 3;
    stage[0].latency_seconds = stage[0].send_forward_seconds = stage[0].send_backward_seconds = 2;
    stage[0].after_seconds = -1;
    /* 0: F 0-1, way 2, stage 1: F B 2-4, way 5, stage 0: B 5-6, update 6-9, F 9-10, way 11. */
    assert_seconds(clipped_step_of(stage, 2, 1, false), 9);
    /* The sum leaves when the gradient is answered, 6, way 7: stage 0 updates 7-10. Stage 1 has the
     * total at 8, 8-11: ready before the activation is there. */
    assert_seconds(clipped_step_of(stage, 2, 1, true), 10);
    /* Were its update longer, it would be in the way: 8-18 instead of 4-14. */
    stage[1].update_seconds = 10;
    assert_seconds(clipped_step_of(stage, 2, 1, false), 12);
    assert_seconds(clipped_step_of(stage, 2, 1, true), 16);
}

static void one_stage_has_its_norm_at_once(void **state)
{
    (void)state;
    struct timeline_stage stage = stage_of(2, 3, 1);
    stage.update_seconds = 1;
    assert_seconds(clipped_step_of(&stage, 1, 4, true), 21);
}

/* ---- against a naive simulation: integer time, tick by tick ---- */

#define NAIVE_MICRO_BATCHES 12
#define NAIVE_STAGES 5

struct naive_link {
    int queue[NAIVE_MICRO_BATCHES * TIMELINE_STEPS]; /* time at which each tensor was handed over */
    int arrival[NAIVE_MICRO_BATCHES * TIMELINE_STEPS];
    int queued, sent;
    int busy_until;
};

struct naive_stage {
    int forward, backward, update, in_flight, send_forward, send_backward;
    int half_latency; /* the way of an answer, and of a sum */
    int decode;
    int step, forwards, backwards;
    bool summed, sum_sent, relayed;
    int norm_at, total_at; /* -1: not sent */
    int busy_until;
    enum schedule_work doing; /* until busy_until */
    struct naive_link to_next, to_previous;
};

static int naive_arrived(const struct naive_link *link, int step, int micro_batches, int now)
{
    int count = 0;
    for (int i = step * micro_batches; i < link->sent && i < (step + 1) * micro_batches; i++) {
        count += link->arrival[i] <= now;
    }
    return count;
}

static void naive_send(struct naive_link *link, int send, const struct naive_stage *before, int now)
{
    while (link->sent < link->queued && link->busy_until <= now) {
        link->busy_until = now + before->half_latency + send + before->half_latency;
        link->arrival[link->sent++] = now + before->half_latency + send + before->decode;
    }
}

static void naive_finish(struct naive_stage *stage, int index, int count, int now)
{
    if (stage->doing == SCHEDULE_FORWARD && index + 1 < count) {
        stage->to_next.queue[stage->to_next.queued++] = now;
    }
    if (stage->doing == SCHEDULE_BACKWARD && index > 0) {
        stage->to_previous.queue[stage->to_previous.queued++] = now;
    }
    if (stage->doing == SCHEDULE_UPDATE) {
        stage->step++;
        stage->forwards = stage->backwards = 0;
        stage->summed = stage->sum_sent = stage->relayed = false;
        stage->norm_at = stage->total_at = -1;
    }
    stage->doing = SCHEDULE_WAIT;
}

static bool naive_idle(const struct naive_link *link, int now)
{
    return link->sent == link->queued && link->busy_until <= now;
}

static bool naive_there(int at, int now)
{
    return at >= 0 && at <= now;
}

/* Send the sums of squares of stages that have completed their passes. Tensors on the same link go
 * first. Returns whether something has changed. */
static bool naive_sums(struct naive_stage *all, int count, int micro_batches, int now)
{
    bool changed = false;
    for (int i = 0; i < count; i++) {
        struct naive_stage *stage = &all[i];
        const bool done = stage->backwards == micro_batches && stage->doing == SCHEDULE_WAIT;
        const bool fed = i + 1 == count || naive_there(stage->norm_at, now);
        if (done && !stage->summed && fed) {
            stage->summed = changed = true;
            stage->total_at = i == 0 ? now : stage->total_at;
        }
        if (done && i > 0 && stage->summed && !stage->sum_sent &&
            naive_idle(&stage->to_previous, now)) {
            all[i - 1].norm_at = now + all[i - 1].half_latency;
            stage->to_previous.busy_until = now + 2 * all[i - 1].half_latency;
            stage->sum_sent = changed = true;
        }
        if (done && i + 1 < count && !stage->relayed && naive_there(stage->total_at, now) &&
            naive_idle(&stage->to_next, now)) {
            all[i + 1].total_at = now + stage->half_latency;
            stage->to_next.busy_until = now + 2 * stage->half_latency;
            stage->relayed = changed = true;
        }
    }
    return changed;
}

/* Backward before forward, as 1F1B requires. A second, naive version on purpose. */
static void naive_start(struct naive_stage *all, int index, int count, int micro_batches,
                        bool clips, int now)
{
    struct naive_stage *stage = &all[index];
    int inputs = micro_batches, gradients = stage->forwards;
    if (index > 0) {
        inputs = naive_arrived(&all[index - 1].to_next, stage->step, micro_batches, now);
    }
    if (index + 1 < count) {
        gradients = naive_arrived(&all[index + 1].to_previous, stage->step, micro_batches, now);
    }
    if (stage->backwards == micro_batches) {
        if (!clips || naive_there(stage->total_at, now)) {
            stage->doing = SCHEDULE_UPDATE;
            stage->busy_until = now + stage->update;
        }
    } else if (gradients > stage->backwards && stage->forwards > stage->backwards) {
        stage->doing = SCHEDULE_BACKWARD;
        stage->backwards++;
        stage->busy_until = now + stage->backward;
    } else if (stage->forwards < micro_batches && inputs > stage->forwards &&
               stage->forwards - stage->backwards < stage->in_flight) {
        stage->doing = SCHEDULE_FORWARD;
        stage->forwards++;
        stage->busy_until = now + stage->forward;
    }
}

static double naive_play(struct naive_stage *stage, int count, int micro_batches, bool clips)
{
    int warm = 0;
    for (int i = 0; i < count; i++) {
        stage[i].norm_at = stage[i].total_at = -1;
    }
    for (int now = 0;; now++) {
        for (int i = 0; i < count; i++) {
            if (stage[i].doing != SCHEDULE_WAIT && stage[i].busy_until == now) {
                bool update = i == 0 && stage[i].doing == SCHEDULE_UPDATE;
                naive_finish(&stage[i], i, count, now);
                warm = update && stage[0].step == TIMELINE_WARMUP_STEPS ? now : warm;
                if (update && stage[0].step == TIMELINE_STEPS) {
                    return (double)(now - warm) / (TIMELINE_STEPS - TIMELINE_WARMUP_STEPS);
                }
            }
        }
        for (int i = 0; i + 1 < count; i++) {
            naive_send(&stage[i].to_next, stage[i].send_forward, &stage[i], now);
            naive_send(&stage[i + 1].to_previous, stage[i].send_backward, &stage[i], now);
        }
        while (clips && naive_sums(stage, count, micro_batches, now)) {
        }
        for (int i = 0; i < count; i++) {
            if (stage[i].doing == SCHEDULE_WAIT) {
                naive_start(stage, i, count, micro_batches, clips, now);
            }
        }
    }
}

static int draw(const struct rng_stream *stream, uint64_t *index, int low, int high)
{
    return low + (int)rng_below(stream, (*index)++, (uint64_t)(high - low + 1));
}

static void the_timeline_equals_a_naive_simulation(void **state)
{
    (void)state;
    struct rng_stream stream = rng_stream(1, RNG_SIMULATION, 10, 0);
    uint64_t index = 0;
    for (int trial = 0; trial < 3000; trial++) {
        int count = draw(&stream, &index, 1, NAIVE_STAGES);
        int micro_batches = draw(&stream, &index, 1, NAIVE_MICRO_BATCHES);
        static struct naive_stage naive[NAIVE_STAGES];
        memset(naive, 0, sizeof(naive));
        struct timeline_stage stage[NAIVE_STAGES];
        for (int i = 0; i < count; i++) {
            naive[i].forward = draw(&stream, &index, 1, 6);
            naive[i].backward = draw(&stream, &index, 1, 9);
            naive[i].update = draw(&stream, &index, 1, 4);
            naive[i].in_flight = draw(&stream, &index, 1, 7);
            naive[i].send_forward = draw(&stream, &index, 1, 6);
            naive[i].send_backward = draw(&stream, &index, 1, 6);
            naive[i].half_latency = draw(&stream, &index, 0, 4);
            naive[i].decode = draw(&stream, &index, 0, 3);
            const int latency = 2 * naive[i].half_latency;
            stage[i] = (struct timeline_stage){
                .forward_seconds = naive[i].forward,
                .backward_seconds = naive[i].backward,
                .update_seconds = naive[i].update,
                .in_flight = (size_t)naive[i].in_flight,
                .send_forward_seconds = latency + naive[i].send_forward,
                .send_backward_seconds = latency + naive[i].send_backward,
                .latency_seconds = latency,
                .after_seconds = naive[i].decode - naive[i].half_latency,
            };
        }
        const bool clips = trial % 2 == 1;
        assert_seconds(clipped_step_of(stage, (size_t)count, (size_t)micro_batches, clips),
                       naive_play(naive, count, micro_batches, clips));
    }
}

/* ---- steps that overlap ---- */

static double async_step_of(const struct timeline_stage *stage, size_t count)
{
    const struct timeline_rules rules = {.micro_batches = 1, .async = true};
    struct timeline_result result;
    timeline_play(stage, count, &rules, &result);
    return result.step_seconds;
}

static void overlapping_steps_of_free_links_take_the_slowest_stage(void **state)
{
    (void)state;
    for (size_t count = 1; count <= 6; count++) {
        struct timeline_stage stage[6];
        for (size_t i = 0; i < count; i++) {
            stage[i] = stage_of(1, 2, count - i);
        }
        assert_seconds(async_step_of(stage, count), 3);
        stage[count / 2] = stage_of(2, 3, count - count / 2);
        stage[count / 2].update_seconds = 0.5;
        assert_seconds(async_step_of(stage, count), 5.5);
    }
}

/* A link as slow as its stages: a batch takes 2 * 2 + 2 * 2 seconds there and back. */
static void more_batches_in_flight_hide_a_slow_link(void **state)
{
    (void)state;
    struct timeline_stage stage[] = {stage_of(1, 1, 2), stage_of(1, 1, 1)};
    stage[0].send_forward_seconds = stage[0].send_backward_seconds = 2;
    assert_seconds(async_step_of(stage, 2), 4);
    stage[0].in_flight = 4;
    assert_seconds(async_step_of(stage, 2), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_stage_takes_the_sum_of_its_work),
        cmocka_unit_test(two_equal_stages_take_m_plus_one_rounds),
        cmocka_unit_test(the_strict_order_may_save_a_wait),
        cmocka_unit_test(equal_stages_have_the_bubble_of_the_field),
        cmocka_unit_test(one_micro_batch_in_flight_does_not_overlap),
        cmocka_unit_test(a_tensor_arrives_before_its_answer),
        cmocka_unit_test(a_link_carries_one_tensor_at_a_time),
        cmocka_unit_test(an_update_of_a_later_stage_delays_the_next_step),
        cmocka_unit_test(busy_shares_are_work_over_step),
        cmocka_unit_test(a_share_stretches_a_stage_that_always_works),
        cmocka_unit_test(short_work_after_a_wait_is_not_stopped),
        cmocka_unit_test(more_in_flight_hides_slow_links),
        cmocka_unit_test(a_limit_that_held_up_a_forward_is_named),
        cmocka_unit_test(many_micro_batches_are_extrapolated),
        cmocka_unit_test(clipping_by_the_norm_adds_latency_that_work_does_not_hide),
        cmocka_unit_test(one_stage_has_its_norm_at_once),
        cmocka_unit_test(the_timeline_equals_a_naive_simulation),
        cmocka_unit_test(overlapping_steps_of_free_links_take_the_slowest_stage),
        cmocka_unit_test(more_batches_in_flight_hide_a_slow_link),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
