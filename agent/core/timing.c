#include "agent/core/timing.h"

#include <string.h>

#include "base/sort.h"

void timing_window_add(struct timing_window *window, double seconds)
{
    window->seconds[window->next] = seconds;
    window->next = (window->next + 1) % TIMING_WINDOW;
    if (window->count < TIMING_WINDOW) {
        window->count++;
    }
}

static int by_value(const void *a, const void *b)
{
    const double left = *(const double *)a;
    const double right = *(const double *)b;
    return (left > right) - (left < right);
}

static void sort(const struct timing_window *window, double sorted[TIMING_WINDOW])
{
    memcpy(sorted, window->seconds, window->count * sizeof(sorted[0]));
    sort_in_place(sorted, window->count, sizeof(sorted[0]), by_value);
}

double timing_window_clipped_mean(const struct timing_window *window)
{
    if (window->count == 0) {
        return 0;
    }
    double sorted[TIMING_WINDOW];
    sort(window, sorted);
    const double most = TIMING_CLIP * sorted[window->count / 2];
    double sum = 0;
    for (size_t i = 0; i < window->count; i++) {
        sum += sorted[i] < most ? sorted[i] : most;
    }
    return sum / (double)window->count;
}

void timing_add(struct timing *timing, enum pipeline_work work, double seconds)
{
    switch (work) {
    case PIPELINE_FORWARD: timing_window_add(&timing->window[TIMING_FORWARD], seconds); break;
    case PIPELINE_BACKWARD: timing_window_add(&timing->window[TIMING_BACKWARD], seconds); break;
    case PIPELINE_SUM: timing->sum_seconds = seconds; break;
    case PIPELINE_UPDATE:
        timing_window_add(&timing->window[TIMING_UPDATE], timing->sum_seconds + seconds);
        break;
    case PIPELINE_WAIT:
    case PIPELINE_TOTAL:
    case PIPELINE_EVALUATE:
    case PIPELINE_STOP: break;
    }
}

double timing_mean(const struct timing *timing, enum timing_kind kind)
{
    const struct timing_window *window = &timing->window[kind];
    if (window->count == 0) {
        return 0;
    }
    double sorted[TIMING_WINDOW];
    sort(window, sorted);
    const size_t trimmed = window->count / 4;
    double sum = 0;
    for (size_t i = trimmed; i < window->count - trimmed; i++) {
        sum += sorted[i];
    }
    return sum / (double)(window->count - 2 * trimmed);
}

void timing_report(const struct timing *timing, const struct timing_share *share, size_t first,
                   size_t end, struct heartbeat *out)
{
    const double forward = timing_mean(timing, TIMING_FORWARD);
    const double backward = timing_mean(timing, TIMING_BACKWARD);
    if (forward <= 0 || backward <= 0) {
        return;
    }
    out->update_seconds = timing_mean(timing, TIMING_UPDATE);
    out->unit_seconds_count = end - first;
    for (size_t i = 0; i < out->unit_seconds_count; i++) {
        out->unit_seconds[i] =
            (struct unit_seconds){.unit = (int64_t)(first + i),
                                  .forward_seconds = forward * share[i].forward,
                                  .backward_seconds = backward * share[i].backward};
    }
}

/* ---- links ---- */

void timing_link_add(struct timing_link *link, double bytes, double seconds)
{
    link->report.count++;
    link->report.bytes_sum += bytes;
    link->report.bytes_squared_sum += bytes * bytes;
    timing_window_add(&link->transfer, seconds);
}

/* All tensors of a boundary have one size, except their headers: their times show no effect of
 * size. Each counts with the mean of the newest, in which a moment when the neighbour stood still
 * is not taken for the link. */
void timing_link_report(struct timing_link *link, struct heartbeat *out)
{
    struct link_report *report = &link->report;
    const double seconds = timing_window_clipped_mean(&link->transfer);
    if (report->count == 0) {
        return;
    }
    report->seconds_sum = (double)report->count * seconds;
    report->bytes_seconds_sum = report->bytes_sum * seconds;
    out->link[out->link_count++] = *report;
    *report = (struct link_report){.device = report->device};
}
