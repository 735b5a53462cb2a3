/* http_framing.h: checks the headers that decide where a request ends and which host it addresses.
 * For the modules of the server only. */
#ifndef NET_HTTP_FRAMING_H
#define NET_HTTP_FRAMING_H

#include <microhttpd.h>

/* Return the fault of the headers as one sentence, or NULL. Faulty headers leave the end or the
 * host of the request ambiguous (RFC 9112, 6.3 and 3.2); libmicrohttpd accepts them. */
const char *http_framing_fault(struct MHD_Connection *connection, const char *version);

#endif
