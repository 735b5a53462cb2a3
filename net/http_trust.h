/* http_trust.h: sets the TLS of a libcurl handle: trusted authorities and own certificate. For
 * http_call.c only. */
#ifndef NET_HTTP_TRUST_H
#define NET_HTTP_TRUST_H

#include <curl/curl.h>

#include "base/err.h"
#include "net/tls.h"

/* Set the handle up for `wanted` (NULL: the system's authorities, no certificate), unless *present
 * shows that it already is. *present is all zero for a new handle. libcurl reuses a kept connection
 * only with the same settings. */
NODISCARD int http_trust_set(CURL *easy, struct tls_client *present,
                             const struct tls_client *wanted, struct err *err);

#endif
