/* service.h: the coordinator's answers about itself outside /v1: GET /healthz, /readyz and
 * /version. Plain structs; wire form by the records below. */
#ifndef SCHEMA_SERVICE_H
#define SCHEMA_SERVICE_H

#include <stdint.h>

#include "base/record.h"
#include "schema/limits.h"

/* GET /healthz: "ok" as long as the process answers. GET /readyz: "ready", or 503 with the problem
 * `stopping`. */
struct service_status {
    char status[16];
};

/* GET /version */
struct service_version {
    char name[NAME_SIZE]; /* "paceline-coordinator" */
    char version[32];     /* PACELINE_VERSION */
    int64_t protocol, protocol_min;
};

extern const struct record service_status_record;
extern const struct record service_version_record;

#endif
