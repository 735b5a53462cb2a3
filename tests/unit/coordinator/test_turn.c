/* Crashes around the one commit of a turn: a process of its own begins a life of the coordinator on
 * the test's directory, takes a request and ends without a word (_exit) just before or just after
 * the commit; the next life must know all that anybody can have learnt. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "coordinator/content/catalog.h"
#include "coordinator/content/planner.h"
#include "coordinator/content/work.h"
#include "coordinator/coordinator.h"
#include "coordinator/effects.h"
#include "coordinator/http/edge.h"
#include "coordinator/http/replay.h"
#include "coordinator/http/routes.h"
#include "coordinator/restore.h"
#include "coordinator/turn/objects.h"
#include "tests/support/test.h"
#include "tests/unit/coordinator_http/desk.h"
#include "tests/unit/coordinator_store/fault_vfs.h"

#define WENT_WRONG 99

/* A coordinator as its loop makes it; the test is the loop. */
struct life {
    struct coordinator_config config;
    struct coordinator coordinator;
    struct desk *desk; /* borrows the server */
};

static int open_parts(struct life *life, const char *directory, struct err *err)
{
    struct coordinator *coordinator = &life->coordinator;
    struct core_config core = core_config_default;
    struct blob_config blobs = {.directory = directory, .queue_bytes = 8u << 20};
    core.devices_max = 8;
    core.jobs_max = 8;
    coordinator->config = &life->config;
    int rc = address_parse("127.0.0.1:0", &life->config.address, err);
    rc = rc ? rc : state_open(directory, &coordinator->state, err);
    rc = rc ? rc : blob_open(&blobs, &coordinator->blobs, err);
    rc = rc ? rc : core_new(&core, &coordinator->core, err);
    rc = rc ? rc : work_new(1, &coordinator->work, err);
    rc = rc ? rc : catalog_new(coordinator->state, &coordinator->catalog, err);
    rc = rc ? rc : planner_new(coordinator, &coordinator->planner, err);
    rc = rc ? rc : edge_open(coordinator, 1, err);
    const struct turn_effects effects = effects_of(coordinator);
    rc = rc ? rc
            : turn_new(coordinator->core, coordinator->state, &effects, &coordinator->turn, err);
    rc = rc ? rc : restore_all(coordinator, 1, err);
    return rc ? rc : routes_open(coordinator, &coordinator->server, err);
}

static struct life *life_begin(const char *directory)
{
    struct life *life = calloc(1, sizeof(*life));
    struct err err = {0};
    assert_non_null(life);
    life->config.connections_max = 16;
    life->config.connections_per_address_max = 16;
    life->coordinator.connections_max = 16;
    assert_ok(open_parts(life, directory, &err), &err);
    life->desk = calloc(1, sizeof(*life->desk));
    assert_non_null(life->desk);
    life->desk->server = life->coordinator.server;
    return life;
}

static void life_end(struct life *life)
{
    struct coordinator *coordinator = &life->coordinator;
    http_server_close(&coordinator->server);
    work_stop(coordinator->work);
    blob_close(&coordinator->blobs);
    work_free(&coordinator->work);
    turn_free(&coordinator->turn);
    edge_close(coordinator);
    planner_free(&coordinator->planner);
    catalog_free(&coordinator->catalog);
    core_free(&coordinator->core);
    state_close(&coordinator->state);
    free(life->desk);
    free(life);
}

/* A user's model: only the first upload, or its stored response, is a 201. */
static const char model[] =
    "{\"name\":\"tiny\",\"units\":[{\"name\":\"head\",\"ops\":[{\"type\":\"flatten\"},"
    "{\"type\":\"linear\",\"units\":10}]}]}";

static int post_model(struct life *life)
{
    int fd = desk_send_body(life->desk,
                            "POST /v1/models HTTP/1.1\r\nContent-Type: application/json\r\n"
                            "Idempotency-Key: once\r\nConnection: close",
                            model);
    desk_run(life->desk);
    return fd;
}

