#include "coordinator/core/capacity/traffic.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/elementary.h"
#include "base/pages.h"
#include "coordinator/core/capacity/relays.h"
#include "coordinator/core/state/ids.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "libtrain/quant/codec.h"

#define COUNT_MAX 1e9
/* Greatest seconds of one transfer, so that the sums of a pair never overflow. */
#define TRANSFER_SECONDS_MAX 1e6
#define TRANSFER_BYTES_MAX 1e15
/* Half of a link's memory fades in this time, so that measurements from before a change do not
 * count for hours. */
#define HALF_LIFE_MS 60000.0
/* A report that differs from the estimate by this factor reduces the memory to its own weight. A
 * report of a single transfer does so only as the third consecutive one, because a single transfer
 * may be late. */
#define SURPRISE 1.5
#define FAR_MOST 3

/* ---- memory ---- */

int traffic_new(size_t devices_max, struct traffic **out, struct err *err)
{
    AUTO(traffic_free) struct traffic *traffic = calloc(1, sizeof(*traffic));
    if (traffic) {
        traffic->item = pages_new(TRAFFIC_MAX, sizeof(traffic->item[0]));
        traffic->device = calloc(devices_max, sizeof(traffic->device[0]));
    }
    if (!traffic || !traffic->item || !traffic->device) {
        return err_set(err, ERR_MEMORY, "out of memory for the links between devices");
    }
    *out = traffic;
    traffic = NULL;
    return 0;
}

void traffic_free(struct traffic **pointer)
{
    struct traffic *traffic = *pointer;
    if (traffic) {
        pages_free(traffic->item);
        free(traffic->device);
        free(traffic);
        *pointer = NULL;
    }
}

static struct device_sums *sums_of(const struct core *core, const struct device_slot *device)
{
    return &core->traffic->device[table_slot(&core->devices, device)];
}

void traffic_forget(struct core *core, const struct device_slot *device)
{
    *sums_of(core, device) = (struct device_sums){0};
}

/* ---- items by pair ---- */

static uint64_t hash_text(uint64_t hash, const char *text)
{
    for (; *text; text++) {
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
    }
    return hash;
}

/* The items of a pair are in one set, whatever the direction, kind and codec. */
static struct traffic_item *set_of(const struct traffic *traffic, const char *a, const char *b)
{
    const bool in_order = strcmp(a, b) < 0;
    uint64_t hash = hash_text(0xcbf29ce484222325u, in_order ? a : b);
    hash = hash_text(hash, in_order ? b : a);
    return &traffic->item[(hash ^ (hash >> 32)) % (TRAFFIC_MAX / TRAFFIC_WAYS) * TRAFFIC_WAYS];
}

static bool is_item(const struct traffic_item *item, const struct link_row *row)
{
    return id_equal(item->row.from.text, row->from.text) &&
           id_equal(item->row.to.text, row->to.text) && item->row.kind == row->kind &&
           strcmp(item->row.codec, row->codec) == 0;
}

/* The item of the row, or a place for it. */
static struct traffic_item *place_of(const struct traffic *traffic, const struct link_row *row)
{
    struct traffic_item *set = set_of(traffic, row->from.text, row->to.text), *oldest = set;
    for (size_t i = 0; i < TRAFFIC_WAYS; i++) {
        if (is_item(&set[i], row)) {
            return &set[i];
        }
        const bool is_older = set[i].row.from.text[0] == '\0' || set[i].at_ms < oldest->at_ms;
        oldest = oldest->row.from.text[0] != '\0' && is_older ? &set[i] : oldest;
    }
    return oldest;
}

static void put(struct traffic *traffic, struct traffic_item *place,
                const struct traffic_item *item)
{
    *place = *item;
    traffic->filled[(size_t)(place - traffic->item) / TRAFFIC_WAYS] = true;
}

static void scale(struct link_sums *sums, double by)
{
    sums->count *= by;
    sums->seconds *= by;
    sums->bytes *= by;
    sums->bytes_squared *= by;
    sums->bytes_seconds *= by;
}

/* ---- reports ---- */

static bool is_within(double sum, double count, double most)
{
    return sum >= 0 && sum <= count * most;
}

