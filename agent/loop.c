#include "agent/loop.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/control.h"
#include "agent/device.h"
#include "agent/copies/snapshot_routes.h"
#include "agent/peer/server.h"
#include "agent/reports.h"
#include "agent/runtime/inventory.h"
#include "agent/runtime/links.h"
#include "agent/status.h"
#include "agent/work_table.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/service.h"
#include "base/stop_signals.h"
#include "libtrain/train.h"
#include "net/http_client.h"

#define END_MS 1500 /* timeout for the step under way */
#define TURN_MS_MAX 60000
#define ENDING_TURN_MS 20 /* while a cancelled generation still ends */
#define EXIT_MS 10000     /* the service manager waits this much longer than the longest end */

struct loop {
    char cache[CONFIG_PATH_MAX + 8];
    struct device_context device;
    atomic_int_least64_t replica_sent;
    struct peer_server *peers;
    struct peer_routes routes[1 + WORK_ROUTES_MAX]; /* on `peers`: of snapshots, of strategies */
    size_t route_count;
    struct reports *reports;
    struct http_multi *multi;
    struct control *control;
    struct status *status; /* for /metrics on `peers` */
    struct trust trust;
    struct service service;
    char address[URL_SIZE];
    int64_t leave_ms;     /* how long it may take to leave */
    int64_t leave_due_ms; /* when that time is over; INT64_MAX: it does not leave */
};

/* If the agent listens on all addresses, the coordinator fills in the host. */
static void find_address(struct loop *loop, const struct config *config)
{
    if (config->advertise[0] != '\0') {
        (void)snprintf(loop->address, sizeof(loop->address), "%s", config->advertise);
        return;
    }
    (void)snprintf(loop->address, sizeof(loop->address), "%s://%s",
                   loop->trust.tls ? "https" : "http", peer_server_address(loop->peers)->text);
}

static void fill_enroll(struct enroll_request *out, const struct loop *loop,
                        const struct config *config, const struct identity *identity)
{
    memset(out, 0, sizeof(*out));
    (void)snprintf(out->name, sizeof(out->name), "%s", config->name);
    (void)snprintf(out->public_key, sizeof(out->public_key), "%s", identity->public_key);
    (void)snprintf(out->boot, sizeof(out->boot), "%s", identity->boot);
    (void)snprintf(out->address, sizeof(out->address), "%s", loop->address);
    _Static_assert(sizeof(out->numeric_class) >= TRAIN_NUMERIC_CLASS_MAX, "a numeric class fits");
    train_numeric_class(out->numeric_class);
    out->protocol = PROTOCOL_VERSION;
    inventory_read(&out->inventory);
    out->probe = loop->device.probe;
    memcpy(out->label, config->label, sizeof(out->label));
    out->label_count = config->label_count;
}

static int open_control(struct loop *loop, const struct config *config,
                        const struct identity *identity, struct err *err)
{
    struct control_config *control = calloc(1, sizeof(*control));
    if (!control) {
        return err_set(err, ERR_MEMORY, "control");
    }
    control->device = &loop->device;
    control->reports = loop->reports;
    control->multi = loop->multi;
    control->status = loop->status;
    fill_enroll(&control->enroll, loop, config, identity);
    const int rc = control_new(control, &loop->control, err);
    free(control);
    return rc;
}

/* On the thread of the offers, which ends before the reports. */
static void tell_offers(void *arg)
{
    const struct loop *loop = arg;
    reports_note(loop->reports, SESSION_DATA_CHANGED);
}

/* Free all; the computation must have ended. */
static void free_loop(struct loop *loop)
{
    http_multi_free(&loop->multi);
    control_free(&loop->control);
    parking_free(&loop->device.parking);
    peer_server_close(&loop->peers);
    for (size_t i = 0; i < loop->route_count; i++) {
        loop->routes[i].free(loop->routes[i].context);
    }
    access_free(&loop->device.access);
    snapshot_store_free(&loop->device.snapshots);
    train_tuner_free(&loop->device.tuner);
    disk_watch_free(&loop->device.disk);
    ways_free(&loop->device.ways);
    links_free(&loop->device.links);
    reports_free(&loop->reports);
    status_free(&loop->status);
    trust_done(&loop->trust);
    service_close(&loop->service);
    free(loop);
}

