#include "schema/parameter_server.h"

const char *const transfers_names[] = {
    [SEGMENTS_OPTIMAL] = "optimal", [SEGMENTS_STREAM] = "stream",
    [SEGMENTS_LAYER] = "layer",     [SEGMENTS_LAYER_WINDOW] = "layer_window",
    [SEGMENTS_GREEDY] = "greedy",   [SEGMENTS_READY] = "ready",
    [SEGMENTS_WHOLE] = "whole",     [SEGMENTS_FIXED] = "fixed",
    [TRANSFERS_AUTO] = "auto",      NULL,
};

const char *const job_shares_names[] = {[SHARES_SPEED] = "speed", [SHARES_EQUAL] = "equal", NULL};

static const struct field options_fields[] = {
    MEMBER_INT(struct server_options, servers, "servers", FIELD_NULLABLE, 1, SERVERS_OF_JOB_MAX,
               .about = "Devices that keep the model; null: planned.",
               .rule = "at most `devices.max`"),
    MEMBER_MAP(struct server_options, server_label, server_label_count, "server_labels", 0,
               &label_record, .shared = "labels",
               .about = "Labels of a server, beside `devices.labels`."),
    MEMBER_MAP(struct server_options, worker_label, worker_label_count, "worker_labels", 0,
               &label_record, .shared = "labels",
               .about = "Labels of a worker, beside `devices.labels`."),
    MEMBER_ENUM(struct server_options, transfers, "transfers", 0, transfers_names,
                .about = "How layers are joined into requests: see "
                         "[Parameter server](#parameter-server). It changes time only."),
    MEMBER_INT(struct server_options, segment_bytes, "segment_bytes", 0, 65536, 1073741824,
               .about = "The least bytes of a request.", .rule = "with `transfers: fixed` only"),
    MEMBER_ENUM(struct server_options, shares, "shares", 0, job_shares_names,
                .about = "How the micro-batches of a step are divided among the workers: so that "
                         "the slowest one is as fast as possible (`speed`), or equally."),
};
const struct record server_options_record =
    RECORD_WITH(struct server_options, "parameter_server", options_fields,
                .about = "A job of servers and workers. See docs/jobs.md.");
