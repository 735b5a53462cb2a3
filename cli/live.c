#include "cli/live.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/utf8.h"

#define LINE_BYTES 2048
#define BAR_MAX 40
#define BAR_MIN 6
#define NAME_MAX_COLUMNS 16
#define LEVELS 8

enum colour { PLAIN, BOLD, GREEN, YELLOW, RED };

/* The page so far. */
struct page {
    const struct live_style *style;
    struct buf *out;
    struct err *err;
    size_t rows;
    int rc;
};

/* ---- lines ---- */

/* Truncate to columns, and leave out spaces at the end; each character counts as one column. */
static void cut(char *text, size_t columns)
{
    const char *begin = text;
    size_t left = strlen(text), size;
    for (; left > 0 && columns > 0; left -= size, text += size, columns--) {
        size = utf8_sequence(text, left);
        size = size ? size : 1;
    }
    while (text > begin && text[-1] == ' ') {
        text--;
    }
    *text = '\0';
}

/* Add one line, in one colour. */
PRINTF_LIKE(3, 4)
static void add_line(struct page *page, enum colour colour, const char *format, ...)
{
    static const char *const codes[] = {
        [PLAIN] = "", [BOLD] = "1", [GREEN] = "32", [YELLOW] = "33", [RED] = "31"};
    char line[LINE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    if (page->rc || page->rows + 1 >= page->style->rows) {
        return;
    }
    utf8_repair_line(line);
    cut(line, page->style->columns - 1);
    bool coloured = page->style->colour && colour != PLAIN;
    page->rc = coloured
                   ? buf_printf(page->out, page->err, "\033[%sm%s\033[0m\n", codes[colour], line)
                   : buf_printf(page->out, page->err, "%s\n", line);
    page->rows++;
}

/* A bar of `width` columns of which a share is filled. */
static void write_bar(const struct live_style *style, double share, size_t width, char *out,
                      size_t size)
{
    double bounded = share >= 0 && share <= 1 ? share : share > 1 ? 1 : 0;
    size_t full = (size_t)(bounded * (double)width + 0.5);
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < width && used + 4 < size; i++) {
        const char *cell = style->unicode ? i < full ? "\xE2\x96\x88" : "\xE2\x96\x91"
                           : i < full     ? "#"
                                          : ".";
        used += (size_t)snprintf(out + used, size - used, "%s", cell);
    }
}

/* ---- the curve ---- */

void live_curve_add(struct live_curve *curve, int64_t step, double value)
{
    while (curve->count > 0 && curve->step[curve->count - 1] >= step) {
        curve->count--;
    }
    if (curve->count == LIVE_POINTS) {
        memmove(curve->value, curve->value + 1, (LIVE_POINTS - 1) * sizeof(curve->value[0]));
        memmove(curve->step, curve->step + 1, (LIVE_POINTS - 1) * sizeof(curve->step[0]));
        curve->count--;
    }
    curve->value[curve->count] = value;
    curve->step[curve->count++] = step;
}

int64_t live_curve_last(const struct live_curve *curve)
{
    return curve->count > 0 ? curve->step[curve->count - 1] : 0;
}

/* The mean of the values that share one column. */
static double mean_of(const struct live_curve *curve, size_t column, size_t width)
{
    size_t first = column * curve->count / width;
    size_t end = (column + 1) * curve->count / width;
    double sum = 0;
    for (size_t i = first; i < end; i++) {
        sum += curve->value[i];
    }
    return sum / (double)(end - first);
}

