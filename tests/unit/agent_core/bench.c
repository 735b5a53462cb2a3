#include "tests/unit/agent_core/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"

int bench_set_up(void **state)
{
    struct bench *bench = calloc(1, sizeof(*bench));
    const struct session_config config = {.seed = 1, .boot = "boot_1"};
    struct err err = {0};
    if (!bench || session_new(&config, &bench->session, &err) != 0) {
        free(bench);
        return -1;
    }
    bench->now_ms = 1000;
    *state = bench;
    return 0;
}

int bench_tear_down(void **state)
{
    struct bench *bench = *state;
    session_free(&bench->session);
    free(bench);
    return 0;
}

void bench_step(struct bench *bench, struct session_event event)
{
    event.now_ms = bench->now_ms;
    bench->actions.count = 0;
    session_step(bench->session, &event, &bench->actions);
}

const struct session_action *bench_find(const struct bench *bench, enum session_action_type type)
{
    for (size_t i = 0; i < bench->actions.count; i++) {
        if (bench->actions.item[i].type == type) {
            return &bench->actions.item[i];
        }
    }
    return NULL;
}

void bench_expect(const struct bench *bench, enum session_action_type type)
{
    assert_non_null(bench_find(bench, type));
}

void bench_expect_not(const struct bench *bench, enum session_action_type type)
{
    assert_null(bench_find(bench, type));
}

void bench_enrol(struct bench *bench)
{
    struct session_event event = {.type = SESSION_ENROLLED};
    (void)snprintf(event.enrolled.device.text, ID_SIZE, "%s", BENCH_DEVICE);
    event.enrolled.interval_ms = 1000;
    bench_step(bench, event);
}

void bench_answer_beat(struct bench *bench, int64_t revision)
{
    const struct heartbeat_reply reply = {.interval_ms = 1000, .revision = revision};
    bench_step(bench, (struct session_event){.type = SESSION_BEATEN, .reply = &reply});
}

void bench_start(struct bench *bench)
{
    bench_step(bench, (struct session_event){.type = SESSION_START});
    bench_expect(bench, SESSION_DO_ENROLL);
    bench_enrol(bench);
    bench_expect(bench, SESSION_DO_BEAT);
    bench_expect(bench, SESSION_DO_POLL);
    bench_answer_beat(bench, 0);
}

void bench_break_off(struct bench *bench, enum session_event_type type,
                     enum session_failure failure)
{
    struct session_event event = {.type = type};
    event.failed.failure = failure;
    (void)snprintf(event.failed.text, sizeof(event.failed.text), "it says no");
    bench_step(bench, event);
}

static struct assignment *new_assignment(struct bench *bench, const char *job, int64_t generation,
                                         int phase, int64_t version)
{
    struct assignment *assignment = &bench->assignment;
    memset(assignment, 0, sizeof(*assignment));
    assignment->revision = ++bench->now_ms;
    assignment->interval_ms = 1000;
    assignment->has_run = job != NULL;
    if (job) {
        (void)snprintf(assignment->run.job.text, ID_SIZE, "%s", job);
        assignment->run.generation = generation;
        assignment->run.phase = phase;
        assignment->run.resume_version = version;
        assignment->run.job_spec.autonomy_seconds = 10;
    }
    return assignment;
}

void bench_assign(struct bench *bench, const char *job, int64_t generation, int phase,
                  int64_t version)
{
    const struct assignment *assignment = new_assignment(bench, job, generation, phase, version);
    bench_step(bench, (struct session_event){.type = SESSION_ASSIGNED, .assignment = assignment});
}

void bench_assign_group(struct bench *bench, int64_t generation)
{
    struct assignment *assignment = new_assignment(bench, BENCH_JOB, generation, PHASE_PREPARE, 0);
    assignment->run.has_mix = true;
    bench_step(bench, (struct session_event){.type = SESSION_ASSIGNED, .assignment = assignment});
}

void bench_report(struct bench *bench, enum session_event_type type, int64_t serial,
                  int64_t version)
{
    bench_step(bench, (struct session_event){.type = type, .serial = serial, .version = version});
}

void bench_beat(struct bench *bench)
{
    session_heartbeat(bench->session, &bench->heartbeat);
}

int64_t bench_run(struct bench *bench, int64_t generation)
{
    bench_assign(bench, BENCH_JOB, generation, PHASE_PREPARE, 0);
    const int64_t serial = bench_find(bench, SESSION_DO_PREPARE)->serial;
    bench_report(bench, SESSION_PREPARED, serial, 0);
    bench_assign(bench, BENCH_JOB, generation, PHASE_RUN, 0);
    bench_expect(bench, SESSION_DO_RUN);
    bench_answer_beat(bench, bench->assignment.revision);
    return serial;
}
