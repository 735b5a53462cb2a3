#include "agent/peer/ways.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/way_list.h"
#include "base/clock.h"
#include "base/log.h"

struct ways {
    const char *coordinator;
    pthread_mutex_t lock;
    struct way_list list;               /* guarded by lock, like the next */
    struct relay_url relay[RELAYS_MAX]; /* list.relay_count of them */
};

int ways_new(const char *coordinator, struct ways **out, struct err *err)
{
    struct ways *ways = calloc(1, sizeof(*ways));
    if (!ways || pthread_mutex_init(&ways->lock, NULL) != 0) {
        free(ways);
        return err_set(err, ERR_MEMORY, "ways to peers");
    }
    ways->coordinator = coordinator;
    *out = ways;
    return 0;
}

void ways_free(struct ways **ways)
{
    if (*ways) {
        (void)pthread_mutex_destroy(&(*ways)->lock);
        free(*ways);
        *ways = NULL;
    }
}

/* Find the host in a URL, with its brackets. Return its number of bytes. */
static size_t host_of(const char *url, const char **host)
{
    const char *scheme = strstr(url, "://");
    *host = scheme ? scheme + 3 : url;
    const char *end = (*host)[0] == '[' ? strchr(*host, ']') : NULL;
    return end ? (size_t)(end + 1 - *host) : strcspn(*host, ":/");
}

struct relay_url ways_relay_url(const char *coordinator, const struct relay_place *place)
{
    struct relay_url out;
    const char *host = NULL;
    if (place->url[0] != '\0') {
        memcpy(out.text, place->url, sizeof(out.text));
        return out;
    }
    const size_t size = host_of(coordinator, &host);
    (void)snprintf(out.text, sizeof(out.text), "http://%.*s:%" PRId64, (int)size, host,
                   place->port);
    return out;
}

struct relay_name ways_relay_name(const struct device_id *device, const struct plan_id *plan)
{
    struct relay_name out;
    (void)snprintf(out.text, sizeof(out.text), "%s.%s", device->text, plan->text);
    return out;
}

void ways_set(struct ways *ways, const struct assignment *assignment)
{
    struct relay_url relay[RELAYS_MAX] = {{""}};
    for (size_t i = 0; i < assignment->relay_count; i++) {
        relay[i] = ways_relay_url(ways->coordinator, &assignment->relay[i]);
    }
    (void)pthread_mutex_lock(&ways->lock);
    bool same = assignment->relay_count == ways->list.relay_count;
    for (size_t i = 0; same && i < assignment->relay_count; i++) {
        same = strcmp(relay[i].text, ways->relay[i].text) == 0;
    }
    if (!same) {
        memcpy(ways->relay, relay, sizeof(relay));
        way_list_set_relays(&ways->list, assignment->relay_count);
    }
    (void)pthread_mutex_unlock(&ways->lock);
}

static size_t choose(struct ways *ways, const struct way_target *target, struct relay_url *relay)
{
    size_t way = WAY_DIRECT;
    (void)pthread_mutex_lock(&ways->lock);
    if (target->relay_ticket[0] != '\0') {
        way = way_list_choose(&ways->list, target->device, target->first, clock_now_ms());
    }
    if (way != WAY_DIRECT) {
        *relay = ways->relay[way - 1];
    }
    (void)pthread_mutex_unlock(&ways->lock);
    return way;
}

static bool has_relayed(const struct way_list *list, const struct device_id *device)
{
    struct device_id relayed[RELAYED_MAX];
    const size_t count = way_list_relayed(list, relayed);
    for (size_t i = 0; i < count; i++) {
        if (id_equal(relayed[i].text, device->text)) {
            return true;
        }
    }
    return false;
}

static bool note(struct ways *ways, const struct device_id *device, size_t way,
                 enum way_result result)
{
    (void)pthread_mutex_lock(&ways->lock);
    const bool before = has_relayed(&ways->list, device);
    const bool other = way_list_tried(&ways->list, device, way, result, clock_now_ms());
    const bool after = has_relayed(&ways->list, device);
    (void)pthread_mutex_unlock(&ways->lock);
    if (before != after) {
        log_info("peer_way", "device=%s way=%s", device->text, after ? "relay" : "direct");
    }
    return other;
}

int ways_call(struct ways *ways, const struct way_target *target, struct http_client *client,
              const struct http_call *call, struct http_result *out, bool *other, struct err *err)
{
    struct relay_url url;
    const size_t way = choose(ways, target, &url);
    const struct relay_name name = ways_relay_name(target->device, target->plan);
    const struct http_relay relay = {
        .address = url.text, .name = name.text, .ticket = target->relay_ticket};
    struct http_call made = *call;
    made.relay = way == WAY_DIRECT ? NULL : &relay;
    *other = false;
    const int rc = http_client_call(client, &made, out, err);
    const bool broken = rc == ERR_NETWORK || rc == ERR_TIMEOUT;
    if (target->relay_ticket[0] == '\0' || (rc != 0 && !broken)) {
        return rc; /* the error does not concern the way */
    }
    const enum http_contact contact = http_client_contact(client);
    const bool missed = broken && contact == HTTP_NO_CONTACT;
    *other = note(ways, target->device, way, missed ? WAY_MISSED : WAY_REACHED) ||
             (broken && contact == HTTP_KEPT_CONTACT);
    return rc;
}

void ways_report(struct ways *ways, struct heartbeat *out)
{
    (void)pthread_mutex_lock(&ways->lock);
    out->relayed_count = way_list_relayed(&ways->list, out->relayed);
    (void)pthread_mutex_unlock(&ways->lock);
}
