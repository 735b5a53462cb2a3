#include "net/address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/parse.h"

#define HOST_SIZE 256

static int invalid(const char *text, struct err *err)
{
    return err_set(
        err, ERR_INVALID,
        "'%s' is not an address; expected HOST:PORT such as 127.0.0.1:7410 or [::1]:7410", text);
}

/* Split "HOST:PORT" or "[HOST]:PORT" into its two parts. */
static bool split(const char *text, char *host, size_t host_size, const char **port,
                  bool *bracketed)
{
    *bracketed = text[0] == '[';
    const char *start = text + *bracketed;
    const char *end = strchr(start, *bracketed ? ']' : ':');
    if (!end || end == start || (size_t)(end - start) >= host_size) {
        return false;
    }
    memcpy(host, start, (size_t)(end - start));
    host[end - start] = '\0';
    *port = end + *bracketed;
    if (**port != ':') {
        return false;
    }
    *port += 1;
    return true;
}

int address_parse(const char *text, struct address *out, struct err *err)
{
    char host[INET6_ADDRSTRLEN];
    const char *port_text = NULL;
    bool bracketed = false;
    int64_t port = 0;
    if (!split(text, host, sizeof(host), &port_text, &bracketed) ||
        parse_i64(port_text, 0, UINT16_MAX, &port, NULL)) {
        return invalid(text, err);
    }
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    const char *numeric = !bracketed && strcmp(host, "localhost") == 0 ? "127.0.0.1" : host;
    if (bracketed && inet_pton(AF_INET6, numeric, &v6.sin6_addr) == 1) {
        address_set(out, (const struct sockaddr *)&v6);
    } else if (!bracketed && inet_pton(AF_INET, numeric, &v4.sin_addr) == 1) {
        address_set(out, (const struct sockaddr *)&v4);
    } else {
        return invalid(text, err);
    }
    return 0;
}

void address_set(struct address *out, const struct sockaddr *socket_address)
{
    *out = (struct address){0};
    char host[INET6_ADDRSTRLEN];
    if (socket_address->sa_family == AF_INET6) {
        struct sockaddr_in6 v6;
        memcpy(&v6, socket_address, sizeof(v6));
        memcpy(&out->storage, &v6, sizeof(v6));
        out->length = sizeof(v6);
        out->port = ntohs(v6.sin6_port);
        ASSERT(inet_ntop(AF_INET6, &v6.sin6_addr, host, sizeof(host)) != NULL);
        (void)snprintf(out->text, sizeof(out->text), "[%s]:%u", host, (unsigned)out->port);
        return;
    }
    ASSERT(socket_address->sa_family == AF_INET);
    struct sockaddr_in v4;
    memcpy(&v4, socket_address, sizeof(v4));
    memcpy(&out->storage, &v4, sizeof(v4));
    out->length = sizeof(v4);
    out->port = ntohs(v4.sin_port);
    ASSERT(inet_ntop(AF_INET, &v4.sin_addr, host, sizeof(host)) != NULL);
    (void)snprintf(out->text, sizeof(out->text), "%s:%u", host, (unsigned)out->port);
}

void address_set_port(const struct address *address, uint16_t port, struct address *out)
{
    struct sockaddr_in6 v6;
    struct sockaddr_in v4;
    if (address->storage.ss_family == AF_INET6) {
        memcpy(&v6, &address->storage, sizeof(v6));
        v6.sin6_port = htons(port);
        address_set(out, (const struct sockaddr *)&v6);
        return;
    }
    memcpy(&v4, &address->storage, sizeof(v4));
    v4.sin_port = htons(port);
    address_set(out, (const struct sockaddr *)&v4);
}

