#include "coordinator/loop.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/service.h"
#include "base/stop_signals.h"
#include "coordinator/access/tokens.h"
#include "coordinator/certificates.h"
#include "coordinator/content/catalog.h"
#include "coordinator/content/damage.h"
#include "coordinator/content/disk.h"
#include "coordinator/content/planner.h"
#include "coordinator/content/retention.h"
#include "coordinator/content/webhook.h"
#include "coordinator/content/work.h"
#include "coordinator/coordinator.h"
#include "coordinator/effects.h"
#include "coordinator/http/access.h"
#include "coordinator/http/edge.h"
#include "coordinator/http/routes.h"
#include "coordinator/relaying.h"
#include "coordinator/restore.h"
#include "coordinator/store/measurements.h"
#include "net/relay.h"

#define FLUSH_MS 1000 /* telemetry is written this often */
#define DISK_LOOK_MS 60000
#define TRIM_MS 60000 /* each time drops what a minute added */
#define VACUUM_LOOK_MS 60000
#define TEXTS_MS (24 * HOUR_MS) /* reads the rows of all jobs */
#define HOUR_MS 3600000ll
#define CERTIFICATES_MS 60000 /* a clock that was wrong may be set at any time */
#define RETRY_MS 500          /* between two attempts of a commit that a full disk holds up */
#define WORKER_THREADS 7 /* blocking work: disks, two searches for plans, a call of the webhook */
#define BLOB_QUEUE_BYTES (64u << 20)
#define STOP_GRACE_MS 5000    /* for requests in progress at a signal */
#define STOP_CLOSE_MS 60000   /* the longest end after that: blobs are written out */
#define DESCRIPTORS_EXTRA 256 /* beside connections: stores, spools, rejected uploads */

static int open_stores(struct coordinator *coordinator, struct err *err)
{
    const struct coordinator_config *config = coordinator->config;
    int rc = file_make_directory(config->state_dir, 0700, err);
    if (!rc) {
        rc = state_open(config->state_dir, &coordinator->state, err);
    }
    if (!rc) {
        struct blob_config blobs = {.directory = config->state_dir,
                                    .min_free_bytes = config->min_free_bytes,
                                    .queue_bytes = BLOB_QUEUE_BYTES};
        rc = blob_open(&blobs, &coordinator->blobs, err);
    }
    return rc ? err_wrap(err, "--state-dir '%s'", config->state_dir) : 0;
}

struct key_row {
    uint8_t *key;
    bool found;
};

static bool read_key(void *arg, const struct state_row *row)
{
    struct key_row *out = arg;
    struct err err = {0};
    out->found = parse_hex(row->document, out->key, HASH_SIZE, &err) == 0;
    return false;
}

/* A new state.db beside an old checkpoints.db: the rows are lost, and a sweep would take every blob
 * with them. Checked before the first row is written: the next start must find the same. */
static int check_lost_state(const struct coordinator *coordinator, struct err *err)
{
    struct blob_statistics blobs;
    blob_statistics(coordinator->blobs, &blobs);
    return blobs.blobs == 0
               ? 0
               : err_set(err, ERR_STATE,
                         "state.db is new, but checkpoints.db holds %" PRIu64
                         " blobs: restore the old state.db or a backup, or move checkpoints.db "
                         "away to start empty",
                         blobs.blobs);
}

/* The key of tickets outlives restarts: agents keep working with the tickets they have. */
static int load_ticket_key(struct coordinator *coordinator, struct err *err)
{
    struct key_row row = {.key = coordinator->ticket_key};
    int rc = state_get(coordinator->state, STATE_META, "ticket_key", read_key, &row, err);
    if (rc && rc != ERR_NOT_FOUND) {
        return rc;
    }
    if (row.found) {
        return 0;
    }
    char text[HASH_TEXT_SIZE];
    rc = check_lost_state(coordinator, err);
    rc = rc ? rc : random_bytes(coordinator->ticket_key, HASH_SIZE, err);
    if (rc) {
        return rc;
    }
    parse_to_hex(coordinator->ticket_key, HASH_SIZE, text);
    struct state_row put = {"ticket_key", "", 1, clock_wall_ms(), text, HASH_SIZE * 2};
    rc = state_begin(coordinator->state, err);
    if (!rc) {
        rc = state_put(coordinator->state, STATE_META, &put, err);
    }
    return rc ? rc : state_commit(coordinator->state, err);
}

