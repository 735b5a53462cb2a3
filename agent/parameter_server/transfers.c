#include "agent/parameter_server/transfers.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "libtrain/model/segments.h"
#include "libtrain/schedule/link.h"
#include "schema/parameter_server.h"

#define WEIGHT 0.1     /* of a new time in the average of a layer */
#define LINK_KEEP 0.98 /* weight of older transfers after each new one: about 50 count */
/* After three consecutive measurements that are all longer, or all shorter, than expected by this
 * factor, each further one halves the weight of the earlier ones (docs/adr/0159). */
#define FAR 1.5
#define FAR_IN_A_ROW 3
#define CHANGED_KEEP 0.5
#define LINK_CHANGED 1.25 /* change of latency or bandwidth: `auto` compares again */
#define TRIAL_STEPS 10    /* steps of each way that `auto` compares */
#define TRIAL_EVERY 500
/* A server closes a connection on which a body makes no progress for 10 s (net/http_server.h). */
#define STREAM_GAP_SECONDS 5.0
/* Maximum requests of all workers at a server, in both directions: fewer than its connections
 * (agent/peer/receive.h). Pulls that wait for a version must leave room for the sums from which the
 * version is computed. */
#define REQUESTS_MAX 48
/* Size of a list in a line of the log. A list of more than about 150 layers is truncated. */
#define LIST_SIZE 768

/* The comparison of `auto`. */
struct trial {
    enum segments_transfers way;
    int64_t step;         /* since the trial began */
    double seconds[2];    /* of the steps of SEGMENTS_OPTIMAL and SEGMENTS_STREAM, by that enum, */
    int64_t measured[2];  /* and the number of these steps */
    double began_seconds; /* of the current step; 0: it is not measured */
};

/* Consecutive measurements that were far from the expected time, all on the same side of it. */
struct drift {
    bool longer;
    int in_a_row;
};
_Static_assert(SEGMENTS_OPTIMAL < 2 && SEGMENTS_STREAM < 2, "index of the trial's seconds");

struct transfers {
    struct transfers_config config;
    double *bytes, *forward, *backward; /* [layers] */
    bool measured[2];                   /* backward, forward: an average exists */
    struct drift pass_drift[2], link_drift[2][EXCHANGE_SERVERS_MAX];
    size_t *server;                                   /* [layers] */
    struct link_sums sums[2][EXCHANGE_SERVERS_MAX];   /* push, pull; guarded by the owner's lock */
    struct link_speed speed[2][EXCHANGE_SERVERS_MAX]; /* the same when they were read, */
    struct link_speed tried[2][EXCHANGE_SERVERS_MAX]; /* and when the trial was over */
    size_t *pull_end, *push_end;                      /* the choice: [layers], [blocks][layers] */
    struct segments_scratch *scratch;
    struct trial trial;
};

int transfers_new(const struct transfers_config *config, struct transfers **out, struct err *err)
{
    struct transfers *transfers AUTO(transfers_free) = calloc(1, sizeof(*transfers));
    if (!transfers) {
        return err_set(err, ERR_MEMORY, "transfers");
    }
    const size_t layers = config->layers + 1;
    transfers->config = *config;
    transfers->bytes = calloc(layers, sizeof(double));
    transfers->forward = calloc(layers, sizeof(double));
    transfers->backward = calloc(layers, sizeof(double));
    transfers->server = calloc(layers, sizeof(size_t));
    transfers->pull_end = calloc(layers, sizeof(size_t));
    transfers->push_end = calloc(config->blocks * layers, sizeof(size_t));
    if (!transfers->bytes || !transfers->forward || !transfers->backward || !transfers->server ||
        !transfers->pull_end || !transfers->push_end) {
        return err_set(err, ERR_MEMORY, "transfers of %zu layers", config->layers);
    }
    memcpy(transfers->bytes, config->bytes, config->layers * sizeof(double));
    for (size_t l = 0, s = 0; l < config->layers; l++) {
        while (l >= config->layer_end[s]) {
            s++;
        }
        transfers->server[l] = s;
    }
    const int rc = segments_scratch_new(config->layers, &transfers->scratch, err);
    if (rc == 0) {
        *out = transfers;
        transfers = NULL;
    }
    return rc;
}

