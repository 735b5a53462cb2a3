/* http_adopt.h: connections that a server did not accept itself, such as those that came through a
 * relay. */
#ifndef NET_HTTP_ADOPT_H
#define NET_HTTP_ADOPT_H

#include "net/http_server.h"

/* Take a connection, as if the server had accepted it. Its client has the address 0.0.0.0: nobody
 * knows where it is, and it is not taken for a program of this machine. fd is taken; where there is
 * no room it is closed. On the server's thread, before http_server_run. */
void http_adopt(struct http_server *server, int fd);

#endif
