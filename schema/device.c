#include "schema/device.h"

const char *const device_state_names[] = {
    [DEVICE_JOINED] = "joined",
    [DEVICE_ONLINE] = "online",
    [DEVICE_SUSPECT] = "suspect",
    [DEVICE_DISCONNECTED] = "disconnected",
    [DEVICE_LOST] = "lost",
    [DEVICE_REMOVED] = "removed",
    NULL,
};

static const struct field label_fields[] = {
    MEMBER_FORM(struct label, key, "key", FIELD_REQUIRED, &name_form),
    MEMBER_FORM(struct label, value, "value", FIELD_REQUIRED, &word_form),
};
const struct record label_record = RECORD(struct label, "label", label_fields);

static const struct field inventory_fields[] = {
    MEMBER_TEXT(struct device_inventory, hostname, "hostname", 0),
    MEMBER_TEXT(struct device_inventory, os, "os", 0),
    MEMBER_TEXT(struct device_inventory, architecture, "architecture", 0),
    MEMBER_TEXT(struct device_inventory, cpu, "cpu", 0),
    MEMBER_TEXT(struct device_inventory, agent_version, "agent_version", 0),
    MEMBER_INT(struct device_inventory, cores, "cores", 0, 0, 65536),
    MEMBER_INT(struct device_inventory, memory_bytes, "memory_bytes", 0, 0, INTEGER_MAX),
    MEMBER_BOOL(struct device_inventory, zstd, "zstd", 0, .since = 2,
                .about = "The device's agent has the codecs with `+zstd`."),
};
static const struct record inventory_record =
    RECORD(struct device_inventory, "device_inventory", inventory_fields);

#define PROCESSOR_SHARE                                                                            \
    "Part of the probe's time for which its threads had processors: below 1 under a quota, or "    \
    "beside other programs."

/* One field list for two tables with different minimum values. An enrolment without rates is
 * rejected, because the planner divides by them. Every stored row can be read. */
#define PROBE_FIELDS(gflops_min, bytes_min, threads_min)                                           \
    {                                                                                              \
        MEMBER_DOUBLE(struct device_probe, gemm_gflops, "gemm_gflops", FIELD_REQUIRED, gflops_min, \
                      1e9),                                                                        \
            MEMBER_DOUBLE(struct device_probe, memory_bytes_per_second, "memory_bytes_per_second", \
                          FIELD_REQUIRED, bytes_min, 1e15, .about = "Triad."),                     \
            MEMBER_DOUBLE(struct device_probe, disk_write_bytes_per_second,                        \
                          "disk_write_bytes_per_second", 0, 0, 1e15),                              \
            MEMBER_DOUBLE(struct device_probe, processor_share, "processor_share",                 \
                          FIELD_SKIP_EMPTY, 0, 1, .since = 2, .about = PROCESSOR_SHARE),           \
            MEMBER_INT(struct device_probe, free_memory_bytes, "free_memory_bytes",                \
                       FIELD_REQUIRED, 0, INTEGER_MAX),                                            \
            MEMBER_INT(struct device_probe, threads, "threads", FIELD_REQUIRED, threads_min,       \
                       4096),                                                                      \
    }
static const struct field enroll_probe_fields[] = PROBE_FIELDS(1e-6, 1, 1);
static const struct record enroll_probe_record =
    RECORD_WITH(struct device_probe, "enroll_probe", enroll_probe_fields,
                .about = "Measured by the agent before it enrols.");
static const struct field probe_fields[] = PROBE_FIELDS(0, 0, 0);
static const struct record probe_record =
    RECORD_WITH(struct device_probe, "device_probe", probe_fields,
                .about = "Measured at enrolment, at the speed the agent will compute with.");

