/* Whole agents in one process, over loopback, under a coordinator that follows a script: whatever
 * the partition and however often it is planned again, the job comes to the bits of one device. */
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "agent/loop.h"
#include "base/log.h"
#include "tests/support/test.h"
#include "tests/unit/agent/fake_coordinator.h"
#include "tests/unit/agent/tiny.h"

struct agent {
    struct config config;
    struct identity identity;
    struct loop *loop;
    pthread_t thread;
    int leave_fd, signals_fd; /* both ends: what a signalfd reads */
    int rc;
    struct err err;
};

static void *run_agent(void *arg)
{
    struct agent *agent = arg;
    agent->rc = loop_run(agent->loop, agent->leave_fd, &agent->err);
    return NULL;
}

static void start_agent(struct agent *agent, const char *directory, size_t index,
                        const char *coordinator, double slowdown, int64_t threads)
{
    const struct device_probe probe = {.gemm_gflops = 10,
                                       .memory_bytes_per_second = 1e10,
                                       .free_memory_bytes = 1 << 30,
                                       .threads = 1};
    struct err err = {0};
    memset(agent, 0, sizeof(*agent));
    (void)snprintf(agent->config.coordinator, URL_SIZE, "%s", coordinator);
    (void)snprintf(agent->config.name, NAME_SIZE, "agent%zu", index);
    (void)snprintf(agent->config.state_directory, CONFIG_PATH_MAX, "%s/agent%zu", directory, index);
    agent->config.threads = threads;
    agent->config.slowdown = slowdown;
    assert_ok(address_parse("127.0.0.1:0", &agent->config.listen, &err), &err);
    assert_ok(identity_open(agent->config.state_directory, &agent->identity, &err), &err);
    assert_ok(loop_open(&agent->config, &agent->identity, &probe, NULL, &agent->loop, &err), &err);
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    agent->leave_fd = ends[0];
    agent->signals_fd = ends[1];
    assert_int_equal(pthread_create(&agent->thread, NULL, run_agent, agent), 0);
}

static void end_agent(struct agent *agent)
{
    const struct signalfd_siginfo signal = {.ssi_signo = SIGTERM};
    assert_int_equal(write(agent->signals_fd, &signal, sizeof(signal)), sizeof(signal));
    assert_int_equal(pthread_join(agent->thread, NULL), 0);
    assert_ok(agent->rc, &agent->err);
    assert_true(loop_close(&agent->loop));
    identity_done(&agent->identity);
    (void)close(agent->leave_fd);
    (void)close(agent->signals_fd);
}

static void same_numbers(const double *actual, const double *wanted)
{
    for (size_t i = 0; i <= TINY_STEPS; i++) {
        assert_int_equal(isnan(actual[i]), isnan(wanted[i]));
        if (!isnan(wanted[i])) {
            assert_memory_equal(&actual[i], &wanted[i], sizeof(double));
        }
    }
}

#define NO_AGENT SIZE_MAX
/* Where a stop, a loss or the end of a round is to come in time: what a step of all units takes at
 * least, and how much slower it is made at least: in a build whose arithmetic is slow, messages
 * take longer, too. */
#define SLOW_STEP_SECONDS 0.025
#define SLOWDOWN_MIN 40

/* Every second agent computes `slowdown` times slower; 0: all of them so much that a stop, or the
 * loss of one of them (an index, or NO_AGENT) after the first round, comes in time, however fast
 * this build computes. */
static void play_and_lose(const char *directory, const struct fake_script *script, double slowdown,
                          int64_t threads, size_t lost)
{
    struct agent agent[FAKE_AGENTS_MAX];
    const struct tiny_result *expected = &tiny_job()->expected;
    const double slow = fmax(SLOWDOWN_MIN, SLOW_STEP_SECONDS / tiny_job()->step_seconds);
    struct fake_coordinator *fake = fake_start(script);
    for (size_t i = 0; i < script->agent_count; i++) {
        const double factor = slowdown == 0 ? slow : i % 2 == 1 ? slowdown : 1;
        start_agent(&agent[i], directory, i, fake_url(fake), factor, threads);
    }
    if (lost != NO_AGENT) {
        fake_wait_for_commit(fake);
        end_agent(&agent[lost]);
    }
    const char *problem = fake_wait(fake);
    if (problem) {
        print_error("%s\n", problem);
    }
    for (size_t i = 0; i < script->agent_count; i++) {
        if (i != lost) {
            end_agent(&agent[i]);
        }
    }
    assert_null(problem);
    const struct tiny_result *result = fake_result(fake);
    for (size_t unit = 0; unit < TINY_UNITS; unit++) {
        assert_string_equal(result->unit_sha256[unit], expected->unit_sha256[unit]);
    }
    same_numbers(result->loss, expected->loss);
    same_numbers(result->test_loss, expected->test_loss);
    same_numbers(result->test_accuracy, expected->test_accuracy);
    int64_t version = 0;
    for (size_t i = 0; i < script->generation_count; i++) {
        assert_true(fake_stopped_at(fake, i) >= version);
        version = fake_stopped_at(fake, i);
    }
    assert_int_equal(version, TINY_STEPS);
    for (size_t kind = 0; kind < 2; kind++) {
        const int64_t every = kind == 0 ? script->neighbor_every : script->center_every;
        assert_true(every == 0 || fake_commits(fake, kind) > 0);
        assert_true(every == 0 || fake_bytes_sent(fake) > 0);
    }
    fake_free(&fake);
}