static void write_spark(const struct live_curve *curve, const struct live_style *style,
                        size_t width, char *out, size_t size)
{
    static const char *const blocks[LEVELS] = {"\xE2\x96\x81", "\xE2\x96\x82", "\xE2\x96\x83",
                                               "\xE2\x96\x84", "\xE2\x96\x85", "\xE2\x96\x86",
                                               "\xE2\x96\x87", "\xE2\x96\x88"};
    static const char *const marks[LEVELS] = {"_", ".", "-", "~", "=", "+", "*", "#"};
    double least = INFINITY, most = -INFINITY;
    width = width < curve->count ? width : curve->count;
    for (size_t i = 0; i < width; i++) {
        least = fmin(least, mean_of(curve, i, width));
        most = fmax(most, mean_of(curve, i, width));
    }
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < width && used + 4 < size; i++) {
        double height = most > least ? (mean_of(curve, i, width) - least) / (most - least) : 0;
        size_t level = height >= 0 ? (size_t)(height * (LEVELS - 1) + 0.5) : 0;
        used += (size_t)snprintf(out + used, size - used, "%s",
                                 style->unicode ? blocks[level] : marks[level]);
    }
}

/* ---- the parts of the page ---- */

static enum colour colour_of(const struct job *job)
{
    switch ((enum job_state)job->state) {
    case JOB_RUNNING:
    case JOB_SUCCEEDED: return GREEN;
    case JOB_FAILED:
    case JOB_CANCELLED: return RED;
    case JOB_QUEUED:
    case JOB_PLANNING:
    case JOB_PREPARING:
    case JOB_REPLANNING:
    case JOB_RECOVERING:
    case JOB_PAUSING:
    case JOB_CANCELLING:
    case JOB_PAUSED:
    case JOB_WAITING_FOR_DEVICES: return YELLOW;
    }
    return PLAIN;
}

static void add_head(struct page *page, const struct job *job)
{
    bool explains = job->state != JOB_RUNNING || strategy_has_parts(job->spec.strategy);
    add_line(page, colour_of(job), "%s  %s%s%s", job->spec.name, job_state_names[job->state],
             explains && job->message[0] != '\0' ? "  " : "", explains ? job->message : "");
}

static void add_progress(struct page *page, const struct job *job)
{
    const struct job_progress *progress = &job->progress;
    char bar[BAR_MAX * 4 + 1], rest[128] = "", eta[32];
    size_t width = page->style->columns / 3;
    if (progress->steps <= 0) {
        return;
    }
    if (progress->eta_seconds > 0) {
        progress_duration(progress->eta_seconds, eta, sizeof(eta));
        (void)snprintf(rest, sizeof(rest), "  ETA %s", eta);
    }
    width = width > BAR_MAX ? BAR_MAX : width < BAR_MIN ? BAR_MIN : width;
    write_bar(page->style, (double)progress->step / (double)progress->steps, width, bar,
              sizeof(bar));
    add_line(page, PLAIN, "%s %" PRId64 "/%" PRId64 "%s", bar, progress->step, progress->steps,
             rest);
}

static void add_numbers(struct page *page, const struct job *job)
{
    const struct job_progress *progress = &job->progress;
    char line[256] = "";
    size_t used = 0;
    if (progress->has_accuracy) {
        used += (size_t)snprintf(line + used, sizeof(line) - used, "accuracy %.4f  ",
                                 progress->accuracy);
    }
    if (progress->has_recall) {
        used +=
            (size_t)snprintf(line + used, sizeof(line) - used, "recall %.4f  ", progress->recall);
    }
    if (progress->samples_per_second > 0) {
        used += (size_t)snprintf(line + used, sizeof(line) - used, "%.4g samples/s  ",
                                 progress->samples_per_second);
    }
    if (progress->epoch > 0) {
        used += (size_t)snprintf(line + used, sizeof(line) - used, "epoch %" PRId64 "  ",
                                 progress->epoch);
    }
    if (used > 0) {
        line[used - 2] = '\0';
        add_line(page, PLAIN, "%s", line);
    }
}

static void add_loss(struct page *page, const struct live *live, const struct job *job)
{
    char head[64], spark[BAR_MAX * 8];
    if (!job->progress.has_loss || job->progress.step == 0) {
        return;
    }
    int used = snprintf(head, sizeof(head), "loss %.4f ", job->progress.loss);
    size_t columns = page->style->columns - 1;
    size_t room = columns > (size_t)used ? columns - (size_t)used : 0;
    write_spark(&live->loss, page->style, room < 2 * BAR_MAX ? room : 2 * BAR_MAX, spark,
                sizeof(spark));
    add_line(page, PLAIN, "%s%s", head, spark);
}