static const struct field enroll_request_fields[] = {
    MEMBER_FORM(struct enroll_request, token, "token", FIELD_NULLABLE, &word_form,
                .about = "Not used by this version."),
    MEMBER_FORM(struct enroll_request, name, "name", FIELD_REQUIRED, &name_form),
    MEMBER_FORM(struct enroll_request, public_key, "public_key", FIELD_REQUIRED, &public_key_form,
                .about = "Ed25519; the same key is the same device."),
    MEMBER_INT(struct enroll_request, protocol, "protocol", FIELD_REQUIRED, 0, 1e6),
    MEMBER_FORM(struct enroll_request, boot, "boot", FIELD_REQUIRED, &word_form,
                .about = "A new random value at every start."),
    MEMBER_FORM(
        struct enroll_request, address, "address", FIELD_REQUIRED, &origin_form,
        .about = "The agent's address, with scheme, host and port only: peers append paths to it."),
    MEMBER_TEXT(struct enroll_request, numeric_class, "numeric_class", FIELD_REQUIRED),
    MEMBER_RECORD(struct enroll_request, inventory, "inventory", 0, &inventory_record),
    MEMBER_RECORD(struct enroll_request, probe, "probe", FIELD_REQUIRED, &enroll_probe_record),
    MEMBER_MAP(struct enroll_request, label, label_count, "labels", 0, &label_record,
               .shared = "labels"),
    MEMBER_RECORDS(struct enroll_request, offer, offer_count, "data", FIELD_SKIP_EMPTY,
                   &offer_record, .since = 6,
                   .about = "Data sets that jobs may use on this device only."),
};
const struct record enroll_request_record =
    RECORD(struct enroll_request, "enroll_request", enroll_request_fields);

static const struct field enroll_reply_fields[] = {
    MEMBER_FORM(struct enroll_reply, device.text, "device", FIELD_REQUIRED, &device_id_form),
    MEMBER_INT(struct enroll_reply, protocol, "protocol", FIELD_REQUIRED, 0, 1e6,
               .about = "The protocol version of the coordinator."),
    MEMBER_INT(struct enroll_reply, interval_ms, "interval_ms", FIELD_REQUIRED, 1, 3600000,
               .about = "Milliseconds between two heartbeats."),
    MEMBER_BOOL(struct enroll_reply, pending, "pending", FIELD_SKIP_EMPTY, .since = 4,
                .about = "No plan uses the device until a user accepts it."),
};
const struct record enroll_reply_record =
    RECORD(struct enroll_reply, "enroll_reply", enroll_reply_fields);

static const struct field join_request_fields[] = {
    MEMBER_FORM(struct join_request, token, "token", FIELD_NULLABLE, &word_form,
                .about = "A token of the role `join`. Not needed by a coordinator without tokens."),
    MEMBER_FORM(struct join_request, name, "name", FIELD_REQUIRED, &name_form),
    MEMBER_FORM(struct join_request, public_key, "public_key", FIELD_REQUIRED, &public_key_form,
                .about = "Ed25519. With TLS the client's certificate proves it."),
    MEMBER_INT(struct join_request, protocol, "protocol", FIELD_REQUIRED, 0, 1e6),
};
const struct record join_request_record =
    RECORD(struct join_request, "join_request", join_request_fields);

static const struct field join_reply_fields[] = {
    MEMBER_FORM(struct join_reply, device.text, "device", FIELD_REQUIRED, &device_id_form),
    MEMBER_FORM(struct join_reply, name, "name", FIELD_REQUIRED, &name_form),
    MEMBER_BOOL(struct join_reply, pending, "pending", FIELD_REQUIRED,
                .about = "No plan uses the device until a user accepts it."),
    MEMBER_TIME(struct join_reply, time_ms, "time", FIELD_REQUIRED,
                .about = "The coordinator's clock."),
};
const struct record join_reply_record = RECORD(struct join_reply, "join_reply", join_reply_fields);

static const struct field device_patch_fields[] = {
    MEMBER_FORM(
        struct device_patch, name, "name", FIELD_REQUIRED, &name_form,
        .about = "The device's name, which no other device has. It stays when the agent restarts."),
};
const struct record device_patch_record =
    RECORD_WITH(struct device_patch, "device_patch", device_patch_fields,
                .about = "The fields of a device that users may change.");