/* An unknown device is asked to enrol; nothing is stored. */
static int post_heartbeat(struct life *life)
{
    int fd = desk_send_body(
        life->desk,
        "POST /v1/agent/heartbeat HTTP/1.1\r\nContent-Type: application/json\r\n"
        "Connection: close",
        "{\"device\":\"dev_01JD6Y3K9T2V4W8X0Z1B5C7D9E\",\"boot\":\"b\",\"phase\":\"idle\"}");
    desk_run(life->desk);
    return fd;
}

/* In the child: take the request, commit or not, and exit. Status 0: the client had no word of an
 * answer. */
static void live_and_crash(const char *directory, bool commits)
{
    struct life *life = life_begin(directory);
    int fd = post_model(life);
    struct err err = {0};
    if (!core_model(life->coordinator.core, "tiny") ||
        (commits && turn_commit(life->coordinator.turn, &err))) {
        _exit(WENT_WRONG);
    }
    char byte;
    ssize_t got = recv(fd, &byte, 1, MSG_DONTWAIT);
    _exit(got < 0 && errno == EAGAIN ? 0 : WENT_WRONG);
}

static void crash(const char *directory, bool commits)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        live_and_crash(directory, commits);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static const char enrolment[] =
    "{\"name\":\"kitchen\",\"public_key\":"
    "\"2c70e12b7a0646f92279f427c7b38e7334d8e5389cff167a1dc30e73f826b683\","
    "\"protocol\":1,\"boot\":\"5f0c1b7e9a2d4c38\",\"address\":\"http://"
    "10.0.0.5:7411\",\"numeric_class\":\"any\","
    "\"inventory\":{\"hostname\":\"kitchen-pi\",\"os\":\"Debian\",\"architecture\":\"aarch64\","
    "\"cpu\":\"A76\","
    "\"agent_version\":\"0.1.0\",\"cores\":4,\"memory_bytes\":8286789632},"
    "\"probe\":{\"gemm_gflops\":48.5,\"memory_bytes_per_second\":9100000000.0,"
    "\"disk_write_bytes_per_second\":42000000.0,\"free_memory_bytes\":6442450944,\"threads\":4},"
    "\"labels\":{}}";

static size_t count_models(const struct core *core)
{
    size_t count = 0;
    for (size_t i = 0; i < core_model_count(core); i++) {
        count += strcmp(core_model_at(core, i)->name, "tiny") == 0;
    }
    return count;
}

static const char *post_again(struct life *life)
{
    struct err err = {0};
    int fd = post_model(life);
    assert_ok(turn_commit(life->coordinator.turn, &err), &err);
    const char *answer = desk_read(life->desk, fd, NULL);
    close(fd);
    return answer;
}

static void a_crash_between_the_commit_and_the_replies_loses_nothing(void **state)
{
    crash(*state, true);
    struct life *life = life_begin(*state);
    assert_int_equal(count_models(life->coordinator.core), 1);
    const char *answer = post_again(life);
    assert_holds(answer, "HTTP/1.1 201");
    assert_holds(answer, "Idempotent-Replay: true");
    assert_int_equal(count_models(life->coordinator.core), 1);
    life_end(life);
}

static void a_crash_before_the_commit_leaves_nothing_half_done(void **state)
{
    crash(*state, false);
    struct life *life = life_begin(*state);
    assert_int_equal(count_models(life->coordinator.core), 0);
    const char *answer = post_again(life);
    assert_holds(answer, "HTTP/1.1 201");
    assert_null(strstr(answer, "Idempotent-Replay"));
    assert_int_equal(count_models(life->coordinator.core), 1);
    life_end(life);
}

static void the_effect_and_the_kept_answer_outlive_any_number_of_crashes_together(void **state)
{
    for (int i = 0; i < 4; i++) {
        crash(*state, false);
    }
    crash(*state, true);
    struct life *life = life_begin(*state);
    assert_holds(post_again(life), "Idempotent-Replay: true");
    life_end(life);
}

/* As many rows of kept answers as there may be, made at wall_ms. */
static void keep_answers(struct life *life, int64_t wall_ms)
{
    struct state_store *store = life->coordinator.state;
    struct err err = {0};
    assert_ok(state_begin(store, &err), &err);
    for (int i = 0; i < REPLAYS_MAX; i++) {
        char key[16], id[REPLAY_ROW_ID_SIZE];
        snprintf(key, sizeof(key), "%08d", i);
        replay_row_id(id, wall_ms, key);
        const struct state_row row = {id, "", 1, wall_ms, "kept", 4};
        assert_ok(state_put(store, STATE_REPLAYS, &row, &err), &err);
    }
    assert_ok(state_commit(store, &err), &err);
}

