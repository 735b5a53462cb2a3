#include "cli/progress.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

/* The line so far. */
struct line {
    char *text;
    size_t used, size;
    size_t columns; /* 0: any number */
};

PRINTF_LIKE(2, 3) static void add(struct line *line, const char *format, ...)
{
    size_t used = line->used < line->size ? line->used : line->size;
    va_list arguments;
    va_start(arguments, format);
    int count = vsnprintf(line->text + used, line->size - used, format, arguments);
    va_end(arguments);
    line->used += count > 0 ? (size_t)count : 0;
}

/* Remove the text added since the line had `used` bytes, unless the line fits. Each byte counts as
 * a column, because no character is wider than its number of bytes. */
static void fit(struct line *line, size_t used)
{
    if (line->columns > 0 && line->used > line->columns) {
        line->used = used;
        line->text[used < line->size ? used : line->size - 1] = '\0';
    }
}

static void end(struct line *line)
{
    if (line->used >= line->size) {
        utf8_mark_cut(line->text, line->size);
    }
    /* Names and messages come from the server: they must not control the terminal. */
    utf8_repair_line(line->text);
}

static void add_duration(struct line *line, double seconds)
{
    int64_t whole = seconds < 1e9 ? (int64_t)(seconds + 0.5) : 1000000000;
    if (whole >= 3600) {
        add(line, "%" PRId64 ":%02d:%02d", whole / 3600, (int)(whole / 60 % 60), (int)(whole % 60));
    } else {
        add(line, "%d:%02d", (int)(whole / 60), (int)(whole % 60));
    }
}

/* Add the phase of a job that consists of parts. add_message shows it in other states. */
static void add_phase(struct line *line, const struct job *job)
{
    if (strategy_has_parts(job->spec.strategy) && job->state == JOB_RUNNING) {
        add(line, "  %s", job->message);
    }
}

static void add_step(struct line *line, const struct job *job)
{
    if (job->progress.steps > 0) {
        add(line, "  step %" PRId64 "/%" PRId64, job->progress.step, job->progress.steps);
    }
}

static void add_eta(struct line *line, const struct job *job)
{
    if (job->progress.eta_seconds > 0) {
        add(line, "  ETA ");
        add_duration(line, job->progress.eta_seconds);
    }
}

/* The loss of the first step may arrive before the step is counted. */
static void add_loss(struct line *line, const struct job *job)
{
    if (job->progress.has_loss && job->progress.step > 0) {
        add(line, "  loss %.4f", job->progress.loss);
    }
}

static void add_accuracy(struct line *line, const struct job *job)
{
    if (job->progress.has_accuracy) {
        add(line, "  accuracy %.4f", job->progress.accuracy);
    }
}

static void add_recall(struct line *line, const struct job *job)
{
    if (job->progress.has_recall) {
        add(line, "  recall %.4f", job->progress.recall);
    }
}

static void add_speed(struct line *line, const struct job *job)
{
    double speed = job->progress.samples_per_second;
    if (speed > 0) {
        add(line, speed < 100 ? "  %.1f samples/s" : "  %.0f samples/s", speed);
    }
}

static void add_epoch(struct line *line, const struct job *job)
{
    if (job->progress.epoch > 0) {
        add(line, "  epoch %" PRId64, job->progress.epoch);
    }
}

static int64_t units_of(const struct progress_shares *shares, size_t device)
{
    return shares->device[device].units;
}

static int64_t micro_batches_of(const struct progress_shares *shares, size_t device)
{
    return shares->device[device].micro_batches;
}

/* Add the share of each device in the sum of `of` over all devices. Devices without a share are
 * left out. */
static void add_shares(struct line *line, const struct progress_shares *shares, const char *title,
                       int64_t (*of)(const struct progress_shares *shares, size_t device))
{
    int64_t total = 0;
    const char *before = title;
    for (size_t i = 0; i < shares->count; i++) {
        total += of(shares, i);
    }
    for (size_t i = 0; i < shares->count; i++) {
        if (of(shares, i) > 0) {
            add(line, "%s%s %" PRId64 "/%" PRId64, before, shares->device[i].name, of(shares, i),
                total);
            before = ", ";
        }
    }
}