/* On the parking's thread, which ends before the peer server. */
static void take_connection(void *arg, int fd)
{
    const struct loop *loop = arg;
    peer_server_adopt(loop->peers, fd);
}

static int open_all(struct loop *loop, const struct config *config, const struct identity *identity,
                    struct err *err)
{
    int rc = access_new(&loop->device.access, err);
    const char *replicas = config->replica_directory[0] != '\0' ? config->replica_directory : NULL;
    rc = rc ? rc : reports_new(&loop->reports, err);
    rc = rc ? rc : status_new(config->name, &loop->status, err);
    rc = rc ? rc : disk_watch_new(&loop->device.disk, err);
    rc = rc ? rc : links_new(&loop->device.links, err);
    rc = rc ? rc : ways_new(loop->device.coordinator, &loop->device.ways, err);
    rc = rc ? rc : snapshot_store_new(replicas, &loop->device.snapshots, err);
    rc = rc ? rc : train_tuner_new(&loop->device.tuner, err);
    if (rc == 0) {
        snapshot_watch(loop->device.snapshots, reports_fd(loop->reports));
        snapshot_watch_disk(loop->device.snapshots, loop->device.disk);
    }
    rc = rc ? rc : http_multi_new(&loop->multi, err);
    rc = rc ? rc
            : snapshot_routes_open(loop->device.access, loop->device.snapshots, loop->routes, err);
    loop->route_count += rc == 0;
    rc = rc ? rc : work_table_open(loop->device.access, loop->routes, &loop->route_count, err);
    if (rc == 0 && config->tls) {
        rc = trust_open(config->ca, &identity->certificate, &loop->trust, err);
    }
    const struct peer_server_config peers = {
        .listen = config->listen,
        .tls = loop->trust.server,
        .access = loop->device.access,
        .more = loop->routes,
        .more_count = loop->route_count,
        .metrics = {.write = status_write, .arg = loop->status, .token = config->metrics_token}};
    rc = rc ? rc : peer_server_open(&peers, &loop->peers, err);
    const struct parking_config parking = {
        .coordinator = loop->device.coordinator, .arrived = take_connection, .arg = loop};
    rc = rc ? rc : parking_new(&parking, &loop->device.parking, err);
    if (rc != 0) {
        return rc;
    }
    find_address(loop, config);
    loop->device.room_fd = peer_server_room_fd(loop->peers);
    rc = open_control(loop, config, identity, err);
    if (rc == 0) {
        offers_watch(loop->device.offers, tell_offers, loop);
    }
    return rc;
}

int loop_open(const struct config *config, const struct identity *identity,
              const struct device_probe *probe, struct offers *offers, struct loop **out,
              struct err *err)
{
    struct loop *loop = calloc(1, sizeof(*loop));
    if (!loop) {
        return err_set(err, ERR_MEMORY, "agent");
    }
    (void)snprintf(loop->cache, sizeof(loop->cache), "%s/cache", config->state_directory);
    loop->device.replica_sent = &loop->replica_sent;
    loop->device.coordinator = config->coordinator;
    loop->device.trust = &loop->trust;
    loop->device.cache = loop->cache;
    (void)snprintf(loop->device.boot, sizeof(loop->device.boot), "%s", identity->boot);
    loop->device.threads = (size_t)config->threads;
    loop->device.slowdown = config->slowdown;
    loop->leave_ms = config->leave_seconds * 1000;
    loop->leave_due_ms = INT64_MAX;
    loop->device.memory_bytes = config->memory_bytes;
    loop->device.probe = *probe;
    loop->device.offers = offers;
    if (config->memory_bytes > 0 && (uint64_t)probe->free_memory_bytes > config->memory_bytes) {
        loop->device.probe.free_memory_bytes = (int64_t)config->memory_bytes;
    }
    int rc = service_open(&loop->service, err);
    rc = rc ? rc : open_all(loop, config, identity, err);
    if (rc != 0) {
        free_loop(loop);
        return rc;
    }
    log_info("listening", "address=%s name=%s threads=%zu", loop->address, config->name,
             loop->device.threads);
    *out = loop;
    return 0;
}

