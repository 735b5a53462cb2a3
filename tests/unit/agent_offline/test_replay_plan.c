/* The plan of a replay: the actions for the log of a random world give the state of every average
 * in it. A log that lacks a record, or has one twice, gives no other state. */
#include <stdlib.h>
#include <string.h>

#include "agent/offline/replay_plan.h"
#include "tests/support/test.h"
#include "tests/unit/agent_core/mixing_world.h"

enum { RECORDS = MIXING_LOG + MIXING_MOST * MIXING_RECORDS_MAX, PLACES = RECORDS };

/* ---- the actions on numbers ---- */

struct machine {
    const struct replay_plan *plan;
    const struct mixing_world *world;
    uint64_t state[PLACES], copy[PLACES];
    int64_t version[PLACES], group[PLACES]; /* of the states */
    int64_t steps;
    size_t compared, written, wrong;
};

static void start(struct machine *machine, const struct replay_action *action)
{
    const struct mix_member *own = &action->record->own;
    machine->state[action->state] = action->peer == REPLAY_NONE
                                        ? mixing_first_state(own->group, own->generation)
                                        : machine->copy[action->peer];
    machine->version[action->state] = 0;
    machine->group[action->state] = own->group;
}

static void train(struct machine *machine, const struct replay_action *action)
{
    assert_int_equal(machine->version[action->state], action->first);
    assert_int_equal(machine->group[action->state], action->group);
    assert_true(action->last > action->first && action->rate_step >= 1);
    for (int64_t version = action->first + 1; version <= action->last; version++) {
        machine->state[action->state] = mixing_step(machine->state[action->state], version);
        machine->steps++;
    }
    machine->version[action->state] = action->last;
}

static void add_up(struct machine *machine, const struct replay_action *action)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < action->record->peer_count; i++) {
        const size_t source = machine->plan->source[(size_t)action->first + i];
        assert_true(source != action->own);
        sum = mixing_add(sum, machine->copy[source]);
    }
    machine->copy[action->own] = sum;
}

static void compare(struct machine *machine, const struct replay_action *action)
{
    const struct mixing_world *world = machine->world;
    machine->written++;
    for (size_t i = 0; i < world->averages; i++) {
        const struct mixing_average *average = &world->average[i];
        const struct mix_record record = {
            .xid = average->xid, .kind = MIX_AVERAGE, .own = average->author};
        if (mix_record_is(&record, action->record)) {
            machine->wrong += machine->copy[action->own] != average->state;
            machine->compared++;
        }
    }
}

static void act(struct machine *machine, const struct replay_action *action)
{
    switch (action->work) {
    case REPLAY_START: start(machine, action); return;
    case REPLAY_FORK:
        assert_true(action->own != action->state);
        machine->state[action->state] = machine->state[action->own];
        machine->version[action->state] = machine->version[action->own];
        machine->group[action->state] = machine->group[action->own];
        return;
    case REPLAY_TRAIN: train(machine, action); return;
    case REPLAY_COPY: machine->copy[action->own] = machine->state[action->state]; return;
    case REPLAY_MIX:
        assert_int_equal(machine->version[action->state], action->record->applied_step);
        machine->state[action->state] =
            mixing_move(machine->state[action->state], machine->copy[action->own],
                        machine->copy[action->peer], action->record->alpha);
        return;
    case REPLAY_AVERAGE: add_up(machine, action); return;
    case REPLAY_WRITE: compare(machine, action); return;
    }
}

static void check_places(const struct replay_plan *plan, const struct replay_action *action)
{
    const size_t own_places = action->work == REPLAY_FORK ? plan->states : plan->copies;
    assert_true(action->state == REPLAY_NONE || action->state < plan->states);
    assert_true(action->own == REPLAY_NONE || action->own < own_places);
    assert_true(action->peer == REPLAY_NONE || action->peer < plan->copies);
}

