/* audit.h: one change that a request made: who, what, when, with which result. Plain struct; wire
 * form by the record below. */
#ifndef SCHEMA_AUDIT_H
#define SCHEMA_AUDIT_H

#include <stdint.h>

#include "base/record.h"
#include "schema/limits.h"

#define AUDIT_PATH_SIZE 256
#define AUDIT_ADDRESS_SIZE 64

struct audit_entry {
    char id[ID_SIZE]; /* "aud_...": sortable */
    int64_t created_ms;
    char token[ID_SIZE];              /* "": the coordinator needs no tokens */
    char token_name[NAME_SIZE];       /* at the time of the request */
    char address[AUDIT_ADDRESS_SIZE]; /* of the client, or of the proxy before it */
    char method[16];
    char path[AUDIT_PATH_SIZE];
    char subject[NAME_SIZE]; /* the id or name of the changed object */
    int64_t status;          /* 0: the client left before the answer */
};
extern const struct record audit_entry_record;

#endif
