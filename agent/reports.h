/* reports.h: a bounded queue of reports from a generation's threads to the control thread, with a
 * descriptor to poll. A report never waits and never allocates. Any thread reports, one takes. */
#ifndef AGENT_REPORTS_H
#define AGENT_REPORTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/core/session.h"

#define REPORTS_METRICS_MAX 4096
#define REPORTS_EVENTS_MAX 32

struct report_metric {
    int64_t serial;
    struct metric metric;
};

/* In order; the metrics come before the events that followed them. */
struct report_batch {
    struct report_metric metric[REPORTS_METRICS_MAX];
    size_t metric_count;
    struct session_event event[REPORTS_EVENTS_MAX];
    size_t event_count;
    uint64_t lost;  /* metrics that found no room since the last batch */
    uint64_t notes; /* those of reports_note: a bit for each type */
};

struct reports;
NODISCARD int reports_new(struct reports **out, struct err *err);
void reports_free(struct reports **reports);
void reports_metric(struct reports *reports, int64_t serial, const struct metric *metric);
void reports_event(struct reports *reports, const struct session_event *event);
/* An event of a type that has no content: at most once per batch. */
void reports_note(struct reports *reports, enum session_event_type type);
/* The generation has failed. The whole text goes to the log, a short form to the coordinator. */
void reports_error(struct reports *reports, int64_t serial, const char *code,
                   const struct err *why);
/* Readable when there is something to take. */
int reports_fd(const struct reports *reports);
/* Move everything into *out. */
void reports_take(struct reports *reports, struct report_batch *out);

/* The reports of one generation: with its serial, and only the first of its errors. Any thread. */
struct reporter {
    struct reports *reports; /* borrowed */
    int64_t serial;
    atomic_bool failed; /* an error was reported */
};
void reporter_event(const struct reporter *reporter, enum session_event_type type, int64_t version);
/* code: unless the error itself says what failed (memory, disk, diverged). */
void reporter_error(struct reporter *reporter, const char *code, const struct err *why);

#endif