static const struct machine *run(const struct replay_plan *plan, const struct mixing_world *world)
{
    static struct machine machine;
    machine = (struct machine){.plan = plan, .world = world};
    for (size_t i = 0; i < plan->count; i++) {
        check_places(plan, &plan->action[i]);
        act(&machine, &plan->action[i]);
    }
    assert_int_equal(machine.steps, plan->steps);
    return &machine;
}

/* ---- logs ---- */

static struct mix_record log_of[RECORDS];

static size_t gather(const struct mixing_world *world)
{
    size_t count = world->logged;
    memcpy(log_of, world->log, count * sizeof(log_of[0]));
    for (size_t g = 0; g < world->count; g++) {
        const struct mixing *mixing = &world->group[g].mixing;
        for (size_t i = 0; i < mixing->record_count; i++) {
            size_t at = 0;
            while (at < count && !mix_record_is(&log_of[at], &mixing->record[i])) {
                at++;
            }
            if (at == count) {
                log_of[count++] = mixing->record[i];
            }
        }
    }
    return count;
}

static size_t count_averages(size_t count)
{
    size_t averages = 0;
    for (size_t i = 0; i < count; i++) {
        averages += log_of[i].kind == MIX_AVERAGE;
    }
    return averages;
}

static int plan_of(const struct mixing_world *world, size_t count, bool all,
                   struct replay_plan **out, struct err *err)
{
    const struct replay_log log = {
        .record = log_of, .count = count, .groups = world->count, .all_averages = all};
    return replay_plan_new(&log, out, err);
}

/* ---- tests ---- */

static uint64_t first_seed = 1, last_seed = 2000;
static struct mixing_world world;

static void the_actions_give_the_averages_of_random_worlds(void **state)
{
    (void)state;
    size_t compared = 0, forks = 0, starts = 0;
    for (uint64_t seed = first_seed; seed <= last_seed; seed++) {
        struct replay_plan *plan = NULL;
        struct err err = {0};
        mixing_world_run(&world, seed, true);
        const size_t count = gather(&world), averages = count_averages(count);
        if (averages == 0) {
            assert_int_equal(plan_of(&world, count, true, &plan, &err), ERR_INVALID);
            continue;
        }
        for (int all = 1; all >= 0; all--) {
            const int rc = plan_of(&world, count, all, &plan, &err);
            if (rc == ERR_INVALID && strstr(err.text, "which one counts")) {
                break; /* two groups have computed different averages for one match */
            }
            assert_ok(rc, &err);
            const struct machine *machine = run(plan, &world);
            assert_int_equal(machine->written, all ? averages : 1);
            assert_int_equal(machine->wrong, 0);
            compared += machine->compared;
            for (size_t i = 0; i < plan->count; i++) {
                forks += plan->action[i].work == REPLAY_FORK;
                starts +=
                    plan->action[i].work == REPLAY_START && plan->action[i].peer != REPLAY_NONE;
            }
            replay_plan_free(&plan);
        }
    }
    print_message("%zu averages, %zu states and %zu averages begun with\n", compared, forks,
                  starts);
    const size_t seeds = (size_t)(last_seed - first_seed + 1);
    assert_true(compared > 2 * seeds && forks > seeds / 2 && starts > seeds / 4);
}

/* Whether the move is of an incarnation whose state a later one begins with: a start does not say
 * how many moves that has. */
static bool goes_on(size_t count, const struct mix_record *move)
{
    bool found = false;
    for (size_t i = 0; i < count; i++) {
        const struct mix_member *from = &log_of[i].peer[0];
        found = found || (mix_record_forks(&log_of[i]) && from->group == move->own.group &&
                          from->generation == move->own.generation);
    }
    return found && (move->kind == MIX_PAIR || move->kind == MIX_ADOPT);
}

