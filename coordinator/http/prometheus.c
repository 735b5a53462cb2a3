/* GET /metrics. Jobs and devices have their ids and their names as labels; "job" and "instance" are
 * Prometheus' own labels (ADR 0119). The loop's thread writes all of it: some 10 MB for the largest
 * fleet. */
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/exposition.h"
#include "base/process_metrics.h"
#include "coordinator/content/webhook.h"
#include "coordinator/coordinator.h"
#include "coordinator/http/answer.h"
#include "coordinator/http/edge.h"
#include "coordinator/http/prometheus_gossip.h"
#include "coordinator/http/routes.h"
#include "coordinator/turn/incident_log.h"
#include "net/relay.h"
#include "schema/limits.h"

#define BODY_MAX ((size_t)64 << 20)
#define LINKS_SHOWN_MAX 10000
#define PATH_SIZE 4200

/* ---- the coordinator ---- */

static void write_build(struct exposition *out)
{
    char protocol[16];
    (void)snprintf(protocol, sizeof(protocol), "%d", PROTOCOL_VERSION);
    const struct exposition_label labels[] = {{"version", PACELINE_VERSION},
                                              {"protocol", protocol}};
    exposition_family(out, "paceline_build_info", EXPOSITION_GAUGE,
                      "1; the labels are the version of the coordinator and its protocol.");
    exposition_sample(out, "", labels, 2, 1);
}

static void write_requests(struct exposition *out, const struct coordinator *coordinator)
{
    const struct edge *edge = coordinator->edge;
    const struct http_refusals refusals = http_server_refusals(coordinator->server);
    const struct exposition_family singles[] = {
        {"paceline_http_requests_total", "Requests answered.", EXPOSITION_COUNTER,
         (double)edge->requests},
        {"paceline_http_errors_total", "Requests answered with a status of 500 or more.",
         EXPOSITION_COUNTER, (double)edge->errors},
        {"paceline_http_refused_total",
         "Requests answered with 503 because too many were under way.", EXPOSITION_COUNTER,
         (double)refusals.requests},
        {"paceline_http_unauthorized_total", "Requests answered with 401.", EXPOSITION_COUNTER,
         (double)edge->access.unauthorized},
        {"paceline_http_forbidden_total", "Requests answered with 403 because of the token's role.",
         EXPOSITION_COUNTER, (double)edge->access.forbidden},
        {"paceline_http_limited_total",
         "Requests answered with 429 because their caller has used up its share.",
         EXPOSITION_COUNTER, (double)edge->access.limited},
        {"paceline_http_connections_closed_total",
         "Connections closed because there were too many.", EXPOSITION_COUNTER,
         (double)refusals.connections},
        {"paceline_http_requests_open", "Requests begun and not finished, this one included.",
         EXPOSITION_GAUGE, (double)edge->requests_open},
        {"paceline_received_bytes_total", "Bytes of uploads received.", EXPOSITION_COUNTER,
         (double)edge->bytes_received},
        {"paceline_sent_bytes_total", "Bytes of downloads sent.", EXPOSITION_COUNTER,
         (double)edge->bytes_sent},
        {"paceline_long_polls", "Requests that wait for a change.", EXPOSITION_GAUGE,
         (double)parked_count(edge->parked)},
        {"paceline_event_readers", "Open event streams.", EXPOSITION_GAUGE,
         (double)event_stream_readers(edge->stream)},
        {"paceline_uploads", "Data sets and checkpoints being received or converted.",
         EXPOSITION_GAUGE, (double)(edge->uploads.datasets + edge->uploads.checkpoints)},
    };
    exposition_singles(out, singles, sizeof(singles) / sizeof(singles[0]));
}

/* Return the size of a file; 0: the file does not exist (yet). */
static double file_bytes(const struct coordinator *coordinator, const char *name)
{
    char path[PATH_SIZE];
    struct stat status;
    const int size = snprintf(path, sizeof(path), "%s/%s", coordinator->config->state_dir, name);
    return size < (int)sizeof(path) && stat(path, &status) == 0 ? (double)status.st_size : 0;
}

