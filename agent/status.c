#include "agent/status.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/process_metrics.h"
#include "schema/limits.h"

/* Maximum number of flows, each to a neighbour, by kind and codec. A job has few. If more occur
 * during the agent's life, new ones replace the oldest. */
#define FLOWS_MAX 64

/* Transfers with one device since the start. */
struct flow {
    struct device_id device;
    int kind; /* enum link_kind */
    char codec[16];
    double count, seconds, bytes;
};

/* The values of the last heartbeat, and counters. */
struct numbers {
    struct device_id device; /* "": not enrolled */
    struct job_id job;
    int phase;
    int64_t generation, step;
    int64_t free_memory_bytes;
    int64_t replica_bytes_sent, replica_bytes_written;
    struct stage_seconds stage;
    struct peer_report trouble[PEER_REPORTS_MAX];
    size_t trouble_count;
    uint64_t heartbeats, metrics_lost;
    int64_t answered_ms; /* clock_now_ms of the coordinator's last answer; 0: none yet */
    struct flow flow[FLOWS_MAX];
    size_t flow_count, flow_next;
};

struct status {
    pthread_mutex_t lock; /* of numbers */
    struct numbers numbers;
    char name[NAME_SIZE];
    int64_t started_ms; /* wall time */
};

int status_new(const char *name, struct status **out, struct err *err)
{
    struct status *status = calloc(1, sizeof(*status));
    if (!status) {
        return err_set(err, ERR_MEMORY, "status: out of memory");
    }
    (void)pthread_mutex_init(&status->lock, NULL);
    (void)snprintf(status->name, sizeof(status->name), "%s", name);
    status->started_ms = clock_wall_ms();
    *out = status;
    return 0;
}

void status_free(struct status **status)
{
    if (*status) {
        (void)pthread_mutex_destroy(&(*status)->lock);
        free(*status);
        *status = NULL;
    }
}

/* ---- noting ---- */

static struct flow *flow_of(struct numbers *numbers, const struct link_report *report)
{
    for (size_t i = 0; i < numbers->flow_count; i++) {
        struct flow *flow = &numbers->flow[i];
        if (id_equal(flow->device.text, report->device.text) && flow->kind == report->kind &&
            strcmp(flow->codec, report->codec) == 0) {
            return flow;
        }
    }
    struct flow *flow = &numbers->flow[numbers->flow_next];
    numbers->flow_next = (numbers->flow_next + 1) % FLOWS_MAX;
    numbers->flow_count += numbers->flow_count < FLOWS_MAX;
    *flow = (struct flow){.device = report->device, .kind = report->kind};
    memcpy(flow->codec, report->codec, sizeof(flow->codec));
    return flow;
}

static void take(struct numbers *numbers, const struct heartbeat *heartbeat)
{
    numbers->device = heartbeat->device;
    numbers->job = heartbeat->job;
    numbers->phase = heartbeat->phase;
    numbers->generation = heartbeat->generation;
    numbers->step = heartbeat->step;
    numbers->free_memory_bytes = heartbeat->free_memory_bytes;
    numbers->replica_bytes_sent = heartbeat->replica_bytes_sent;
    numbers->replica_bytes_written = heartbeat->replica_bytes_written;
    numbers->heartbeats++;
    if (heartbeat->phase != PHASE_RUN || heartbeat->stage_seconds.step > 0) {
        numbers->stage = heartbeat->stage_seconds;
    }
    numbers->trouble_count = heartbeat->peer_report_count;
    memcpy(numbers->trouble, heartbeat->peer_report,
           heartbeat->peer_report_count * sizeof(heartbeat->peer_report[0]));
    for (size_t i = 0; i < heartbeat->link_count; i++) {
        const struct link_report *report = &heartbeat->link[i];
        struct flow *flow = flow_of(numbers, report);
        flow->count += (double)report->count;
        flow->seconds += report->seconds_sum;
        flow->bytes += report->bytes_sum;
    }
}

void status_beat(struct status *status, const struct heartbeat *heartbeat)
{
    (void)pthread_mutex_lock(&status->lock);
    take(&status->numbers, heartbeat);
    (void)pthread_mutex_unlock(&status->lock);
}

void status_answered(struct status *status)
{
    (void)pthread_mutex_lock(&status->lock);
    status->numbers.answered_ms = clock_now_ms();
    (void)pthread_mutex_unlock(&status->lock);
}

void status_metrics_lost(struct status *status, uint64_t count)
{
    (void)pthread_mutex_lock(&status->lock);
    status->numbers.metrics_lost = count;
    (void)pthread_mutex_unlock(&status->lock);
}

/* ---- writing ---- */

static void write_identity(struct exposition *out, const struct status *status,
                           const struct numbers *now)
{
    char protocol[16];
    (void)snprintf(protocol, sizeof(protocol), "%d", PROTOCOL_VERSION);
    const struct exposition_label build[] = {{"version", PACELINE_VERSION}, {"protocol", protocol}};
    const struct exposition_label device[] = {{"device_id", now->device.text},
                                              {"device_name", status->name}};
    exposition_family(out, "paceline_agent_build_info", EXPOSITION_GAUGE,
                      "1; the labels are the version of the agent and its protocol.");
    exposition_sample(out, "", build, 2, 1);
    exposition_family(out, "paceline_agent_info", EXPOSITION_GAUGE,
                      "1; the labels are the id of the device, empty before it is enrolled, and "
                      "its name.");
    exposition_sample(out, "", device, 2, 1);
}

