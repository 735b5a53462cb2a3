#include "net/origin.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#define NAME_MAX_BYTES 253 /* RFC 1035 */

int origin_check_name(const char *name, struct err *err)
{
    size_t length = strlen(name);
    bool valid = length >= 1 && length <= NAME_MAX_BYTES && isalnum((unsigned char)name[0]);
    for (size_t i = 0; valid && i < length; i++) {
        valid = isalnum((unsigned char)name[i]) || name[i] == '.' || name[i] == '-';
    }
    return valid ? 0
                 : err_set(err, ERR_INVALID,
                           "'%.100s': expected a host name such as paceline.example, without "
                           "scheme and port",
                           name);
}

/* A name that only begins like a loopback address may resolve to any host. */
static bool is_loopback(const char *host, size_t length)
{
    return (length == 9 && strncasecmp(host, "localhost", 9) == 0) ||
           (strncmp(host, "127.", 4) == 0 && strspn(host, "0123456789.") == length);
}

bool origin_is_own_host(const char *host, const struct conf_list *allowed)
{
    if (!host) {
        return false;
    }
    if (host[0] == '[') {
        return strncmp(host, "[::1]", 5) == 0 && (host[5] == '\0' || host[5] == ':');
    }
    size_t length = strcspn(host, ":");
    bool own = is_loopback(host, length);
    for (size_t i = 0; !own && i < allowed->count; i++) {
        own =
            strlen(allowed->item[i]) == length && strncasecmp(host, allowed->item[i], length) == 0;
    }
    return own;
}

bool origin_is_own(const char *origin, const char *host)
{
    const char *origin_host = strstr(origin, "://");
    return origin_host && host && strcasecmp(origin_host + 3, host) == 0;
}
