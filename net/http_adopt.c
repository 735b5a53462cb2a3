#include "net/http_adopt.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "base/log.h"
#include "net/http_exchange.h"

void http_adopt(struct http_server *server, int fd)
{
    const struct sockaddr_in nobody = {.sin_family = AF_INET};
    if (MHD_add_connection(server->daemon, fd, (const struct sockaddr *)&nobody, sizeof(nobody)) !=
        MHD_YES) {
        log_debug("connection_not_adopted", "error=%s", log_quote(strerror(errno)).text);
    }
}