static void play(const char *directory, const struct fake_script *script, double slowdown,
                 int64_t threads)
{
    play_and_lose(directory, script, slowdown, threads, NO_AGENT);
}

static void one_agent_trains_as_one_process(void **state)
{
    const struct fake_script script = {
        .agent_count = 1, .generation_count = 1, .generation = {{.end = {6}, .stage_count = 1}}};
    play(*state, &script, 1, 2);
}

/* Its matches come while it runs, its records are acknowledged once, and its averages are stored.
 */
static void a_group_follows_its_matches(void **state)
{
    const struct fake_script script = {.agent_count = 1,
                                       .generation_count = 1,
                                       .generation = {{.end = {6}, .stage_count = 1}},
                                       .mixes = true};
    play(*state, &script, 1, 2);
}

static void two_agents_come_to_the_same_bits(void **state)
{
    const struct fake_script script = {
        .agent_count = 2,
        .generation_count = 1,
        .generation = {{.end = {2, 6}, .stage_count = 2, .device = {0, 1}}},
    };
    play(*state, &script, 3, 1);
}

static void three_agents_come_to_the_same_bits(void **state)
{
    const struct fake_script script = {
        .agent_count = 3,
        .generation_count = 1,
        .generation = {{.end = {1, 3, 6}, .stage_count = 3, .device = {2, 0, 1}}},
    };
    play(*state, &script, 2, 1);
}

static void five_agents_come_to_the_same_bits(void **state)
{
    const struct fake_script script = {
        .agent_count = 5,
        .generation_count = 1,
        .generation = {{.end = {1, 2, 3, 5, 6}, .stage_count = 5, .device = {0, 1, 2, 3, 4}}},
    };
    play(*state, &script, 1, 1);
}

static void three_replans_and_a_pause_change_no_bit(void **state)
{
    const struct fake_script script = {
        .agent_count = 3,
        .generation_count = 5,
        .generation =
            {{.end = {1, 3, 6}, .stage_count = 3, .device = {0, 1, 2}, .how = FAKE_REPLAN},
             {.end = {2, 6}, .stage_count = 2, .device = {0, 1}, .how = FAKE_REPLAN},
             {.end = {6}, .stage_count = 1, .device = {2}, .how = FAKE_PAUSE},
             {.end = {1, 5, 6}, .stage_count = 3, .device = {1, 0, 2}, .how = FAKE_REPLAN},
             {.end = {4, 6}, .stage_count = 2, .device = {2, 1}}},
    };
    play(*state, &script, 0, 1);
}

static void rounds_to_neighbors_and_center_change_no_bit(void **state)
{
    const struct fake_script script = {
        .agent_count = 3,
        .generation_count = 3,
        .generation =
            {{.end = {1, 3, 6}, .stage_count = 3, .device = {0, 1, 2}, .how = FAKE_REPLAN},
             {.end = {2, 6}, .stage_count = 2, .device = {2, 1}, .how = FAKE_PAUSE},
             {.end = {1, 3, 6}, .stage_count = 3, .device = {1, 0, 2}}},
        .neighbor_every = 1,
        .center_every = 3,
    };
    play(*state, &script, 0, 1);
}

static void lose(const char *directory, size_t lost)
{
    struct fake_script script = {
        .agent_count = 3,
        .generation_count = 2,
        .generation = {{.end = {2, 3, 6}, .stage_count = 3, .device = {0, 1, 2}, .how = FAKE_LOSS},
                       {.end = {3, 6}, .stage_count = 2}},
        .neighbor_every = 2,
    };
    script.generation[1].device[0] = lost == 0 ? 1 : 0;
    script.generation[1].device[1] = lost == 2 ? 1 : 2;
    play_and_lose(directory, &script, 0, 1, lost);
}

static void without_the_first_agent_the_others_go_on_from_its_replicas(void **state)
{
    lose(*state, 0);
}

static void without_the_middle_agent_the_others_go_on_from_its_replicas(void **state)
{
    lose(*state, 1);
}

static void without_the_last_agent_the_others_go_on_from_its_replicas(void **state)
{
    lose(*state, 2);
}

int main(void)
{
    log_set_level(LOG_LEVEL_ERROR);
    const struct CMUnitTest tests[] = {
        test_with_directory(one_agent_trains_as_one_process),
        test_with_directory(a_group_follows_its_matches),
        test_with_directory(two_agents_come_to_the_same_bits),
        test_with_directory(three_agents_come_to_the_same_bits),
        test_with_directory(five_agents_come_to_the_same_bits),
        test_with_directory(three_replans_and_a_pause_change_no_bit),
        test_with_directory(rounds_to_neighbors_and_center_change_no_bit),
        test_with_directory(without_the_first_agent_the_others_go_on_from_its_replicas),
        test_with_directory(without_the_middle_agent_the_others_go_on_from_its_replicas),
        test_with_directory(without_the_last_agent_the_others_go_on_from_its_replicas),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
