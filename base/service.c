#include "base/service.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/parse.h"
#include "base/utf8.h"

#define RETRY_MS 1000
#define STOPPING_BYTES 96
#define MESSAGE_BYTES (SERVICE_STATUS_SIZE + STOPPING_BYTES + 64)

/* An absolute path, or '@' and an abstract name. */
static int read_address(const char *text, struct service *service, struct err *err)
{
    const size_t size = strlen(text);
    if (size < 2 || (text[0] != '/' && text[0] != '@')) {
        return err_set(err, ERR_INVALID, "NOTIFY_SOCKET '%s': expected an absolute path or @NAME",
                       text);
    }
    if (size >= sizeof(service->address.sun_path)) {
        return err_set(err, ERR_INVALID, "NOTIFY_SOCKET: longer than %zu bytes",
                       sizeof(service->address.sun_path) - 1);
    }
    service->address.sun_family = AF_UNIX;
    memcpy(service->address.sun_path, text, size);
    const bool abstract = text[0] == '@';
    if (abstract) {
        service->address.sun_path[0] = '\0';
    }
    service->address_size =
        (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size + (abstract ? 0 : 1));
    return 0;
}

/* WATCHDOG_PID names the process that is watched: a child inherits the variables. */
static int read_watchdog(struct service *service, struct err *err)
{
    const char *period = getenv("WATCHDOG_USEC");
    const char *pid = getenv("WATCHDOG_PID");
    int64_t period_us = 0;
    int64_t watched = 0;
    if (!period) {
        return 0;
    }
    if (parse_i64(period, 1, INT64_MAX, &period_us, err)) {
        return err_wrap(err, "WATCHDOG_USEC");
    }
    if (pid && parse_i64(pid, 1, INT64_MAX, &watched, err)) {
        return err_wrap(err, "WATCHDOG_PID");
    }
    if (!pid || watched == getpid()) {
        /* Three messages a period: one may be late. */
        service->alive_every_ms = period_us / 3000 > 0 ? period_us / 3000 : 1;
        service->alive_due_ms = 0;
    }
    return 0;
}

static int open_service(struct service *service, struct err *err)
{
    const char *path = getenv("NOTIFY_SOCKET");
    if (!path) {
        return 0;
    }
    int rc = read_address(path, service, err);
    rc = rc ? rc : read_watchdog(service, err);
    if (rc) {
        return rc;
    }
    service->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    return service->fd >= 0 ? 0 : err_set(err, ERR_IO, "socket: %s", strerror(errno));
}

int service_open(struct service *out, struct err *err)
{
    static const struct service none = {.fd = -1, .alive_due_ms = INT64_MAX};
    *out = none;
    const int rc = open_service(out, err);
    if (rc) {
        *out = none;
    }
    (void)unsetenv("NOTIFY_SOCKET");
    (void)unsetenv("WATCHDOG_USEC");
    (void)unsetenv("WATCHDOG_PID");
    return rc;
}

void service_close(struct service *service)
{
    if (service->fd >= 0) {
        (void)close(service->fd);
    }
    service->fd = -1;
    service->alive_due_ms = INT64_MAX;
}

static bool owes(const struct service *service)
{
    return service->owes_ready || service->owes_stopping || service->owes_status;
}

static int send_message(struct service *service, const char *message, struct err *err)
{
    ssize_t sent;
    do {
        sent = sendto(service->fd, message, strlen(message), MSG_DONTWAIT | MSG_NOSIGNAL,
                      (const struct sockaddr *)&service->address, service->address_size);
    } while (sent < 0 && errno == EINTR);
    return sent >= 0 ? 0 : err_set(err, ERR_IO, "NOTIFY_SOCKET: %s", strerror(errno));
}

/* Send all that was not delivered as one message, with or without a sign of life. */
static int tell(struct service *service, bool alive, struct err *err)
{
    char stopping[STOPPING_BYTES] = "";
    char message[MESSAGE_BYTES];
    if (service->owes_stopping) {
        (void)snprintf(stopping, sizeof(stopping),
                       "STOPPING=1\nEXTEND_TIMEOUT_USEC=%" PRId64 "\nSTATUS=ending\n",
                       service->stop_ms * 1000);
    }
    (void)snprintf(message, sizeof(message), "%s%s%s%s%s%s", service->owes_ready ? "READY=1\n" : "",
                   stopping, service->owes_status ? "STATUS=" : "",
                   service->owes_status ? service->status : "", service->owes_status ? "\n" : "",
                   alive ? "WATCHDOG=1\n" : "");
    const bool known = service->failing;
    const int rc = service->fd < 0 ? 0 : send_message(service, message, err);
    service->failing = rc != 0;
    if (!rc) {
        service->owes_ready = service->owes_stopping = service->owes_status = false;
    }
    return known ? 0 : rc;
}

int service_ready(struct service *service, struct err *err)
{
    service->owes_ready = true;
    return tell(service, false, err);
}

int service_status(struct service *service, const char *text, struct err *err)
{
    char status[SERVICE_STATUS_SIZE];
    const int length = snprintf(status, sizeof(status), "%s", text);
    /* The manager drops a status that is not UTF-8, and takes the next line for another field. */
    if (length >= (int)sizeof(status)) {
        utf8_mark_cut(status, sizeof(status));
    }
    status[strcspn(status, "\n")] = '\0';
    utf8_repair_line(status);
    if (strcmp(status, service->status) == 0) {
        return 0;
    }
    memcpy(service->status, status, sizeof(status));
    service->owes_status = true;
    return tell(service, false, err);
}

int service_stopping(struct service *service, int64_t wait_ms, struct err *err)
{
    service->stop_ms = wait_ms;
    service->owes_stopping = true;
    return tell(service, false, err);
}

int service_look(struct service *service, int64_t now_ms, struct err *err)
{
    const bool alive = now_ms >= service->alive_due_ms;
    if (now_ms < service_due_ms(service)) {
        return 0;
    }
    const int rc = tell(service, alive, err);
    service->retry_due_ms = now_ms + RETRY_MS;
    if (alive) {
        const bool retry = service->failing && service->alive_every_ms > RETRY_MS;
        service->alive_due_ms = now_ms + (retry ? RETRY_MS : service->alive_every_ms);
    }
    return rc;
}

int64_t service_due_ms(const struct service *service)
{
    const bool retry = owes(service) && service->retry_due_ms < service->alive_due_ms;
    return retry ? service->retry_due_ms : service->alive_due_ms;
}
