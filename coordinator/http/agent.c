#include "coordinator/http/agent.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/parse.h"
#include "coordinator/content/catalog.h"
#include "coordinator/http/access.h"
#include "coordinator/http/answer.h"
#include "coordinator/http/content.h"
#include "coordinator/http/edge.h"
#include "coordinator/http/routes.h"
#include "net/relay_preface.h"
#include "schema/wire.h"

bool agent_read_body(struct http_exchange *exchange, const struct record *record, void *out)
{
    json_auto_t *body = NULL;
    struct err err = {0};
    int version;
    if (!answer_read_json(exchange, &body)) {
        return false;
    }
    if (wire_protocol(body, &version, &err)) {
        answer_problem(exchange, PROBLEM_PROTOCOL_VERSION, "%s", err.text);
        return false;
    }
    return answer_read_version(exchange, record, version, body, out);
}

bool agent_has_key(struct http_exchange *exchange, const char *public_key, const char *name)
{
    uint8_t key[HASH_SIZE];
    char text[HASH_TEXT_SIZE] = "";
    if (!http_is_tls(exchange)) {
        return true;
    }
    if (http_peer_key(exchange, key)) {
        parse_to_hex(key, sizeof(key), text);
    }
    if (strcmp(text, public_key) == 0) {
        return true;
    }
    answer_problem(exchange, PROBLEM_WRONG_KEY,
                   "the client's certificate %s, not that of device '%.40s'; a proxy must pass "
                   "the TLS of agents on",
                   text[0] ? "has another key" : "is missing or has no Ed25519 key", name);
    log_warn("agent_refused", "device=%s key=%s reason=\"not the device's key\"", name,
             text[0] ? text : "none");
    return false;
}

/* Agents that reach the coordinator by TLS call each other by TLS too. */
static bool speaks_tls(struct http_exchange *exchange, const char *address)
{
    static const char scheme[] = "https://";
    if (!http_is_tls(exchange) || strncmp(address, scheme, sizeof(scheme) - 1) == 0) {
        return true;
    }
    answer_problem(exchange, PROBLEM_INVALID_FIELDS,
                   "/address: '%.100s' is not https, which agents of a coordinator with TLS speak",
                   address);
    return false;
}

const struct device *agent_of_key(const struct coordinator *coordinator, const char *public_key)
{
    for (size_t i = 0; i < core_device_count(coordinator->core); i++) {
        const struct device *device = core_device_at(coordinator->core, i);
        if (strcmp(device->public_key, public_key) == 0) {
            return device;
        }
    }
    return NULL;
}

/* Check an unknown key: the device has not joined, or need not join. */
static bool may_enrol(struct coordinator *coordinator, struct http_exchange *exchange,
                      const struct enroll_request *request)
{
    return agent_of_key(coordinator, request->public_key) ||
           (access_admit_stranger(coordinator, exchange, request->name) &&
            edge_takes_rows(coordinator, exchange));
}

static void find_source(const struct http_exchange *exchange, char out[ADDRESS_HOST_SIZE])
{
    struct address address;
    http_client_address(exchange, &address);
    address_host(&address, out);
}

/* If an agent listens at all its addresses, peers call it at the source address of its calls. */
static void complete_address(char address[URL_SIZE], const char *source)
{
    static const char *const all[] = {"://0.0.0.0:", "://[::]:"};
    char whole[URL_SIZE];
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        const char *at = strstr(address, all[i]);
        if (at) {
            (void)snprintf(whole, sizeof(whole), "%.*s://%.*s:%s", (int)(at - address), address,
                           ADDRESS_HOST_SIZE - 1, source, at + strlen(all[i]));
            memcpy(address, whole, sizeof(whole));
            return;
        }
    }
}

/* false: a problem was answered. */
static bool check_offers(struct http_exchange *exchange, const struct enroll_request *request)
{
    struct record_faults faults = {0};
    for (size_t i = 0; i < request->offer_count; i++) {
        char pointer[RECORD_POINTER_MAX];
        snprintf(pointer, sizeof(pointer), "/data/%zu/class_counts", i);
        if (!offer_adds_up(&request->offer[i])) {
            record_fault(&faults, pointer, "must add up to 'samples'");
        }
        snprintf(pointer, sizeof(pointer), "/data/%zu/extends", i);
        if (!offer_grows(&request->offer[i])) {
            record_fault(&faults, pointer, "must become longer, up to 'samples'");
        }
    }
    if (faults.count > 0) {
        answer_faults(exchange, &faults);
    }
    return faults.count == 0;
}