void transfers_free(struct transfers **pointer)
{
    struct transfers *transfers = *pointer;
    if (transfers) {
        segments_scratch_free(&transfers->scratch);
        free(transfers->bytes);
        free(transfers->forward);
        free(transfers->backward);
        free(transfers->server);
        free(transfers->pull_end);
        free(transfers->push_end);
        free(transfers);
    }
    *pointer = NULL;
}

/* ---- measurements ---- */

/* Return whether the measured quantity has changed. */
static bool has_changed(struct drift *drift, double seconds, double expected)
{
    const bool longer = seconds > expected;
    const bool far = longer ? seconds > FAR * expected : expected > FAR * seconds;
    const bool goes_on = far && drift->in_a_row > 0 && drift->longer == longer;
    drift->in_a_row = !far ? 0 : goes_on ? drift->in_a_row + 1 : 1;
    drift->longer = longer;
    return drift->in_a_row >= FAR_IN_A_ROW;
}

static double sum(const double *values, size_t count)
{
    double all = 0;
    for (size_t i = 0; i < count; i++) {
        all += values[i];
    }
    return all;
}

void transfers_note_pass(struct transfers *transfers, bool forward, const double *seconds,
                         double scale)
{
    const size_t layers = transfers->config.layers;
    double *average = forward ? transfers->forward : transfers->backward;
    const bool changed = transfers->measured[forward] &&
                         has_changed(&transfers->pass_drift[forward], scale * sum(seconds, layers),
                                     sum(average, layers));
    const double weight = !transfers->measured[forward] ? 1 : changed ? 1 - CHANGED_KEEP : WEIGHT;
    for (size_t l = 0; l < layers; l++) {
        average[l] += weight * (seconds[l] * scale - average[l]);
    }
    transfers->measured[forward] = true;
}

void transfers_note_evaluation(struct transfers *transfers)
{
    transfers->trial.began_seconds = 0;
}

/* Prefer a latency that is too low. It leads to more requests, most of which are not parked and
 * correct it. A latency that is too high would lead to a single request and never be corrected. */
double transfers_parked_seconds(const struct transfers *transfers, size_t server, double seconds,
                                double answer_seconds)
{
    const struct link_sums *sums = &transfers->sums[1][server];
    return link_is_known(sums) ? fmin(seconds, link_estimate(sums).latency_seconds + answer_seconds)
                               : seconds;
}

void transfers_note_link(struct transfers *transfers, bool pull, size_t server, double bytes,
                         double seconds)
{
    struct link_sums *sums = &transfers->sums[pull][server];
    const struct link_sums one = {.count = 1,
                                  .seconds = seconds > 0 ? seconds : 0,
                                  .bytes = bytes,
                                  .bytes_squared = bytes * bytes,
                                  .bytes_seconds = bytes * (seconds > 0 ? seconds : 0)};
    const bool changed =
        link_is_known(sums) && has_changed(&transfers->link_drift[pull][server], one.seconds,
                                           link_transfer_seconds(link_estimate(sums), bytes));
    const double keep = changed ? CHANGED_KEEP : LINK_KEEP;
    sums->count *= keep;
    sums->seconds *= keep;
    sums->bytes *= keep;
    sums->bytes_squared *= keep;
    sums->bytes_seconds *= keep;
    link_add(sums, &one);
}

/* ---- the choice ---- */

static double mean(const struct trial *trial, enum segments_transfers way)
{
    return trial->measured[way] > 0 ? trial->seconds[way] / (double)trial->measured[way] : INFINITY;
}

static bool differs(double a, double b)
{
    return a > LINK_CHANGED * b || b > LINK_CHANGED * a;
}

/* Return whether any link has changed since the end of the trial. */
static bool links_changed(const struct transfers *transfers)
{
    bool changed = false;
    for (size_t pull = 0; pull < 2; pull++) {
        for (size_t s = 0; s < transfers->config.servers; s++) {
            const struct link_speed *now = &transfers->speed[pull][s];
            const struct link_speed *then = &transfers->tried[pull][s];
            changed = changed || differs(now->bytes_per_second, then->bytes_per_second) ||
                      differs(now->latency_seconds, then->latency_seconds);
        }
    }
    return changed;
}

