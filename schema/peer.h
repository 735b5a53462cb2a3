/* peer.h: another device that an assignment names, and how to call it. Plain struct. */
#ifndef SCHEMA_PEER_H
#define SCHEMA_PEER_H

#include "base/record.h"
#include "schema/id.h"
#include "schema/limits.h"

struct peer {
    struct device_id device;
    char url[URL_SIZE];
    char ticket[TICKET_SIZE];     /* filled in by the coordinator's edge */
    char codec[16];               /* of the tensors both ways (libtrain/quant/codec.h); "": none */
    char public_key[SHA256_SIZE]; /* with an https URL: of the one device that is trusted there */
    char relay_ticket[TICKET_SIZE]; /* to call it through a relay; "": none */
};
extern const struct record peer_record;

#endif
