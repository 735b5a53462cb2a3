#include "tests/sim/check_log.h"

#include <inttypes.h>
#include <string.h>

#include "base/assert.h"
#include "base/pages.h"
#include "schema/job_check.h"
#include "tests/sim/check_gossip.h"
#include "tests/sim/coordinator.h"
#include "tests/sim/mix_replay.h"
#include "tests/sim/mixer.h"
#include "tests/sim/trace.h"

#define EVERY 24 /* rows: a replay is long */

struct check_log {
    struct mix_replay replay;
    uint64_t rows;
    bool is_due;
    struct {
        struct job_id parent;
        struct mix_xid newest;
        bool ended;
    } seen[PARENTS_SEEN_MAX];
    size_t seen_count;
};

int check_log_new(struct check_log **out, struct err *err)
{
    *out = pages_new(1, sizeof(**out));
    return *out ? 0 : err_set(err, ERR_MEMORY, "check");
}

void check_log_free(struct check_log **log)
{
    pages_free(*log);
    *log = NULL;
}

void check_log_note(struct check_log *log)
{
    log->rows++;
    log->is_due = log->is_due || log->rows % EVERY == 0;
}

void check_log_due(struct check_log *log)
{
    log->is_due = true;
}

void check_log_done(struct check_log *log)
{
    log->is_due = false;
}

/* ---- the job ---- */

static size_t count_taken(const struct model *model, const struct job_spec *spec)
{
    size_t taken = 0;
    while (taken < model->unit_count && job_from_checkpoint(spec, model->unit[taken].name)) {
        taken++;
    }
    return taken;
}

/* Of the jobs that each group has had, in order: on data of its device each may have other ones. */
static void list_samples(const struct check *check, struct mix_replay *replay,
                         const struct job *parent)
{
    size_t attempts[GROUPS_MAX] = {0};
    for (size_t i = 0; i < check->known_count; i++) {
        const struct job *part = check->known[i].part;
        if (part && part->part == JOB_GROUP && id_equal(part->parent.text, parent->id.text)) {
            ASSERT(attempts[part->group] < REPLAY_ATTEMPTS_MAX);
            replay->samples_seed[part->group][attempts[part->group]++] =
                digest_samples_seed(&part->spec);
        }
    }
}

static void begin(const struct world *world, struct mix_replay *replay, const struct job *parent)
{
    const struct rows *rows = &world->coordinator->rows;
    const struct model *model = coordinator_model(world, &parent->spec);
    const struct job_spec *spec = &parent->spec;
    replay->record_count = replay->known_count = 0;
    replay->failure[0] = '\0';
    replay->job = (struct reference_job){
        .seed = spec->seed,
        .units = model->unit_count,
        .micro_batches = (size_t)spec->micro_batches,
        .clips = spec->optimizer.clip_norm > 0,
        .checkpoint =
            parent->data.checkpoint_sha256[0] ? digest_of_text(parent->data.checkpoint_sha256) : 0,
        .taken = count_taken(model, spec),
        .model = model,
        .train_step = run_row_of(STRATEGY_PIPELINE)->train_step,
    };
    list_samples(world->check, replay, parent);
    for (size_t i = 0; i < rows->mix_count; i++) {
        if (id_equal(rows->mix[i].job.text, parent->id.text)) {
            mix_replay_add(replay, &rows->mix[i].record);
        }
    }
}

/* ---- live groups ---- */

/* What it carries comes last: a record that is stored by now may be carried still. */
static void check_group(struct world *world, struct check_log *log, const struct run *run)
{
    struct mix_replay *replay = &log->replay;
    const struct mixing *mixing = &mixer_of(run)->mixing;
    const size_t stored = replay->record_count;
    const struct mix_member now = {.group = mixing->group,
                                   .generation = mixing->generation,
                                   .version = run->step,
                                   .mixes = mixing->mixes};
    for (size_t i = 0; i < mixing->record_count; i++) {
        mix_replay_add(replay, &mixing->record[i]);
    }
    replay->known_count = 0;
    const struct mix_state *state = mix_replay_state(replay, &now);
    if (!state) {
        check_fail(world, "the log does not give group %" PRId64 " on %s: %s", now.group,
                   run->agent->name, replay->failure);
    } else if (memcmp(state->unit, run->stage.state, run->stage.units * sizeof(state->unit[0])) !=
               0) {
        check_fail(world,
                   "the log gives another state of group %" PRId64 ".%" PRId64 " at %" PRId64
                   " after %" PRId64 " mixes than %s has",
                   now.group, now.generation, now.version, now.mixes, run->agent->name);
    }
    replay->record_count = stored;
}

