/* http_refuse.h: sends replies in the middle of an upload, which libmicrohttpd cannot send. For the
 * modules of the server only; on its thread, except http_refuse_write. */
#ifndef NET_HTTP_REFUSE_H
#define NET_HTTP_REFUSE_H

#include <microhttpd.h>
#include <stddef.h>
#include <stdint.h>

#include "net/http_exchange.h"

/* Write the reply in its wire form into *out. */
NODISCARD int http_refuse_write(const struct http_exchange *exchange, int status,
                                const char *content_type, const void *body, size_t size,
                                struct buf *out);
/* Send the reply and keep the socket until the client has read it; libmicrohttpd must close the
 * connection. */
enum MHD_Result http_refuse(struct http_exchange *exchange);
void http_linger_run(struct http_server *server);
int64_t http_linger_deadline_ms(const struct http_server *server);
void http_linger_end_all(struct http_server *server);

#endif