/* Others than users of this machine need a token. */
static int check_tokens(const struct coordinator *coordinator, struct err *err)
{
    const struct coordinator_config *config = coordinator->config;
    if (config->insecure || address_is_loopback(&config->address) ||
        tokens_required(coordinator->edge->access.tokens)) {
        return 0;
    }
    return err_set(err, ERR_INVALID,
                   "--listen: refusing to listen on %s without tokens: run 'paceline-coordinator "
                   "init --no-tls', or confirm with --insecure",
                   config->address.text);
}

static int open_all(struct coordinator *coordinator, struct err *err)
{
    const struct coordinator_config *config = coordinator->config;
    struct core_config core = core_config_default;
    core.heartbeat_ms = config->heartbeat_ms;
    core.lease_ms = config->lease_ms;
    uint64_t seed = 0;
    coordinator->started_ms = clock_now_ms();
    int rc = open_stores(coordinator, err);
    rc = rc ? rc : load_ticket_key(coordinator, err);
    rc = rc ? rc : random_bytes(&seed, sizeof(seed), err);
    rc = rc ? rc : relaying_open(coordinator, err);
    core.relay_port = relaying_port(coordinator);
    rc = rc ? rc : core_new(&core, &coordinator->core, err);
    rc = rc ? rc : work_new(WORKER_THREADS, &coordinator->work, err);
    rc = rc ? rc : catalog_new(coordinator->state, &coordinator->catalog, err);
    rc = rc ? rc : planner_new(coordinator, &coordinator->planner, err);
    rc = rc ? rc : edge_open(coordinator, seed, err);
    const struct turn_effects effects = effects_of(coordinator);
    rc = rc ? rc
            : turn_new(coordinator->core, coordinator->state, &effects, &coordinator->turn, err);
    rc = rc ? rc : restore_all(coordinator, seed, err);
    rc = rc ? rc : damage_search(coordinator, err);
    rc = rc ? rc : webhook_new(coordinator, &coordinator->webhook, err);
    rc = rc ? rc : check_tokens(coordinator, err);
    rc = rc ? rc : routes_open(coordinator, &coordinator->server, err);
    return rc;
}

/* Requests end first, then the workers, then the writer of blobs. Its last reports go to the core
 * and are committed. The shared parts end last. Each part may be missing: opening it failed. */
static void close_all(struct coordinator *coordinator)
{
    struct err err = {0};
    coordinator->stopping = true;
    relaying_close(coordinator);
    http_server_close(&coordinator->server);
    if (coordinator->work) {
        work_stop(coordinator->work);
    }
    if (coordinator->blobs) {
        blob_close(&coordinator->blobs);
    }
    work_free(&coordinator->work);
    webhook_free(&coordinator->webhook);
    if (coordinator->turn && turn_commit(coordinator->turn, &err)) {
        log_error("last_commit_failed", "error=%s", log_quote(err.text).text);
    } else if (coordinator->turn && turn_held(coordinator->turn)) {
        log_error("last_commit_failed", "error=\"the disk is full\"");
    }
    turn_free(&coordinator->turn);
    edge_close(coordinator);
    planner_free(&coordinator->planner);
    catalog_free(&coordinator->catalog);
    core_free(&coordinator->core);
    state_close(&coordinator->state); /* flushes telemetry */
}

/* ---- turning ---- */

