#include "coordinator/plan/servers_step.h"

#include "base/assert.h"

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

/* ---- links ---- */

static size_t other_end(const struct partition_pair *pair, size_t device)
{
    return pair->a == device ? pair->b : pair->b == device ? pair->a : SIZE_MAX;
}

void servers_step_links(const struct servers_problem *problem, size_t server,
                        struct link_speed *link)
{
    for (size_t d = 0; d < problem->device_count; d++) {
        link[d] = problem->usual_link;
    }
    for (size_t i = 0; i < problem->pair_count; i++) {
        const size_t other = other_end(&problem->pair[i], server);
        if (other < problem->device_count) {
            link[other] = problem->pair[i].link;
        }
    }
    const double rate = problem->bytes_per_second[server];
    for (size_t d = 0; d < problem->device_count; d++) {
        const double own = smaller(rate, problem->bytes_per_second[d]);
        link[d].bytes_per_second = smaller(link[d].bytes_per_second, own);
    }
}

double servers_step_bytes(const struct servers_problem *problem, size_t first, size_t end)
{
    double bytes = 0;
    for (size_t l = 0; l < problem->layer_count; l++) {
        const size_t unit = problem->layer_unit[l];
        bytes += unit >= first && unit < end ? problem->layer_bytes[l] : 0;
    }
    return bytes;
}

/* A stream requests from all servers at once, within the rate of the worker's own link. */
static void share_own(const struct servers_problem *problem, const struct servers_layout *layout,
                      size_t worker, struct segments_link *link)
{
    const double own = problem->bytes_per_second[layout->worker[worker]];
    double sum = 0;
    for (size_t s = 0; s < layout->server_count; s++) {
        sum += link[s].local ? 0 : link[s].bytes_per_second;
    }
    for (size_t s = 0; s < layout->server_count && sum > own; s++) {
        link[s].bytes_per_second *= own / sum;
    }
}

/* Workers on other devices than the server. */
static size_t remote_workers(const struct servers_layout *layout, size_t server)
{
    size_t count = 0;
    for (size_t w = 0; w < layout->worker_count; w++) {
        count += layout->worker[w] != layout->server[server];
    }
    return count;
}

static void set_links(const struct servers_problem *problem, const struct servers_layout *layout,
                      size_t worker, struct servers_transfers *transfers)
{
    for (size_t s = 0; s < layout->server_count; s++) {
        const size_t device = layout->server[s], own = layout->worker[worker];
        const double at_a_time = larger(1, (double)remote_workers(layout, s));
        const bool local = device == own;
        const struct link_speed link = transfers->link_of[s][own];
        transfers->link[s] = (struct segments_link){
            .request_seconds = link.latency_seconds,
            .bytes_per_second =
                smaller(link.bytes_per_second, problem->bytes_per_second[device] / at_a_time),
            .local = local};
    }
    if (layout->transfers == SEGMENTS_STREAM) {
        share_own(problem, layout, worker, transfers->link);
    }
}

static void set_servers(const struct servers_problem *problem, const struct servers_layout *layout,
                        struct servers_transfers *transfers)
{
    for (size_t l = 0, s = 0; l < problem->layer_count; l++) {
        while (problem->layer_unit[l] >= layout->end[s]) {
            s++;
            ASSERT(s < layout->server_count);
        }
        transfers->server[l] = s;
    }
}

/* ---- a worker ---- */

static struct segments_problem direction(const struct servers_times *times, size_t worker,
                                         bool pull)
{
    const struct servers_problem *problem = times->problem;
    const struct servers_transfers *transfers = times->transfers;
    const size_t row = times->layout->worker[worker] * problem->layer_count;
    return (struct segments_problem){
        .count = problem->layer_count,
        .bytes = problem->layer_bytes,
        .seconds = (pull ? problem->forward_seconds : problem->backward_seconds) + row,
        .server = transfers->server,
        .link = transfers->link,
        .pull = pull,
        .first_request_seconds = transfers->link[transfers->server[0]].request_seconds / 2,
    };
}

/* Return the seconds of one direction, and set its number of requests. */
static double transfer(const struct servers_times *times, const struct segments_problem *of,
                       size_t *requests)
{
    const struct servers_transfers *transfers = times->transfers;
    const enum segments_transfers way = times->layout->transfers;
    size_t count = 0;
    double seconds = 0;
    if (way == SEGMENTS_OPTIMAL) {
        seconds = segments_solve(of, transfers->segments, transfers->end, &count);
    } else {
        segments_choose(of, way, times->problem->segment_bytes, transfers->segments, transfers->end,
                        &count);
        seconds = way == SEGMENTS_STREAM         ? segments_stream(of)
                  : way == SEGMENTS_LAYER_WINDOW ? segments_window(of, SEGMENTS_WINDOW)
                                                 : segments_evaluate(of, transfers->end, count);
    }
    *requests = 0;
    for (size_t k = 0; k < count; k++) {
        *requests += !transfers->link[transfers->server[transfers->end[k] - 1]].local;
    }
    return seconds;
}

