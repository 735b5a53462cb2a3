#include "agent/reports.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/assert.h"
#include "base/file.h"
#include "base/log.h"
#include "base/utf8.h"

/* The coordinator shows 120 bytes of an error, after the device and the code. */
#define SHOWN_BYTES 120
#define FRONT_BYTES 40
_Static_assert(SHOWN_BYTES < MESSAGE_SIZE, "a message holds the shown part");

struct reports {
    pthread_mutex_t lock;
    int fd;
    struct report_batch batch; /* guarded by lock */
};

int reports_new(struct reports **out, struct err *err)
{
    struct reports *reports = calloc(1, sizeof(*reports));
    if (!reports || pthread_mutex_init(&reports->lock, NULL) != 0) {
        free(reports);
        return err_set(err, ERR_MEMORY, "reports");
    }
    reports->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (reports->fd < 0) {
        reports_free(&reports);
        return err_set(err, err_from_errno(errno), "eventfd: %s", strerror(errno));
    }
    *out = reports;
    return 0;
}

void reports_free(struct reports **reports)
{
    if (*reports) {
        file_close(&(*reports)->fd);
        (void)pthread_mutex_destroy(&(*reports)->lock);
        free(*reports);
        *reports = NULL;
    }
}

/* Under the lock. */
static void wake(const struct reports *reports)
{
    /* It fails only if the counter is full, and a full counter is readable. */
    (void)eventfd_write(reports->fd, 1);
}

void reports_metric(struct reports *reports, int64_t serial, const struct metric *metric)
{
    (void)pthread_mutex_lock(&reports->lock);
    struct report_batch *batch = &reports->batch;
    if (batch->metric_count == REPORTS_METRICS_MAX) {
        batch->lost++;
    } else {
        batch->metric[batch->metric_count++] = (struct report_metric){serial, *metric};
    }
    wake(reports);
    (void)pthread_mutex_unlock(&reports->lock);
}

void reports_event(struct reports *reports, const struct session_event *event)
{
    (void)pthread_mutex_lock(&reports->lock);
    struct report_batch *batch = &reports->batch;
    /* A generation has a handful of events, and the control thread takes them every turn. */
    ASSERT(batch->event_count < REPORTS_EVENTS_MAX);
    batch->event[batch->event_count++] = *event;
    wake(reports);
    (void)pthread_mutex_unlock(&reports->lock);
}

void reports_note(struct reports *reports, enum session_event_type type)
{
    (void)pthread_mutex_lock(&reports->lock);
    reports->batch.notes |= UINT64_C(1) << type;
    wake(reports);
    (void)pthread_mutex_unlock(&reports->lock);
}

/* Texts read outside-in, with the reason at the end: shorten the middle. */
static void shorten(const char *text, char out[MESSAGE_SIZE])
{
    const size_t length = strlen(text);
    if (length <= SHOWN_BYTES) {
        memcpy(out, text, length + 1);
        return;
    }
    const char *end = text + length - (SHOWN_BYTES - FRONT_BYTES);
    while (*end && utf8_sequence(end, strlen(end)) == 0) {
        end++; /* inside a character */
    }
    memcpy(out, text, FRONT_BYTES + 1);
    utf8_mark_cut(out, FRONT_BYTES + 1);
    const size_t front = strlen(out);
    memcpy(out + front, end, strlen(end) + 1);
}

void reports_error(struct reports *reports, int64_t serial, const char *code, const struct err *why)
{
    log_error("generation_failed", "code=%s error=%s", code, log_quote(why->text).text);
    struct session_event event = {.type = SESSION_FAILED, .serial = serial};
    (void)snprintf(event.error.code, sizeof(event.error.code), "%s", code);
    shorten(why->text, event.error.message);
    reports_event(reports, &event);
}

int reports_fd(const struct reports *reports)
{
    return reports->fd;
}

void reports_take(struct reports *reports, struct report_batch *out)
{
    eventfd_t count;
    (void)pthread_mutex_lock(&reports->lock);
    (void)eventfd_read(reports->fd, &count); /* it does not block if there is nothing to read */
    const struct report_batch *batch = &reports->batch;
    memcpy(out->metric, batch->metric, batch->metric_count * sizeof(batch->metric[0]));
    memcpy(out->event, batch->event, batch->event_count * sizeof(batch->event[0]));
    out->metric_count = batch->metric_count;
    out->event_count = batch->event_count;
    out->lost = batch->lost;
    out->notes = batch->notes;
    reports->batch.notes = 0;
    reports->batch.metric_count = 0;
    reports->batch.event_count = 0;
    reports->batch.lost = 0;
    (void)pthread_mutex_unlock(&reports->lock);
}

/* ---- of one generation ---- */

void reporter_event(const struct reporter *reporter, enum session_event_type type, int64_t version)
{
    const struct session_event event = {
        .type = type, .serial = reporter->serial, .version = version};
    reports_event(reporter->reports, &event);
}

static const char *code_of(const struct err *why, const char *code)
{
    switch (why->code) {
    case ERR_MEMORY: return "memory";
    case ERR_FULL: return "disk";
    case ERR_DIVERGED: return "diverged";
    default: return code;
    }
}

void reporter_error(struct reporter *reporter, const char *code, const struct err *why)
{
    if (!atomic_exchange(&reporter->failed, true)) {
        reports_error(reporter->reports, reporter->serial, code_of(why, code), why);
    }
}
