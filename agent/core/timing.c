#include "agent/core/timing.h"

#include <string.h>

#include "base/assert.h"
#include "base/sort.h"

static int by_value(const void *a, const void *b)
{
    const double left = *(const double *)a;
    const double right = *(const double *)b;
    return (left > right) - (left < right);
}

/* Return the median; for an even count the upper of the two middle values. Sorts the values. */
static double median(double *values, size_t count)
{
    sort_in_place(values, count, sizeof(values[0]), by_value);
    return values[count / 2];
}

/* ---- windows of slices ---- */

/* Return the slot of the i-th slice, counted from the oldest. */
static size_t slot_of(const struct timing_track *track, size_t i)
{
    return (track->oldest + i) % TIMING_SLICES;
}

/* Return whether the slices after the oldest already form a whole window. */
static bool is_oldest_spare(const struct timing_track *track, double ended_seconds)
{
    double samples = 0;
    for (size_t i = 1; i < track->slices; i++) {
        samples += track->slice[slot_of(track, i)].count;
    }
    return samples >= TIMING_SAMPLES &&
           ended_seconds - track->slice[slot_of(track, 1)].began_seconds >= TIMING_SECONDS;
}

/* Return the sums of the slice for a sample of that time. */
static double *open_slice(struct timing_track *track, double *sums, size_t width,
                          double began_seconds, double ended_seconds)
{
    if (track->slices == 1 && !track->warm) {
        track->slices = 0;
        track->warm = true;
    }
    size_t newest = slot_of(track, track->slices + TIMING_SLICES - 1);
    const double before = began_seconds - track->slice[newest].began_seconds;
    if (track->slices == 0 || before >= TIMING_SLICE_SECONDS ||
        ended_seconds - began_seconds >= TIMING_SLICE_SECONDS) {
        ASSERT(track->slices < TIMING_SLICES);
        newest = slot_of(track, track->slices++);
        track->slice[newest].began_seconds = began_seconds;
        track->slice[newest].count = 0;
        memset(sums + newest * width, 0, width * sizeof(sums[0]));
    }
    track->slice[newest].count++;
    while (is_oldest_spare(track, ended_seconds)) {
        track->oldest = slot_of(track, 1);
        track->slices--;
    }
    return sums + newest * width;
}

static void add_sample(struct timing_track *track, double *sums, size_t width,
                       const struct timing_task *task, const double *values)
{
    double *sum = open_slice(track, sums, width, task->began_seconds, task->ended_seconds);
    for (size_t i = 0; i < width; i++) {
        sum[i] += values[i];
    }
}

/* Return the mean of a value. Slices are clipped by the medians of the value `key`, which may be
 * the same. */
static double mean(const struct timing_track *track, const double *sums, size_t width, size_t value,
                   size_t key)
{
    double keys[TIMING_SLICES];
    double sorted[TIMING_SLICES];
    for (size_t i = 0; i < track->slices; i++) {
        const size_t slot = slot_of(track, i);
        keys[i] = sums[slot * width + key] / track->slice[slot].count;
    }
    memcpy(sorted, keys, track->slices * sizeof(keys[0]));
    const double most = track->slices > 0 ? TIMING_CLIP * median(sorted, track->slices) : 0;
    double sum = 0;
    double count = 0;
    for (size_t i = 0; i < track->slices; i++) {
        const size_t slot = slot_of(track, i);
        sum += sums[slot * width + value] * (keys[i] > most ? most / keys[i] : 1);
        count += track->slice[slot].count;
    }
    return count > 0 ? sum / count : 0;
}

/* ---- the work of a stage ---- */

void timing_begin(struct timing *timing, size_t units)
{
    ASSERT(units <= UNITS_MAX);
    timing->units = units;
}

static void end_step(struct timing *timing, const struct timing_task *task)
{
    const struct timing_task step = {.began_seconds = timing->step_began_seconds,
                                     .ended_seconds = task->ended_seconds};
    if (timing->in_step) {
        timing->share[TIMING_STEP] = step.ended_seconds - step.began_seconds;
        add_sample(&timing->step, timing->step_sum, TIMING_SHARES, &step, timing->share);
    }
    memset(timing->share, 0, sizeof(timing->share));
    timing->step_began_seconds = task->ended_seconds;
    timing->in_step = true;
}

static void add_pass(struct timing *timing, struct timing_track *track, double *sums,
                     const struct timing_task *task)
{
    double values[TIMING_PASS_VALUES];
    for (size_t i = 0; i < timing->units; i++) {
        values[i] = task->unit_seconds[i] * task->scale;
    }
    memcpy(values + timing->units, timing->pass, sizeof(timing->pass));
    memset(timing->pass, 0, sizeof(timing->pass));
    add_sample(track, sums, timing->units + TIMING_PASS_SHARES, task, values);
}

void timing_add(struct timing *timing, const struct timing_task *task)
{
    double update_seconds;
    timing->fresh = true;
    timing->share[TIMING_COMPUTE] += task->seconds + task->stopped_seconds;
    timing->pass[TIMING_PASS_STOPPED] += task->stopped_seconds;
    timing->pass[TIMING_PASS_WHOLE] += task->seconds + task->stopped_seconds;
    switch (task->work) {
    case TIMING_FORWARD: add_pass(timing, &timing->forward, timing->forward_sum, task); break;
    case TIMING_BACKWARD: add_pass(timing, &timing->backward, timing->backward_sum, task); break;
    case TIMING_SUM: timing->sum_seconds = task->seconds; break;
    case TIMING_UPDATE:
        update_seconds = timing->sum_seconds + task->seconds;
        add_sample(&timing->update, timing->update_sum, 1, task, &update_seconds);
        end_step(timing, task);
        break;
    case TIMING_EVALUATE:
        timing->in_step = false;
        memset(timing->pass, 0, sizeof(timing->pass));
        break;
    case TIMING_NEXT: end_step(timing, task); break;
    case TIMING_OTHER: break;
    }
}

