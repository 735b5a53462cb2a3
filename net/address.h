/* address.h: "HOST:PORT" texts of --listen and --advertise, and the rule that nothing listens
 * beyond loopback by accident. */
#ifndef NET_ADDRESS_H
#define NET_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/err.h"

struct address {
    struct sockaddr_storage storage;
    socklen_t length;
    char text[64]; /* "127.0.0.1:7410", "[::1]:7410" */
    uint16_t port;
};

/* Numeric host (IPv4, [IPv6], or "localhost") and port (0: any free one). */
NODISCARD int address_parse(const char *text, struct address *out, struct err *err);
/* The address of a socket (AF_INET or AF_INET6), with its text. */
void address_set(struct address *out, const struct sockaddr *socket_address);
/* The same host with another port. */
void address_set_port(const struct address *address, uint16_t port, struct address *out);
/* The same number for addresses of one client: an IPv4 address, or an IPv6 /64. */
uint64_t address_client_key(const struct sockaddr *address);
/* The address of this machine that a connection to the host of a URL would have, with port 0. Sends
 * nothing, but resolves a name. ERR_NETWORK: unresolved, or no route. */
NODISCARD int address_toward(const char *url, struct address *out, struct err *err);
/* Its host as a URL has it, without the port: "10.0.0.6", "[fd00::6]"; an IPv4 address in the form
 * of an IPv6 one becomes what it is. */
#define ADDRESS_HOST_SIZE 64
void address_host(const struct address *address, char out[ADDRESS_HOST_SIZE]);
/* 127.0.0.0/8 or ::1. */
bool address_is_loopback(const struct address *address);
/* ERR_INVALID unless loopback or with TLS: "refusing to listen on 10.0.0.5:7410 without TLS:
 * REMEDY, or confirm with --insecure". */
NODISCARD int address_check(const struct address *address, bool tls, const char *remedy,
                            struct err *err);

#endif
