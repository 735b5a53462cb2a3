/* diagnosis.h: what is wrong with an installation, by the answers of its coordinator. Pure. */
#ifndef CLI_DIAGNOSIS_H
#define CLI_DIAGNOSIS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"

/* What the coordinator answered. Values that are missing are not judged. */
struct facts {
    const json_t *version;   /* GET /version */
    const json_t *devices;   /* items of GET /v1/devices */
    const json_t *jobs;      /* items of GET /v1/jobs */
    const json_t *incidents; /* items of GET /v1/incidents */
    double disk_free_bytes;  /* of the coordinator; below 0: not known */
    int64_t now_ms;          /* wall time here */
};

/* Write {"items": [{"result", "check", "message"}]} with result ok, warning or failed, at least one
 * for each check. *failed: one has failed. ERR_MEMORY. */
NODISCARD int diagnosis_make(const struct facts *facts, json_t **out, bool *failed,
                             struct err *err);

#endif