void serve_enroll(void *context, struct http_exchange *exchange)
{
    static const char *const allowed[] = {NULL};
    struct coordinator *coordinator = context;
    struct enroll_request request = {0};
    if (!answer_check_query(exchange, allowed) ||
        !agent_read_body(exchange, &enroll_request_record, &request) ||
        !check_offers(exchange, &request)) {
        return;
    }
    if (!agent_has_key(exchange, request.public_key, request.name) ||
        !speaks_tls(exchange, request.address)) {
        return;
    }
    if (!may_enrol(coordinator, exchange, &request)) {
        return;
    }
    char source[ADDRESS_HOST_SIZE];
    find_source(exchange, source);
    complete_address(request.address, source);
    struct event event = {.type = EVENT_ENROLL, .enroll = {.request = &request, .source = source}};
    turn_event(coordinator->turn, &event, exchange, NULL);
}

/* A live device keeps its connection regardless of strangers. */
static void know_agent(struct coordinator *coordinator, struct http_exchange *exchange,
                       const struct heartbeat *heartbeat)
{
    const struct device *device = core_device(coordinator->core, heartbeat->device.text);
    if (device && strcmp(device->boot, heartbeat->boot) == 0) {
        http_know_client(exchange);
    }
}

/* The body names its device, and the device's enrolment states the version for reading it. An
 * unknown device, or one in another boot (upgraded since a backup), must enrol again, regardless of
 * its report. */
static bool read_heartbeat(struct coordinator *coordinator, struct http_exchange *exchange,
                           struct heartbeat *out)
{
    json_auto_t *body = NULL;
    if (!answer_read_json(exchange, &body)) {
        coordinator->edge->heartbeats_refused++;
        return false;
    }
    const char *id = json_string_value(json_object_get(body, "device"));
    const char *boot = json_string_value(json_object_get(body, "boot"));
    const struct device *device = id ? core_device(coordinator->core, id) : NULL;
    const bool enrolled = device && boot && strcmp(device->boot, boot) == 0;
    if (device && !agent_has_key(exchange, device->public_key, id)) {
        coordinator->edge->heartbeats_refused++;
        return false;
    }
    const int version = enrolled ? (int)device->protocol : PROTOCOL_VERSION;
    const bool read = answer_read_version(exchange, &heartbeat_record, version, body, out);
    coordinator->edge->heartbeats_refused += !read;
    return read;
}

void serve_heartbeat(void *context, struct http_exchange *exchange)
{
    static const char *const allowed[] = {NULL};
    struct coordinator *coordinator = context;
    struct heartbeat *heartbeat = coordinator->edge->heartbeat;
    if (answer_check_query(exchange, allowed) && read_heartbeat(coordinator, exchange, heartbeat)) {
        know_agent(coordinator, exchange, heartbeat);
        char source[ADDRESS_HOST_SIZE];
        find_source(exchange, source);
        complete_address(heartbeat->address, source);
        struct event event = {.type = EVENT_HEARTBEAT, .heartbeat = {.heartbeat = heartbeat}};
        turn_event(coordinator->turn, &event, exchange, NULL);
    }
    record_clear(&heartbeat_record, heartbeat);
}

/* ---- the assignment, a long poll ---- */

/* A ticket is an HMAC of its text. */
static void fill_tickets(const struct coordinator *coordinator, const char *device,
                         struct assignment *assignment)
{
    struct core_ticket ticket;
    uint8_t key[HASH_SIZE];
    size_t at = 0;
    while (core_next_ticket(coordinator->core, device, assignment, &at, &ticket)) {
        hmac_text(coordinator->ticket_key, ticket.text, ticket.out);
        if (ticket.relay_out) {
            relay_key(coordinator->ticket_key, ticket.plan.text, key);
            relay_ticket(key, ticket.parks ? RELAY_PARK : RELAY_CALL, ticket.relay_name,
                         ticket.relay_out);
        }
    }
}

static int complete_assignment(struct coordinator *coordinator, const char *device,
                               struct assignment *assignment, struct err *err)
{
    fill_tickets(coordinator, device, assignment);
    if (!assignment->has_run) {
        return 0;
    }
    const struct catalog_entry *entry = NULL;
    struct job_model *model = &assignment->run.job_spec.model;
    int rc = catalog_find(coordinator->catalog, model->sha256, &entry, err);
    if (!rc) {
        model->description = entry->description; /* borrowed: only written */
    }
    return rc;
}

static void answer_assignment(struct coordinator *coordinator, struct http_exchange *exchange,
                              const struct device *device, struct assignment *assignment)
{
    BUF_AUTO struct buf body;
    buf_init(&body, 2 * JSON_BODY_MAX);
    struct err err = {0};
    int rc = complete_assignment(coordinator, device->id.text, assignment, &err);
    rc =
        rc ? rc
           : wire_write_version(&assignment_record, (int)device->protocol, assignment, &body, &err);
    if (rc) {
        answer_err(exchange, &err);
    } else {
        answer_object(exchange, 200, assignment->revision, &body);
    }
}

