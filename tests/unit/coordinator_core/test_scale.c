/* As many devices and jobs as there may be: no step asks for more than its actions hold, and nothing is forgotten. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "tests/unit/coordinator_core/story.h"

struct crowd {
    struct core *core;
    struct actions actions;
    struct model *model;
    int64_t now_ms;
    size_t most; /* actions of a step */
};

static void step(struct crowd *crowd, struct event *event)
{
    event->now_ms = crowd->now_ms;
    event->wall_ms = 1700000000000 + crowd->now_ms;
    crowd->actions.count = 0;
    core_step(crowd->core, event, &crowd->actions);
    crowd->most = crowd->actions.count > crowd->most ? crowd->actions.count : crowd->most;
}

static void tick(struct crowd *crowd, int64_t until_ms)
{
    while (core_deadline_ms(crowd->core) <= until_ms) {
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
        struct enroll_request request = {
            .protocol = PROTOCOL_VERSION,
            .boot = "boot",
            .probe = {.gemm_gflops = 10, .memory_bytes_per_second = 1e10, .free_memory_bytes = 1 << 30, .threads = 1}};
        (void)snprintf(request.public_key, sizeof(request.public_key), "key-%zu", i);
        (void)snprintf(request.name, sizeof(request.name), "device-%zu", i);
        struct event event = {.type = EVENT_ENROLL, .enroll = {.request = &request}};
        step(crowd, &event);
    }
}

static void submit(struct crowd *crowd, size_t count)
{
    const struct job_data data = {.train_samples = 1000};
    for (size_t i = 0; i < count; i++) {
        struct job_spec spec = world_spec("j", 100);
        spec.devices_min = spec.devices_max = 4;
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

static void everybody_may_be_lost_at_once(void **state)
{
    (void)state;
    struct crowd crowd = {.now_ms = 1000, .actions = {.item = calloc(ACTIONS_MAX, sizeof(struct action))}};
    const char *text = model_zoo_text("lenet5");
    const struct model_fit fit = {.input = {28, 28, 1}, .dtype = DTYPE_U8, .classes = 10};
    struct err err = {0};
    json_auto_t *description = NULL;
    assert_non_null(crowd.actions.item);
    assert_ok(json_parse(text, strlen(text), &description, &err), &err);
    assert_ok(model_parse(description, &fit, &crowd.model, NULL, &err), &err);
    assert_ok(core_new(&core_config_default, &crowd.core, &err), &err);
    struct event event = {.type = EVENT_RESTORED};
    step(&crowd, &event);
    enroll(&crowd, DEVICES_MAX);
    submit(&crowd, JOBS_LIVE_MAX);
    assert_int_equal(core_device_count(crowd.core), DEVICES_MAX);
    assert_int_equal(jobs_in(&crowd, JOB_PREPARING), JOBS_LIVE_MAX);
    tick(&crowd, crowd.now_ms + 10000);
    assert_int_equal(jobs_in(&crowd, JOB_WAITING_FOR_DEVICES), JOBS_LIVE_MAX);
    for (size_t i = 0; i < DEVICES_MAX; i++) {
        assert_int_equal(core_device_at(crowd.core, i)->state, DEVICE_LOST);
        assert_string_equal(core_device_at(crowd.core, i)->job, "");
    }
    assert_true(crowd.most < ACTIONS_MAX);
    core_free(&crowd.core);
    model_free(&crowd.model);
    free(crowd.actions.item);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(everybody_may_be_lost_at_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
