/* service.h: tell the service manager that this program is ready, alive or ending, by the datagrams
 * of sd_notify(3). For the main loops of the programs; one thread. Without $NOTIFY_SOCKET there is
 * no service manager, and every call does nothing. */
#ifndef BASE_SERVICE_H
#define BASE_SERVICE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/err.h"

#define SERVICE_STATUS_SIZE 256

struct service {
    int fd; /* -1: no service manager */
    struct sockaddr_un address;
    socklen_t address_size;
    int64_t alive_every_ms; /* 0: it does not watch this program */
    int64_t alive_due_ms;   /* INT64_MAX: the same */
    bool failing;           /* since an error was returned, nothing was delivered */
    bool owes_ready, owes_stopping, owes_status; /* messages that were not delivered */
    int64_t retry_due_ms;                        /* of these */
    int64_t stop_ms;                             /* what service_stopping was given */
    char status[SERVICE_STATUS_SIZE];
};

/* Read $NOTIFY_SOCKET, $WATCHDOG_USEC and $WATCHDOG_PID, and remove them for child processes.
 * Returns 0; ERR_INVALID: a value is malformed; ERR_IO: no socket. After an error *out is a service
 * without a manager. */
NODISCARD int service_open(struct service *out, struct err *err);
void service_close(struct service *service);

/* Messages. None of them waits. A message that cannot be sent, as when the manager's queue is full,
 * is an error (ERR_IO) once; further failures are silent until a message is delivered. service_look
 * sends it again: a manager that never hears of the start ends the program. */

/* The program has started. */
NODISCARD int service_ready(struct service *service, struct err *err);
/* One line of UTF-8 for people (systemctl status), cut at SERVICE_STATUS_SIZE; sent if it has
 * changed. */
NODISCARD int service_status(struct service *service, const char *text, struct err *err);
/* The program ends by itself within wait_ms; until then the manager does not end it by force. */
NODISCARD int service_stopping(struct service *service, int64_t wait_ms, struct err *err);
/* Say that the program is alive, if that is due, and what was not delivered before: call it in
 * every turn of the main loop. */
NODISCARD int service_look(struct service *service, int64_t now_ms, struct err *err);
/* When the next call of service_look is due; INT64_MAX: never. */
int64_t service_due_ms(const struct service *service);

#endif