/* Truncate a long message rather than leave it out: it says why the job does not continue. */
static void add_message(struct line *line, const struct job *job)
{
    size_t used = line->used;
    if (job->state == JOB_RUNNING || job->message[0] == '\0') {
        return;
    }
    add(line, "  (%s)", job->message);
    if (line->columns > 0 && line->used > line->columns && line->columns + 1 < line->size &&
        used < line->columns) {
        line->size = line->columns + 1;
    }
}

void progress_line(const struct job *job, const struct progress_shares *shares, size_t columns,
                   char *out, size_t size)
{
    /* Items are in order of importance. An item that does not fit is left out. */
    static void (*const pieces[])(struct line *, const struct job *) = {
        add_phase, add_step, add_eta, add_loss, add_accuracy, add_recall, add_speed, add_epoch};
    struct line line = {.text = out, .size = size, .columns = columns};
    add(&line, "%s", job_state_names[job->state]);
    for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
        size_t used = line.used;
        pieces[i](&line, job);
        fit(&line, used);
    }
    size_t used = line.used;
    add_shares(&line, shares, "  units ", units_of);
    fit(&line, used);
    used = line.used;
    add_shares(&line, shares, "  micro-batches ", micro_batches_of);
    fit(&line, used);
    add_message(&line, job);
    end(&line);
}

void progress_news(const struct job *job, char *out, size_t size)
{
    struct line line = {.text = out, .size = size};
    add(&line, "%s  step %" PRId64 "/%" PRId64 "  (%s)", job_state_names[job->state],
        job->progress.step, job->progress.steps, job->message);
    end(&line);
}

void progress_end(const struct job *job, char *out, size_t size)
{
    struct line line = {.text = out, .size = size};
    add(&line, "%s", job_state_names[job->state]);
    bool explains =
        job->state_reason[0] != '\0' && strcmp(job->state_reason, job_state_names[job->state]) != 0;
    if (explains) {
        add(&line, " (%s)", job->state_reason);
    }
    if (job->message[0] != '\0') {
        add(&line, ": %s", job->message);
    } else {
        add(&line, ": %" PRId64 " of %" PRId64 " steps", job->progress.step, job->progress.steps);
    }
    if (job->progress.has_accuracy) {
        add(&line, ", accuracy %.4f", job->progress.accuracy);
    }
    if (job->progress.has_recall) {
        add(&line, ", recall %.4f", job->progress.recall);
    }
    if (job->checkpoint.text[0] != '\0') {
        add(&line, ", checkpoint %s", job->checkpoint.text);
    }
    end(&line);
}

void progress_duration(double seconds, char *out, size_t size)
{
    struct line line = {.text = out, .size = size};
    add_duration(&line, seconds);
    end(&line);
}

void progress_numbers(const int64_t *number, size_t count, char *out, size_t size)
{
    struct line line = {.text = out, .size = size};
    out[0] = '\0';
    for (size_t i = 0; i < count;) {
        size_t last = i;
        while (last + 1 < count && number[last + 1] == number[last] + 1) {
            last++;
        }
        add(&line, "%s%" PRId64, i > 0 ? "," : "", number[i]);
        if (last > i) {
            add(&line, "-%" PRId64, number[last]);
        }
        i = last + 1;
    }
    end(&line);
}

void progress_mixes(const struct group_mixes *mixes, char *out, size_t size)
{
    char missed[48] = "", loss[48] = "", distance[48] = "";
    if (mixes->missed_periods > 0) {
        (void)snprintf(missed, sizeof(missed), "  %" PRId64 " missed", mixes->missed_periods);
    }
    if (mixes->has_loss) {
        (void)snprintf(loss, sizeof(loss), "  loss %.4f", mixes->loss);
    }
    if (mixes->has_distance) {
        (void)snprintf(distance, sizeof(distance), "  distance %.3g", mixes->distance);
    }
    (void)snprintf(
        out, size,
        "  %" PRId64 " samples  step %" PRId64 "  every %" PRId64 " steps  %" PRId64 " mixes%s%s%s",
        mixes->samples, mixes->steps, mixes->every, mixes->mixes, missed, loss, distance);
}

void progress_group(const struct group_view *group, char *out, size_t size)
{
    char name[32], mixes[256];
    (void)snprintf(name, sizeof(name), "group %" PRId64, group->group);
    progress_mixes(&group->mixes, mixes, sizeof(mixes));
    (void)snprintf(out, size, "%-8s%s%s", name, mixes,
                   group->mixes.device.text[0] == '\0' ? "  waits for a device" : "");
}