static void a_key_is_refused_rather_than_another_forgotten_before_its_day_is_over(void **state)
{
    const int64_t day_ms = 24 * 3600 * 1000;
    struct life *life = life_begin(*state);
    keep_answers(life, clock_wall_ms() - day_ms);
    assert_holds(post_again(life), "HTTP/1.1 429");
    assert_int_equal(count_models(life->coordinator.core), 0);
    life_end(life);
}

static void answers_are_forgotten_when_their_day_is_over(void **state)
{
    const int64_t day_ms = 24 * 3600 * 1000;
    struct life *life = life_begin(*state);
    size_t count = 0;
    struct err err = {0};
    keep_answers(life, clock_wall_ms() - 2 * day_ms);
    assert_holds(post_again(life), "HTTP/1.1 201");
    assert_ok(state_count(life->coordinator.state, STATE_REPLAYS, &count, &err), &err);
    assert_int_equal(count, 1);
    assert_holds(post_again(life), "Idempotent-Replay: true");
    life_end(life);
}

static void an_answer_waits_for_the_commit_only_while_something_is_to_be_stored(void **state)
{
    struct life *life = life_begin(*state);
    struct err err = {0};
    int fd = post_heartbeat(life);
    assert_false(desk_is_silent(life->desk, fd));
    assert_holds(desk_read(life->desk, fd, NULL), "\"reenroll\":true");
    close(fd);

    int model_fd = post_model(life);
    fd = post_heartbeat(life);
    assert_true(desk_is_silent(life->desk, model_fd));
    assert_true(desk_is_silent(life->desk, fd));
    assert_ok(turn_commit(life->coordinator.turn, &err), &err);
    assert_holds(desk_read(life->desk, fd, NULL), "\"reenroll\":true");
    assert_holds(desk_read(life->desk, model_fd, NULL), "HTTP/1.1 201");
    close(fd);
    close(model_fd);
    life_end(life);
}

/* The client has disconnected before its answer may leave; its exchange soon serves another. */
static void an_answer_that_waits_for_the_commit_is_dropped_with_its_client(void **state)
{
    struct life *life = life_begin(*state);
    struct err err = {0};
    const struct linger reset = {.l_onoff = 1};
    int fd = post_model(life);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)), 0);
    close(fd);
    desk_run(life->desk);
    assert_int_equal(life->coordinator.edge->requests_open, 0);

    fd = post_heartbeat(life);
    assert_true(desk_is_silent(life->desk, fd));
    assert_ok(turn_commit(life->coordinator.turn, &err), &err);
    assert_holds(desk_read(life->desk, fd, NULL), "\"reenroll\":true");
    close(fd);
    life_end(life);
}

/* A stop while the disk is full: the last commit finds room when the server is closed already. */
static void an_answer_that_waits_for_the_commit_is_dropped_with_the_server(void **state)
{
    struct life *life = life_begin(*state);
    struct err err = {0};
    int fd = post_model(life);
    assert_true(state_in_transaction(life->coordinator.state));
    http_server_close(&life->coordinator.server);
    life->desk->server = NULL;
    assert_ok(turn_commit(life->coordinator.turn, &err), &err);
    close(fd);
    life_end(life);
}