/* " units 0-2 micro-batches 4-7" */
static void add_range(char *text, size_t size, const char *title, int64_t first, int64_t count)
{
    const size_t used = strlen(text);
    if (count > 0) {
        (void)snprintf(text + used, size - used, " %s %" PRId64 "-%" PRId64, title, first,
                       first + count - 1);
    }
}

static void add_stages(struct page *page, const struct progress_shares *shares)
{
    const size_t quarter = page->style->columns / 4;
    const size_t most = quarter < NAME_MAX_COLUMNS ? quarter : NAME_MAX_COLUMNS;
    size_t name_width = 0;
    for (size_t i = 0; i < shares->count; i++) {
        size_t own = strlen(shares->device[i].name);
        name_width = own > name_width ? own : name_width;
    }
    name_width = name_width > most ? most : name_width;
    for (size_t i = 0; i < shares->count; i++) {
        char bar[BAR_MAX * 4 + 1], units[96];
        (void)snprintf(units, sizeof(units), "%4.0f %%", shares->device[i].busy * 100);
        add_range(units, sizeof(units), "units", shares->device[i].first, shares->device[i].units);
        add_range(units, sizeof(units), "micro-batches", shares->device[i].first_micro_batch,
                  shares->device[i].micro_batches);
        size_t taken = name_width + 1 + strlen(units) + 1;
        size_t room =
            page->style->columns > taken + BAR_MIN ? page->style->columns - taken : BAR_MIN;
        write_bar(page->style, shares->device[i].busy, room < BAR_MAX / 2 ? room : BAR_MAX / 2, bar,
                  sizeof(bar));
        add_line(page, PLAIN, "%-*.*s %s%s", (int)name_width, (int)name_width,
                 shares->device[i].name, bar, units);
    }
}

/* "12:30:00 device_lost kitchen: 4 steps to retrain, 0.69 s" */
static void add_incident(struct page *page, const struct incident *incident)
{
    char time[CLOCK_RFC3339_SIZE], devices[256] = "", end[128];
    size_t used = 0;
    clock_format_rfc3339(incident->suspected_ms, time);
    for (size_t i = 0; i < incident->device_count && used + 1 < sizeof(devices); i++) {
        int added = snprintf(devices + used, sizeof(devices) - used, "%s%s", i > 0 ? "," : "",
                             incident->device[i].name);
        used += added > 0 ? (size_t)added : 0;
    }
    double seconds = incident->detect_seconds + incident->decide_seconds + incident->fetch_seconds +
                     incident->rebuild_seconds + incident->resume_seconds;
    if (incident->state == INCIDENT_RESOLVED) {
        (void)snprintf(end, sizeof(end), "%" PRId64 " steps to retrain, %.2g s",
                       incident->steps_redone, seconds);
    } else {
        (void)snprintf(end, sizeof(end), "%s", incident_state_names[incident->state]);
    }
    add_line(page, incident->state == INCIDENT_OPEN ? RED : YELLOW, "%.8s %s %s: %s",
             strlen(time) > 11 ? time + 11 : "", incident_cause_names[incident->cause], devices,
             end);
}

static void add_groups(struct page *page, const struct groups_view *groups)
{
    char line[512];
    for (size_t g = 0; groups && g < groups->group_count; g++) {
        progress_group(&groups->group[g], line, sizeof(line));
        add_line(page, groups->group[g].mixes.device.text[0] ? PLAIN : YELLOW, "%s", line);
    }
}

int live_render(const struct live *live, const struct job *job, const struct live_style *style,
                struct buf *out, struct err *err)
{
    struct page page = {.style = style, .out = out, .err = err};
    add_head(&page, job);
    add_progress(&page, job);
    add_loss(&page, live, job);
    add_numbers(&page, job);
    for (size_t i = 0; i < live->incident_count; i++) {
        add_incident(&page, &live->incident[i]);
    }
    add_stages(&page, &live->shares);
    add_groups(&page, live->groups);
    return page.rc;
}
