/* desk.h: an HTTP server and its clients in the test's single thread, like the coordinator's loop.
 * Only work that the test starts runs. For the unit tests of coordinator/http. */
#ifndef TESTS_UNIT_COORDINATOR_HTTP_DESK_H
#define TESTS_UNIT_COORDINATOR_HTTP_DESK_H

#include <stdbool.h>
#include <stddef.h>

#include "net/http_server.h"

#define DESK_TEXT_MAX (1u << 20)

struct desk {
    struct http_server *server;
    char text[DESK_TEXT_MAX]; /* of desk_read */
};

/* A server with these routes on a free loopback port. */
struct desk *desk_open(const struct http_route *routes, size_t route_count, void *context);
/* Closes the server alone: waiting requests end. */
void desk_shut(struct desk *desk);
void desk_close(struct desk **desk);

/* Connect and send `request`, to which the line ends and the Host are added: "GET /x HTTP/1.1" or
 * with headers after \r\n. The descriptor is the caller's. */
int desk_send(struct desk *desk, const char *request);
/* The same with a body. */
int desk_send_body(struct desk *desk, const char *request, const char *body);
/* Let the server work until it has nothing to do. */
void desk_run(struct desk *desk);
/* Let it work until the client has received `part` (NULL: until the connection ends); all that came
 * since the last call. Fails the test when that does not happen. */
const char *desk_read(struct desk *desk, int fd, const char *part);
/* Whether the client has received nothing more. */
bool desk_is_silent(struct desk *desk, int fd);

#endif
