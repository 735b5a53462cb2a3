/* origin.h: checks the Host and Origin headers of a request. Pure text; any thread.
 *
 * Without tokens the API must reject calls of web pages in a browser on this machine. With
 * DNS rebinding a page's own name resolves to loopback, and only the Host header shows it. */
#ifndef NET_ORIGIN_H
#define NET_ORIGIN_H

#include <stdbool.h>

#include "base/conf.h"
#include "base/err.h"

/* Check a host name of --allow-host: letters, digits, dots and hyphens; no scheme, no port.
 * ERR_INVALID. */
NODISCARD int origin_check_name(const char *name, struct err *err);
/* Return whether "host[:port]" names loopback ("localhost", 127.x.y.z, [::1]) or one of the allowed
 * names. Letter case and port do not matter. host: NULL never matches. */
bool origin_is_own_host(const char *host, const struct conf_list *allowed);
/* Return whether an Origin header ("https://host[:port]") names a page that this Host serves.
 * host may be NULL. */
bool origin_is_own(const char *origin, const char *host);

#endif