/* Enrol a device and let the next life find it lost. */
static struct life *begin_with_lost_device(const char *directory, struct device *out)
{
    struct life *life = life_begin(directory);
    struct err err = {0};
    struct device device;
    int fd = desk_send_body(life->desk,
                            "POST /v1/agent/enroll HTTP/1.1\r\nContent-Type: application/json\r\n"
                            "Connection: close",
                            enrolment);
    desk_run(life->desk);
    assert_ok(turn_commit(life->coordinator.turn, &err), &err);
    assert_int_equal(core_device_count(life->coordinator.core), 1);
    device = *core_device_at(life->coordinator.core, 0);
    device.state = DEVICE_LOST;
    BUF_AUTO struct buf document;
    buf_init(&document, JSON_BODY_MAX);
    assert_ok(object_write_row(OBJECT_DEVICE, &device, &document, &err), &err);
    const struct state_row row = {device.id.text, "",           device.revision, 1,
                                  document.data,  document.size};
    assert_ok(state_begin(life->coordinator.state, &err), &err);
    assert_ok(state_put(life->coordinator.state, STATE_DEVICES, &row, &err), &err);
    assert_ok(state_commit(life->coordinator.state, &err), &err);
    close(fd);
    life_end(life);
    *out = device;
    life = life_begin(directory);
    assert_int_equal(core_device(life->coordinator.core, device.id.text)->state, DEVICE_LOST);
    return life;
}

static void an_agent_learns_nothing_that_its_own_call_has_changed_before_the_commit(void **state)
{
    struct device device;
    struct life *life = begin_with_lost_device(*state, &device);
    char request[256];
    snprintf(request, sizeof(request),
             "GET /v1/agent/assignment?device=%s&boot=%s HTTP/1.1\r\nConnection: close",
             device.id.text, device.boot);
    int fd = desk_send(life->desk, request);
    assert_holds(desk_read(life->desk, fd, NULL), "HTTP/1.1 200");
    assert_int_equal(core_device(life->coordinator.core, device.id.text)->state, DEVICE_ONLINE);
    assert_false(state_in_transaction(life->coordinator.state));
    close(fd);
    life_end(life);
}

/* The next commit finds the disk full. */
static void hold_commit(struct life *life, const char *directory)
{
    char reserve[512];
    struct err err = {0};
    snprintf(reserve, sizeof(reserve), "%s/state.reserve", directory);
    (void)unlink(reserve);
    fault_vfs_plan(FAULT_FULL, 1);
    assert_ok(turn_commit(life->coordinator.turn, &err), &err);
    assert_true(turn_held(life->coordinator.turn));
}

static void a_stop_while_a_commit_is_held_shows_agents_nothing_of_it(void **state)
{
    struct device device;
    struct life *life = begin_with_lost_device(*state, &device);
    struct err err = {0};
    char request[256];
    snprintf(request, sizeof(request),
             "GET /v1/agent/assignment?device=%s&boot=%s&after=%" PRId64 "&wait=60 HTTP/1.1\r\n"
             "Connection: close",
             device.id.text, device.boot, INT64_MAX);
    int fd = desk_send(life->desk, request);
    desk_run(life->desk);
    assert_int_equal(parked_count(life->coordinator.edge->parked), 1);
    int model_fd = post_model(life);
    hold_commit(life, *state);
    parked_end(life->coordinator.edge->parked);
    assert_holds(desk_read(life->desk, fd, NULL), "HTTP/1.1 507");
    assert_true(desk_is_silent(life->desk, model_fd));
    assert_ok(turn_commit(life->coordinator.turn, &err), &err);
    assert_false(turn_held(life->coordinator.turn));
    assert_holds(desk_read(life->desk, model_fd, NULL), "HTTP/1.1 201");
    close(fd);
    close(model_fd);
    life_end(life);
}

int main(void)
{
    fault_vfs_install();
    const struct CMUnitTest tests[] = {
        test_with_directory(a_crash_between_the_commit_and_the_replies_loses_nothing),
        test_with_directory(a_crash_before_the_commit_leaves_nothing_half_done),
        test_with_directory(a_key_is_refused_rather_than_another_forgotten_before_its_day_is_over),
        test_with_directory(answers_are_forgotten_when_their_day_is_over),
        test_with_directory(an_answer_waits_for_the_commit_only_while_something_is_to_be_stored),
        test_with_directory(an_answer_that_waits_for_the_commit_is_dropped_with_its_client),
        test_with_directory(an_answer_that_waits_for_the_commit_is_dropped_with_the_server),
        test_with_directory(
            an_agent_learns_nothing_that_its_own_call_has_changed_before_the_commit),
        test_with_directory(a_stop_while_a_commit_is_held_shows_agents_nothing_of_it),
        test_with_directory(the_effect_and_the_kept_answer_outlive_any_number_of_crashes_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