static bool has_start(const struct mix_replay *replay, const struct mixing *mixing)
{
    bool found = false;
    for (size_t i = 0; i < replay->record_count; i++) {
        const struct mix_record *record = replay->record[i];
        found = found || (record->kind == MIX_START && record->own.group == mixing->group &&
                          record->own.generation == mixing->generation);
    }
    return found;
}

static void check_groups(struct world *world, struct check_log *log, const struct job *job)
{
    for (size_t i = 0; i < world->agent_count; i++) {
        for (const struct run *run = world->agent[i]->run; run; run = run->previous) {
            const struct job *group = rows_job(&world->coordinator->rows, run->desired->job.text);
            const bool trains = run->state == RUN_TRAINS || run->state == RUN_STOPPED;
            if (trains && group && mixer_of(run) && id_equal(group->parent.text, job->id.text)) {
                if (!has_start(&log->replay, &mixer_of(run)->mixing)) {
                    check_fail(world, "group %" PRId64 " of %s trains, and its start has no row",
                               mixer_of(run)->mixing.group, job->spec.name);
                    return;
                }
                check_group(world, log, run);
            }
        }
    }
}

/* ---- averages ---- */

/* Which of several it was, the log must say by itself. */
static const struct mix_record *find_stored(const struct mix_replay *replay, struct mix_xid xid)
{
    size_t at = replay->record_count;
    while (at > 0 && !(replay->record[at - 1]->kind == MIX_STORED &&
                       mix_xid_is(replay->record[at - 1]->xid, xid))) {
        at--;
    }
    return at > 0 ? replay->record[at - 1] : NULL;
}

static void check_newest(struct world *world, struct check_log *log, const struct job *job,
                         const struct gossip_average *average)
{
    struct mix_replay *replay = &log->replay;
    struct mix_state state;
    const struct mix_record *stored = find_stored(replay, average->xid);
    for (size_t i = 0; i < replay->record_count; i++) {
        const struct mix_record *record = replay->record[i];
        if (!stored || record->kind != MIX_AVERAGE || !mix_xid_is(record->xid, average->xid) ||
            record->own.group != stored->own.group ||
            record->own.generation != stored->own.generation) {
            continue;
        }
        replay->known_count = 0;
        if (!mix_replay_average(replay, record, &state)) {
            check_fail(world, "the log does not give average %" PRId64 "-%" PRId64 " of %s: %s",
                       average->xid.life, average->xid.counter, job->spec.name, replay->failure);
            return;
        }
        if (mix_digest_file(&state, replay->job.units) == digest_of_text(average->sha256)) {
            return;
        }
    }
    check_fail(world, "the log does not give average %" PRId64 "-%" PRId64 " of %s",
               average->xid.life, average->xid.counter, job->spec.name);
}

void check_log(struct world *world, struct check_log *log, const struct job *job,
               const struct parent *parent)
{
    const struct gossip_state *state = &parent->gossip;
    const struct gossip_average *newest =
        state->average_count > 0 ? &state->average[state->average_count - 1] : NULL;
    const bool ended = job_state_ended(job->state);
    size_t at = 0;
    while (at < log->seen_count && !id_equal(log->seen[at].parent.text, job->id.text)) {
        at++;
    }
    if (at == log->seen_count) {
        ASSERT(at < PARENTS_SEEN_MAX);
        log->seen[log->seen_count++].parent = job->id;
    }
    const bool averaged = newest && !mix_xid_is(log->seen[at].newest, newest->xid);
    if (world->check->backups > 0 || log->seen[at].ended || state->member_count == 0) {
        return; /* rows of an earlier time lack what groups have done since */
    }
    log->seen[at].ended = ended;
    if (!averaged && !log->is_due) {
        return;
    }
    begin(world, &log->replay, job);
    if (averaged) {
        log->seen[at].newest = newest->xid;
        check_newest(world, log, job, newest);
    }
    if (!ended) {
        check_groups(world, log, job);
    }
}
