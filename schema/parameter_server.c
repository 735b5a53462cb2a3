#include "schema/parameter_server.h"

const char *const transfers_names[] = {
    [SEGMENTS_OPTIMAL] = "optimal", [SEGMENTS_STREAM] = "stream",
    [SEGMENTS_LAYER] = "layer",     [SEGMENTS_LAYER_WINDOW] = "layer_window",
    [SEGMENTS_GREEDY] = "greedy",   [SEGMENTS_READY] = "ready",
    [SEGMENTS_WHOLE] = "whole",     [SEGMENTS_FIXED] = "fixed",
    [TRANSFERS_AUTO] = "auto",      NULL,
};

const char *const job_shares_names[] = {[SHARES_SPEED] = "speed", [SHARES_EQUAL] = "equal", NULL};

static const struct field place_fields[] = {
    MEMBER_FORM(struct server_place, device.text, "device", FIELD_REQUIRED, &device_id_form),
    MEMBER_INT(struct server_place, end, "end", FIELD_REQUIRED, 1, UNITS_MAX,
               .about = "One past the server's last unit. Its first unit follows those of the "
                        "server before it."),
};
static const struct record place_record =
    RECORD_WITH(struct server_place, "server_place", place_fields,
                .about = "A device that keeps units of the model.");
static const struct field servers_number =
    MEMBER_INT(struct server_options, servers, "servers", FIELD_NULLABLE, 1, SERVERS_OF_JOB_MAX);

static const struct field share_element = {.type = FIELD_INT, .min = 1, .max = MICRO_BATCHES_MAX};
static const struct field shares_word =
    MEMBER_ENUM(struct server_options, shares, "shares", 0, job_shares_names);

static const struct field options_fields[] = {
    MEMBER_RECORDS(
        struct server_options, place, place_count, "servers", 0, &place_record,
        .instead = &servers_number, .min = 1,
        .about =
            "The number of devices that keep the model, or a list of these devices and the end of "
            "each one's units: `[{\"device\": \"dev_...\", \"end\": 7}, ...]`; null: planned.",
        .rule = "at most `devices.max`; different devices, rising ends up to the "
                "model's number of units"),
    MEMBER_MAP(struct server_options, server_label, server_label_count, "server_labels", 0,
               &label_record, .shared = "labels",
               .about = "Labels that a server needs, in addition to `devices.labels`.",
               .rule = "none with a list of `servers`"),
    MEMBER_MAP(struct server_options, worker_label, worker_label_count, "worker_labels", 0,
               &label_record, .shared = "labels",
               .about = "Labels that a worker needs, in addition to `devices.labels`."),
    MEMBER_ENUM(struct server_options, transfers, "transfers", 0, transfers_names,
                .about = "How layers are joined into requests: see [Parameter "
                         "server](#parameter-server). The choice affects only time."),
    MEMBER_INT(struct server_options, segment_bytes, "segment_bytes", 0, 65536, 1073741824,
               .about = "Minimum bytes of a request.", .rule = "with `transfers: fixed` only"),
    MEMBER_LIST(struct server_options, share, share_count, "shares", 0, &share_element,
                .instead = &shares_word, .min = 1,
                .about = "How the micro-batches of a step are divided among the workers. `speed`: "
                         "so that the slowest worker is as fast as possible. `equal`: equally. A "
                         "list states the number of each worker, the fastest first: `[4, 2, 2]`.",
                .rule = "a list adds up to `micro_batches`"),
};
const struct record server_options_record =
    RECORD_WITH(struct server_options, "parameter_server", options_fields,
                .about = "A job of servers and workers. See docs/jobs.md.");
