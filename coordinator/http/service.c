#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "coordinator/coordinator.h"
#include "coordinator/http/access.h"
#include "coordinator/http/answer.h"
#include "coordinator/http/edge.h"
#include "coordinator/http/jobs.h"
#include "coordinator/http/routes.h"
#include "coordinator/turn/incident_log.h"
#include "schema/openapi.h"
#include "schema/service.h"

void serve_health(void *context, struct http_exchange *exchange)
{
    (void)context;
    struct service_status status = {.status = "ok"};
    answer_record(exchange, 200, &service_status_record, &status);
}

/* The rows are restored before this is served, and the guard rejects requests while the program
 * stops. */
void serve_ready(void *context, struct http_exchange *exchange)
{
    (void)context;
    struct service_status status = {.status = "ready"};
    answer_record(exchange, 200, &service_status_record, &status);
}

void serve_version(void *context, struct http_exchange *exchange)
{
    (void)context;
    struct service_version version = {.name = "paceline-coordinator",
                                      .version = PACELINE_VERSION,
                                      .protocol = PROTOCOL_VERSION,
                                      .protocol_min = PROTOCOL_VERSION_MIN};
    answer_record(exchange, 200, &service_version_record, &version);
}

/* Clients that know its SHA-256 fetch it before they can verify the server. */
void serve_authority(void *context, struct http_exchange *exchange)
{
    const struct coordinator *coordinator = context;
    if (!coordinator->authority) {
        answer_problem(exchange, PROBLEM_NOT_FOUND,
                       "this coordinator has no authority of its own; 'paceline-coordinator init' "
                       "makes one");
        return;
    }
    http_reply_borrowed(exchange, 200, "application/x-pem-file", coordinator->authority,
                        strlen(coordinator->authority), NULL, NULL);
}

void serve_openapi(void *context, struct http_exchange *exchange)
{
    (void)context;
    size_t size;
    const char *text = openapi_json(&size);
    http_reply_borrowed(exchange, 200, "application/json; charset=utf-8", text, size, NULL, NULL);
}

void serve_events(void *context, struct http_exchange *exchange)
{
    struct coordinator *coordinator = context;
    static const char *const allowed[] = {"job", NULL};
    const char *last = http_header(exchange, "Last-Event-ID");
    const char *job = http_query(exchange, "job");
    if (!answer_check_query(exchange, allowed) ||
        (job && !job_exists(coordinator, exchange, job))) {
        return;
    }
    if (last && last[0] && !id_valid(last, "evt_")) {
        answer_problem(exchange, PROBLEM_INVALID_PARAMETER,
                       "Last-Event-ID: expected the id of an event (evt_...), not '%.40s'; without "
                       "this header the stream starts with the next event",
                       last);
        return;
    }
    if (access_take(coordinator, exchange, SHARE_STREAMS)) {
        event_stream_serve(coordinator->edge->stream, exchange, last, job);
    }
}

/* One line of Prometheus' text format, with its HELP and TYPE. */
struct sample {
    const char *name, *type, *help;
    double value;
};

static int write_states(struct buf *out, const struct coordinator *coordinator, struct err *err)
{
    size_t devices[DEVICE_REMOVED + 1] = {0};
    size_t jobs[JOB_CANCELLED + 1] = {0};
    for (size_t i = 0; i < core_device_count(coordinator->core); i++) {
        devices[core_device_at(coordinator->core, i)->state]++;
    }
    for (size_t i = 0; i < core_job_count(coordinator->core); i++) {
        jobs[core_job_at(coordinator->core, i)->state]++;
    }
    int rc = buf_printf(
        out, err,
        "# HELP paceline_devices Enrolled devices by state.\n# TYPE paceline_devices gauge\n");
    for (int state = 0; !rc && state <= DEVICE_REMOVED; state++) {
        rc = buf_printf(out, err, "paceline_devices{state=\"%s\"} %zu\n", device_state_names[state],
                        devices[state]);
    }
    if (!rc) {
        rc = buf_printf(out, err,
                        "# HELP paceline_jobs Jobs that have not ended, by state.\n# TYPE "
                        "paceline_jobs gauge\n");
    }
    for (int state = 0; !rc && state < JOB_SUCCEEDED; state++) {
        rc = buf_printf(out, err, "paceline_jobs{state=\"%s\"} %zu\n", job_state_names[state],
                        jobs[state]);
    }
    return rc;
}

