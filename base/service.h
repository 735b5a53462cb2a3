/* service.h: tells the service manager that this program is ready, alive or ending, by the
 * datagrams of sd_notify(3). For the main loops of the programs; one thread. Without $NOTIFY_SOCKET
 * there is no service manager, and every call does nothing. */
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
    int64_t alive_every_ms; /* 0: the manager does not watch this program */
    int64_t alive_due_ms;   /* INT64_MAX: the same */
    bool failing;           /* no message was delivered since an error was returned */
    bool owes_ready, owes_stopping, owes_status; /* messages that were not delivered */
    int64_t retry_due_ms;                        /* for these */
    int64_t stop_ms;                             /* wait_ms of service_stopping */
    char status[SERVICE_STATUS_SIZE];
};

/* Read $NOTIFY_SOCKET, $WATCHDOG_USEC and $WATCHDOG_PID, and remove them for child processes.
 * Returns 0; ERR_INVALID: a value is malformed; ERR_IO: no socket. After an error *out is a service
 * without a manager. */
NODISCARD int service_open(struct service *out, struct err *err);
void service_close(struct service *service);

/* Messages. No call blocks. If a message cannot be sent, for example because the manager's queue is
 * full, the call returns ERR_IO once; further failures are silent until a message is delivered.
 * service_look sends the message again, because a manager that does not hear of the start ends the
 * program. */

/* Report that the program has started. */
NODISCARD int service_ready(struct service *service, struct err *err);
/* Report one line of UTF-8 for people (systemctl status), truncated at SERVICE_STATUS_SIZE; sent
 * only if it has changed. */
NODISCARD int service_status(struct service *service, const char *text, struct err *err);
/* Report that the program ends within wait_ms; until then the manager does not kill it. */
NODISCARD int service_stopping(struct service *service, int64_t wait_ms, struct err *err);
/* Report that the program is alive, if that is due, and send undelivered messages again. Call it in
 * every turn of the main loop. */
NODISCARD int service_look(struct service *service, int64_t now_ms, struct err *err);
/* Return the time at which service_look is due next; INT64_MAX: never. */
int64_t service_due_ms(const struct service *service);

#endif
