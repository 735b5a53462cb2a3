#include "base/service.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "tests/support/test.h"

/* The service manager's side: a socket that $NOTIFY_SOCKET names. */
struct manager {
    int fd;
    char text[512];
};

static void listen_as_manager(const char *directory, struct manager *manager)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const struct test_path path = test_path_in(directory, "notify");
    assert_true(strlen(path.text) < sizeof(address.sun_path));
    memcpy(address.sun_path, path.text, strlen(path.text) + 1);
    manager->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_true(manager->fd >= 0);
    assert_int_equal(bind(manager->fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(setenv("NOTIFY_SOCKET", path.text, 1), 0);
}

/* The next message; "" if there is none. */
static const char *heard(struct manager *manager)
{
    const ssize_t size = recv(manager->fd, manager->text, sizeof(manager->text) - 1, 0);
    manager->text[size < 0 ? 0 : size] = '\0';
    return manager->text;
}

static void without_a_manager_nothing_happens(void **state)
{
    (void)state;
    struct err err = {0};
    struct service service;
    assert_int_equal(unsetenv("NOTIFY_SOCKET"), 0);
    assert_int_equal(setenv("WATCHDOG_USEC", "1000", 1), 0);
    assert_ok(service_open(&service, &err), &err);
    assert_ok(service_ready(&service, &err), &err);
    assert_ok(service_status(&service, "x", &err), &err);
    assert_ok(service_look(&service, 0, &err), &err);
    assert_true(service_due_ms(&service) == INT64_MAX);
    service_close(&service);
}

static void the_manager_hears_of_start_status_and_end(void **state)
{
    struct err err = {0};
    struct manager manager;
    struct service service;
    listen_as_manager(*state, &manager);
    assert_ok(service_open(&service, &err), &err);
    assert_null(getenv("NOTIFY_SOCKET"));
    assert_ok(service_ready(&service, &err), &err);
    assert_string_equal(heard(&manager), "READY=1\n");
    assert_ok(service_status(&service, "waits\nREADY=1", &err), &err);
    assert_string_equal(heard(&manager), "STATUS=waits\n");
    assert_ok(service_status(&service, "waits", &err), &err);
    assert_string_equal(heard(&manager), "");
    assert_ok(service_stopping(&service, 30000, &err), &err);
    assert_string_equal(heard(&manager),
                        "STOPPING=1\nEXTEND_TIMEOUT_USEC=30000000\nSTATUS=ending\n");
    service_close(&service);
    file_close(&manager.fd);
}

static void a_watched_program_says_three_times_a_period_that_it_is_alive(void **state)
{
    struct err err = {0};
    struct manager manager;
    struct service service;
    listen_as_manager(*state, &manager);
    assert_int_equal(setenv("WATCHDOG_USEC", "30000000", 1), 0);
    assert_ok(service_open(&service, &err), &err);
    assert_ok(service_look(&service, 5000, &err), &err);
    assert_string_equal(heard(&manager), "WATCHDOG=1\n");
    assert_true(service_due_ms(&service) == 15000);
    assert_ok(service_look(&service, 14999, &err), &err);
    assert_string_equal(heard(&manager), "");
    assert_ok(service_look(&service, 15000, &err), &err);
    assert_string_equal(heard(&manager), "WATCHDOG=1\n");
    service_close(&service);
    file_close(&manager.fd);
}

static void another_processs_watchdog_is_not_ours(void **state)
{
    struct err err = {0};
    struct manager manager;
    struct service service;
    listen_as_manager(*state, &manager);
    assert_int_equal(setenv("WATCHDOG_USEC", "30000000", 1), 0);
    assert_int_equal(setenv("WATCHDOG_PID", "1", 1), 0);
    assert_ok(service_open(&service, &err), &err);
    assert_true(service_due_ms(&service) == INT64_MAX);
    service_close(&service);
    file_close(&manager.fd);
}

static void a_manager_that_is_gone_is_an_error_once_until_it_returns(void **state)
{
    struct err err = {0};
    struct manager manager;
    struct service service;
    listen_as_manager(*state, &manager);
    assert_int_equal(setenv("WATCHDOG_USEC", "30000000", 1), 0);
    assert_ok(service_open(&service, &err), &err);
    file_close(&manager.fd);
    assert_int_equal(service_look(&service, 0, &err), ERR_IO);
    assert_true(service_due_ms(&service) == 1000);
    assert_ok(service_look(&service, 1000, &err), &err);
    const struct test_path path = test_path_in(*state, "notify");
    assert_int_equal(unlink(path.text), 0);
    listen_as_manager(*state, &manager);
    assert_ok(service_look(&service, 2000, &err), &err);
    assert_string_equal(heard(&manager), "WATCHDOG=1\n");
    file_close(&manager.fd);
    assert_int_equal(service_look(&service, 12000, &err), ERR_IO);
    service_close(&service);
}

/* The manager does not read for a while: its queue is full. */
static void what_a_full_queue_refuses_is_sent_later(void **state)
{
    struct err err = {0};
    struct manager manager;
    struct service service;
    listen_as_manager(*state, &manager);
    assert_int_equal(unsetenv("WATCHDOG_USEC"), 0);
    assert_ok(service_open(&service, &err), &err);
    int rc = 0;
    for (int i = 0; i < 100000 && rc == 0; i++) {
        rc = service_ready(&service, &err);
    }
    assert_int_equal(rc, ERR_IO);
    assert_ok(service_status(&service, "works", &err), &err);
    assert_ok(service_stopping(&service, 1, &err), &err);
    assert_true(service_due_ms(&service) == 0);
    assert_ok(service_look(&service, 5000, &err), &err);
    assert_true(service_due_ms(&service) == 6000);
    while (*heard(&manager)) {
        assert_string_equal(manager.text, "READY=1\n");
    }
    assert_ok(service_look(&service, 5999, &err), &err);
    assert_string_equal(heard(&manager), "");
    assert_ok(service_look(&service, 6000, &err), &err);
    assert_string_equal(heard(&manager),
                        "READY=1\nSTOPPING=1\nEXTEND_TIMEOUT_USEC=1000\nSTATUS=ending\n"
                        "STATUS=works\n");
    assert_true(service_due_ms(&service) == INT64_MAX);
    service_close(&service);
    file_close(&manager.fd);
}

static void a_long_status_ends_with_a_whole_character(void **state)
{
    struct err err = {0};
    struct manager manager;
    struct service service;
    char text[2 * SERVICE_STATUS_SIZE];
    for (size_t i = 0; i < sizeof(text) - 1; i++) {
        text[i] = "\xc3\xa4"[i % 2];
    }
    text[sizeof(text) - 1] = '\0';
    listen_as_manager(*state, &manager);
    assert_ok(service_open(&service, &err), &err);
    assert_ok(service_status(&service, text, &err), &err);
    assert_memory_equal(heard(&manager), "STATUS=\xc3\xa4", 9);
    const size_t size = strlen(manager.text);
    assert_true(size > SERVICE_STATUS_SIZE && size < SERVICE_STATUS_SIZE + 8);
    assert_string_equal(manager.text + size - 6, "\xc3\xa4...\n");
    service_close(&service);
    file_close(&manager.fd);
}

static void malformed_variables_are_named(void **state)
{
    (void)state;
    char longest[200];
    memset(longest, 'x', sizeof(longest) - 1);
    longest[0] = '/';
    longest[sizeof(longest) - 1] = '\0';
    const struct {
        const char *socket, *period, *pid, *text;
    } cases[] = {
        {"run/notify", "1", "1", "NOTIFY_SOCKET 'run/notify': expected"},
        {"", "1", "1", "NOTIFY_SOCKET '': expected"},
        {longest, "1", "1", "NOTIFY_SOCKET: longer than 107 bytes"},
        {"/run/notify", "0", "1", "WATCHDOG_USEC: "},
        {"/run/notify", "ten", "1", "WATCHDOG_USEC: "},
        {"/run/notify", "1", "", "WATCHDOG_PID: "},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct err err = {0};
        struct service service;
        assert_int_equal(setenv("NOTIFY_SOCKET", cases[i].socket, 1), 0);
        assert_int_equal(setenv("WATCHDOG_USEC", cases[i].period, 1), 0);
        assert_int_equal(setenv("WATCHDOG_PID", cases[i].pid, 1), 0);
        assert_int_equal(service_open(&service, &err), ERR_INVALID);
        assert_memory_equal(err.text, cases[i].text, strlen(cases[i].text));
        assert_true(service.fd == -1 && service_due_ms(&service) == INT64_MAX);
        assert_null(getenv("WATCHDOG_USEC"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_manager_nothing_happens),
        test_with_directory(the_manager_hears_of_start_status_and_end),
        test_with_directory(a_watched_program_says_three_times_a_period_that_it_is_alive),
        test_with_directory(another_processs_watchdog_is_not_ours),
        test_with_directory(a_manager_that_is_gone_is_an_error_once_until_it_returns),
        test_with_directory(what_a_full_queue_refuses_is_sent_later),
        test_with_directory(a_long_status_ends_with_a_whole_character),
        cmocka_unit_test(malformed_variables_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
