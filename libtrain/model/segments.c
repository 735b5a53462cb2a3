#include "libtrain/model/segments.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

#define SLACK 1e-12 /* relative: sums in another order differ by rounding */

struct segments_scratch {
    size_t layers;
    double *time;  /* [layers + 1] T: seconds until this layer and all later ones are transferred */
    double *ready; /* [layers + 1] R: seconds of the passes of this layer and all later ones */
    double *sent;  /* [layers + 1] P: seconds of the bytes of all layers before this one */
    size_t *queue; /* [layers + 1] */
};

int segments_scratch_new(size_t layers, struct segments_scratch **out, struct err *err)
{
    if (layers > SEGMENTS_LAYERS_MAX) {
        return err_set(err, ERR_INVALID, "%zu layers: expected at most %d", layers,
                       SEGMENTS_LAYERS_MAX);
    }
    struct segments_scratch *scratch = calloc(1, sizeof(*scratch));
    if (!scratch) {
        return err_set(err, ERR_MEMORY, "segments of %zu layers", layers);
    }
    scratch->layers = layers;
    scratch->time = calloc(layers + 1, sizeof(double));
    scratch->ready = calloc(layers + 1, sizeof(double));
    scratch->sent = calloc(layers + 1, sizeof(double));
    scratch->queue = calloc(layers + 1, sizeof(size_t));
    if (!scratch->time || !scratch->ready || !scratch->sent || !scratch->queue) {
        segments_scratch_free(&scratch);
        return err_set(err, ERR_MEMORY, "segments of %zu layers", layers);
    }
    *out = scratch;
    return 0;
}

void segments_scratch_free(struct segments_scratch **scratch)
{
    if (*scratch) {
        free((*scratch)->time);
        free((*scratch)->ready);
        free((*scratch)->sent);
        free((*scratch)->queue);
        free(*scratch);
        *scratch = NULL;
    }
}

/* ---- the terms ---- */

static const struct segments_link *link_of(const struct segments_problem *problem, size_t layer)
{
    return &problem->link[problem->server[layer]];
}

/* Whether a pull that begins with this layer is the first request of the step. */
static bool is_first_request(const struct segments_problem *problem, size_t layer)
{
    while (layer > 0 && link_of(problem, layer - 1)->local) {
        layer--;
    }
    return problem->pull && layer == 0;
}

/* Return the fixed time of a request that begins with this layer. */
static double request_of(const struct segments_problem *problem, size_t layer)
{
    const struct segments_link *link = link_of(problem, layer);
    return link->local                        ? 0
           : is_first_request(problem, layer) ? problem->first_request_seconds
                                              : link->request_seconds;
}

static double bytes_seconds(const struct segments_problem *problem, size_t layer)
{
    const struct segments_link *link = link_of(problem, layer);
    return link->local ? 0 : problem->bytes[layer] / link->bytes_per_second;
}

static double transfer_seconds(const struct segments_problem *problem, size_t first, size_t end)
{
    double seconds = request_of(problem, first);
    for (size_t l = first; l < end; l++) {
        seconds += bytes_seconds(problem, l);
    }
    return seconds;
}

/* One past the last layer of the server that keeps the layer. */
static size_t range_end(const struct segments_problem *problem, size_t layer)
{
    size_t end = layer + 1;
    while (end < problem->count && problem->server[end] == problem->server[layer]) {
        end++;
    }
    return end;
}

static size_t range_begin(const struct segments_problem *problem, size_t layer)
{
    while (layer > 0 && problem->server[layer - 1] == problem->server[layer]) {
        layer--;
    }
    return layer;
}

static void prepare(const struct segments_problem *problem, struct segments_scratch *scratch)
{
    const size_t count = problem->count;
    ASSERT(count >= 1 && count <= scratch->layers);
    scratch->time[count] = problem->pull ? 0 : problem->busy_seconds;
    scratch->ready[count] = 0;
    for (size_t j = count; j-- > 0;) {
        scratch->ready[j] = scratch->ready[j + 1] + problem->seconds[j];
    }
    scratch->sent[0] = 0;
    for (size_t j = 0; j < count; j++) {
        scratch->sent[j + 1] = scratch->sent[j] + bytes_seconds(problem, j);
    }
}

