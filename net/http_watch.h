/* http_watch.h: the duties that libmicrohttpd lacks: disconnected and slow clients, and the bounds
 * on connections. For the modules of the server only; on its thread. */
#ifndef NET_HTTP_WATCH_H
#define NET_HTTP_WATCH_H

#include <stdbool.h>

#include "net/http_exchange.h"

/* For libmicrohttpd's report of a new and of a closed connection. */
void http_watch_begin(struct http_exchange *exchange);
void http_watch_end(struct http_exchange *exchange);
/* Before and after its run. */
void http_watch_look(struct http_server *server);
void http_watch_run(struct http_server *server);
/* The header is there: whether the request may be served. */
bool http_watch_admit(struct http_exchange *exchange);
bool http_watch_knows(const struct http_exchange *exchange);
void http_watch_stage(struct http_exchange *exchange, enum place_stage stage);
/* The client has closed its side: see after the run whether anybody is left to serve. */
void http_watch_ending(struct http_exchange *exchange);
/* Close the connection, whatever it is at. On the server's thread. */
void http_break_off(struct http_exchange *exchange);

#endif