static void write_store(struct exposition *out, const struct coordinator *coordinator)
{
    static const char *const files[] = {"state.db", "state.db-wal", "checkpoints.db"};
    const struct turn_statistics *turns = turn_statistics(coordinator->turn);
    struct blob_statistics blobs;
    blob_statistics(coordinator->blobs, &blobs);
    const struct exposition_family singles[] = {
        {"paceline_turn_events_total", "Events the core has decided on.", EXPOSITION_COUNTER,
         (double)turns->events},
        {"paceline_commits_total", "Transactions of state.db.", EXPOSITION_COUNTER,
         (double)turns->commits},
        {"paceline_turn_seconds_max", "Longest decision since the start.", EXPOSITION_GAUGE,
         turns->seconds_max},
        {"paceline_measurements_refused_total",
         "Measurements in heartbeats that cannot be, and heartbeats that cannot be read.",
         EXPOSITION_COUNTER,
         (double)(coordinator->edge->heartbeats_refused +
                  core_measurements_refused(coordinator->core))},
        {"paceline_blobs", "Blobs in the center.", EXPOSITION_GAUGE, (double)blobs.blobs},
        {"paceline_blob_bytes", "Bytes of the blobs in the center.", EXPOSITION_GAUGE,
         (double)blobs.bytes},
        {"paceline_blob_written_bytes_total", "Bytes of blobs written since the start.",
         EXPOSITION_COUNTER, (double)blobs.bytes_written},
        {"paceline_disk_free_bytes", "Free space of the state directory.", EXPOSITION_GAUGE,
         (double)blobs.free_bytes},
        {"paceline_disk_low", "1: less than --min-free is free.", EXPOSITION_GAUGE,
         coordinator->disk_low},
        {"paceline_commit_held", "1: a full disk holds up a commit; nothing goes on.",
         EXPOSITION_GAUGE, turn_held(coordinator->turn)},
        {"paceline_uptime_seconds", "Seconds since the start.", EXPOSITION_GAUGE,
         (double)(clock_now_ms() - coordinator->started_ms) / 1000.0},
    };
    exposition_singles(out, singles, sizeof(singles) / sizeof(singles[0]));
    exposition_family(out, "paceline_state_bytes", EXPOSITION_GAUGE,
                      "Size of the files of the state directory.");
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        const struct exposition_label label = {"file", files[i]};
        exposition_sample(out, "", &label, 1, file_bytes(coordinator, files[i]));
    }
}

/* ---- counts by a name ---- */

static void write_counted(struct exposition *out, const char *label, const char *const *names,
                          const size_t *count, int names_count)
{
    for (int i = 0; i < names_count; i++) {
        const struct exposition_label name = {label, names[i]};
        exposition_sample(out, "", &name, 1, (double)count[i]);
    }
}

static void write_states(struct exposition *out, const struct coordinator *coordinator)
{
    size_t devices[DEVICE_REMOVED + 1] = {0};
    size_t jobs[JOB_CANCELLED + 1] = {0};
    for (size_t i = 0; i < core_device_count(coordinator->core); i++) {
        devices[core_device_at(coordinator->core, i)->state]++;
    }
    for (size_t i = 0; i < core_job_count(coordinator->core); i++) {
        jobs[core_job_at(coordinator->core, i)->state]++;
    }
    exposition_family(out, "paceline_devices", EXPOSITION_GAUGE, "Enrolled devices by state.");
    write_counted(out, "state", device_state_names, devices, DEVICE_REMOVED + 1);
    exposition_family(out, "paceline_jobs", EXPOSITION_GAUGE,
                      "Jobs that have not ended, by state.");
    write_counted(out, "state", job_state_names, jobs, JOB_SUCCEEDED);
}

static void add_event(void *arg, const char *type, uint64_t count)
{
    const struct exposition_label label = {"type", type};
    exposition_sample(arg, "", &label, 1, (double)count);
}

static void write_events(struct exposition *out, const struct coordinator *coordinator)
{
    exposition_family(out, "paceline_events_total", EXPOSITION_COUNTER,
                      "Public events since the start, by type.");
    event_stream_each_type(coordinator->edge->stream, add_event, out);
}

