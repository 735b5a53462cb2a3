/* http_trust.h: TLS of a libcurl handle: whom it trusts and who it is. For http_call.c only. */
#ifndef NET_HTTP_TRUST_H
#define NET_HTTP_TRUST_H

#include <curl/curl.h>

#include "base/err.h"
#include "net/tls.h"

/* Set the handle up for `wanted` (NULL: the system's authorities, no certificate), unless it is set
 * up so: *present, all zeroes for a new handle. libcurl uses a kept connection again only with the
 * same settings. */
NODISCARD int http_trust_set(CURL *easy, struct tls_client *present,
                             const struct tls_client *wanted, struct err *err);

#endif