/* ---- the optimum ---- */

/* Find T of the layers [begin, end) of one server. A segment begins at layer j and ends at i. T
 * never decreases towards the first layer. So T[i] <= R[j] holds for every i from `least` on, and
 * the best of these ends is `least` itself. The best end i below `least` has the smallest T[i] +
 * P[i] in the window (j, least). A queue of candidates keeps this minimum, because both ends of the
 * window only move down. */
static void solve_range(const struct segments_problem *problem, struct segments_scratch *scratch,
                        size_t begin, size_t end)
{
    double *time = scratch->time;
    const double *ready = scratch->ready, *sent = scratch->sent;
    size_t *queue = scratch->queue; /* from the largest i, which is the cheapest, to the smallest */
    size_t tail = 0, head = 0;      /* [tail, head) */
    size_t least = end + 1;         /* above `end`: no T[i] <= R[j] yet */
    for (size_t j = end; j-- > begin;) {
        const double cost = time[j + 1] + sent[j + 1];
        while (head > tail && time[queue[head - 1]] + sent[queue[head - 1]] >= cost) {
            head--;
        }
        queue[head++] = j + 1;
        while (least > j + 1 && time[least - 1] <= ready[j]) {
            least--;
        }
        while (tail < head && queue[tail] >= least) {
            tail++;
        }
        double best = INFINITY;
        if (least <= end) {
            best = ready[j] + sent[least];
        }
        if (tail < head) {
            const double waits = time[queue[tail]] + sent[queue[tail]];
            best = waits < best ? waits : best;
        }
        time[j] = best - sent[j] + request_of(problem, j);
    }
}

/* Choose the fewest segments that keep the optimal time: from the first layer on, take the longest
 * segment whose transfer may begin late enough. */
static size_t fewest(const struct segments_problem *problem, const struct segments_scratch *scratch,
                     size_t *out)
{
    const double *time = scratch->time, *ready = scratch->ready, *sent = scratch->sent;
    const double slack = SLACK * (time[0] + 1e-300);
    double deadline = time[0];
    size_t count = 0;
    for (size_t j = 0; j < problem->count;) {
        const size_t end = range_end(problem, j);
        const double request = request_of(problem, j);
        size_t chosen = j + 1;
        double begins = deadline - request - (sent[j + 1] - sent[j]);
        for (size_t i = j + 1; i <= end; i++) {
            const double at = deadline - request - (sent[i] - sent[j]);
            if (at < ready[j] - slack) {
                break;
            }
            if (at >= time[i] - slack) {
                chosen = i;
                begins = at;
            }
        }
        deadline = begins;
        out[count++] = chosen;
        j = chosen;
    }
    return count;
}

double segments_solve(const struct segments_problem *problem, struct segments_scratch *scratch,
                      size_t *end, size_t *count)
{
    prepare(problem, scratch);
    for (size_t after = problem->count; after > 0;) {
        const size_t begin = range_begin(problem, after - 1);
        solve_range(problem, scratch, begin, after);
        after = begin;
    }
    *count = fewest(problem, scratch, end);
    return scratch->time[0];
}

double segments_solve_slowly(const struct segments_problem *problem,
                             struct segments_scratch *scratch)
{
    prepare(problem, scratch);
    double *time = scratch->time;
    for (size_t j = problem->count; j-- > 0;) {
        const size_t end = range_end(problem, j);
        time[j] = INFINITY;
        for (size_t i = j + 1; i <= end; i++) {
            const double begins = time[i] > scratch->ready[j] ? time[i] : scratch->ready[j];
            const double ends = begins + transfer_seconds(problem, j, i);
            time[j] = ends < time[j] ? ends : time[j];
        }
    }
    return time[0];
}

/* ---- given segments ---- */

