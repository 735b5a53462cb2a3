/* Pipelines in the strict order, played in every order in which tensors and the notice of the flush
 * can arrive. */
#include <string.h>

#include "libtrain/schedule/schedule.h"
#include "tests/support/test.h"

enum { STAGES = 4, BATCHES_MAX = 5, STATES_MAX = 1 << 18 };

/* All counts are from the start on. */
struct stage {
    unsigned char forwards, backwards, updates;
    unsigned char inputs, gradients; /* arrived */
    unsigned char told;              /* it knows of the flush */
};

struct state {
    struct stage stage[STAGES];
};

struct game {
    size_t in_flight[STAGES];
    size_t count, batches;
    bool deadlock;
    /* The work that followed these counts; whatever else has arrived, it is the same. */
    enum schedule_work after[STAGES][BATCHES_MAX + 1][BATCHES_MAX + 1][2];
    struct state *seen; /* a set; a state is never all 0 after its first move */
    size_t seen_count;
};

static size_t hash(const struct state *state)
{
    const unsigned char *byte = (const unsigned char *)state;
    size_t sum = 14695981039346656037u;
    for (size_t i = 0; i < sizeof(*state); i++) {
        sum = (sum ^ byte[i]) * 1099511628211u;
    }
    return sum ^ (sum >> 31);
}

static bool is_new(struct game *game, const struct state *state)
{
    static const struct state none;
    size_t at = hash(state) % STATES_MAX;
    while (memcmp(&game->seen[at], &none, sizeof(none)) != 0) {
        if (memcmp(&game->seen[at], state, sizeof(*state)) == 0) {
            return false;
        }
        at = (at + 1) % STATES_MAX;
    }
    assert_true(++game->seen_count < STATES_MAX / 2);
    game->seen[at] = *state;
    return true;
}

static enum schedule_work next(struct game *game, const struct state *state, size_t index)
{
    const struct stage *stage = &state->stage[index];
    const size_t done = stage->updates;
    const bool last = index + 1 == game->count;
    const struct schedule_progress progress = {
        .micro_batches = 1,
        .strict = true,
        .flush = stage->told ? game->batches - done : SCHEDULE_NO_FLUSH,
        .in_flight = game->in_flight[index],
        .inputs = (index == 0 ? game->batches : stage->inputs) - done,
        .gradients = (last ? stage->forwards : stage->gradients) - done,
        .forwards = stage->forwards - done,
        .backwards = stage->backwards - done,
    };
    const enum schedule_work work = schedule_next(&progress);
    if (work != SCHEDULE_WAIT) {
        enum schedule_work *before =
            &game->after[index][stage->forwards][stage->backwards][stage->backwards - done];
        assert_true(*before == SCHEDULE_WAIT || *before == work);
        *before = work;
    }
    return work;
}

static void play(struct game *game, const struct state *state, size_t depth);

static void follow(struct game *game, const struct state *state, size_t depth, bool *moved)
{
    *moved = true;
    if (is_new(game, state)) {
        play(game, state, depth + 1);
    }
}

static void work_on(struct game *game, const struct state *state, size_t i, size_t depth,
                    bool *moved)
{
    struct state after = *state;
    switch (next(game, state, i)) {
    case SCHEDULE_WAIT: return;
    case SCHEDULE_FORWARD:
        after.stage[i].forwards++;
        /* Stage 0 decides on the flush when it begins the last batch. */
        after.stage[i].told |= i == 0 && after.stage[i].forwards == game->batches;
        break;
    case SCHEDULE_BACKWARD: after.stage[i].backwards++; break;
    case SCHEDULE_UPDATE: after.stage[i].updates++; break;
    }
    follow(game, &after, depth, moved);
}

static void arrive_at(struct game *game, const struct state *state, size_t i, size_t depth,
                      bool *moved)
{
    struct state after = *state;
    struct stage *stage = &after.stage[i];
    if (i > 0 && stage->inputs < state->stage[i - 1].forwards) {
        stage->inputs++;
        follow(game, &after, depth, moved);
        after = *state;
    }
    if (i > 0 && !stage->told && state->stage[i - 1].told &&
        state->stage[i - 1].forwards == game->batches) {
        stage->told = 1;
        follow(game, &after, depth, moved);
        after = *state;
    }
    if (i + 1 < game->count && stage->gradients < state->stage[i + 1].backwards) {
        stage->gradients++;
        follow(game, &after, depth, moved);
    }
}