static bool model_in_use(const void *arg, const char *sha256)
{
    const struct core *core = arg;
    for (size_t i = 0; i < core_job_count(core); i++) {
        if (strcmp(core_job_at(core, i)->spec.model.sha256, sha256) == 0) {
            return true;
        }
    }
    return false;
}

/* The timed work of the loop. */
struct timers {
    int64_t flush_ms, ping_ms, disk_ms, trim_ms, certificates_ms, retention_ms, vacuum_ms;
    int64_t texts_ms; /* the next sweep */
    int64_t retry_ms; /* of a held commit */
    int64_t stop_ms;  /* while stopping: requests that are still open then are broken off; else
                         INT64_MAX */
    struct retention retention;
    struct service *service;
};

static int timeout_ms(const struct coordinator *coordinator, const struct timers *timers)
{
    const int64_t due_ms[] = {timers->flush_ms,
                              timers->ping_ms,
                              timers->disk_ms,
                              timers->trim_ms,
                              timers->certificates_ms,
                              timers->retention_ms,
                              timers->vacuum_ms,
                              timers->stop_ms,
                              service_due_ms(timers->service),
                              core_deadline_ms(coordinator->core),
                              webhook_deadline_ms(coordinator->webhook),
                              edge_deadline_ms(coordinator->edge)};
    const int64_t held_ms[] = {timers->retry_ms, timers->stop_ms, service_due_ms(timers->service)};
    const bool held = turn_held(coordinator->turn);
    const int64_t *due = held ? held_ms : due_ms;
    const size_t count =
        held ? sizeof(held_ms) / sizeof(held_ms[0]) : sizeof(due_ms) / sizeof(due_ms[0]);
    int64_t now_ms = clock_now_ms();
    int64_t next_ms = INT64_MAX;
    for (size_t i = 0; i < count; i++) {
        next_ms = due[i] < next_ms ? due[i] : next_ms;
    }
    int64_t wait_ms = next_ms > now_ms ? next_ms - now_ms : 0;
    int server_ms = http_server_timeout_ms(coordinator->server);
    if (server_ms >= 0 && server_ms < wait_ms) {
        wait_ms = server_ms;
    }
    return wait_ms > INT_MAX ? INT_MAX : (int)wait_ms;
}

/* While a commit is held, the core gets no events; afterwards it learns how much time passed. */
static int pass_held(struct coordinator *coordinator, struct timers *timers, struct err *err)
{
    int64_t now_ms = clock_now_ms();
    if (now_ms < timers->retry_ms) {
        return 0;
    }
    timers->retry_ms = now_ms + RETRY_MS;
    return turn_commit(coordinator->turn, err) ? err_wrap(err, "commit") : 0;
}

static void trim_history(struct coordinator *coordinator)
{
    const struct coordinator_config *config = coordinator->config;
    const int64_t wall_ms = clock_wall_ms();
    struct err err = {0};
    if (state_trim_measurements(coordinator->state, wall_ms - config->history_hours * HOUR_MS,
                                wall_ms - config->history_days * 24 * HOUR_MS, &err)) {
        log_warn("history_not_trimmed", "error=%s", log_quote(err.text).text);
    }
}

/* Descriptions of models that were deleted, or of which all jobs were. */
static void sweep_texts(struct coordinator *coordinator)
{
    struct err err = {0};
    size_t removed = 0;
    if (state_sweep_texts(coordinator->state, &removed, &err)) {
        log_warn("descriptions_not_swept", "error=%s", log_quote(err.text).text);
    } else if (removed > 0) {
        log_info("descriptions_swept", "count=%zu", removed);
    }
}