static bool is_valid(const struct link_sums *sums)
{
    const double seconds = TRANSFER_SECONDS_MAX, bytes = TRANSFER_BYTES_MAX;
    return sums->count > 0 && sums->count < COUNT_MAX &&
           is_within(sums->seconds, sums->count, seconds) &&
           is_within(sums->bytes, sums->count, bytes) &&
           is_within(sums->bytes_squared, sums->count, bytes * bytes) &&
           is_within(sums->bytes_seconds, sums->count, bytes * seconds);
}

/* Whether the name is that of a codec: an unknown name would take one of the few places of a pair.
 */
static bool is_codec(const char *name)
{
    enum codec codec;
    return name[0] == '\0' || codec_find(name, &codec);
}

static struct link_row row_of(const struct device_slot *device, const struct link_report *report,
                              struct link_users users)
{
    const bool shared = report->kind == LINK_TENSOR && (users.own > 1 || users.other > 1);
    /* Units that this device fetched came from the other device. */
    const bool fetched = report->kind == LINK_FETCH;
    struct link_row row = {.from = fetched ? report->device : device->device.id,
                           .to = fetched ? device->device.id : report->device,
                           .kind = shared ? LINK_SHARED : report->kind};
    memcpy(row.codec, report->codec, sizeof(row.codec));
    return row;
}

/* Return 1 if the transfers of a report were much slower than expected, -1 if much faster. */
static int surprise_of(const struct link_sums *sums, const struct link_sums *more)
{
    if (!link_is_known(sums)) {
        return 0;
    }
    const struct link_speed link = link_estimate(sums);
    const double expected = link_transfer_seconds(link, more->bytes / more->count);
    const double ratio = more->seconds / more->count / expected;
    return (ratio > SURPRISE) - (ratio * SURPRISE < 1);
}

/* Add a report to the remembered sums. */
static void remember(struct link_sums *sums, const struct link_sums *more, int64_t age_ms, int *far)
{
    double share = elementary_exp(-0.6931471805599453 * fmax((double)age_ms, 0) / HALF_LIFE_MS);
    const int surprise = surprise_of(sums, more);
    *far = surprise * *far > 0 ? *far + surprise : surprise;
    if (surprise != 0 && (link_is_known(more) || abs(*far) >= FAR_MOST)) {
        share = fmin(share, more->count / sums->count);
    }
    scale(sums, share);
    link_add(sums, more);
}

static void add_tensors(struct link_sums *sums, const struct link_sums *more)
{
    int far = 0;
    remember(sums, more, 0, &far);
}

/* The sums of a report with the seconds of each transfer divided by `divisor`. */
static struct link_sums sums_in(const struct link_report *report, size_t divisor)
{
    const double seconds = 1 / (double)divisor;
    return (struct link_sums){.count = (double)report->count,
                              .seconds = report->seconds_sum * seconds,
                              .bytes = report->bytes_sum,
                              .bytes_squared = report->bytes_squared_sum,
                              .bytes_seconds = report->bytes_seconds_sum * seconds};
}

/* Add a report to the sums of both devices: to each by its own link, or as alone on both links. */
static void add_to_devices(const struct core *core, const struct device_slot *device,
                           const struct device_slot *other, const struct link_report *report,
                           struct link_users users)
{
    const struct link_sums of_own = sums_in(report, users.own),
                           of_other = sums_in(report, users.other);
    if (users.own > 1 || users.other > 1) {
        add_tensors(&sums_of(core, device)->beside, &of_own);
        add_tensors(&sums_of(core, other)->shared, &of_other);
    } else {
        add_tensors(&sums_of(core, device)->alone, &of_own);
    }
}

bool traffic_take(struct core *core, const struct device_slot *device,
                  const struct link_report *report, struct link_users users)
{
    const struct link_sums more =
        sums_in(report, users.own > users.other ? users.own : users.other);
    const struct device_slot *other = slots_device(core, report->device.text);
    struct link_row row = row_of(device, report, users);
    if (!is_valid(&more) || !is_codec(report->codec) || id_equal(row.from.text, row.to.text) ||
        !other || report->kind == LINK_SHARED) {
        return false;
    }
    struct traffic_item *item = place_of(core->traffic, &row);
    if (!is_item(item, &row)) {
        put(core->traffic, item, &(struct traffic_item){.row = row, .at_ms = core->now_ms});
    }
    remember(&item->row.sums, &more, core->now_ms - item->at_ms, &item->far);
    item->row.wall_ms = core->wall_ms;
    item->at_ms = core->now_ms;
    if (report->kind == LINK_TENSOR) {
        add_to_devices(core, device, other, report, users);
    }
    return true;
}

