#include "libtrain/schedule/schedule.h"
#include "tests/support/test.h"

#define WORKS_MAX 64

/* Play the schedule of a stage whose inputs are all there and whose gradients follow its forwards
 * at once (the last stage) or lag by `lag` forwards; write "F0 B0 ..." as F and B letters. */
static void play(size_t micro_batches, size_t in_flight, size_t lag, char out[WORKS_MAX])
{
    struct schedule_progress progress = {.micro_batches = micro_batches,
                                         .flush = micro_batches,
                                         .in_flight = in_flight,
                                         .inputs = micro_batches};
    size_t count = 0;
    for (;;) {
        progress.gradients = progress.forwards == micro_batches ? micro_batches
                             : progress.forwards > lag          ? progress.forwards - lag
                                                                : 0;
        enum schedule_work work = schedule_next(&progress);
        assert_true(count + 1 < WORKS_MAX);
        assert_int_not_equal(work, SCHEDULE_WAIT);
        if (work == SCHEDULE_UPDATE) {
            break;
        }
        out[count++] = work == SCHEDULE_FORWARD ? 'F' : 'B';
        progress.forwards += work == SCHEDULE_FORWARD;
        progress.backwards += work == SCHEDULE_BACKWARD;
        assert_true(progress.forwards - progress.backwards <= in_flight);
    }
    out[count] = '\0';
    assert_int_equal(progress.backwards, micro_batches);
}

static void the_last_stage_alternates(void **state)
{
    (void)state;
    char works[WORKS_MAX];
    play(4, 1, 0, works);
    assert_string_equal(works, "FBFBFBFB");
}

static void an_earlier_stage_fills_up_then_alternates_then_drains(void **state)
{
    (void)state;
    char works[WORKS_MAX];
    play(5, 3, 2, works);
    assert_string_equal(works, "FFFBFBFBBB");
}

static void a_stage_waits_for_inputs_and_for_gradients(void **state)
{
    (void)state;
    struct schedule_progress progress = {.micro_batches = 4, .flush = 4, .in_flight = 2};
    assert_int_equal(schedule_next(&progress), SCHEDULE_WAIT);
    progress.inputs = 4;
    assert_int_equal(schedule_next(&progress), SCHEDULE_FORWARD);
    progress.forwards = 2;
    assert_int_equal(schedule_next(&progress), SCHEDULE_WAIT);
    progress.gradients = 1;
    assert_int_equal(schedule_next(&progress), SCHEDULE_BACKWARD);
    progress.inputs = progress.gradients = progress.forwards = progress.backwards = 4;
    assert_int_equal(schedule_next(&progress), SCHEDULE_UPDATE);
}

static void the_usual_limit_is_the_distance_to_the_end(void **state)
{
    (void)state;
    assert_int_equal(schedule_in_flight(0, 3, 4), 3);
    assert_int_equal(schedule_in_flight(2, 3, 4), 1);
    assert_int_equal(schedule_in_flight(0, 5, 2), 2);
    assert_int_equal(schedule_in_flight(0, 1, 1), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_stage_alternates),
        cmocka_unit_test(an_earlier_stage_fills_up_then_alternates_then_drains),
        cmocka_unit_test(a_stage_waits_for_inputs_and_for_gradients),
        cmocka_unit_test(the_usual_limit_is_the_distance_to_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