/* Old jobs go, and their space: a piece at a time, so that no device waits. */
static void keep_house(struct coordinator *coordinator, struct timers *timers, int64_t now_ms)
{
    if (now_ms >= timers->retention_ms) {
        timers->retention_ms =
            now_ms + retention_step(coordinator, &timers->retention, clock_wall_ms());
    }
    if (now_ms >= timers->texts_ms && !state_in_transaction(coordinator->state)) {
        sweep_texts(coordinator);
        timers->texts_ms = now_ms + TEXTS_MS;
    }
    if (now_ms >= timers->vacuum_ms && !state_in_transaction(coordinator->state)) {
        bool left = false;
        struct err err = {0};
        if (state_vacuum(coordinator->state, &left, &err)) {
            log_warn("state_not_vacuumed", "error=%s", log_quote(err.text).text);
            left = false;
        }
        timers->vacuum_ms = now_ms + (left ? FLUSH_MS : VACUUM_LOOK_MS);
    }
}

/* Read input before timers: a device whose heartbeat waits in the socket must not be lost. */
static int pass(struct coordinator *coordinator, bool work_ended, struct timers *timers,
                struct err *err)
{
    http_server_run(coordinator->server);
    if (work_ended) {
        work_collect(coordinator->work);
    }
    if (turn_held(coordinator->turn)) {
        return pass_held(coordinator, timers, err);
    }
    int64_t now_ms = clock_now_ms();
    if (now_ms >= core_deadline_ms(coordinator->core)) {
        struct event tick = {.type = EVENT_TICK};
        turn_event(coordinator->turn, &tick, NULL, NULL);
    }
    if (now_ms >= timers->disk_ms) {
        disk_look(coordinator);
        timers->disk_ms = now_ms + DISK_LOOK_MS;
    }
    int rc = turn_commit(coordinator->turn, err);
    if (rc) {
        return err_wrap(err, "commit");
    }
    if (turn_held(coordinator->turn)) {
        return 0;
    }
    timers->ping_ms = edge_ping(coordinator->edge, now_ms);
    webhook_look(coordinator->webhook, edge_events(coordinator->edge), now_ms);
    if (now_ms >= timers->trim_ms) {
        trim_history(coordinator);
        timers->trim_ms = now_ms + TRIM_MS;
    }
    keep_house(coordinator, timers, now_ms);
    if (turn_held(coordinator->turn)) {
        return 0; /* the deletion of a job found the disk full */
    }
    if (now_ms >= timers->certificates_ms) {
        certificates_look(coordinator->certificates, coordinator->server, clock_wall_ms());
        timers->certificates_ms = now_ms + CERTIFICATES_MS;
    }
    if (now_ms >= timers->flush_ms) {
        struct err flush_err = {0};
        if (state_flush(coordinator->state, &flush_err)) {
            log_warn("telemetry_lost", "error=%s", log_quote(flush_err.text).text);
        }
        routes_look(coordinator);
        access_look(coordinator);
        catalog_trim(coordinator->catalog, model_in_use, coordinator->core);
        timers->flush_ms = now_ms + FLUSH_MS;
    }
    return 0;
}

static void warn_service(int rc, const struct err *err)
{
    if (rc) {
        log_warn("service_manager_unreachable", "error=%s", log_quote(err->text).text);
    }
}

/* Answer long polls, end streams, give uploads and downloads a little time; reject new requests. */
static void begin_stop(struct coordinator *coordinator, struct timers *timers)
{
    coordinator->stopping = true;
    timers->stop_ms = clock_now_ms() + STOP_GRACE_MS;
    struct err err = {0};
    warn_service(service_stopping(timers->service, STOP_GRACE_MS + STOP_CLOSE_MS, &err), &err);
    edge_stop(coordinator->edge);
    log_info("stopping", "uptime_seconds=%" PRId64 " requests=%" PRIu64 " open=%zu",
             (clock_now_ms() - coordinator->started_ms) / 1000, coordinator->edge->requests,
             coordinator->edge->requests_open);
}

/* Run until a signal asks to stop and the open requests are answered; a second signal does not wait
 * for them. */