/* Return the faster of optimal and stream, by the times of steps with each. */
static enum segments_transfers try_both(struct transfers *transfers)
{
    struct trial *trial = &transfers->trial;
    const double now = clock_now_seconds();
    const int64_t tried = 2 * TRIAL_STEPS;
    if (trial->step > 0 && trial->step <= tried && trial->began_seconds > 0) {
        trial->seconds[trial->way] += now - trial->began_seconds;
        trial->measured[trial->way]++;
    }
    trial->began_seconds = now;
    if (trial->step < tried) {
        trial->way = trial->step < TRIAL_STEPS ? SEGMENTS_OPTIMAL : SEGMENTS_STREAM;
    } else if (trial->step == tried) {
        trial->way = mean(trial, SEGMENTS_STREAM) < mean(trial, SEGMENTS_OPTIMAL)
                         ? SEGMENTS_STREAM
                         : SEGMENTS_OPTIMAL;
        memcpy(transfers->tried, transfers->speed, sizeof(transfers->tried));
    }
    trial->step++;
    if (trial->step == TRIAL_EVERY || (trial->step > tried + 1 && links_changed(transfers))) {
        *trial = (struct trial){.way = trial->way};
    }
    return trial->way;
}

/* Make one request per server that keeps layers. */
static size_t by_server(const struct transfers *transfers, size_t *end)
{
    size_t count = 0;
    for (size_t l = 0; l < transfers->config.layers; l++) {
        const bool last =
            l + 1 == transfers->config.layers || transfers->server[l + 1] != transfers->server[l];
        if (last) {
            end[count++] = l + 1;
        }
    }
    return count;
}

void transfers_read_links(struct transfers *transfers)
{
    for (size_t pull = 0; pull < 2; pull++) {
        for (size_t s = 0; s < transfers->config.servers; s++) {
            transfers->speed[pull][s] = link_estimate(&transfers->sums[pull][s]);
        }
    }
}

/* Return the window. A stream asks every server at once. */
static size_t window_of(const struct transfers *transfers, enum segments_transfers way)
{
    const struct transfers_config *config = &transfers->config;
    const size_t most = REQUESTS_MAX / (2 * config->workers);
    const size_t wanted = way == SEGMENTS_LAYER_WINDOW ? SEGMENTS_WINDOW
                          : way == SEGMENTS_STREAM     ? config->servers
                                                       : 1;
    return most == 0 ? 1 : most < wanted ? most : wanted;
}

/* busy_seconds: time for which the pushes of earlier blocks still occupy the link. */
static struct segments_problem problem_of(const struct transfers *transfers, bool pull,
                                          double busy_seconds,
                                          struct segments_link link[EXCHANGE_SERVERS_MAX])
{
    double first_seconds = 0;
    for (size_t s = 0; s < transfers->config.servers; s++) {
        const struct link_speed speed = transfers->speed[pull][s];
        link[s] = (struct segments_link){.request_seconds = speed.latency_seconds,
                                         .bytes_per_second = speed.bytes_per_second,
                                         .local = s == transfers->config.own};
        if (s == transfers->server[0] && !link[s].local) {
            first_seconds = speed.latency_seconds / 2; /* the request is already parked */
        }
    }
    return (struct segments_problem){.count = transfers->config.layers,
                                     .bytes = transfers->bytes,
                                     .seconds = pull ? transfers->forward : transfers->backward,
                                     .server = transfers->server,
                                     .link = link,
                                     .pull = pull,
                                     .first_request_seconds = first_seconds,
                                     .busy_seconds = busy_seconds};
}

/* Choose the requests. Returns the seconds until the pass and its transfers are over; 0 for a
 * stream, which has no choice. */
static double choose(struct transfers *transfers, enum segments_transfers way, bool pull,
                     double busy_seconds, size_t *end, struct exchange_requests *out)
{
    struct segments_link link[EXCHANGE_SERVERS_MAX];
    const struct segments_problem problem = problem_of(transfers, pull, busy_seconds, link);
    double seconds = 0;
    out->end = end;
    if (way == SEGMENTS_STREAM) {
        out->count = by_server(transfers, end);
    } else if (way == SEGMENTS_OPTIMAL) {
        seconds = segments_solve(&problem, transfers->scratch, end, &out->count);
    } else {
        segments_choose(&problem, way, (double)transfers->config.segment_bytes, transfers->scratch,
                        end, &out->count);
        seconds = way == SEGMENTS_LAYER_WINDOW
                      ? segments_window(&problem, window_of(transfers, way))
                      : segments_evaluate(&problem, end, out->count);
    }
    return seconds;
}

