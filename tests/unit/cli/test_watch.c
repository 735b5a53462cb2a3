/* `paceline job watch`: its output, its status, and a restart of the coordinator. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/json.h"
#include "cli/command.h"
#include "tests/support/test.h"
#include "tests/unit/cli/service.h"

static void watch_shows_who_does_what_until_the_end(void **state)
{
    struct service *f = *state;
    assert_int_equal(RUN(f, "job", "watch", ID), COMMAND_OK);
    assert_holds(
        f->out,
        "running  step 46/93  ETA 0:03  loss 0.8200  512 samples/s  epoch 1  units kitchen 2/5, "
        "dev_01JD6Y3M0Q7R2S4T6V8W0X2Y4Z 3/5\nsucceeded: ");
    assert_int_equal(f->gets, 2);
}

static void a_job_that_did_not_succeed_is_a_status_of_its_own(void **state)
{
    struct service *f = *state;
    f->end_state = "failed";
    assert_int_equal(RUN(f, "job", "watch", ID), COMMAND_NOT_SUCCEEDED);
    assert_holds(f->out, "\nfailed");
    f->end_state = "cancelled";
    assert_int_equal(RUN(f, "job", "watch", ID), COMMAND_NOT_SUCCEEDED);
    assert_holds(f->out, "\ncancelled");
}

/* Progress is printed once a second, an event of the job at once. */
static void quick_progress_is_printed_at_most_once_a_second(void **state)
{
    struct service *f = *state;
    f->news = NEWS;
    assert_int_equal(RUN(f, "job", "watch", ID), COMMAND_OK);
    assert_int_equal(f->gets, NEWS + 1);
    assert_holds(f->out, "running  step 70/93  ETA 0:03");
    assert_holds(f->out, "\nrecovering  step 80/93");
    assert_holds(f->out, "\nrunning  step 81/93  (runs generation 2; device 'a' was lost)\nrunning "
                         " step 81/93  ETA");
    assert_holds(f->out, "\nsucceeded: ");
    size_t lines = 0;
    for (const char *at = f->out; (at = strchr(at, '\n')); at++) {
        lines++;
    }
    /* Five, and a few more on a machine that is busy for seconds. */
    assert_true(lines >= 5 && lines < NEWS);
}

static void on_a_terminal_a_view_is_overwritten(void **state)
{
    struct service *f = *state;
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    struct winsize window = {.ws_col = 31, .ws_row = 24};
    f->live = true;
    assert_int_equal(setenv("LC_ALL", "C", 1), 0);
    assert_int_equal(setenv("NO_COLOR", "1", 1), 0);
    assert_int_equal(ioctl(master, TIOCSWINSZ, &window), 0);
    char name[100];
    assert_int_equal(ptsname_r(master, name, sizeof(name)), 0);
    int slave = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
    FILE *out = fdopen(slave, "w");
    assert_non_null(out);
    assert_int_equal(service_run(f, out, (const char *const[]){"job", "watch", ID, NULL}),
                     COMMAND_OK);
    /* The terminal returns the written text in pieces. */
    char text[2000] = "";
    for (size_t used = 0; !strstr(text, "succeeded: ");) {
        struct pollfd ready = {.fd = master, .events = POLLIN};
        assert_int_equal(poll(&ready, 1, 20000), 1);
        ssize_t size = read(master, text + used, sizeof(text) - 1 - used);
        assert_true(size > 0);
        used += (size_t)size;
        text[used] = '\0';
    }
    /* Lines of at most 30 columns; the rows that they took are erased at the end. */
    assert_holds(text, "fashion  running\r\n"
                       "#####..... 46/93  ETA 0:03\r\n"
                       "loss 0.8200 #_\r\n"
                       "512.5 samples/s  epoch 1\r\n"
                       "12:30:00 device_lost kitchen:\r\n"
                       "kitchen ######  93 % units 0-1\r\n"
                       "dev_01J ######  93 % units 2-4\r\n"
                       "\033[7A\r\033[Jsucceeded: ");
    fclose(out);
    close(master);
}

/* A coordinator that restarts: an answer, one that announces the stop, two broken calls, the
 * end. */
struct restart {
    int listener;
    json_t *job[5]; /* NULL: the connection is closed without an answer */
    atomic_int calls;
};

static void *serve_restart(void *arg)
{
    struct restart *restart = arg;
    for (size_t i = 0; i < sizeof(restart->job) / sizeof(restart->job[0]); i++) {
        int fd = accept4(restart->listener, NULL, NULL, SOCK_CLOEXEC);
        ASSERT(fd >= 0);
        char request[4000] = "";
        for (size_t used = 0; !strstr(request, "\r\n\r\n");) {
            ssize_t size = read(fd, request + used, sizeof(request) - 1 - used);
            ASSERT(size > 0);
            used += (size_t)size;
        }
        restart->calls++;
        if (restart->job[i]) {
            char *body = json_dumps(restart->job[i], 0);
            ASSERT(body);
            int status = json_object_get(restart->job[i], "code") ? 503 : 200;
            ASSERT(dprintf(fd,
                           "HTTP/1.1 %d -\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n%s",
                           status, strlen(body), body) > 0);
            free(body);
        }
        close(fd);
    }
    return NULL;
}

static void a_watch_outlives_a_restart_of_the_coordinator(void **state)
{
    struct service *f = *state;
    struct restart restart = {.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    assert_int_equal(bind(restart.listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(restart.listener, 5), 0);
    assert_int_equal(getsockname(restart.listener, (struct sockaddr *)&address, &size), 0);
    struct err err = {0};
    assert_ok(json_parse(f->running.data, f->running.size, &restart.job[0], &err), &err);
    /* No plan yet: no calls about devices in between. */
    assert_int_equal(json_object_set_new(restart.job[0], "generation", json_integer(0)), 0);
    restart.job[1] = json_pack("{s:s,s:s}", "code", "stopping", "detail", "going down");
    assert_ok(json_parse(f->ended.data, f->ended.size, &restart.job[4], &err), &err);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, serve_restart, &restart), 0);

    char server[100];
    (void)snprintf(server, sizeof(server), "http://127.0.0.1:%d", ntohs(address.sin_port));
    assert_int_equal(RUN(f, "--server", server, "job", "watch", ID), COMMAND_OK);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(restart.calls, 5);
    assert_holds(f->out, "running  step 46/93");
    assert_holds(f->out, "\nsucceeded: ");
    char expected[300];
    (void)snprintf(expected, sizeof(expected),
                   "paceline: %s does not answer; retrying for 5 minutes\npaceline: "
                   "%s answers again\n",
                   server, server);
    assert_string_equal(f->complaints, expected);
    close(restart.listener);
    for (size_t i = 0; i < sizeof(restart.job) / sizeof(restart.job[0]); i++) {
        json_decref(restart.job[i]);
    }
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, service_setup, service_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(watch_shows_who_does_what_until_the_end),
        TEST(a_job_that_did_not_succeed_is_a_status_of_its_own),
        TEST(quick_progress_is_printed_at_most_once_a_second),
        TEST(on_a_terminal_a_view_is_overwritten),
        TEST(a_watch_outlives_a_restart_of_the_coordinator),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
