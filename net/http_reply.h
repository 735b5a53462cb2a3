/* http_reply.h: the reply of an exchange: waiting for it, handing it to libmicrohttpd. For the
 * modules of the server only. */
#ifndef NET_HTTP_REPLY_H
#define NET_HTTP_REPLY_H

#include <microhttpd.h>
#include <stdbool.h>

#include "net/http_exchange.h"

bool http_is_replied(struct http_exchange *exchange);
/* Suspend the connection unless a wake-up was first; true: it is suspended. On the server's
 * thread. */
bool http_wait(struct http_exchange *exchange);
/* The same, waiting for the reply. */
bool http_wait_for_reply(struct http_exchange *exchange);
/* Hand the reply to libmicrohttpd. */
enum MHD_Result http_reply_queue(struct http_exchange *exchange);
/* Clear the state of the reply; a reply that was never queued is released. */
void http_reply_reset(struct http_exchange *exchange);

#endif