static int turn_timeout_ms(const struct loop *loop)
{
    const int64_t control_ms = control_deadline_ms(loop->control);
    const int64_t alive_ms = service_due_ms(&loop->service);
    int64_t deadline_ms = control_ms < loop->leave_due_ms ? control_ms : loop->leave_due_ms;
    deadline_ms = alive_ms < deadline_ms ? alive_ms : deadline_ms;
    const int64_t now_ms = clock_now_ms();
    const int64_t left_ms = deadline_ms <= now_ms ? 0 : deadline_ms - now_ms;
    return left_ms < TURN_MS_MAX ? (int)left_ms : TURN_MS_MAX;
}

static void warn_service(int rc, const struct err *err)
{
    if (rc) {
        log_warn("service_manager_unreachable", "error=%s", log_quote(err->text).text);
    }
}

/* `systemctl status` shows whether the device has enrolled, and what it does. */
static void look_at_service(struct loop *loop)
{
    char status[SERVICE_STATUS_SIZE];
    struct err err = {0};
    if (loop->device.id.text[0] == '\0') {
        (void)snprintf(status, sizeof(status), "calls %s", loop->device.coordinator);
    } else {
        (void)snprintf(status, sizeof(status), "enrolled as %s: %s", loop->device.id.text,
                       control_phase(loop->control));
    }
    const int rc = service_status(&loop->service, status, &err);
    warn_service(rc ? rc : service_look(&loop->service, clock_now_ms(), &err), &err);
}

static void begin_leave(struct loop *loop, int64_t now_ms)
{
    struct err err = {0};
    log_info("leaving", "reason=%s seconds=%" PRId64, "signal", loop->leave_ms / 1000);
    loop->leave_due_ms = now_ms + loop->leave_ms;
    warn_service(service_stopping(&loop->service, loop->leave_ms + EXIT_MS, &err), &err);
    control_begin_leave(loop->control);
}

/* The first signal lets other devices take over the work; the second one ends the agent at once.
 * Return whether the agent ends now. */
static bool leaves(struct loop *loop, int leave_fd)
{
    const int64_t now_ms = clock_now_ms();
    const int number = stop_signals_take(leave_fd);
    if (number != 0 && loop->leave_due_ms == INT64_MAX) {
        begin_leave(loop, now_ms);
    } else if (number != 0) {
        loop->leave_due_ms = now_ms;
    }
    static const char *const reasons[] = {
        [LEAVE_WAITS] = "time_over", [LEAVE_DRAINED] = "drained", [LEAVE_ALONE] = "no_coordinator"};
    const enum leave_state leave = control_leaves(loop->control);
    if (leave == LEAVE_WAITS && now_ms < loop->leave_due_ms) {
        return false;
    }
    log_info("left", "reason=%s", reasons[leave]);
    return true;
}

int loop_run(struct loop *loop, int leave_fd, struct err *err)
{
    struct err told = {0};
    control_start(loop->control);
    warn_service(service_ready(&loop->service, &told), &told);
    for (;;) {
        look_at_service(loop);
        const char *reason = control_exit_reason(loop->control);
        if (reason) {
            return err_set(err, ERR_STATE, "%s", reason);
        }
        struct pollfd fd[] = {{.fd = leave_fd, .events = POLLIN},
                              {.fd = reports_fd(loop->reports), .events = POLLIN},
                              {.fd = control_probe_fd(loop->control), .events = POLLIN}};
        const size_t count = fd[2].fd < 0 ? 2 : 3;
        const int rc = http_multi_poll(loop->multi, fd, count, turn_timeout_ms(loop), err);
        if (rc != 0) {
            return rc;
        }
        if (leaves(loop, leave_fd)) {
            return 0;
        }
        control_turn(loop->control);
    }
}

bool loop_close(struct loop **loop)
{
    struct loop *closing = *loop;
    if (!closing) {
        return true;
    }
    const int64_t deadline_ms = clock_now_ms() + END_MS;
    while (!control_leave(closing->control)) {
        struct err err = {0};
        if (clock_now_ms() >= deadline_ms ||
            http_multi_poll(closing->multi, NULL, 0, ENDING_TURN_MS, &err) != 0) {
            return false;
        }
    }
    if (!offers_unwatch(closing->device.offers)) {
        return false;
    }
    free_loop(closing);
    *loop = NULL;
    return true;
}