/* The device in the API. */
#define DEVICE_FIELDS                                                                              \
    MEMBER_FORM(struct device, id.text, "id", FIELD_REQUIRED, &device_id_form),                    \
        MEMBER_INT(struct device, revision, "revision", 0, 0, INTEGER_MAX),                        \
        MEMBER_FORM(struct device, name, "name", FIELD_REQUIRED, &name_form),                      \
        MEMBER_ENUM(                                                                               \
            struct device, state, "state", FIELD_REQUIRED, device_state_names,                     \
            .about =                                                                               \
                "joined: its agent has not started yet; suspect: two heartbeats missed; "          \
                "disconnected: unreachable and without an answer to a challenge; lost: its lease " \
                "is over. All can become online."),                                                \
        MEMBER_BOOL(struct device, cordoned, "cordoned", 0,                                        \
                    .about = "Excluded from further plans."),                                      \
        MEMBER_BOOL(struct device, draining, "draining", FIELD_ADDED,                              \
                    .about = "A user drains the device: plans leave it."),                         \
        MEMBER_BOOL(struct device, leaving, "leaving", FIELD_ADDED,                                \
                    .about =                                                                       \
                        "The device's agent announced that it leaves: plans leave the device."),   \
        MEMBER_BOOL(struct device, drained, "drained", FIELD_ADDED,                                \
                    .about = "No plan has the device, and no job relies on its copies: it may be " \
                             "switched off."),                                                     \
        MEMBER_BOOL(                                                                               \
            struct device, pending, "pending", FIELD_ADDED,                                        \
            .about = "The device has joined and waits until a user accepts it: no plan has it."),  \
        MEMBER_FORM(                                                                               \
            struct device, join_token, "join_token", FIELD_NULLABLE | FIELD_ADDED, &token_id_form, \
            .about =                                                                               \
                "The token with which the device joined; null: it enrolled without a token."),     \
        MEMBER_FORM(struct device, public_key, "public_key", FIELD_NULLABLE, &public_key_form),    \
        MEMBER_FORM(struct device, address, "address", FIELD_NULLABLE, &url_form,                  \
                    .about = "The address that the device's peers call."),                         \
        MEMBER_TEXT(struct device, numeric_class, "numeric_class", FIELD_NULLABLE,                 \
                    .about = "Devices with equal text compute equal bits."),                       \
        MEMBER_INT(struct device, protocol, "protocol", 0, 0, 1e6,                                 \
                   .about = "The protocol version of the device's agent."),                        \
        MEMBER_RECORD(struct device, inventory, "inventory", 0, &inventory_record),                \
        MEMBER_RECORD(struct device, probe, "probe", 0, &probe_record),                            \
        MEMBER_MAP(struct device, label, label_count, "labels", 0, &label_record,                  \
                   .shared = "labels"),                                                            \
        MEMBER_RECORDS(                                                                            \
            struct device, offer, offer_count, "data", FIELD_ADDED | FIELD_SKIP_EMPTY,             \
            &offer_record,                                                                         \
            .about = "Data sets that never leave the device: those of the agent's `--data`."),     \
        MEMBER_FORM(struct device, job.text, "job", FIELD_NULLABLE, &job_id_form,                  \
                    .about = "The job that the device works for now."),                            \
        MEMBER_TIME(struct device, created_ms, "created_at", FIELD_NULLABLE),                      \
        MEMBER_TIME(struct device, last_seen_ms, "last_seen_at", FIELD_NULLABLE),                  \
        MEMBER_INT(struct device, resident_bytes, "resident_bytes", 0, 0, INTEGER_MAX,             \
                   .about = "Bytes of memory of the agent, as last reported."),                    \
        MEMBER_INT(struct device, free_memory_bytes, "free_memory_bytes", FIELD_ADDED, 0,          \
                   INTEGER_MAX,                                                                    \
                   .about = "Bytes of memory that the agent could still take; 0: not known."),     \
        MEMBER_DOUBLE(struct device, busy_share, "busy_share", FIELD_ADDED, 0, 1,                  \
                      .about = "The share of its last steps that the device computed; it waited "  \
                               "for the rest. 0 while it does not train."),                        \
        MEMBER_INT(                                                                                \
            struct device, replica_bytes_sent, "replica_bytes_sent", 0, 0, INTEGER_MAX,            \
            .about =                                                                               \
                "Bytes of snapshots sent to neighbors and to the center since the agent's boot."), \
        MEMBER_INT(struct device, replica_bytes_written, "replica_bytes_written", 0, 0,            \
                   INTEGER_MAX,                                                                    \
                   .about = "Bytes of snapshots written to --replica-dir since the agent's boot.")

static const struct field device_fields[] = {
    DEVICE_FIELDS,
    MEMBER_LIST(struct device, relayed, relayed_count, "relayed", FIELD_ADDED, &device_id_element,
                .about =
                    "Devices that the device reaches only [through a relay](security.md#relays)."),
};
const struct record device_record = RECORD_WITH(
    struct device, "device", device_fields, .answer = true, .about = "One machine with one agent.");

static const struct field device_row_fields[] = {
    DEVICE_FIELDS,
    MEMBER_FORM(struct device, boot, "boot", FIELD_NULLABLE, &word_form),
    MEMBER_BOOL(struct device, untried, "untried", 0),
    MEMBER_BOOL(struct device, renamed, "renamed", FIELD_SKIP_EMPTY),
};
const struct record device_row_record =
    RECORD_WITH(struct device, "device", device_row_fields, .answer = true,
                .about = "One machine with one agent.");
