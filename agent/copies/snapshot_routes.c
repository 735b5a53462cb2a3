#include "agent/copies/snapshot_routes.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "agent/peer/answers.h"
#include "agent/peer/receive.h"
#include "base/log.h"
#include "base/parse.h"
#include "net/hash.h"

/* One body. It occupies its place from the first header to the answer. */
struct replica {
    struct snapshot_routes *routes;
    struct replica *next_free;
    struct http_exchange *exchange; /* NULL: its client has disconnected. Guarded by the routes's
                                       lock while the disk has it */
    struct holding holding;
    unsigned char *block;
    size_t got;
    struct sha256 *hash;
    const char *why;                 /* the body differs from its announcement */
    const struct snapshot *snapshot; /* being sent */
};

struct snapshot_routes {
    struct access *access;
    struct snapshot_store *snapshots;
    pthread_mutex_t lock;
    struct replica item[REPLICAS_AT_ONCE];
    struct replica *first_free; /* guarded by lock */
    int64_t coming;             /* bytes of bodies in progress; the receiver's */
};

static struct replica *take_place(struct snapshot_routes *routes)
{
    (void)pthread_mutex_lock(&routes->lock);
    struct replica *replica = routes->first_free;
    if (replica) {
        routes->first_free = replica->next_free;
    }
    (void)pthread_mutex_unlock(&routes->lock);
    return replica;
}

static void give_back(struct replica *replica)
{
    struct snapshot_routes *routes = replica->routes;
    (void)pthread_mutex_lock(&routes->lock);
    replica->exchange = NULL;
    replica->snapshot = NULL;
    replica->next_free = routes->first_free;
    routes->first_free = replica;
    (void)pthread_mutex_unlock(&routes->lock);
}

/* ---- the request ---- */

static bool read_request(struct snapshot_routes *routes, struct http_exchange *exchange,
                         struct holding *out)
{
    const char *sha256 = http_query(exchange, "sha256");
    const char *bytes = http_query(exchange, "bytes");
    const char *job = http_param(exchange, "job");
    struct err err = {0};
    memset(out, 0, sizeof(*out));
    if (!answers_let_in(routes->access, exchange, &out->generation, NULL) ||
        !answers_number(exchange, "version", &out->version) ||
        !answers_number(exchange, "unit", &out->unit)) {
        return false;
    }
    if (!sha256 || !sha256_form.valid(sha256) || !bytes ||
        parse_i64(bytes, 1, (int64_t)BLOB_BYTES_MAX, &out->bytes, &err) != 0 || out->version < 1 ||
        out->version > STEPS_MAX || out->unit >= UNITS_MAX ||
        strlen(job) >= sizeof(out->job.text)) {
        answers_problem(exchange, 400, "invalid_parameter",
                        "version, unit, sha256 and bytes are required");
        return false;
    }
    memcpy(out->job.text, job, strlen(job) + 1);
    memcpy(out->sha256, sha256, sizeof(out->sha256));
    const int64_t length = http_content_length(exchange);
    if (length < 0 || (length > 0 && length != out->bytes)) {
        answers_problem(exchange, length < 0 ? 411 : 422,
                        length < 0 ? "length_required" : "invalid_blob",
                        "the body must have the stated number of bytes");
        return false;
    }
    return true;
}

static bool has_room(struct snapshot_routes *routes, const struct holding *holding)
{
    const int64_t bound =
        access_replica_bytes(routes->access, holding->job.text, holding->generation);
    struct snapshot_bytes bytes = snapshot_count_bytes(routes->snapshots, SNAPSHOT_REPLICA, false,
                                                       &holding->job, holding->generation);
    bytes.held += routes->coming;
    bytes.present += routes->coming;
    return snapshot_bytes_fit(bound, &bytes, holding->bytes);
}

static void answer_error(struct http_exchange *exchange, int rc, const struct err *why)
{
    const int status = snapshot_list_status(rc);
    const char *code = rc == ERR_NOT_FOUND ? "unknown_blob"
                       : rc == ERR_STALE   ? "stale_generation"
                       : rc == ERR_FORMAT  ? "invalid_blob"
                                           : "no_room";
    answers_problem(exchange, status, code,
                    rc == ERR_NOT_FOUND ? "this device does not hold these bytes: send them"
                                        : why->text);
}

/* Answer with the store's result, at once or from the store's thread. */
static void answer(struct replica *replica, int rc, const struct err *why)
{
    struct snapshot_routes *routes = replica->routes;
    (void)pthread_mutex_lock(&routes->lock);
    struct http_exchange *exchange = replica->exchange;
    if (exchange && rc == 0) {
        http_reply(exchange, 204, NULL, NULL, 0);
    } else if (exchange) {
        answer_error(exchange, rc, why);
    }
    (void)pthread_mutex_unlock(&routes->lock);
    give_back(replica);
}

static void durable(void *arg, int rc, const struct err *why)
{
    answer(arg, rc, why);
}

