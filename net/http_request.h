/* http_request.h: libmicrohttpd's callbacks for a request. For the modules of the server only; on
 * its thread. */
#ifndef NET_HTTP_REQUEST_H
#define NET_HTTP_REQUEST_H

#include <microhttpd.h>
#include <stddef.h>

#include "net/http_exchange.h"

void *http_request_target(void *server, const char *target, struct MHD_Connection *connection);
enum MHD_Result http_request_step(void *server, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *data_size, void **exchange);
void http_request_completed(void *server, struct MHD_Connection *connection, void **exchange,
                            enum MHD_RequestTerminationCode code);
/* Answer an invalid header instead of libmicrohttpd. If the client continues to send, its
 * connection is reset after the answer was sent. Unlike a rejected upload, the connection does not
 * linger: libmicrohttpd would keep its place meanwhile, and any client could occupy places in this
 * way. Linux clients read the answer nevertheless; other systems may drop it at the reset. */
void http_request_reject(struct http_exchange *exchange, const char *fault);

#endif
