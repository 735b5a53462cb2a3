/* http_adopt.h: passes a server connections that it did not accept itself, such as those through a
 * relay. */
#ifndef NET_HTTP_ADOPT_H
#define NET_HTTP_ADOPT_H

#include "net/http_server.h"

/* Take a connection, as if the server had accepted it. The client gets the address 0.0.0.0: its own
 * is unknown, and it must not count as a program of this machine. The server takes fd, and closes
 * it if there is no room. On the server's thread, before http_server_run. */
void http_adopt(struct http_server *server, int fd);

#endif
