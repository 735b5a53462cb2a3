/* relay_preface.h: the first lines of a connection to a relay, and their tickets (relay.h). Pure.
 * Any thread.
 *
 *   PARK NAME HTTP/1.1                    NAME is ready for a caller
 *   CONNECT NAME:1 HTTP/1.1               a caller of NAME; the port has no meaning
 *   Proxy-Authorization: Bearer TICKET
 *
 * HTTP clients send CONNECT to a proxy (RFC 9110, 9.3.6). Other header lines are ignored. */
#ifndef NET_RELAY_PREFACE_H
#define NET_RELAY_PREFACE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "net/hash.h"

#define RELAY_NAME_SIZE 80       /* [A-Za-z0-9_.-]+ and NUL */
#define RELAY_PREFACE_BYTES 1024 /* the longest preface */

enum relay_verb { RELAY_PARK, RELAY_CALL };

struct relay_preface {
    enum relay_verb verb;
    char name[RELAY_NAME_SIZE];
    char ticket[HASH_TEXT_SIZE];
};

/* Read the preface at the start of bytes. Returns its size, 0 while its end is missing, ERR_FORMAT,
 * or ERR_LIMIT: no end within RELAY_PREFACE_BYTES. */
int relay_preface_read(const char *bytes, size_t size, struct relay_preface *out, struct err *err);
/* Write the preface of a device that parks. Returns its size. */
size_t relay_preface_park(const char *name, const char *ticket, char out[RELAY_PREFACE_BYTES]);

/* Derive the key of the tickets of one plan. */
void relay_key(const uint8_t secret[HASH_SIZE], const char *plan, uint8_t out[HASH_SIZE]);
/* Make the ticket that allows to park under the name, or to call it. */
void relay_ticket(const uint8_t key[HASH_SIZE], enum relay_verb verb, const char *name,
                  char out[HASH_TEXT_SIZE]);

#endif
