#include "agent/core/rounds.h"

#include <inttypes.h>

int rounds_check(int64_t resume_version, int64_t total_steps, int64_t evaluate_every,
                 const int64_t every[REPLICA_KINDS], struct err *err)
{
    if (resume_version < 0 || resume_version > total_steps) {
        return err_set(err, ERR_INVALID, "version %" PRId64 " of %" PRId64 " steps", resume_version,
                       total_steps);
    }
    if (evaluate_every < 0) {
        return err_set(err, ERR_INVALID, "an evaluation every %" PRId64 " steps", evaluate_every);
    }
    for (int kind = 0; kind < REPLICA_KINDS; kind++) {
        if (every[kind] < 0) {
            return err_set(err, ERR_INVALID, "a round of replication every %" PRId64 " steps",
                           every[kind]);
        }
    }
    return 0;
}

static bool is_checkpoint(const struct rounds *rounds, enum replica_kind kind, int64_t step)
{
    return kind == REPLICA_CENTER && rounds->checkpoint_every > 0 &&
           step % rounds->checkpoint_every == 0;
}

/* The first step of a generation that resumes a state also opens a neighbor round, to restore
 * redundancy at once. The last step of a job opens none, because its state goes to the center
 * anyway. */
static bool is_due(const struct rounds *rounds, enum replica_kind kind, int64_t step)
{
    if (step == rounds->total_steps) {
        return false;
    }
    if (is_checkpoint(rounds, kind, step)) {
        return true;
    }
    if (rounds->every[kind] == 0) {
        return false;
    }
    const bool resumed = kind == REPLICA_NEIGHBOR && rounds->resume_version > 0 &&
                         step == rounds->resume_version + 1;
    return resumed || step % rounds->every[kind] == 0;
}

/* A checkpoint is for a fixed version, so its round cannot wait; another round to the center can
 * copy a later version. */
static bool is_free(const struct rounds *rounds, enum replica_kind kind, int64_t step)
{
    const int64_t open = rounds->open[kind];
    return open == 0 || (is_checkpoint(rounds, kind, step) && !is_checkpoint(rounds, kind, open));
}

void rounds_open(struct rounds *rounds, int64_t step, struct round_mark *mark)
{
    *mark = (struct round_mark){0};
    for (int i = 0; i < REPLICA_KINDS; i++) {
        const enum replica_kind kind = (enum replica_kind)i;
        if (is_due(rounds, kind, step) && is_free(rounds, kind, step) && !rounds->paused[kind] &&
            !rounds->away) {
            rounds->open[kind] = step;
            mark->kinds |= REPLICA_MARK(kind);
        }
    }
    if (mark->kinds == 0) {
        return;
    }
    mark->keep[0] = rounds->committed;
    for (int kind = 0; kind < REPLICA_KINDS; kind++) {
        mark->keep[1 + kind] = rounds->open[kind] < step ? rounds->open[kind] : 0;
    }
}

static void close_round(struct rounds *rounds, enum replica_kind kind, int64_t version,
                        bool committed)
{
    if (version == 0 || rounds->open[kind] != version) {
        return;
    }
    rounds->open[kind] = 0;
    if (committed && version > rounds->committed) {
        rounds->committed = version;
    }
}

void rounds_take(struct rounds *rounds, const struct round round[REPLICA_KINDS])
{
    for (int i = 0; i < REPLICA_KINDS; i++) {
        const enum replica_kind kind = (enum replica_kind)i;
        const int state = round[kind].state;
        rounds->paused[kind] = state == ROUND_PAUSED;
        if (state == ROUND_COMMITTED || state == ROUND_ABANDONED) {
            close_round(rounds, kind, round[kind].version, state == ROUND_COMMITTED);
        }
    }
}

void rounds_report(const struct rounds *rounds, struct heartbeat *out)
{
    out->round_neighbor = rounds->open[REPLICA_NEIGHBOR];
    out->round_center = rounds->open[REPLICA_CENTER];
}