uint64_t address_client_key(const struct sockaddr *address)
{
    uint64_t key = 0;
    if (address->sa_family == AF_INET6) {
        struct sockaddr_in6 v6;
        memcpy(&v6, address, sizeof(v6));
        memcpy(&key, &v6.sin6_addr, sizeof(key));
        if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
            memcpy(&key, (const uint8_t *)&v6.sin6_addr + 8, sizeof(key));
        }
        return key;
    }
    struct sockaddr_in v4;
    memcpy(&v4, address, sizeof(v4));
    return v4.sin_addr.s_addr;
}

/* The host and port of "https://HOST[:PORT]/...". */
static bool split_url(const char *url, char host[HOST_SIZE], char port[8])
{
    const char *at = strstr(url, "://");
    const bool tls = at && strncmp(url, "https", (size_t)(at - url)) == 0;
    at = at ? at + 3 : "";
    const bool bracketed = at[0] == '[';
    const char *start = at + bracketed;
    const size_t size = strcspn(start, bracketed ? "]" : ":/");
    if (size == 0 || size >= HOST_SIZE || (bracketed && start[size] != ']')) {
        return false;
    }
    memcpy(host, start, size);
    host[size] = '\0';
    const char *rest = start + size + bracketed;
    (void)snprintf(port, 8, "%.*s", (int)strcspn(rest + (*rest == ':'), "/"),
                   *rest == ':' ? rest + 1 : "");
    if (port[0] == '\0') {
        (void)snprintf(port, 8, "%s", tls ? "443" : "80");
    }
    return true;
}

/* The kernel chooses the address of a datagram socket when it is connected. */
static bool own_address(const struct addrinfo *there, struct address *out)
{
    struct sockaddr_storage own;
    socklen_t size = sizeof(own);
    const int fd = socket(there->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const bool found = fd >= 0 && connect(fd, there->ai_addr, there->ai_addrlen) == 0 &&
                       getsockname(fd, (struct sockaddr *)&own, &size) == 0;
    if (fd >= 0) {
        (void)close(fd);
    }
    if (found && own.ss_family == AF_INET) {
        ((struct sockaddr_in *)&own)->sin_port = 0;
    } else if (found) {
        ((struct sockaddr_in6 *)&own)->sin6_port = 0;
    }
    if (found) {
        address_set(out, (const struct sockaddr *)&own);
    }
    return found;
}

int address_toward(const char *url, struct address *out, struct err *err)
{
    char host[HOST_SIZE], port[8];
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_DGRAM};
    struct addrinfo *list = NULL;
    if (!split_url(url, host, port)) {
        return err_set(err, ERR_INVALID, "'%s' has no host", url);
    }
    const int failed = getaddrinfo(host, port, &hints, &list);
    if (failed) {
        return err_set(err, ERR_NETWORK, "resolve '%s': %s", host, gai_strerror(failed));
    }
    bool found = false;
    for (const struct addrinfo *at = list; at && !found; at = at->ai_next) {
        found = own_address(at, out);
    }
    freeaddrinfo(list);
    return found ? 0 : err_set(err, ERR_NETWORK, "there is no route to '%s'", host);
}

void address_host(const struct address *address, char out[ADDRESS_HOST_SIZE])
{
    static const char mapped[] = "[::ffff:";
    const char *text = address->text;
    const char *end = strrchr(text, ':');
    const size_t skip = sizeof(mapped) - 1;
    ASSERT(end);
    if (strncmp(text, mapped, skip) == 0 && strchr(text, '.')) {
        text += skip;
        end--; /* its bracket */
    }
    (void)snprintf(out, ADDRESS_HOST_SIZE, "%.*s", (int)(end - text), text);
}

bool address_is_loopback(const struct address *address)
{
    if (address->storage.ss_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)&address->storage;
        return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
    }
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&address->storage;
    return address->storage.ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

int address_check(const struct address *address, bool tls, const char *remedy, struct err *err)
{
    if (tls || address_is_loopback(address)) {
        return 0;
    }
    return err_set(err, ERR_INVALID,
                   "refusing to listen on %s without TLS: %s, or confirm with --insecure",
                   address->text, remedy);
}
