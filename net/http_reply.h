/* http_reply.h: waits for the reply of an exchange and passes it to libmicrohttpd. For the modules
 * of the server only. */
#ifndef NET_HTTP_REPLY_H
#define NET_HTTP_REPLY_H

#include <microhttpd.h>
#include <stdbool.h>

#include "net/http_exchange.h"

bool http_is_replied(struct http_exchange *exchange);
/* Suspend the connection unless a wake-up came first; true: it is suspended. On the server's
 * thread. */
bool http_wait(struct http_exchange *exchange);
/* Suspend the connection unless it has a reply; true: it is suspended. On the server's thread. */
bool http_wait_for_reply(struct http_exchange *exchange);
/* Pass the reply to libmicrohttpd. */
enum MHD_Result http_reply_queue(struct http_exchange *exchange);
/* Clear the state of the reply, and release a reply that was never queued. */
void http_reply_reset(struct http_exchange *exchange);

#endif
