/* http_watch.h: handles disconnected and slow clients and the bounds on connections, which
 * libmicrohttpd does not. For the modules of the server only; on its thread. */
#ifndef NET_HTTP_WATCH_H
#define NET_HTTP_WATCH_H

#include <stdbool.h>

#include "net/http_exchange.h"

/* Handle libmicrohttpd's report of a new and of a closed connection. */
void http_watch_begin(struct http_exchange *exchange);
void http_watch_end(struct http_exchange *exchange);
/* Check the connections before and after libmicrohttpd's run. */
void http_watch_look(struct http_server *server);
void http_watch_run(struct http_server *server);
/* Return whether the request may be served, once its header is complete. */
bool http_watch_admit(struct http_exchange *exchange);
bool http_watch_knows(const struct http_exchange *exchange);
void http_watch_stage(struct http_exchange *exchange, enum place_stage stage);
/* Note that the client has closed its side. After the run, check whether it still waits for the
 * reply. */
void http_watch_ending(struct http_exchange *exchange);
/* Close the connection in any state. On the server's thread. */
void http_break_off(struct http_exchange *exchange);

#endif