/* Forget the exchange: the client may disconnect while the disk has the replica. */
static void forget_exchange(void *arg)
{
    struct replica *replica = arg;
    (void)pthread_mutex_lock(&replica->routes->lock);
    replica->exchange = NULL;
    (void)pthread_mutex_unlock(&replica->routes->lock);
}

/* Discard the received part. */
static void end_body(struct replica *replica)
{
    if (replica->block) {
        char unused[HASH_TEXT_SIZE];
        replica->routes->coming -= replica->holding.bytes;
        snapshot_block_free(replica->routes->snapshots, replica->block,
                            (size_t)replica->holding.bytes);
        replica->block = NULL;
        sha256_finish_text(replica->hash, unused); /* resets it */
    }
}

/* A device sends one body at a time. So another unfinished body of the job is on a connection that
 * its sender has abandoned, or is from a stage of an earlier plan. It would occupy memory until the
 * connection ends. */
static void abandon_bodies(struct snapshot_routes *routes, const struct job_id *job)
{
    for (size_t i = 0; i < REPLICAS_AT_ONCE; i++) {
        struct replica *replica = &routes->item[i];
        if (replica->block && id_equal(replica->holding.job.text, job->text)) {
            end_body(replica);
            replica->why = "the sender began another blob";
        }
    }
}

static bool open_replica(void *context, struct http_exchange *exchange, void **state)
{
    struct snapshot_routes *routes = context;
    struct holding holding;
    if (!read_request(routes, exchange, &holding)) {
        return false;
    }
    const bool body = http_content_length(exchange) > 0;
    if (body) {
        abandon_bodies(routes, &holding.job);
    }
    if (body && !has_room(routes, &holding)) {
        answers_problem(exchange, 507, "no_room", "the memory for replicas of this device is full");
        return false;
    }
    struct replica *replica = take_place(routes);
    void *block = replica && body ? snapshot_block(routes->snapshots, (size_t)holding.bytes) : NULL;
    if (!replica || (body && !block)) {
        if (replica) {
            give_back(replica);
        }
        answers_problem(exchange, 503, "too_many",
                        "too many transfers at once, or not enough memory");
        return false;
    }
    replica->exchange = exchange;
    replica->holding = holding;
    replica->block = block;
    replica->got = 0;
    replica->why = NULL;
    routes->coming += body ? holding.bytes : 0;
    *state = replica;
    return true;
}

/* ---- the body ---- */

static size_t write_replica(void *state, const void *data, size_t size)
{
    struct replica *replica = state;
    if (replica->why) {
        return size;
    }
    if (!replica->block || size > (size_t)replica->holding.bytes - replica->got) {
        replica->why = "the body continues after the blob";
        return size;
    }
    memcpy(replica->block + replica->got, data, size);
    sha256_update(replica->hash, data, size);
    replica->got += size;
    return size;
}

static void abort_replica(void *state)
{
    end_body(state);
    give_back(state);
}

static bool is_what_was_announced(struct replica *replica)
{
    char hash[HASH_TEXT_SIZE];
    if (!replica->why && replica->got != (size_t)replica->holding.bytes) {
        replica->why = "the blob ends early";
    }
    sha256_finish_text(replica->hash, hash);
    if (!replica->why && strcmp(hash, replica->holding.sha256) != 0) {
        replica->why = "the bytes have another hash";
    }
    return !replica->why;
}

static void finish_replica(void *state)
{
    struct replica *replica = state;
    struct snapshot_store *snapshots = replica->routes->snapshots;
    const struct snapshot_waiter waiter = {.done = durable, .arg = replica};
    struct err err = {0};
    int rc;
    http_on_end(replica->exchange, forget_exchange, replica);
    if (replica->block ? !is_what_was_announced(replica) : replica->why != NULL) {
        rc = err_set(&err, ERR_FORMAT, "%s", replica->why);
        answer_error(replica->exchange, rc, &err);
        abort_replica(replica);
        return;
    }
    if (replica->block) {
        void *block = replica->block;
        replica->block = NULL;
        replica->routes->coming -= replica->holding.bytes;
        rc = snapshot_keep(snapshots, &replica->holding, SNAPSHOT_REPLICA, block, &waiter, &err);
    } else {
        rc = snapshot_keep_same(snapshots, &replica->holding, SNAPSHOT_REPLICA, &waiter, &err);
        if (rc == ERR_NOT_FOUND && !has_room(replica->routes, &replica->holding)) {
            rc = err_set(&err, ERR_LIMIT, "the memory for replicas of this device is full");
        }
    }
    if (rc != SNAPSHOT_LATER) {
        answer(replica, rc, &err);
    }
}

/* ---- snapshots out ---- */