static void play(struct game *game, const struct state *state, size_t depth)
{
    assert_true(depth < STAGES * BATCHES_MAX * 6);
    bool moved = false, ended = true;
    for (size_t i = 0; i < game->count; i++) {
        work_on(game, state, i, depth, &moved);
        arrive_at(game, state, i, depth, &moved);
        ended = ended && state->stage[i].updates == game->batches;
    }
    game->deadlock = game->deadlock || (!moved && !ended);
}

/* Play every course of the pipeline. Return whether one of them stands still before its end. */
static bool deadlocks(const size_t *in_flight, size_t count, size_t batches)
{
    static struct state seen[STATES_MAX];
    static const struct state start;
    struct game game = {.count = count, .batches = batches, .seen = seen};
    memset(seen, 0, sizeof(seen));
    memcpy(game.in_flight, in_flight, count * sizeof(*in_flight));
    play(&game, &start, 0);
    return game.deadlock;
}

static void limits_that_never_rise_end_every_course_in_one_order_of_work(void **state)
{
    (void)state;
    size_t played = 0;
    for (size_t count = 1; count <= STAGES; count++) {
        const size_t most = count == STAGES ? 3 : 4;
        size_t all = 1;
        for (size_t i = 0; i + 1 < count; i++) {
            all *= most;
        }
        for (size_t code = 0; code < all; code++) {
            size_t in_flight[STAGES] = {0};
            in_flight[count - 1] = 1;
            for (size_t i = 0, rest = code; i + 1 < count; i++, rest /= most) {
                in_flight[i] = 1 + rest % most;
            }
            const size_t batches = count == STAGES ? 4 : 5;
            if (schedule_limits_fit(in_flight, count)) {
                assert_false(deadlocks(in_flight, count, batches));
                assert_false(deadlocks(in_flight, count, 1));
                played++;
            } else {
                assert_true(deadlocks(in_flight, count, batches));
            }
        }
    }
    assert_int_equal(played, 1 + 4 + 10 + 10);
}

static void the_weights_of_a_forward_pass_are_in_flight_batches_old(void **state)
{
    (void)state;
    for (size_t in_flight = 1; in_flight <= 4; in_flight++) {
        struct schedule_progress progress = {.micro_batches = 1,
                                             .strict = true,
                                             .flush = SCHEDULE_NO_FLUSH,
                                             .in_flight = in_flight,
                                             .inputs = 100,
                                             .gradients = 100};
        size_t updates = 0, begun = 0;
        while (begun < 20) {
            switch (schedule_next(&progress)) {
            case SCHEDULE_WAIT: fail_msg("everything is there"); break;
            case SCHEDULE_FORWARD:
                begun++;
                assert_int_equal(updates, begun > in_flight ? begun - in_flight : 0);
                progress.forwards++;
                break;
            case SCHEDULE_BACKWARD: progress.backwards++; break;
            case SCHEDULE_UPDATE:
                updates++;
                progress.forwards--;
                progress.backwards--;
                break;
            }
        }
    }
}

static void limits_that_rise_do_not_fit(void **state)
{
    (void)state;
    assert_true(schedule_limits_fit((const size_t[]){3, 2, 1}, 3));
    assert_true(schedule_limits_fit((const size_t[]){6, 1, 1}, 3));
    assert_false(schedule_limits_fit((const size_t[]){3, 4, 1}, 3));
    assert_false(schedule_limits_fit((const size_t[]){2, 3, 1}, 3));
    assert_false(schedule_limits_fit((const size_t[]){2, 2}, 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_that_never_rise_end_every_course_in_one_order_of_work),
        cmocka_unit_test(the_weights_of_a_forward_pass_are_in_flight_batches_old),
        cmocka_unit_test(limits_that_rise_do_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
