/* parameter_server.h: the options of a job whose devices share each batch: some keep units
 * (servers), some compute micro-batches with all units (workers). Defaults and meaning:
 * docs/jobs.md. Plain structs. */
#ifndef SCHEMA_PARAMETER_SERVER_H
#define SCHEMA_PARAMETER_SERVER_H

#include <stddef.h>
#include <stdint.h>

#include "base/record.h"
#include "libtrain/model/segments.h"
#include "schema/device.h"
#include "schema/id.h"
#include "schema/limits.h"

#define SERVERS_OF_JOB_MAX 8

/* How workers join layers into requests: enum segments_transfers by its numbers, and the faster of
 * optimal and stream, as measured. */
enum { TRANSFERS_AUTO = SEGMENTS_FIXED + 1 };
extern const char *const transfers_names[];

/* How the micro-batches of a step are divided among the workers. SHARES_GIVEN has no name on the
 * wire: the job gives a list. */
enum job_shares { SHARES_SPEED, SHARES_EQUAL, SHARES_GIVEN };
extern const char *const job_shares_names[];

/* A server that the job asks for. */
struct server_place {
    struct device_id device;
    int64_t end; /* one past its last unit */
};

struct server_options {
    int64_t servers; /* how many, including those of place; 0: planned */
    struct server_place place[SERVERS_OF_JOB_MAX]; /* by units; place_count 0: planned */
    size_t place_count;
    struct label server_label[LABELS_MAX]; /* of a server, added to the job's */
    size_t server_label_count;
    struct label worker_label[LABELS_MAX];
    size_t worker_label_count;
    int transfers;             /* enum segments_transfers, or TRANSFERS_AUTO */
    int64_t segment_bytes;     /* of a request, at least: SEGMENTS_FIXED */
    int shares;                /* enum job_shares */
    int64_t share[STAGES_MAX]; /* SHARES_GIVEN: micro-batches of each worker, the fastest first */
    size_t share_count;        /* else 0 */
};
#define SERVER_OPTIONS_DEFAULT                                                                     \
    {                                                                                              \
        .transfers = TRANSFERS_AUTO, .segment_bytes = 4 << 20                                      \
    }
extern const struct record server_options_record;

struct job_spec;
/* Check the rules between the fields of a job with servers, and between its `parameter_server` and
 * the other fields. Adds faults. ERR_INVALID when there is one; err names the first. */
NODISCARD int parameter_server_check(const struct job_spec *spec, struct record_faults *faults,
                                     struct err *err);
/* Check that the servers that a job names keep all units of its model. Adds faults. ERR_INVALID. */
NODISCARD int parameter_server_units_check(const struct server_options *options, size_t unit_count,
                                           struct record_faults *faults, struct err *err);
struct assignment_run;
/* Check the stages of an assignment: servers come first and keep all units in order. */
NODISCARD int parameter_server_stages_check(const struct assignment_run *run, struct err *err);

#endif