void servers_step_times(const struct servers_problem *problem, const struct servers_layout *layout,
                        struct servers_transfers *transfers, struct servers_times *out)
{
    out->problem = problem;
    out->layout = layout;
    out->transfers = transfers;
    set_servers(problem, layout, transfers);
    for (size_t w = 0; w < layout->worker_count; w++) {
        set_links(problem, layout, w, transfers);
        const struct segments_problem pull = direction(out, w, true);
        const struct segments_problem push = direction(out, w, false);
        out->pull_seconds[w] = transfer(out, &pull, &out->pull_segments[w]);
        out->push_seconds[w] = transfer(out, &push, &out->push_segments[w]);
        out->least_seconds[w] = out->pull_seconds[w] + out->push_seconds[w];
        out->each_seconds[w] = 0;
        for (size_t l = 0; l < problem->layer_count; l++) {
            out->each_seconds[w] += pull.seconds[l] + push.seconds[l];
        }
    }
}

double servers_step_push(const struct servers_times *times, size_t worker, double left)
{
    size_t requests;
    if (left <= 0) {
        return times->push_seconds[worker];
    }
    set_links(times->problem, times->layout, worker, times->transfers);
    struct segments_problem push = direction(times, worker, false);
    push.busy_seconds = left;
    return transfer(times, &push, &requests);
}

double servers_step_share(const struct servers_times *times, size_t worker,
                          struct reduce_range share, double *left)
{
    struct reduce_range block[REDUCE_BLOCKS_MAX];
    const size_t blocks = reduce_blocks(times->problem->micro_batches, share, block);
    const double each = times->each_seconds[worker];
    double busy = 0;
    for (size_t i = 0; i + 1 < blocks; i++) {
        /* From the last backward pass of this block to that of the next one. */
        const double between = each * (double)(block[i + 1].end - block[i + 1].first);
        busy = larger(0, servers_step_push(times, worker, busy) - between);
    }
    if (left) {
        *left = busy;
    }
    return times->pull_seconds[worker] + each * (double)(share.end - share.first - 1) +
           servers_step_push(times, worker, busy);
}

/* ---- the step ---- */

/* Sums of a step that workers on other devices send, and those of all. */
struct blocks {
    size_t remote, all;
};

static struct blocks count_blocks(const struct servers_times *times,
                                  const struct reduce_range *share, size_t device)
{
    struct reduce_range block[REDUCE_BLOCKS_MAX];
    struct blocks out = {0};
    for (size_t w = 0; w < times->layout->worker_count; w++) {
        const size_t blocks = reduce_blocks(times->problem->micro_batches, share[w], block);
        out.all += blocks;
        out.remote += times->layout->worker[w] != device ? blocks : 0;
    }
    return out;
}

/* The busier direction of a server's link. */
static double link_seconds(const struct servers_times *times, const struct reduce_range *share,
                           size_t server)
{
    const struct servers_layout *layout = times->layout;
    const size_t device = layout->server[server];
    const size_t first = server == 0 ? 0 : layout->end[server - 1];
    const double bytes = servers_step_bytes(times->problem, first, layout->end[server]);
    size_t pulls = 0;
    for (size_t w = 0; w < layout->worker_count; w++) {
        pulls += layout->worker[w] != device && share[w].first < share[w].end;
    }
    const size_t pushes = count_blocks(times, share, device).remote;
    const double times_sent = (double)(pulls > pushes ? pulls : pushes);
    return times_sent * bytes / times->problem->bytes_per_second[device];
}

/* Return the seconds from the last `done` to a server's new parameters: it receives the commit,
 * adds the sums that the last contribution completes, exchanges norms and updates. */
static double commit_seconds(const struct servers_times *times, const struct reduce_range *share,
                             size_t server)
{
    const struct servers_problem *problem = times->problem;
    const struct servers_layout *layout = times->layout;
    const size_t device = layout->server[server];
    const size_t first = server == 0 ? 0 : layout->end[server - 1];
    const size_t blocks = count_blocks(times, share, device).all;
    double seconds = 0;
    if (server > 0) {
        seconds += times->transfers->link_of[0][device].latency_seconds / 2;
    }
    size_t additions = 0;
    while ((size_t)1 << additions < blocks) {
        additions++;
    }
    for (size_t u = first; u < layout->end[server]; u++) {
        const size_t at = device * problem->unit_count + u;
        seconds += problem->update_seconds[at] + (double)additions * problem->add_seconds[at];
    }
    return seconds;
}

/* From the last server to the first and back. */
static double norm_seconds(const struct servers_times *times)
{
    const struct servers_layout *layout = times->layout;
    double seconds = 0;
    for (size_t s = 1; times->problem->clips_norm && s < layout->server_count; s++) {
        seconds += times->transfers->link_of[s - 1][layout->server[s]].latency_seconds;
    }
    return seconds;
}

struct servers_total servers_step_total(const struct servers_times *times,
                                        const struct reduce_range *share)
{
    struct servers_total out = {0};
    for (size_t w = 0; w < times->layout->worker_count; w++) {
        if (share[w].first < share[w].end) {
            out.workers_seconds =
                larger(out.workers_seconds, servers_step_share(times, w, share[w], NULL));
        }
    }
    for (size_t s = 0; s < times->layout->server_count; s++) {
        out.commit_seconds = larger(out.commit_seconds, commit_seconds(times, share, s));
        const double link = link_seconds(times, share, s);
        out.busiest_link = link > out.link_seconds ? s : out.busiest_link;
        out.link_seconds = larger(out.link_seconds, link);
    }
    out.commit_seconds += norm_seconds(times);
    out.step_seconds = larger(out.workers_seconds + out.commit_seconds, out.link_seconds);
    return out;
}