static int turns(struct coordinator *coordinator, int signals, struct service *service,
                 struct err *err)
{
    struct timers timers = {.flush_ms = clock_now_ms() + FLUSH_MS,
                            .ping_ms = INT64_MAX,
                            .stop_ms = INT64_MAX,
                            .service = service};
    struct pollfd polled[] = {
        {.fd = signals, .events = POLLIN},
        {.fd = http_server_fd(coordinator->server), .events = POLLIN},
        {.fd = work_fd(coordinator->work), .events = POLLIN},
    };
    for (;;) {
        struct err told = {0};
        warn_service(service_look(service, clock_now_ms(), &told), &told);
        int ready = poll(polled, 3, timeout_ms(coordinator, &timers));
        if (ready < 0 && errno != EINTR) {
            return err_set(err, ERR_IO, "poll: %s", strerror(errno));
        }
        const bool signalled = stop_signals_take(signals) != 0;
        if (signalled && coordinator->stopping) {
            return 0;
        }
        if (signalled) {
            begin_stop(coordinator, &timers);
        }
        int rc = pass(coordinator, ready > 0 && polled[2].revents, &timers, err);
        if (rc) {
            return rc;
        }
        if (coordinator->stopping &&
            (coordinator->edge->requests_open == 0 || clock_now_ms() >= timers.stop_ms)) {
            return 0;
        }
    }
}

/* Every connection is a descriptor; the usual bound of 1024 is for interactive programs. Returns
 * for how many connections there are enough: without a descriptor, a client would get no answer at
 * all. */
static size_t raise_descriptors(const struct coordinator_config *config)
{
    struct rlimit limit;
    const size_t connections = (size_t)config->connections_max;
    /* Those of a relay are many and seldom in use: they are asked for, but not insisted on. */
    const rlim_t relay = config->relay_address.length > 0 ? RELAY_DESCRIPTORS_MAX : 0;
    const rlim_t needed = (rlim_t)connections + DESCRIPTORS_EXTRA, wanted = needed + relay;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= wanted) {
        return connections;
    }
    const struct rlimit raised = {.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted,
                                  .rlim_max = limit.rlim_max};
    const rlim_t there = setrlimit(RLIMIT_NOFILE, &raised) ? limit.rlim_cur : raised.rlim_cur;
    if (there >= needed) {
        return connections;
    }
    const size_t possible = there > DESCRIPTORS_EXTRA + CONNECTIONS_MIN
                                ? (size_t)there - DESCRIPTORS_EXTRA
                                : CONNECTIONS_MIN;
    log_warn("few_descriptors", "open_files=%llu connections=%zu", (unsigned long long)there,
             possible);
    return possible;
}

int loop_run(const struct coordinator_config *config, struct err *err)
{
    struct certificates certificates;
    struct coordinator coordinator = {.config = config, .certificates = &certificates};
    FD_AUTO int signals = -1;
    AUTO(service_close) struct service service;
    int rc = service_open(&service, err);
    rc = rc ? rc : certificates_open(config, clock_wall_ms(), &certificates, err);
    if (rc) {
        return rc;
    }
    coordinator.tls = certificates.served;
    coordinator.authority =
        certificates.fingerprint[0] ? certificates.authority.certificate.data : NULL;
    memcpy(coordinator.authority_sha256, certificates.fingerprint,
           sizeof(coordinator.authority_sha256));
    rc = stop_signals_open(&signals, err);
    if (!rc) {
        coordinator.connections_max = raise_descriptors(config);
        rc = open_all(&coordinator, err);
    }
    if (!rc) {
        log_info("listening", "address=%s tls=%s state_dir=%s version=" PACELINE_VERSION,
                 http_server_address(coordinator.server)->text,
                 certificates.served.certificate ? "true" : "false",
                 log_quote(config->state_dir).text);
        access_log_mode(&coordinator);
        struct err told = {0};
        warn_service(service_ready(&service, &told), &told);
        rc = turns(&coordinator, signals, &service, err);
    }
    close_all(&coordinator);
    certificates_close(&certificates);
    return rc;
}