static double evaluate_push(const struct segments_problem *problem, const size_t *end, size_t count)
{
    double time = problem->busy_seconds, ready = 0;
    size_t layer = problem->count;
    for (size_t k = count; k-- > 0;) {
        const size_t first = k == 0 ? 0 : end[k - 1];
        while (layer > first) {
            ready += problem->seconds[--layer];
        }
        time = (time > ready ? time : ready) + transfer_seconds(problem, first, end[k]);
    }
    return time;
}

static double evaluate_pull(const struct segments_problem *problem, const size_t *end, size_t count)
{
    double arrived = 0, computed = 0;
    size_t layer = 0;
    for (size_t k = 0; k < count; k++) {
        arrived += transfer_seconds(problem, layer, end[k]);
        computed = computed > arrived ? computed : arrived;
        while (layer < end[k]) {
            computed += problem->seconds[layer++];
        }
    }
    return computed;
}

double segments_evaluate(const struct segments_problem *problem, const size_t *end, size_t count)
{
    return problem->pull ? evaluate_pull(problem, end, count) : evaluate_push(problem, end, count);
}

/* ---- other ways ---- */

static size_t choose_layers(const struct segments_problem *problem, size_t *end)
{
    for (size_t j = 0; j < problem->count; j++) {
        end[j] = j + 1;
    }
    return problem->count;
}

static size_t choose_whole(const struct segments_problem *problem, size_t *end)
{
    size_t count = 0;
    for (size_t j = 0; j < problem->count; j = end[count - 1]) {
        end[count++] = range_end(problem, j);
    }
    return count;
}

static void reverse(size_t *list, size_t count)
{
    for (size_t i = 0; i < count / 2; i++) {
        const size_t swap = list[i];
        list[i] = list[count - 1 - i];
        list[count - 1 - i] = swap;
    }
}

/* Fill buckets in the order of the transfers. A push begins with the last layer. */
static size_t choose_fixed(const struct segments_problem *problem, double bytes, size_t *end)
{
    size_t count = 0;
    double filled = 0;
    for (size_t k = 0; k < problem->count; k++) {
        const size_t j = problem->pull ? k : problem->count - 1 - k;
        const bool last = k + 1 == problem->count;
        const size_t next = problem->pull ? j + 1 : j - 1;
        filled += problem->bytes[j];
        if (filled >= bytes || last || problem->server[next] != problem->server[j]) {
            end[count++] = problem->pull ? j + 1 : j;
            filled = 0;
        }
    }
    if (!problem->pull) { /* `end` has first layers, down to 0: turn them into ends */
        reverse(end, count);
        memmove(end, end + 1, (count - 1) * sizeof(*end));
        end[count - 1] = problem->count;
    }
    return count;
}

/* In push time: whenever the link is free, transfer all layers that are ready and belong to the
 * server of the next layer. */
static size_t choose_ready(const struct segments_problem *problem, struct segments_scratch *scratch,
                           size_t *end)
{
    size_t count = 0;
    prepare(problem, scratch);
    double time = scratch->time[problem->count];
    for (size_t after = problem->count; after > 0;) {
        const size_t begin = range_begin(problem, after - 1);
        size_t first = after - 1;
        time = time > scratch->ready[first] ? time : scratch->ready[first];
        while (first > begin && scratch->ready[first - 1] <= time) {
            first--;
        }
        end[count++] = after;
        time += transfer_seconds(problem, first, after);
        after = first;
    }
    reverse(end, count);
    return count;
}

static size_t choose_greedy(const struct segments_problem *problem, size_t *end)
{
    size_t count = choose_layers(problem, end);
    double seconds = segments_evaluate(problem, end, count);
    for (;;) {
        size_t best = count;
        for (size_t k = 0; k + 1 < count; k++) {
            const size_t border = end[k];
            if (problem->server[border - 1] != problem->server[border]) {
                continue;
            }
            memmove(end + k, end + k + 1, (count - 1 - k) * sizeof(*end));
            const double joined = segments_evaluate(problem, end, count - 1);
            memmove(end + k + 1, end + k, (count - 1 - k) * sizeof(*end));
            end[k] = border;
            if (joined < seconds) {
                seconds = joined;
                best = k;
            }
        }
        if (best == count) {
            return count;
        }
        memmove(end + best, end + best + 1, (count - 1 - best) * sizeof(*end));
        count--;
    }
}