static void write_relay(struct exposition *out, const struct relay *relay)
{
    const struct relay_counts counts = relay_counts(relay);
    const struct exposition_family singles[] = {
        {"paceline_relay_bytes_total", "Bytes that the relay has passed on, in both directions.",
         EXPOSITION_COUNTER, (double)counts.bytes},
        {"paceline_relay_streams_total", "Pairs of connections that the relay has joined.",
         EXPOSITION_COUNTER, (double)counts.joined},
        {"paceline_relay_refused_total", "Connections to the relay with a wrong ticket or none.",
         EXPOSITION_COUNTER, (double)counts.refused},
        {"paceline_relay_streams", "Connections that are joined to another.", EXPOSITION_GAUGE,
         (double)counts.streams},
        {"paceline_relay_parked", "Connections of devices that wait for a caller.",
         EXPOSITION_GAUGE, (double)counts.parked},
    };
    exposition_singles(out, singles, sizeof(singles) / sizeof(singles[0]));
}

static void write_webhook(struct exposition *out, const struct webhook_statistics *webhook)
{
    const struct exposition_family singles[] = {
        {"paceline_webhook_delivered_total", "Messages that the receiver has taken.",
         EXPOSITION_COUNTER, (double)webhook->delivered},
        {"paceline_webhook_failures_total", "Attempts to deliver a message that failed.",
         EXPOSITION_COUNTER, (double)webhook->failures},
        {"paceline_webhook_dropped_total", "Messages that the receiver never took.",
         EXPOSITION_COUNTER, (double)webhook->dropped},
        {"paceline_webhook_attempts", "Attempts for the message under way; 0: none waits.",
         EXPOSITION_GAUGE, webhook->attempts},
    };
    exposition_singles(out, singles, sizeof(singles) / sizeof(singles[0]));
}

static void write_incidents(struct exposition *out, const struct incident_log *log)
{
    exposition_family(out, "paceline_incidents_total", EXPOSITION_COUNTER,
                      "Failures of running jobs since the start, by cause.");
    for (int cause = 0; incident_cause_names[cause]; cause++) {
        const struct exposition_label label = {"cause", incident_cause_names[cause]};
        exposition_sample(out, "", &label, 1, (double)log->opened[cause]);
    }
    exposition_family(out, "paceline_recovery_seconds", EXPOSITION_SUMMARY,
                      "Seconds of each phase of the failures that were recovered from.");
    for (int phase = 0; phase < RECOVERY_PHASES; phase++) {
        const struct exposition_label label = {"phase", recovery_phase_names[phase]};
        exposition_sample(out, "_sum", &label, 1, log->seconds[phase]);
        exposition_sample(out, "_count", &label, 1, (double)log->resolved);
    }
}

/* ---- jobs ---- */

/* Values of a job or a device; NAN: no value, so write no sample. */
static double job_step(const struct job *job)
{
    return (double)job->progress.step;
}

static double job_steps(const struct job *job)
{
    return job->progress.steps > 0 ? (double)job->progress.steps : NAN;
}

static double job_loss(const struct job *job)
{
    return job->progress.has_loss ? job->progress.loss : NAN;
}

static double job_accuracy(const struct job *job)
{
    return job->progress.has_accuracy ? job->progress.accuracy : NAN;
}

static double job_speed(const struct job *job)
{
    return job->progress.samples_per_second;
}

static double job_eta(const struct job *job)
{
    return job->progress.eta_seconds > 0 ? job->progress.eta_seconds : NAN;
}

static double job_stalled(const struct job *job)
{
    return job->stalled;
}

static double job_generation(const struct job *job)
{
    return (double)job->generation;
}

static double job_neighbor_version(const struct job *job)
{
    return (double)job->neighbor_version;
}

static double job_center_version(const struct job *job)
{
    return (double)job->version;
}

