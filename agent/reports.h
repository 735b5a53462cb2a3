/* reports.h: a bounded queue of reports from a generation's threads to the control thread, with a
 * descriptor to poll. A report never waits and never allocates. Any thread may report; one thread
 * takes the reports. */
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

/* All reports in order. Metrics precede the events that followed them. */
struct report_batch {
    struct report_metric metric[REPORTS_METRICS_MAX];
    size_t metric_count;
    struct session_event event[REPORTS_EVENTS_MAX];
    size_t event_count;
    uint64_t lost;  /* metrics dropped for lack of room since the last batch */
    uint64_t notes; /* reports of reports_note: one bit per type */
};

struct reports;
NODISCARD int reports_new(struct reports **out, struct err *err);
void reports_free(struct reports **reports);
void reports_metric(struct reports *reports, int64_t serial, const struct metric *metric);
void reports_event(struct reports *reports, const struct session_event *event);
/* Report an event of a type without content. A batch has at most one of each type. */
void reports_note(struct reports *reports, enum session_event_type type);
/* Report that the generation has failed. The log gets the whole text, the coordinator a short
 * form. */
void reports_error(struct reports *reports, int64_t serial, const char *code,
                   const struct err *why);
/* Return a descriptor that is readable when there are reports to take. */
int reports_fd(const struct reports *reports);
/* Move everything into *out. */
void reports_take(struct reports *reports, struct report_batch *out);

/* Sends the reports of one generation, with its serial, and only its first error. Any thread. */
struct reporter {
    struct reports *reports; /* borrowed */
    int64_t serial;
    atomic_bool failed; /* an error was reported */
};
void reporter_event(const struct reporter *reporter, enum session_event_type type, int64_t version);
/* Report an error. code: used unless the error code already determines the cause (memory, disk,
 * diverged). */
void reporter_error(struct reporter *reporter, const char *code, const struct err *why);

#endif
