/* As many jobs as there may be, and as many devices of each as the first argument says (default: 1;
 * 4: as many as there may be): no step asks for more than its actions hold, and nothing is
 * forgotten.
 *
 *   test_core_scale [DEVICES] */
#include <stdio.h>
#include <stdlib.h>

#include "coordinator/core/placement/placement.h"
#include "coordinator/core/placement/question.h"
#include "tests/support/no_alloc.h"
#include "tests/unit/coordinator_core/story.h"

struct crowd {
    struct core *core;
    struct actions actions;
    struct model *model;
    struct planning *planning;
    int64_t now_ms;
    size_t most; /* actions of a step */
};

static void step_alone(struct crowd *crowd, struct event *event)
{
    event->now_ms = crowd->now_ms;
    event->wall_ms = 1700000000000 + crowd->now_ms;
    crowd->actions.count = 0;
    no_alloc_begin();
    core_step(crowd->core, event, &crowd->actions);
    no_alloc_end();
    crowd->most = crowd->actions.count > crowd->most ? crowd->actions.count : crowd->most;
}

static const struct action *find_question(const struct crowd *crowd)
{
    for (size_t i = 0; i < crowd->actions.count; i++) {
        if (crowd->actions.item[i].type == ACTION_PLAN) {
            return &crowd->actions.item[i];
        }
    }
    return NULL;
}

static void step(struct crowd *crowd, struct event *event)
{
    step_alone(crowd, event);
    for (const struct action *asked = find_question(crowd); asked; asked = find_question(crowd)) {
        struct planned planned;
        struct err err = {0};
        struct event answer = {.type = EVENT_PLANNED,
                               .planned = {.question = asked->question, .planned = &planned}};
        if (!core_planning(crowd->core, asked->question, crowd->planning)) {
            return;
        }
        answer.planned.code = placement_solve(crowd->planning, &planned, &err);
        step_alone(crowd, &answer);
    }
}

static void tick(struct crowd *crowd, int64_t until_ms)
{
    for (int ticks = 0; core_deadline_ms(crowd->core) <= until_ms; ticks++) {
        assert_true(ticks < 10000); /* a step that is cut short goes on in the next */
        int64_t at_ms = core_deadline_ms(crowd->core);
        crowd->now_ms = at_ms > crowd->now_ms ? at_ms : crowd->now_ms;
        struct event event = {.type = EVENT_TICK};
        step(crowd, &event);
    }
    crowd->now_ms = until_ms;
}

static void enroll(struct crowd *crowd, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct enroll_request request = {.protocol = PROTOCOL_VERSION,
                                         .boot = "boot",
                                         .probe = {.gemm_gflops = 10,
                                                   .memory_bytes_per_second = 1e10,
                                                   .free_memory_bytes = 1 << 30,
                                                   .threads = 1}};
        (void)snprintf(request.public_key, sizeof(request.public_key), "key-%zu", i);
        (void)snprintf(request.name, sizeof(request.name), "device-%zu", i);
        struct event event = {.type = EVENT_ENROLL, .enroll = {.request = &request}};
        step(crowd, &event);
    }
}

static void submit(struct crowd *crowd, size_t count, int64_t devices_each)
{
    const struct job_data data = {.train_samples = 1000};
    for (size_t i = 0; i < count; i++) {
        struct job_spec spec = world_spec("j", 100);
        spec.devices_min = spec.devices_max = devices_each;
        struct event event = {.type = EVENT_JOB_SUBMIT,
                              .job_submit = {.spec = &spec, .data = &data, .model = crowd->model}};
        step(crowd, &event);
    }
}

static size_t jobs_in(const struct crowd *crowd, enum job_state state)
{
    size_t count = 0;
    for (size_t i = 0; i < core_job_count(crowd->core); i++) {
        count += core_job_at(crowd->core, i)->state == (int)state;
    }
    return count;
}

static size_t devices_each = 1; /* set by main, before the tests */

/* All devices go silent at once, and all jobs fail in one step: more than its actions can take. */
static void everybody_may_be_lost_at_once(void **state)
{
    (void)state;
    struct crowd crowd = {.now_ms = 1000,
                          .actions = {.item = calloc(ACTIONS_MAX, sizeof(struct action))}};
    struct err err = {0};
    assert_non_null(crowd.actions.item);
    crowd.model = world_model();
    assert_ok(question_new(&crowd.planning, &err), &err);
    assert_ok(core_new(&core_config_default, &crowd.core, &err), &err);
    struct event event = {.type = EVENT_RESTORED};
    step(&crowd, &event);
    size_t devices = JOBS_LIVE_MAX * devices_each;
    enroll(&crowd, devices);
    submit(&crowd, JOBS_LIVE_MAX, (int64_t)devices_each);
    assert_int_equal(core_device_count(crowd.core), devices);
    assert_int_equal(jobs_in(&crowd, JOB_PREPARING), JOBS_LIVE_MAX);
    tick(&crowd, crowd.now_ms + 10000);
    assert_int_equal(jobs_in(&crowd, JOB_WAITING_FOR_DEVICES), JOBS_LIVE_MAX);
    for (size_t i = 0; i < devices; i++) {
        assert_int_equal(core_device_at(crowd.core, i)->state, DEVICE_LOST);
        assert_string_equal(core_device_at(crowd.core, i)->job.text, "");
    }
    assert_true(crowd.most < ACTIONS_MAX);
    core_free(&crowd.core);
    question_free(&crowd.planning);
    model_free(&crowd.model);
    free(crowd.actions.item);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everybody_may_be_lost_at_once),
    };
    _Static_assert(JOBS_LIVE_MAX * 4 == DEVICES_MAX, "as many devices as there may be");
    devices_each = argc > 1 ? strtoul(argv[1], NULL, 10) : devices_each;
    if (devices_each < 1 || devices_each > 4) {
        print_error("usage: test_core_scale [DEVICES from 1 to 4]\n");
        return 2;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