static bool look_at_assignment(void *context, struct http_exchange *exchange, const char *id,
                               int64_t after, bool last)
{
    struct coordinator *coordinator = context;
    int64_t revision = core_assignment_revision(coordinator->core, id);
    if (revision > 0 && revision <= after && !last) {
        return false;
    }
    if (turn_held(coordinator->turn)) { /* the coordinator stops before the disk has room */
        answer_held(exchange);
        return true;
    }
    struct assignment *assignment = calloc(1, sizeof(*assignment));
    if (!assignment) {
        answer_problem(exchange, PROBLEM_INTERNAL, "out of memory");
        return true;
    }
    const struct device *device = agent_device(coordinator, exchange);
    if (device && core_assignment(coordinator->core, id, device->boot, assignment)) {
        answer_assignment(coordinator, exchange, device, assignment);
    }
    free(assignment);
    return true;
}

const struct device *agent_device(struct coordinator *coordinator, struct http_exchange *exchange)
{
    const char *id = http_query(exchange, "device");
    const char *boot = http_query(exchange, "boot");
    if (!id || !boot) {
        answer_problem(exchange, PROBLEM_INVALID_PARAMETER,
                       "query parameters 'device' and 'boot' are required");
        return NULL;
    }
    const struct device *device = core_device(coordinator->core, id);
    if (!device) {
        answer_problem(exchange, PROBLEM_UNKNOWN_DEVICE, "no device '%.40s'; enrol it", id);
    } else if (!agent_has_key(exchange, device->public_key, id)) {
        device = NULL;
    } else if (strcmp(device->boot, boot) != 0) {
        answer_problem(exchange, PROBLEM_STALE_BOOT,
                       "device '%.40s' has restarted; boot '%.40s' has ended", id, boot);
        device = NULL;
    } else {
        http_know_client(exchange);
    }
    return device;
}

const struct device *agent_caller(struct coordinator *coordinator, struct http_exchange *exchange)
{
    const struct device *device = agent_device(coordinator, exchange);
    if (!device) {
        return NULL;
    }
    struct event event = {.type = EVENT_CONTACT, .contact = {.device = device->id}};
    turn_event(coordinator->turn, &event, NULL, NULL);
    /* The call can end the loss of a device and lead to a plan: commit both before the answer. */
    if (!answer_settled(exchange, coordinator->turn)) {
        return NULL;
    }
    if (turn_held(coordinator->turn)) {
        answer_held(exchange);
        return NULL;
    }
    return core_device(coordinator->core, event.contact.device.text);
}

void serve_assignment(void *context, struct http_exchange *exchange)
{
    static const char *const allowed[] = {"device", "boot", "after", "wait", NULL};
    struct coordinator *coordinator = context;
    int64_t after, wait_seconds;
    if (!answer_check_query(exchange, allowed) ||
        !answer_query_int(exchange, "after", 0, INT64_MAX, 0, &after) ||
        !answer_query_int(exchange, "wait", 0, WAIT_SECONDS_MAX, 0, &wait_seconds)) {
        return;
    }
    const struct device *device = agent_caller(coordinator, exchange);
    if (device) {
        parked_wait(coordinator->edge->parked, exchange, OBJECT_ASSIGNMENT, device->id.text, after,
                    clock_now_ms() + wait_seconds * 1000, look_at_assignment);
    }
}

/* ---- blobs and data sets for agents ---- */

/* Return the device that requests content, without other parameters; NULL: a problem was sent. */
static const struct device *asking_device(struct coordinator *coordinator,
                                          struct http_exchange *exchange)
{
    static const char *const allowed[] = {"device", "boot", NULL};
    return answer_check_query(exchange, allowed) ? agent_caller(coordinator, exchange) : NULL;
}

void serve_blob_get(void *context, struct http_exchange *exchange)
{
    struct coordinator *coordinator = context;
    const char *sha256 = http_param(exchange, "sha256");
    const struct device *device = asking_device(coordinator, exchange);
    if (!device) {
        return;
    }
    if (!core_may_read_blob(coordinator->core, device->id.text, sha256)) {
        answer_problem(exchange, PROBLEM_UNKNOWN_BLOB,
                       "the assignment of '%s' does not name blob %.70s", device->id.text, sha256);
        return;
    }
    content_serve(coordinator, exchange, sha256, NULL);
}

void serve_agent_dataset(void *context, struct http_exchange *exchange)
{
    struct coordinator *coordinator = context;
    const char *sha256 = http_param(exchange, "sha256");
    const struct device *device = asking_device(coordinator, exchange);
    if (!device) {
        return;
    }
    if (!core_may_read_data(coordinator->core, device->id.text, sha256)) {
        answer_problem(exchange, PROBLEM_UNKNOWN_BLOB,
                       "the job of '%s' does not use data set %.70s", device->id.text, sha256);
        return;
    }
    content_serve(coordinator, exchange, sha256, NULL);
}