/* The pushes of a block begin when the link has sent those of the previous block. */
static void choose_pushes(struct transfers *transfers, enum segments_transfers way,
                          struct exchange_requests *out)
{
    const struct transfers_config *config = &transfers->config;
    const double each =
        sum(transfers->forward, config->layers) + sum(transfers->backward, config->layers);
    double busy = 0;
    for (size_t b = 0; b < config->blocks; b++) {
        const double seconds =
            choose(transfers, way, false, busy, transfers->push_end + b * config->layers, &out[b]);
        /* From the last backward pass of this block to that of the next one. */
        const double between = b + 1 < config->blocks ? each * (double)config->block[b + 1] : 0;
        busy = fmax(seconds - between, 0);
    }
}

size_t transfers_window(const struct transfers *transfers)
{
    const int way = transfers->config.transfers;
    return window_of(transfers,
                     way == TRANSFERS_AUTO ? SEGMENTS_STREAM : (enum segments_transfers)way);
}

/* Return whether streams are possible. A stream sends nothing while a layer is computed. */
static bool may_stream(const struct transfers *transfers)
{
    for (size_t l = 0; l < transfers->config.layers; l++) {
        if (transfers->backward[l] > STREAM_GAP_SECONDS) {
            return false;
        }
    }
    return true;
}

void transfers_choose(struct transfers *transfers, struct exchange_segments *out)
{
    const enum segments_transfers way = transfers->config.transfers == TRANSFERS_AUTO
                                            ? try_both(transfers)
                                            : (enum segments_transfers)transfers->config.transfers;
    *out = (struct exchange_segments){.window = window_of(transfers, way),
                                      .streams = way == SEGMENTS_STREAM && may_stream(transfers)};
    (void)choose(transfers, way, true, 0, transfers->pull_end, &out->pull);
    choose_pushes(transfers, way, out->push);
}

/* ---- the log ---- */

struct list {
    char text[LIST_SIZE];
    size_t size;
};

static void add(struct list *list, double number)
{
    const size_t room = sizeof(list->text) - list->size;
    const int size =
        snprintf(list->text + list->size, room, "%s%.0f", list->size > 0 ? "," : "", number);
    list->size += size > 0 && (size_t)size < room ? (size_t)size : 0;
    list->text[list->size] = '\0';
}

static struct list scaled(const double *values, size_t count, double scale)
{
    struct list list = {0};
    for (size_t i = 0; i < count; i++) {
        add(&list, scale * values[i]);
    }
    return list;
}

/* List the ends of the segments of the pull, or of the push of the first block. */
static struct list ends(const struct transfers *transfers, bool pull)
{
    const size_t *choice = pull ? transfers->pull_end : transfers->push_end;
    struct list list = {0};
    for (size_t i = 0, end = 0; end < transfers->config.layers; i++) {
        end = choice[i];
        add(&list, (double)end);
    }
    return list;
}

/* List for each server the microseconds of a request and the bytes per second. */
static struct list links(const struct transfers *transfers, bool pull)
{
    struct list list = {0};
    for (size_t s = 0; s < transfers->config.servers; s++) {
        add(&list, 1e6 * transfers->speed[pull][s].latency_seconds);
        add(&list, transfers->speed[pull][s].bytes_per_second);
    }
    return list;
}

void transfers_log(const struct transfers *transfers, int64_t step)
{
    const size_t layers = transfers->config.layers;
    if (log_shows(LOG_LEVEL_DEBUG)) {
        log_debug("segments",
                  "step=%" PRId64 " pull=%s push=%s pull_links=%s push_links=%s bytes=%s "
                  "forward_us=%s backward_us=%s",
                  step, ends(transfers, true).text, ends(transfers, false).text,
                  links(transfers, true).text, links(transfers, false).text,
                  scaled(transfers->bytes, layers, 1).text,
                  scaled(transfers->forward, layers, 1e6).text,
                  scaled(transfers->backward, layers, 1e6).text);
    }
}