static double job_step(const struct job *job)
{
    return (double)job->progress.step;
}

static double job_loss(const struct job *job)
{
    return job->progress.loss;
}

static double job_speed(const struct job *job)
{
    return job->progress.samples_per_second;
}

static double job_neighbor_version(const struct job *job)
{
    return (double)job->neighbor_version;
}

static double job_center_version(const struct job *job)
{
    return (double)job->version;
}

static int write_jobs(struct buf *out, const struct coordinator *coordinator, struct err *err)
{
    static const struct {
        const char *name, *help;
        double (*value)(const struct job *job);
    } gauges[] = {
        {"paceline_job_step", "Last step applied by every stage.", job_step},
        {"paceline_job_loss", "Loss of the last step.", job_loss},
        {"paceline_job_samples_per_second", "Training speed.", job_speed},
        {"paceline_job_neighbor_version", "Newest version that two devices hold every unit of.",
         job_neighbor_version},
        {"paceline_job_center_version", "Newest version that is whole in the center.",
         job_center_version},
    };
    int rc = 0;
    for (size_t gauge = 0; !rc && gauge < sizeof(gauges) / sizeof(gauges[0]); gauge++) {
        rc = buf_printf(out, err, "# HELP %s %s\n# TYPE %s gauge\n", gauges[gauge].name,
                        gauges[gauge].help, gauges[gauge].name);
        for (size_t i = 0; !rc && i < core_job_count(coordinator->core); i++) {
            const struct job *job = core_job_at(coordinator->core, i);
            rc = buf_printf(out, err, "%s{job=\"%s\"} %.9g\n", gauges[gauge].name, job->id.text,
                            gauges[gauge].value(job));
        }
    }
    return rc;
}

static int write_incidents(struct buf *out, const struct incident_log *log, struct err *err)
{
    int rc = buf_printf(
        out, err,
        "# HELP paceline_incidents_total Failures of running jobs since start, by cause.\n"
        "# TYPE paceline_incidents_total counter\n");
    for (int cause = 0; !rc && incident_cause_names[cause]; cause++) {
        rc = buf_printf(out, err, "paceline_incidents_total{cause=\"%s\"} %" PRIu64 "\n",
                        incident_cause_names[cause], log->opened[cause]);
    }
    rc = rc ? rc
            : buf_printf(out, err,
                         "# HELP paceline_recovery_seconds Seconds of each phase of the "
                         "failures that were "
                         "recovered from.\n# TYPE paceline_recovery_seconds summary\n");
    for (int phase = 0; !rc && phase < RECOVERY_PHASES; phase++) {
        const char *name = recovery_phase_names[phase];
        rc = buf_printf(out, err,
                        "paceline_recovery_seconds_sum{phase=\"%s\"} %.9g\n"
                        "paceline_recovery_seconds_count{phase=\"%s\"} %" PRIu64 "\n",
                        name, log->seconds[phase], name, log->resolved);
    }
    return rc;
}

static double device_sent(const struct device *device)
{
    return (double)device->replica_bytes_sent;
}

static double device_written(const struct device *device)
{
    return (double)device->replica_bytes_written;
}

/* As each agent counts them since its start. */
static int write_devices(struct buf *out, const struct coordinator *coordinator, struct err *err)
{
    static const struct {
        const char *name, *help;
        double (*value)(const struct device *device);
    } counters[] = {
        {"paceline_replica_bytes_sent_total",
         "Bytes of snapshots sent to neighbors and to the center.", device_sent},
        {"paceline_replica_bytes_written_total", "Bytes of snapshots written to --replica-dir.",
         device_written},
    };
    int rc = 0;
    for (size_t counter = 0; !rc && counter < sizeof(counters) / sizeof(counters[0]); counter++) {
        rc = buf_printf(out, err, "# HELP %s %s\n# TYPE %s counter\n", counters[counter].name,
                        counters[counter].help, counters[counter].name);
        for (size_t i = 0; !rc && i < core_device_count(coordinator->core); i++) {
            const struct device *device = core_device_at(coordinator->core, i);
            rc = buf_printf(out, err, "%s{device=\"%s\"} %.15g\n", counters[counter].name,
                            device->id.text, counters[counter].value(device));
        }
    }
    return rc;
}