void timing_wait(struct timing *timing, enum timing_share share, double seconds)
{
    if (share == TIMING_SHARES) {
        timing->in_step = false;
    } else {
        timing->share[share] += seconds;
    }
}

static double step_mean(const struct timing *timing, enum timing_share share)
{
    return mean(&timing->step, timing->step_sum, TIMING_SHARES, share, TIMING_STEP);
}

static double pass_mean(const struct timing *timing, const struct timing_track *track,
                        const double *sums, size_t value, size_t key)
{
    return mean(track, sums, timing->units + TIMING_PASS_SHARES, value, key);
}

/* Return the part of the time of all passes for which they were stopped. */
static double stopped_share(const struct timing *timing)
{
    const size_t stopped = timing->units + TIMING_PASS_STOPPED;
    const size_t whole = timing->units + TIMING_PASS_WHOLE;
    const double sum = pass_mean(timing, &timing->forward, timing->forward_sum, stopped, whole) +
                       pass_mean(timing, &timing->backward, timing->backward_sum, stopped, whole);
    const double of = pass_mean(timing, &timing->forward, timing->forward_sum, whole, whole) +
                      pass_mean(timing, &timing->backward, timing->backward_sum, whole, whole);
    return of > 0 ? sum / of : 0;
}

void timing_report(struct timing *timing, size_t first, struct heartbeat *out)
{
    if (!timing->fresh || timing->forward.slices == 0 || timing->backward.slices == 0) {
        return;
    }
    timing->fresh = false;
    const size_t units = timing->units;
    const double compute = step_mean(timing, TIMING_COMPUTE);
    out->unit_seconds_count = units;
    for (size_t i = 0; i < units; i++) {
        out->unit_seconds[i] = (struct unit_seconds){
            .unit = (int64_t)(first + i),
            .forward_seconds = pass_mean(timing, &timing->forward, timing->forward_sum, i, i),
            .backward_seconds = pass_mean(timing, &timing->backward, timing->backward_sum, i, i)};
    }
    out->update_seconds = mean(&timing->update, timing->update_sum, 1, 0, 0);
    out->stage_seconds = (struct stage_seconds){.step = step_mean(timing, TIMING_STEP),
                                                .compute = compute,
                                                .stopped = compute * stopped_share(timing),
                                                .wait_input = step_mean(timing, TIMING_INPUT),
                                                .wait_gradient = step_mean(timing, TIMING_GRADIENT),
                                                .wait_room = step_mean(timing, TIMING_ROOM)};
}

/* ---- links ---- */

void timing_window_add(struct timing_window *window, double seconds)
{
    window->seconds[window->next] = seconds;
    window->next = (window->next + 1) % TIMING_WINDOW;
    if (window->count < TIMING_WINDOW) {
        window->count++;
    }
}

double timing_window_clipped_mean(const struct timing_window *window)
{
    if (window->count == 0) {
        return 0;
    }
    double sorted[TIMING_WINDOW];
    memcpy(sorted, window->seconds, window->count * sizeof(sorted[0]));
    const double most = TIMING_CLIP * median(sorted, window->count);
    double sum = 0;
    for (size_t i = 0; i < window->count; i++) {
        sum += sorted[i] < most ? sorted[i] : most;
    }
    return sum / (double)window->count;
}

void timing_link_add(struct timing_link *link, double bytes, double seconds)
{
    link->report.count++;
    link->report.bytes_sum += bytes;
    link->report.bytes_squared_sum += bytes * bytes;
    timing_window_add(&link->transfer, seconds);
}

/* All tensors of a boundary have the same size, except their headers, so their times show no effect
 * of size. Each transfer counts with the clipped mean of the newest ones, so that a short stall of
 * the neighbour does not count as slowness of the link. */
void timing_link_report(struct timing_link *link, struct heartbeat *out)
{
    struct link_report *report = &link->report;
    const double seconds = timing_window_clipped_mean(&link->transfer);
    if (report->count == 0 || out->link_count == LINK_REPORTS_MAX) {
        return;
    }
    report->seconds_sum = (double)report->count * seconds;
    report->bytes_seconds_sum = report->bytes_sum * seconds;
    out->link[out->link_count++] = *report;
    report->count = 0;
    report->bytes_sum = report->bytes_squared_sum = 0;
}

void timing_transfer_add(struct timing_transfers *transfers, enum link_kind kind,
                         const struct device_id *device, double bytes, double seconds)
{
    size_t at = 0;
    while (at < transfers->count && (transfers->row[at].kind != (int)kind ||
                                     !id_equal(transfers->row[at].device.text, device->text))) {
        at++;
    }
    if (at == LINK_REPORTS_MAX) {
        return;
    }
    if (at == transfers->count) {
        transfers->row[transfers->count++] =
            (struct link_report){.device = *device, .kind = (int)kind};
    }
    struct link_report *row = &transfers->row[at];
    row->count++;
    row->seconds_sum += seconds;
    row->bytes_sum += bytes;
    row->bytes_squared_sum += bytes * bytes;
    row->bytes_seconds_sum += bytes * seconds;
}

void timing_transfers_report(struct timing_transfers *transfers, struct heartbeat *out)
{
    while (transfers->count > 0 && out->link_count < LINK_REPORTS_MAX) {
        out->link[out->link_count++] = transfers->row[--transfers->count];
    }
}