static const struct {
    const char *name, *help;
    double (*value)(const struct job *job);
} job_gauges[] = {
    {"paceline_job_step", "Last step applied by every stage.", job_step},
    {"paceline_job_steps", "Steps of the whole job.", job_steps},
    {"paceline_job_loss", "Loss of the last step.", job_loss},
    {"paceline_job_accuracy", "Accuracy of the last evaluation, of 1.", job_accuracy},
    {"paceline_job_samples_per_second", "Training speed.", job_speed},
    {"paceline_job_eta_seconds", "Expected seconds to the end.", job_eta},
    {"paceline_job_stalled", "1: no step completes.", job_stalled},
    {"paceline_job_generation", "Number of the newest plan.", job_generation},
    {"paceline_job_neighbor_version", "Newest version that two devices hold every unit of.",
     job_neighbor_version},
    {"paceline_job_center_version", "Newest version that is whole in the center.",
     job_center_version},
};

static void write_jobs(struct exposition *out, const struct core *core)
{
    for (size_t gauge = 0; gauge < sizeof(job_gauges) / sizeof(job_gauges[0]); gauge++) {
        exposition_family(out, job_gauges[gauge].name, EXPOSITION_GAUGE, job_gauges[gauge].help);
        for (size_t i = 0; i < core_job_count(core); i++) {
            const struct job *job = core_job_at(core, i);
            const double value = job_gauges[gauge].value(job);
            const struct exposition_label labels[] = {{"job_id", job->id.text},
                                                      {"job_name", job->spec.name}};
            if (!isnan(value)) {
                exposition_sample(out, "", labels, 2, value);
            }
        }
    }
    exposition_family(out, "paceline_job_state", EXPOSITION_GAUGE,
                      "1, with the present state of the job as a label.");
    for (size_t i = 0; i < core_job_count(core); i++) {
        const struct job *job = core_job_at(core, i);
        const struct exposition_label labels[] = {{"job_id", job->id.text},
                                                  {"job_name", job->spec.name},
                                                  {"state", job_state_names[job->state]}};
        exposition_sample(out, "", labels, 3, 1);
    }
}

/* ---- devices ---- */

static double device_online(const struct device *device, int64_t now_ms)
{
    (void)now_ms;
    return device->state == DEVICE_ONLINE;
}

static double device_silent(const struct device *device, int64_t now_ms)
{
    const int64_t silent_ms = now_ms - device->last_seen_ms;
    return device->last_seen_ms == 0 ? NAN : silent_ms < 0 ? 0 : (double)silent_ms / 1000.0;
}

static double device_works(const struct device *device, int64_t now_ms)
{
    (void)now_ms;
    return device->job.text[0] != '\0';
}

/* A reported value is valid only while the device reports. */
static double reported(const struct device *device, double value)
{
    return device->state == DEVICE_ONLINE || device->state == DEVICE_SUSPECT ? value : NAN;
}

static double device_busy(const struct device *device, int64_t now_ms)
{
    (void)now_ms;
    return reported(device, device->busy_share);
}

static double device_resident(const struct device *device, int64_t now_ms)
{
    (void)now_ms;
    return reported(device, (double)device->resident_bytes);
}

static double device_free(const struct device *device, int64_t now_ms)
{
    (void)now_ms;
    const double free_bytes = (double)device->free_memory_bytes;
    return reported(device, free_bytes > 0 ? free_bytes : NAN);
}

static double device_sent(const struct device *device, int64_t now_ms)
{
    (void)now_ms;
    return (double)device->replica_bytes_sent;
}

static double device_written(const struct device *device, int64_t now_ms)
{
    (void)now_ms;
    return (double)device->replica_bytes_written;
}

static const struct {
    const char *name, *help;
    enum exposition_type type;
    double (*value)(const struct device *device, int64_t now_ms);
} device_values[] = {
    {"paceline_device_online", "1: the device is online.", EXPOSITION_GAUGE, device_online},
    {"paceline_device_silent_seconds", "Seconds since the last heartbeat.", EXPOSITION_GAUGE,
     device_silent},
    {"paceline_device_working", "1: the device works for a job.", EXPOSITION_GAUGE, device_works},
    {"paceline_device_busy_ratio",
     "Share of its steps that the device computed, as last reported; the rest it waited.",
     EXPOSITION_GAUGE, device_busy},
    {"paceline_device_resident_bytes", "Memory of the agent.", EXPOSITION_GAUGE, device_resident},
    {"paceline_device_free_memory_bytes", "Memory that the agent could still take.",
     EXPOSITION_GAUGE, device_free},
    /* Counted by each agent since its start. */
    {"paceline_replica_bytes_sent_total", "Bytes of snapshots sent to neighbors and to the center.",
     EXPOSITION_COUNTER, device_sent},
    {"paceline_replica_bytes_written_total", "Bytes of snapshots written to --replica-dir.",
     EXPOSITION_COUNTER, device_written},
};

