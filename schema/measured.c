#include "schema/measured.h"

#include "schema/heartbeat.h"

static const struct field unit_fields[] = {
    MEMBER_TIME(struct measured_unit, wall_ms, "at", FIELD_REQUIRED,
                .about =
                    "The minute of the measurement; the hour, if the history is kept by the hour."),
    MEMBER_FORM(struct measured_unit, job.text, "job", FIELD_REQUIRED, &job_id_form),
    MEMBER_INT(struct measured_unit, unit, "unit", FIELD_REQUIRED, 0, UNITS_MAX - 1),
    MEMBER_DOUBLE(struct measured_unit, forward_seconds, "forward_seconds", FIELD_REQUIRED, 0, 0,
                  .about = "Seconds of the forward pass, per micro-batch."),
    MEMBER_DOUBLE(struct measured_unit, backward_seconds, "backward_seconds", FIELD_REQUIRED, 0, 0),
};
static const struct record unit_record = RECORD(struct measured_unit, "measured_unit", unit_fields);

static const struct field unit_list_fields[] = {
    MEMBER_RECORDS(struct measured_unit_list, item, item_count, "items", FIELD_REQUIRED,
                   &unit_record, .about = "The measurements, the oldest first."),
    MEMBER_TEXT(struct measured_unit_list, next_cursor, "next_cursor",
                FIELD_REQUIRED | FIELD_NULLABLE,
                .about = "The `cursor` of the next page; null: this is the last one."),
};
const struct record measured_unit_list_record =
    RECORD_WITH(struct measured_unit_list, "measured_unit_list", unit_list_fields,
                .about = "The history of a device's units.");

static const struct field link_fields[] = {
    MEMBER_FORM(struct measured_link, from.text, "from", FIELD_REQUIRED, &device_id_form),
    MEMBER_FORM(struct measured_link, to.text, "to", FIELD_REQUIRED, &device_id_form),
    MEMBER_ENUM(struct measured_link, kind, "kind", FIELD_REQUIRED, link_kind_names),
    MEMBER_TEXT(struct measured_link, codec, "codec", FIELD_SKIP_EMPTY,
                .about = "The codec of coded tensors."),
    MEMBER_DOUBLE(struct measured_link, transfers, "transfers", FIELD_REQUIRED, 0, 0,
                  .about = "The number of remembered transfers; older ones fade."),
    MEMBER_DOUBLE(struct measured_link, mean_seconds, "mean_seconds", FIELD_REQUIRED, 0, 0),
    MEMBER_DOUBLE(struct measured_link, mean_bytes, "mean_bytes", FIELD_REQUIRED, 0, 0,
                  .about = "Mean bytes of a transfer on the wire."),
    MEMBER_DOUBLE(struct measured_link, latency_seconds, "latency_seconds", FIELD_REQUIRED, 0, 0,
                  .about = "Seconds of a round trip, estimated from these transfers."),
    MEMBER_DOUBLE(struct measured_link, bytes_per_second, "bytes_per_second", FIELD_REQUIRED, 0, 0),
    MEMBER_TIME(struct measured_link, wall_ms, "at", FIELD_REQUIRED,
                .about = "The time of the last report."),
};
static const struct record link_record =
    RECORD_WITH(struct measured_link, "measured_link", link_fields,
                .about = "Transfers of one kind and codec in one direction.");

static const struct field link_list_fields[] = {
    MEMBER_RECORDS(struct measured_link_list, item, item_count, "items", FIELD_REQUIRED,
                   &link_record),
    MEMBER_TEXT(struct measured_link_list, next_cursor, "next_cursor",
                FIELD_REQUIRED | FIELD_NULLABLE,
                .about = "The `cursor` of the next page; null: this is the last one."),
};
const struct record measured_link_list_record = RECORD_WITH(
    struct measured_link_list, "measured_link_list", link_list_fields, .about = "Measured links.");
