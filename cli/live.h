/* live.h: a watched job as lines for a terminal: progress, loss as a curve, stages as bars, the
 * newest incidents. Pure. */
#ifndef CLI_LIVE_H
#define CLI_LIVE_H

#include "base/buf.h"
#include "cli/progress.h"
#include "schema/groups_view.h"
#include "schema/incident.h"

#define LIVE_POINTS 512
#define LIVE_INCIDENTS 3

/* The newest losses. Starts as zero. */
struct live_curve {
    double value[LIVE_POINTS];
    int64_t step[LIVE_POINTS];
    size_t count;
};
/* Add the value of a step. Values of this and later steps are replaced: they are retrained. */
void live_curve_add(struct live_curve *curve, int64_t step, double value);
/* The step of the newest value; 0: none. */
int64_t live_curve_last(const struct live_curve *curve);

struct live {
    struct progress_shares shares;
    struct live_curve loss;
    struct incident incident[LIVE_INCIDENTS]; /* the newest ones, the oldest first */
    size_t incident_count;
    const struct groups_view *groups; /* that train apart; NULL: the job has none */
};

struct live_style {
    size_t columns, rows; /* of the terminal */
    bool colour;
    bool unicode; /* blocks; otherwise ASCII */
};

/* Append the lines. Each ends with a newline and takes at most columns - 1 columns; there are at
 * most rows - 1 of them. */
NODISCARD int live_render(const struct live *live, const struct job *job,
                          const struct live_style *style, struct buf *out, struct err *err);

#endif
