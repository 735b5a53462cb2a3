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

static void end(struct line *line)
{
    if (line->used >= line->size) {
        utf8_mark_cut(line->text, line->size);
    }
    /* Names and messages are the server's: nothing of them may steer a terminal. */
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

static void add_shares(struct line *line, const struct progress_shares *shares)
{
    int64_t total = 0;
    for (size_t i = 0; i < shares->count; i++) {
        total += shares->device[i].units;
    }
    for (size_t i = 0; i < shares->count; i++) {
        add(line, "%s%s %" PRId64 "/%" PRId64, i == 0 ? "  units " : ", ", shares->device[i].name,
            shares->device[i].units, total);
    }
}

void progress_line(const struct job *job, const struct progress_shares *shares, char *out, size_t size)
{
    struct line line = {.text = out, .size = size};
    const struct job_progress *progress = &job->progress;
    add(&line, "%s", job_state_names[job->state]);
    if (progress->steps > 0) {
        add(&line, "  step %" PRId64 "/%" PRId64, progress->step, progress->steps);
    }
    if (progress->epoch > 0) {
        add(&line, "  epoch %" PRId64, progress->epoch);
    }
    /* The loss of the first step may be known while the step is not yet counted. */
    if (progress->has_loss && progress->step > 0) {
        add(&line, "  loss %.4f", progress->loss);
    }
    if (progress->has_accuracy) {
        add(&line, "  accuracy %.4f", progress->accuracy);
    }
    if (progress->samples_per_second > 0) {
        add(&line, progress->samples_per_second < 100 ? "  %.1f samples/s" : "  %.0f samples/s",
            progress->samples_per_second);
    }
    if (progress->eta_seconds > 0) {
        add(&line, "  ETA ");
        add_duration(&line, progress->eta_seconds);
    }
    add_shares(&line, shares);
    if (job->state != JOB_RUNNING && job->message[0] != '\0') {
        add(&line, "  (%s)", job->message);
    }
    end(&line);
}

void progress_news(const struct job *job, char *out, size_t size)
{
    struct line line = {.text = out, .size = size};
    add(&line, "%s  step %" PRId64 "/%" PRId64 "  (%s)", job_state_names[job->state], job->progress.step,
        job->progress.steps, job->message);
    end(&line);
}

void progress_end(const struct job *job, char *out, size_t size)
{
    struct line line = {.text = out, .size = size};
    add(&line, "%s", job_state_names[job->state]);
    bool explains = job->state_reason[0] != '\0' && strcmp(job->state_reason, job_state_names[job->state]) != 0;
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
    if (job->checkpoint.text[0] != '\0') {
        add(&line, ", checkpoint %s", job->checkpoint.text);
    }
    end(&line);
}