static ssize_t read_snapshot(void *arg, uint64_t offset, void *out, size_t size)
{
    struct replica *replica = arg;
    const struct snapshot *snapshot = replica->snapshot;
    const uint64_t left = (uint64_t)snapshot->holding.bytes - offset;
    const size_t count = left < size ? (size_t)left : size;
    struct err err = {0};
    if (snapshot_read(snapshot, offset, out, count, &err) != 0) {
        return -2;
    }
    sha256_update(replica->hash, out, count);
    replica->got += count;
    if (count == left) {
        char hash[HASH_TEXT_SIZE];
        sha256_finish_text(replica->hash, hash);
        replica->got = 0;
        if (strcmp(hash, snapshot->holding.sha256) != 0) {
            log_warn("snapshot_rejected", "job=%s version=%" PRId64 " unit=%" PRId64 " hash=%.12s",
                     snapshot->holding.job.text, snapshot->holding.version, snapshot->holding.unit,
                     hash);
            snapshot_discard(replica->routes->snapshots, snapshot);
            return -2;
        }
    }
    return (ssize_t)count;
}

static void end_answer(void *arg)
{
    struct replica *replica = arg;
    if (replica->got > 0) {
        char unused[HASH_TEXT_SIZE];
        sha256_finish_text(replica->hash, unused); /* ended early: reset it */
        replica->got = 0;
    }
    snapshot_put_back(replica->snapshot);
    give_back(replica);
}

/* Answer with a snapshot in a file; takes the reference. If the bytes do not match the hash, the
 * answer ends early and the snapshot is discarded. */
static void answer_file(struct snapshot_routes *routes, struct http_exchange *exchange,
                        const struct snapshot *snapshot)
{
    struct replica *replica = take_place(routes);
    if (!replica) {
        snapshot_put_back(snapshot);
        answers_problem(exchange, 503, "too_many", "too many transfers at once");
        return;
    }
    replica->snapshot = snapshot;
    replica->got = 0;
    const struct http_source source = {.read = read_snapshot, .done = end_answer, .arg = replica};
    http_reply_stream(exchange, 200, "application/octet-stream", (uint64_t)snapshot->holding.bytes,
                      &source);
}

/* http_reply_borrowed gives its argument back as void *. */
static void release_snapshot(void *arg)
{
    snapshot_put_back(arg);
}

static void answer_snapshot(void *context, struct http_exchange *exchange)
{
    struct snapshot_routes *routes = context;
    int64_t generation = 0;
    int64_t version = 0;
    int64_t unit = 0;
    if (!answers_let_in(routes->access, exchange, &generation, NULL) ||
        !answers_number(exchange, "version", &version) ||
        !answers_number(exchange, "unit", &unit)) {
        return;
    }
    const struct snapshot *snapshot =
        snapshot_get(routes->snapshots, http_param(exchange, "job"), version, unit);
    if (!snapshot) {
        answers_problem(exchange, 404, "unknown_blob", "this device does not hold that snapshot");
        return;
    }
    if (!snapshot->data) {
        answer_file(routes, exchange, snapshot);
        return;
    }
    http_reply_borrowed(exchange, 200, "application/octet-stream", snapshot->data,
                        (size_t)snapshot->holding.bytes, release_snapshot,
                        (void *)(uintptr_t)snapshot);
}

static const struct http_sink sink = {
    .open = open_replica, .write = write_replica, .finish = finish_replica, .abort = abort_replica};

#define ROUTE "/peer/v1/{job}/{generation}/snapshots/{version}/{unit}"
static const struct http_route route_table[] = {
    {.method = "GET", .pattern = ROUTE, .handle = answer_snapshot},
    {.method = "PUT", .pattern = ROUTE, .sink = &sink},
};

/* Waits until the store has written all replicas. */
static void free_routes(void *context)
{
    struct snapshot_routes *routes = context;
    snapshot_flush(routes->snapshots);
    for (size_t i = 0; i < REPLICAS_AT_ONCE; i++) {
        sha256_free(&routes->item[i].hash);
    }
    (void)pthread_mutex_destroy(&routes->lock);
    free(routes);
}

int snapshot_routes_open(struct access *access, struct snapshot_store *snapshots,
                         struct peer_routes *out, struct err *err)
{
    struct snapshot_routes *routes = calloc(1, sizeof(*routes));
    if (!routes || pthread_mutex_init(&routes->lock, NULL) != 0) {
        free(routes);
        return err_set(err, ERR_MEMORY, "replicas");
    }
    routes->access = access;
    routes->snapshots = snapshots;
    for (size_t i = 0; i < REPLICAS_AT_ONCE; i++) {
        struct replica *replica = &routes->item[i];
        int rc = sha256_new(&replica->hash, err);
        if (rc != 0) {
            free_routes(routes);
            return rc;
        }
        replica->routes = routes;
        replica->next_free = routes->first_free;
        routes->first_free = replica;
    }
    *out = (struct peer_routes){.route = route_table,
                                .count = sizeof(route_table) / sizeof(route_table[0]),
                                .context = routes,
                                .free = free_routes};
    return 0;
}