void serve_prometheus(void *context, struct http_exchange *exchange)
{
    const struct coordinator *coordinator = context;
    const struct edge *edge = coordinator->edge;
    const struct turn_statistics *turns = turn_statistics(coordinator->turn);
    struct blob_statistics blobs;
    blob_statistics(coordinator->blobs, &blobs);
    const struct http_refusals refusals = http_server_refusals(coordinator->server);
    const struct sample samples[] = {
        {"paceline_http_requests_total", "counter", "Requests answered.", (double)edge->requests},
        {"paceline_http_errors_total", "counter", "Requests answered with a status of 500 or more.",
         (double)edge->errors},
        {"paceline_http_refused_total", "counter",
         "Requests answered with 503 because too many were under way.", (double)refusals.requests},
        {"paceline_http_unauthorized_total", "counter", "Requests answered with 401.",
         (double)edge->access.unauthorized},
        {"paceline_http_forbidden_total", "counter",
         "Requests answered with 403 because of the token's role.", (double)edge->access.forbidden},
        {"paceline_http_limited_total", "counter",
         "Requests answered with 429 because their caller has used up its share.",
         (double)edge->access.limited},
        {"paceline_http_connections_closed_total", "counter",
         "Connections closed because there were too many.", (double)refusals.connections},
        {"paceline_http_requests_open", "gauge",
         "Requests begun and not finished, this one included.", (double)edge->requests_open},
        {"paceline_received_bytes_total", "counter", "Bytes of uploads received.",
         (double)edge->bytes_received},
        {"paceline_sent_bytes_total", "counter", "Bytes of downloads sent.",
         (double)edge->bytes_sent},
        {"paceline_events_total", "counter", "Events the core has decided on.",
         (double)turns->events},
        {"paceline_commits_total", "counter", "Transactions of state.db.", (double)turns->commits},
        {"paceline_measurements_refused_total", "counter",
         "Measurements in heartbeats that cannot be, and heartbeats that cannot be read.",
         (double)(edge->heartbeats_refused + core_measurements_refused(coordinator->core))},
        {"paceline_turn_seconds_max", "gauge", "Longest decision since start.", turns->seconds_max},
        {"paceline_long_polls", "gauge", "Requests that wait for a change.",
         (double)parked_count(edge->parked)},
        {"paceline_event_readers", "gauge", "Open event streams.",
         (double)event_stream_readers(edge->stream)},
        {"paceline_blobs", "gauge", "Blobs in the center.", (double)blobs.blobs},
        {"paceline_blob_bytes", "gauge", "Bytes of the blobs in the center.", (double)blobs.bytes},
        {"paceline_blob_written_bytes_total", "counter", "Bytes of blobs written since start.",
         (double)blobs.bytes_written},
        {"paceline_disk_free_bytes", "gauge", "Free space of the state directory.",
         (double)blobs.free_bytes},
        {"paceline_uptime_seconds", "gauge", "Seconds since start.",
         (double)(clock_wall_ms() - coordinator->started_ms) / 1000.0},
    };
    BUF_AUTO struct buf body;
    buf_init(&body, 8u << 20);
    struct err err = {0};
    int rc = 0;
    for (size_t i = 0; !rc && i < sizeof(samples) / sizeof(samples[0]); i++) {
        const struct sample *sample = &samples[i];
        rc = buf_printf(&body, &err, "# HELP %s %s\n# TYPE %s %s\n%s %.15g\n", sample->name,
                        sample->help, sample->name, sample->type, sample->name, sample->value);
    }
    rc = rc ? rc : write_states(&body, coordinator, &err);
    rc = rc ? rc : write_jobs(&body, coordinator, &err);
    rc = rc ? rc : write_incidents(&body, turn_incidents(coordinator->turn), &err);
    rc = rc ? rc : write_devices(&body, coordinator, &err);
    if (rc) {
        answer_err(exchange, &err);
        return;
    }
    http_reply(exchange, 200, "text/plain; version=0.0.4; charset=utf-8", body.data, body.size);
}