static void write_devices(struct exposition *out, const struct core *core)
{
    const int64_t now_ms = clock_wall_ms();
    for (size_t at = 0; at < sizeof(device_values) / sizeof(device_values[0]); at++) {
        exposition_family(out, device_values[at].name, device_values[at].type,
                          device_values[at].help);
        for (size_t i = 0; i < core_device_count(core); i++) {
            const struct device *device = core_device_at(core, i);
            const double value = device_values[at].value(device, now_ms);
            const struct exposition_label labels[] = {{"device_id", device->id.text},
                                                      {"device_name", device->name}};
            if (!isnan(value)) {
                exposition_sample(out, "", labels, 2, value);
            }
        }
    }
}

/* ---- links ---- */

static double link_rate(const struct link_row *row)
{
    return link_estimate(&row->sums).bytes_per_second;
}

static double link_latency(const struct link_row *row)
{
    return link_estimate(&row->sums).latency_seconds;
}

static const struct {
    const char *name, *help;
    double (*value)(const struct link_row *row);
} link_gauges[] = {
    {"paceline_link_bytes_per_second", "Estimated bandwidth of a measured link.", link_rate},
    {"paceline_link_latency_seconds", "Estimated latency of a measured link.", link_latency},
};

/* A device that was removed meanwhile has no name. */
static const char *name_of(const struct core *core, const struct device_id *id)
{
    const struct device *device = core_device(core, id->text);
    return device ? device->name : "";
}

static void write_links(struct exposition *out, const struct core *core)
{
    for (size_t gauge = 0; gauge < sizeof(link_gauges) / sizeof(link_gauges[0]); gauge++) {
        exposition_family(out, link_gauges[gauge].name, EXPOSITION_GAUGE, link_gauges[gauge].help);
        const struct link_row *row;
        size_t at = 0;
        size_t shown = 0;
        while (shown < LINKS_SHOWN_MAX && (row = core_next_link(core, &at)) != NULL) {
            const struct exposition_label labels[] = {{"from_id", row->from.text},
                                                      {"from_name", name_of(core, &row->from)},
                                                      {"to_id", row->to.text},
                                                      {"to_name", name_of(core, &row->to)},
                                                      {"kind", link_kind_names[row->kind]},
                                                      {"codec", row->codec}};
            exposition_sample(out, "", labels, 6, link_gauges[gauge].value(row));
            shown++;
        }
    }
}

void serve_prometheus(void *context, struct http_exchange *exchange)
{
    const struct coordinator *coordinator = context;
    BUF_AUTO struct buf body;
    buf_init(&body, BODY_MAX);
    const struct webhook_statistics *webhook = webhook_statistics(coordinator->webhook);
    struct exposition out = {.out = &body};
    write_build(&out);
    process_metrics_write(&out, clock_wall_ms() - (clock_now_ms() - coordinator->started_ms));
    write_requests(&out, coordinator);
    write_store(&out, coordinator);
    prometheus_gossip(&out, coordinator->core);
    write_states(&out, coordinator);
    write_events(&out, coordinator);
    if (coordinator->relay) {
        write_relay(&out, coordinator->relay);
    }
    if (webhook) {
        write_webhook(&out, webhook);
    }
    write_incidents(&out, turn_incidents(coordinator->turn));
    write_jobs(&out, coordinator->core);
    write_devices(&out, coordinator->core);
    write_links(&out, coordinator->core);
    if (out.rc) {
        answer_err(exchange, &out.err);
        return;
    }
    http_reply(exchange, 200, EXPOSITION_CONTENT_TYPE, body.data, body.size);
}