/* What an average depends on cannot be left out. */
static void a_log_with_a_gap_gives_an_error_or_the_same_states(void **state)
{
    (void)state;
    size_t errors = 0, compared = 0;
    for (uint64_t seed = first_seed; seed < first_seed + 40; seed++) {
        mixing_world_run(&world, seed, true);
        const size_t count = gather(&world);
        for (size_t i = 0; i < count; i++) {
            const struct mix_record gone = log_of[i];
            struct replay_plan *plan = NULL;
            struct err err = {0};
            log_of[i] = log_of[count - 1];
            if (plan_of(&world, count - 1, true, &plan, &err) == 0) {
                const struct machine *machine = run(plan, &world);
                compared += machine->compared;
                assert_true(machine->wrong == 0 || goes_on(count - 1, &gone));
            } else {
                errors++;
                assert_true(err.text[0] != '\0');
            }
            replay_plan_free(&plan);
            log_of[count - 1] = log_of[i];
            log_of[i] = gone;
        }
    }
    print_message("%zu errors, %zu averages\n", errors, compared);
    assert_true(errors > 100 && compared > 100);
}

static void a_record_that_is_there_twice_is_rejected(void **state)
{
    (void)state;
    for (uint64_t seed = first_seed; seed < first_seed + 20; seed++) {
        mixing_world_run(&world, seed, true);
        const size_t count = gather(&world);
        for (size_t i = 0; i < count; i++) {
            struct replay_plan *plan = NULL;
            struct err err = {0};
            log_of[count] = log_of[i];
            assert_int_equal(plan_of(&world, count + 1, true, &plan, &err), ERR_INVALID);
            assert_holds(err.text, "in the log twice");
        }
    }
}

/* Two groups that each need a state of the other that follows. */
static void a_cycle_is_rejected(void **state)
{
    (void)state;
    static const struct mix_record record[] = {
        {.kind = MIX_START, .own = {0, 1, 0, 0, 0}},
        {.kind = MIX_START, .own = {1, 1, 0, 0, 0}},
        {.xid = {1, 1},
         .kind = MIX_PAIR,
         .own = {0, 1, 1, 0, 0},
         .peer = {{1, 1, 2, 1, 0}},
         .peer_count = 1,
         .applied_step = 1},
        {.xid = {1, 2},
         .kind = MIX_PAIR,
         .own = {1, 1, 1, 0, 0},
         .peer = {{0, 1, 2, 1, 0}},
         .peer_count = 1,
         .applied_step = 1},
        {.xid = {1, 3},
         .kind = MIX_AVERAGE,
         .own = {0, 1, 3, 1, 0},
         .peer = {{0, 1, 3, 1, 0}, {1, 1, 3, 1, 0}},
         .peer_count = 2},
    };
    struct replay_plan *plan = NULL;
    struct err err = {0};
    memcpy(log_of, record, sizeof(record));
    world.count = 2;
    assert_int_equal(plan_of(&world, sizeof(record) / sizeof(record[0]), false, &plan, &err),
                     ERR_INVALID);
    assert_holds(err.text, "pair 1:1 of group 0, generation 1 needs a state that depends on it");
    world.count = 1;
    assert_int_equal(plan_of(&world, sizeof(record) / sizeof(record[0]), false, &plan, &err),
                     ERR_INVALID);
    assert_holds(err.text, "the job has 1 groups");
}

/* A group that computed an average was lost, and another one took its place: 4 records. */
static void log_two_authors(void)
{
    static const struct mix_record record[] = {
        {.kind = MIX_START, .own = {0, 1, 0, 0, 0}},
        {.kind = MIX_START, .own = {1, 1, 0, 0, 0}},
        {.xid = {1, 1},
         .kind = MIX_AVERAGE,
         .own = {0, 1, 1, 0, 0},
         .peer = {{0, 1, 1, 0, 0}, {1, 1, 1, 0, 0}},
         .peer_count = 2},
        {.xid = {1, 1},
         .kind = MIX_AVERAGE,
         .own = {1, 1, 1, 0, 0},
         .peer = {{1, 1, 1, 0, 0}},
         .peer_count = 1},
    };
    memcpy(log_of, record, sizeof(record));
    world.count = 2;
}