void segments_choose(const struct segments_problem *problem, enum segments_transfers transfers,
                     double bytes, struct segments_scratch *scratch, size_t *end, size_t *count)
{
    switch (transfers) {
    case SEGMENTS_OPTIMAL: (void)segments_solve(problem, scratch, end, count); break;
    case SEGMENTS_LAYER:
    case SEGMENTS_LAYER_WINDOW: *count = choose_layers(problem, end); break;
    case SEGMENTS_GREEDY: *count = choose_greedy(problem, end); break;
    case SEGMENTS_READY: *count = choose_ready(problem, scratch, end); break;
    case SEGMENTS_STREAM:
    case SEGMENTS_WHOLE: *count = choose_whole(problem, end); break;
    case SEGMENTS_FIXED: *count = choose_fixed(problem, bytes, end); break;
    }
}

/* ---- overlapping requests ---- */

static double at_least(double a, double b)
{
    return a > b ? a : b;
}

double segments_window(const struct segments_problem *problem, size_t window)
{
    double answered[SEGMENTS_WINDOW] = {0}; /* seconds at which each of the newest requests ended */
    double link = problem->pull ? 0 : problem->busy_seconds, computed = 0, last = link;
    ASSERT(window >= 1 && window <= SEGMENTS_WINDOW);
    for (size_t k = 0; k < problem->count; k++) {
        const size_t j = problem->pull ? k : problem->count - 1 - k;
        const bool local = link_of(problem, j)->local;
        if (!problem->pull) {
            computed += problem->seconds[j];
        }
        double begins = at_least(answered[k % window], problem->pull ? 0 : computed);
        begins = k == 0 ? at_least(begins, link) : begins;
        double done = begins;
        if (!local) {
            link = at_least(link, begins + request_of(problem, j)) + bytes_seconds(problem, j);
            done = link;
        }
        answered[k % window] = done;
        last = at_least(last, done);
        if (problem->pull) {
            computed = at_least(computed, done) + problem->seconds[j];
        }
    }
    return at_least(computed, last);
}

/* Return when layer j of a stream has been transferred, if the stream's transfers before it ended
 * at `time`. opens: layer j is the first of its stream. */
static double stream_layer(const struct segments_problem *problem, size_t j, bool opens,
                           double time)
{
    const bool requests = opens && !link_of(problem, j)->local;
    return time + (requests ? request_of(problem, j) : 0) + bytes_seconds(problem, j);
}

static double stream_pull(const struct segments_problem *problem)
{
    double time = 0, computed = 0;
    for (size_t j = 0; j < problem->count; j++) {
        const bool opens = j == 0 || problem->server[j - 1] != problem->server[j];
        time = stream_layer(problem, j, opens, opens ? 0 : time);
        computed = at_least(computed, time) + problem->seconds[j];
    }
    return computed;
}

static double stream_push(const struct segments_problem *problem)
{
    double time = 0, computed = 0, answered = 0;
    size_t requests = 0;
    for (size_t j = problem->count; j-- > 0;) {
        const bool opens = j + 1 == problem->count || problem->server[j + 1] != problem->server[j];
        computed += problem->seconds[j];
        time = at_least(opens ? problem->busy_seconds : time, computed);
        time = stream_layer(problem, j, opens, time);
        requests += opens && !link_of(problem, j)->local;
        answered = at_least(answered, time);
    }
    const struct segments_link *last = link_of(problem, 0);
    return answered + (requests > 1 && !last->local ? last->request_seconds : 0);
}

double segments_stream(const struct segments_problem *problem)
{
    return problem->pull ? stream_pull(problem) : stream_push(problem);
}
