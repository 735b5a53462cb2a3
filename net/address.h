/* address.h: parses the "HOST:PORT" texts of --listen and --advertise, and checks that no program
 * listens beyond loopback by accident. */
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

/* Parse a numeric host (IPv4, [IPv6], or "localhost") and a port (0: any free one). */
NODISCARD int address_parse(const char *text, struct address *out, struct err *err);
/* Set *out to the address of a socket (AF_INET or AF_INET6), with its text. */
void address_set(struct address *out, const struct sockaddr *socket_address);
/* Set *out to the same host with another port. */
void address_set_port(const struct address *address, uint16_t port, struct address *out);
/* Return the same number for all addresses of a client: an IPv4 address, or an IPv6 /64. */
uint64_t address_client_key(const struct sockaddr *address);
/* Find this machine's own address for a connection to the host of a URL, with port 0. Sends nothing
 * to the host, but resolves its name. ERR_NETWORK: unresolved, or no route. */
NODISCARD int address_toward(const char *url, struct address *out, struct err *err);
/* Write the host in its URL form, without the port: "10.0.0.6", "[fd00::6]". An IPv4-mapped IPv6
 * address is written as IPv4. */
#define ADDRESS_HOST_SIZE 64
void address_host(const struct address *address, char out[ADDRESS_HOST_SIZE]);
/* Return whether the address is in 127.0.0.0/8 or is ::1. */
bool address_is_loopback(const struct address *address);
/* Check an address to listen on. ERR_INVALID unless it is loopback or TLS is on: "refusing to
 * listen on 10.0.0.5:7410 without TLS: REMEDY, or confirm with --insecure". */
NODISCARD int address_check(const struct address *address, bool tls, const char *remedy,
                            struct err *err);

#endif