static void a_start_names_which_of_two_averages_it_begins_with(void **state)
{
    (void)state;
    static const struct mix_record then[] = {
        {.xid = {1, 1},
         .kind = MIX_START,
         .own = {0, 2, 0, 0, 0},
         .peer = {{1, 1, 0, 0, 0}},
         .peer_count = 1},
        {.xid = {1, 2},
         .kind = MIX_AVERAGE,
         .own = {0, 2, 1, 0, 0},
         .peer = {{0, 2, 1, 0, 0}},
         .peer_count = 1},
    };
    enum { COUNT = 4 + sizeof(then) / sizeof(then[0]) };
    struct replay_plan *plan = NULL;
    struct err err = {0};
    size_t averages = 0;
    log_two_authors();
    memcpy(log_of + 4, then, sizeof(then));
    assert_ok(plan_of(&world, COUNT, false, &plan, &err), &err);
    for (size_t i = 0; i < plan->count; i++) {
        const struct replay_action *action = &plan->action[i];
        averages += action->work == REPLAY_AVERAGE;
        assert_true(action->work != REPLAY_AVERAGE || action->record != &log_of[2]);
    }
    assert_int_equal(averages, 2);
    replay_plan_free(&plan);
    log_of[4].peer_count = 0;
    assert_int_equal(plan_of(&world, COUNT, false, &plan, &err), ERR_INVALID);
    assert_holds(err.text, "which one counts is not known");
    log_of[4].peer_count = 1;
    log_of[4].peer[0].group = 0;
    log_of[4].peer[0].generation = 2;
    assert_int_equal(plan_of(&world, COUNT, false, &plan, &err), ERR_INVALID);
    assert_holds(err.text, "the record of its average is missing");
}

/* Which average the plan writes at its end; the number of the record in the log. */
static size_t last_of(size_t count)
{
    struct replay_plan *plan = NULL;
    struct err err = {0};
    assert_ok(plan_of(&world, count, false, &plan, &err), &err);
    const size_t last = (size_t)(plan->last - log_of);
    assert_ptr_equal(plan->action[plan->count - 1].record, plan->last);
    replay_plan_free(&plan);
    return last;
}

/* The first author was lost before it had sent the last average, or after. */
static void the_log_says_which_of_two_last_averages_was_stored(void **state)
{
    (void)state;
    const struct mix_record stored = {.xid = {1, 1}, .kind = MIX_STORED, .own = {1, 1, 0, 0, 0}};
    enum { COUNT = 5 };
    struct replay_plan *plan = NULL;
    struct err err = {0};
    log_two_authors();
    log_of[4] = stored;
    assert_int_equal(plan_of(&world, COUNT - 1, false, &plan, &err), ERR_INVALID);
    assert_holds(err.text, "which one counts is not known"); /* an old log */
    assert_int_equal(last_of(COUNT), 3);
    log_of[4].own.group = 0;
    assert_int_equal(last_of(COUNT), 2);
    log_of[5] = log_of[2]; /* one that was computed later, and never stored */
    log_of[5].xid.counter = 2;
    assert_int_equal(last_of(COUNT + 1), 2);
    log_of[5] = log_of[4];
    log_of[5].own.group = 1;
    assert_int_equal(plan_of(&world, COUNT + 1, false, &plan, &err), ERR_INVALID);
    assert_holds(err.text, "stored 1:1 of group 1, generation 1 contradicts stored 1:1");
    log_of[4].own.generation = 2;
    assert_int_equal(plan_of(&world, COUNT, false, &plan, &err), ERR_INVALID);
    assert_holds(err.text, "stored 1:1 of group 0, generation 2: the record of its average is");
}

int main(int argc, char **argv)
{
    first_seed = argc > 1 ? strtoull(argv[1], NULL, 10) : first_seed;
    last_seed = argc > 2 ? strtoull(argv[2], NULL, 10) : last_seed;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_actions_give_the_averages_of_random_worlds),
        cmocka_unit_test(a_log_with_a_gap_gives_an_error_or_the_same_states),
        cmocka_unit_test(a_record_that_is_there_twice_is_rejected),
        cmocka_unit_test(a_cycle_is_rejected),
        cmocka_unit_test(a_start_names_which_of_two_averages_it_begins_with),
        cmocka_unit_test(the_log_says_which_of_two_last_averages_was_stored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
