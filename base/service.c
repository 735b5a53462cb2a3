#include "base/service.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/parse.h"

#define ALIVE_RETRY_MS 1000
#define MESSAGE_BYTES (SERVICE_STATUS_SIZE + 64)

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

static int tell(struct service *service, const char *message, struct err *err)
{
    if (service->fd < 0) {
        return 0;
    }
    ssize_t sent;
    do {
        sent = sendto(service->fd, message, strlen(message), MSG_DONTWAIT | MSG_NOSIGNAL,
                      (const struct sockaddr *)&service->address, service->address_size);
    } while (sent < 0 && errno == EINTR);
    const bool known = service->failing;
    service->failing = sent < 0;
    return sent >= 0 || known ? 0 : err_set(err, ERR_IO, "NOTIFY_SOCKET: %s", strerror(errno));
}

int service_ready(struct service *service, struct err *err)
{
    return tell(service, "READY=1\n", err);
}

int service_status(struct service *service, const char *text, struct err *err)
{
    char status[SERVICE_STATUS_SIZE];
    char message[MESSAGE_BYTES];
    (void)snprintf(status, sizeof(status), "%s", text);
    status[strcspn(status, "\n")] = '\0'; /* the next line would be another field */
    if (strcmp(status, service->status) == 0) {
        return 0;
    }
    memcpy(service->status, status, sizeof(status));
    (void)snprintf(message, sizeof(message), "STATUS=%s\n", status);
    return tell(service, message, err);
}

int service_stopping(struct service *service, int64_t wait_ms, struct err *err)
{
    char message[MESSAGE_BYTES];
    (void)snprintf(message, sizeof(message),
                   "STOPPING=1\nEXTEND_TIMEOUT_USEC=%" PRId64 "\nSTATUS=ending\n", wait_ms * 1000);
    return tell(service, message, err);
}

int service_look(struct service *service, int64_t now_ms, struct err *err)
{
    if (now_ms < service->alive_due_ms) {
        return 0;
    }
    const int rc = tell(service, "WATCHDOG=1\n", err);
    const bool retry = service->failing && service->alive_every_ms > ALIVE_RETRY_MS;
    service->alive_due_ms = now_ms + (retry ? ALIVE_RETRY_MS : service->alive_every_ms);
    return rc;
}

int64_t service_due_ms(const struct service *service)
{
    return service->alive_due_ms;
}