/* ---- estimates ---- */

/* Tensors and fetched units show a link at its full speed. Copies give way to them, and count only
 * if there is nothing else. */
static struct link_sums pair_sums(const struct core *core, const struct device_slot *a,
                                  const struct device_slot *b)
{
    const struct traffic_item *set = set_of(core->traffic, a->device.id.text, b->device.id.text);
    const char *first = a->device.id.text, *second = b->device.id.text;
    struct link_sums full = {0}, copies = {0};
    for (size_t i = 0; i < TRAFFIC_WAYS; i++) {
        const struct link_row *row = &set[i].row;
        const bool is_pair = (id_equal(row->from.text, first) && id_equal(row->to.text, second)) ||
                             (id_equal(row->from.text, second) && id_equal(row->to.text, first));
        if (is_pair) {
            link_add(row->kind == LINK_REPLICA ? &copies : &full, &row->sums);
        }
    }
    return link_is_known(&full) ? full : copies;
}

bool traffic_device_link(const struct core *core, const struct device_slot *device,
                         struct link_speed *out)
{
    const struct device_sums *sums = sums_of(core, device);
    const struct link_sums *kind[] = {&sums->alone, &sums->shared, &sums->beside};
    struct link_speed best = {.bytes_per_second = 0};
    for (size_t i = 0; i < sizeof(kind) / sizeof(kind[0]); i++) {
        const struct link_speed link = link_estimate(kind[i]);
        const bool faster = link_is_known(kind[i]) && link.bytes_per_second > best.bytes_per_second;
        best = faster ? link : best;
    }
    if (!link_is_known(&sums->alone) && !link_is_known(&sums->shared)) {
        return false;
    }
    *out = best;
    return true;
}

/* A link has equal properties in both directions, so the transfers of both directions give a better
 * estimate. If a pair needs a relay in one direction only, the estimate is the mean of both. */
struct link_speed traffic_link(const struct core *core, const struct device_slot *a,
                               const struct device_slot *b)
{
    const struct link_sums sums = pair_sums(core, a, b);
    if (link_is_known(&sums)) {
        return link_estimate(&sums);
    }
    static const struct link_sums none;
    struct link_speed first, second;
    const bool known =
        traffic_device_link(core, a, &first) && traffic_device_link(core, b, &second);
    if (!known) {
        first = second = link_estimate(&none);
    }
    return relays_between(a, b) ? link_in_series(first, second) : link_slower(first, second);
}

const struct link_row *traffic_next(const struct core *core, size_t *at)
{
    while (*at < TRAFFIC_MAX) {
        if (!core->traffic->filled[*at / TRAFFIC_WAYS]) {
            *at += TRAFFIC_WAYS - *at % TRAFFIC_WAYS;
            continue;
        }
        const struct link_row *row = &core->traffic->item[(*at)++].row;
        if (row->from.text[0] != '\0') {
            return row;
        }
    }
    return NULL;
}

const struct link_row *core_next_link(const struct core *core, size_t *at)
{
    return traffic_next(core, at);
}

/* ---- rows ---- */

bool traffic_write(const struct core *core, const struct device_slot *device,
                   const struct link_report *report, struct link_users users, struct link_row *out)
{
    const struct link_row row = row_of(device, report, users);
    const struct traffic_item *item = place_of(core->traffic, &row);
    if (is_item(item, &row)) {
        *out = item->row;
    }
    return is_item(item, &row);
}

void traffic_restore(struct core *core, const struct link_row *row)
{
    const int64_t age_ms = core->wall_ms > row->wall_ms ? core->wall_ms - row->wall_ms : 0;
    const struct device_slot *from = slots_device(core, row->from.text);
    if (!is_valid(&row->sums) || !is_codec(row->codec) || !from || row->kind < LINK_TENSOR ||
        row->kind > LINK_SHARED) {
        return;
    }
    struct traffic_item *item = place_of(core->traffic, row);
    put(core->traffic, item, &(struct traffic_item){.row = *row, .at_ms = core->now_ms - age_ms});
    const struct device_slot *to = slots_device(core, row->to.text);
    if (row->kind == LINK_TENSOR) {
        link_add(&sums_of(core, from)->alone, &row->sums);
    } else if (row->kind == LINK_SHARED && to) {
        link_add(&sums_of(core, to)->shared, &row->sums);
    }
}