static void write_work(struct exposition *out, const struct numbers *now)
{
    const struct {
        const char *name, *help;
        enum exposition_type type;
        double value;
    } singles[] = {
        {"paceline_agent_generation", "Number of the plan that it works on; 0: none.",
         EXPOSITION_GAUGE, (double)now->generation},
        {"paceline_agent_step", "Last step that its stage completed.", EXPOSITION_GAUGE,
         (double)now->step},
        {"paceline_agent_free_memory_bytes", "Memory that it could still take.", EXPOSITION_GAUGE,
         (double)now->free_memory_bytes},
        {"paceline_agent_replica_bytes_sent_total",
         "Bytes of snapshots sent to neighbors and to the center.", EXPOSITION_COUNTER,
         (double)now->replica_bytes_sent},
        {"paceline_agent_replica_bytes_written_total",
         "Bytes of snapshots written to --replica-dir.", EXPOSITION_COUNTER,
         (double)now->replica_bytes_written},
        {"paceline_agent_heartbeats_total", "Heartbeats sent.", EXPOSITION_COUNTER,
         (double)now->heartbeats},
        {"paceline_agent_metrics_lost_total",
         "Metrics of jobs that were lost while the coordinator was away.", EXPOSITION_COUNTER,
         (double)now->metrics_lost},
    };
    const struct exposition_label phase[] = {{"phase", phase_names[now->phase]},
                                             {"job_id", now->job.text}};
    exposition_family(out, "paceline_agent_phase", EXPOSITION_GAUGE,
                      "1; the labels are what the agent does, and the job; empty: none.");
    exposition_sample(out, "", phase, 2, 1);
    for (size_t i = 0; i < sizeof(singles) / sizeof(singles[0]); i++) {
        exposition_single(out, singles[i].name, singles[i].type, singles[i].help, singles[i].value);
    }
    if (now->answered_ms > 0) {
        exposition_single(out, "paceline_agent_coordinator_silent_seconds", EXPOSITION_GAUGE,
                          "Seconds since the coordinator's last answer.",
                          (double)(clock_now_ms() - now->answered_ms) / 1000.0);
    }
}

/* Mean seconds per step of the last window; the parts need not add up to the step. */
static void write_stage(struct exposition *out, const struct stage_seconds *stage)
{
    const struct {
        const char *part;
        double seconds;
    } parts[] = {
        {"step", stage->step},
        {"compute", stage->compute},
        {"stopped", stage->stopped},
        {"wait_input", stage->wait_input},
        {"wait_gradient", stage->wait_gradient},
        {"wait_room", stage->wait_room},
    };
    exposition_family(out, "paceline_agent_stage_seconds", EXPOSITION_GAUGE,
                      "Mean seconds of a step and of its parts in the last window; 0: not "
                      "measured.");
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        const struct exposition_label label = {"part", parts[i].part};
        exposition_sample(out, "", &label, 1, parts[i].seconds);
    }
}

static void write_flows(struct exposition *out, const struct numbers *now)
{
    static const struct {
        const char *name, *help;
        size_t offset;
    } families[] = {
        {"paceline_agent_transfers_total", "Transfers to a device, or from it (kind fetch).",
         offsetof(struct flow, count)},
        {"paceline_agent_transfer_bytes_total", "Bytes of these transfers.",
         offsetof(struct flow, bytes)},
        {"paceline_agent_transfer_seconds_total", "Seconds that these transfers took.",
         offsetof(struct flow, seconds)},
    };
    for (size_t family = 0; family < sizeof(families) / sizeof(families[0]); family++) {
        exposition_family(out, families[family].name, EXPOSITION_COUNTER, families[family].help);
        for (size_t i = 0; i < now->flow_count; i++) {
            const struct flow *flow = &now->flow[i];
            const struct exposition_label labels[] = {{"peer_id", flow->device.text},
                                                      {"kind", link_kind_names[flow->kind]},
                                                      {"codec", flow->codec}};
            double value;
            memcpy(&value, (const char *)flow + families[family].offset, sizeof(value));
            exposition_sample(out, "", labels, 3, value);
        }
    }
}

static void write_troubles(struct exposition *out, const struct numbers *now)
{
    exposition_family(out, "paceline_agent_peer_trouble_seconds", EXPOSITION_GAUGE,
                      "Seconds since a device could not be reached first.");
    for (size_t i = 0; i < now->trouble_count; i++) {
        const struct peer_report *report = &now->trouble[i];
        const struct exposition_label labels[] = {{"peer_id", report->device.text},
                                                  {"kind", peer_trouble_names[report->kind]}};
        exposition_sample(out, "", labels, 2, (double)report->for_ms / 1000.0);
    }
}

void status_write(void *arg, struct exposition *out)
{
    struct status *status = arg;
    (void)pthread_mutex_lock(&status->lock);
    const struct numbers now = status->numbers;
    (void)pthread_mutex_unlock(&status->lock);
    write_identity(out, status, &now);
    process_metrics_write(out, status->started_ms);
    write_work(out, &now);
    write_stage(out, &now.stage);
    write_flows(out, &now);
    write_troubles(out, &now);
}
