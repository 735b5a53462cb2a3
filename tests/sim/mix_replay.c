#include "tests/sim/mix_replay.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"

#define DEPTH_MAX 4000 /* a log that contradicts itself has no end */

struct walk {
    struct mix_state state;
    int64_t version, mixes, rate_step;
};

static bool state_at(struct mix_replay *replay, const struct mix_member *at, int depth,
                     size_t *out);

void mix_replay_add(struct mix_replay *replay, const struct mix_record *record)
{
    ASSERT(replay->record_count < REPLAY_RECORDS_MAX);
    replay->record[replay->record_count++] = record;
}

static bool is_missing(struct mix_replay *replay, const char *what, const struct mix_member *of,
                       int64_t number)
{
    if (replay->failure[0] == '\0') {
        (void)snprintf(replay->failure, sizeof(replay->failure),
                       "%s %" PRId64 " of group %" PRId64 ".%" PRId64 " is missing", what, number,
                       of->group, of->generation);
    }
    return false;
}

static bool is_of(const struct mix_record *record, const struct mix_member *member)
{
    return record->own.group == member->group && record->own.generation == member->generation;
}

/* ---- records ---- */

static const struct mix_record *find_start(const struct mix_replay *replay,
                                           const struct mix_member *of)
{
    for (size_t i = 0; i < replay->record_count; i++) {
        if (replay->record[i]->kind == MIX_START && is_of(replay->record[i], of)) {
            return replay->record[i];
        }
    }
    return NULL;
}

static const struct mix_record *find_move(const struct mix_replay *replay,
                                          const struct mix_member *of, int64_t mixes)
{
    for (size_t i = 0; i < replay->record_count; i++) {
        const struct mix_record *record = replay->record[i];
        const bool moves = record->kind == MIX_PAIR || record->kind == MIX_ADOPT;
        if (moves && is_of(record, of) && record->applied_mixes == mixes) {
            return record;
        }
    }
    return NULL;
}

/* author: NULL: whoever has computed it. */
static const struct mix_record *find_average(const struct mix_replay *replay, struct mix_xid xid,
                                             const struct mix_member *author)
{
    for (size_t i = 0; i < replay->record_count; i++) {
        const struct mix_record *record = replay->record[i];
        if (record->kind == MIX_AVERAGE && mix_xid_is(record->xid, xid) &&
            (!author || is_of(record, author))) {
            return record;
        }
    }
    return NULL;
}

/* The moves of an incarnation that has stopped at a version. */
static int64_t count_moves(const struct mix_replay *replay, const struct mix_member *of,
                           int64_t version)
{
    int64_t mixes = 0;
    for (const struct mix_record *move; (move = find_move(replay, of, mixes)) != NULL;) {
        if (move->applied_step > version) {
            break;
        }
        mixes++;
    }
    return mixes;
}

/* ---- averages ---- */

static bool sum_up(struct mix_replay *replay, const struct mix_record *record, int depth,
                   struct mix_state *out)
{
    *out = (struct mix_state){{0}};
    for (size_t i = 0; i < record->peer_count; i++) {
        size_t copy = 0;
        if (!state_at(replay, &record->peer[i], depth, &copy)) {
            return false;
        }
        mix_digest_add(out, &replay->known[copy].state, record->peer[i].weight);
    }
    return true;
}

bool mix_replay_average(struct mix_replay *replay, const struct mix_record *record,
                        struct mix_state *out)
{
    return sum_up(replay, record, 0, out);
}

/* ---- the states of an incarnation ---- */

static bool begin(struct mix_replay *replay, const struct mix_member *of, int depth,
                  struct walk *walk)
{
    const struct reference_job *job = &replay->job;
    const struct mix_record *start = find_start(replay, of);
    if (!start) {
        return is_missing(replay, "the start", of, 0);
    }
    walk->version = start->own.version;
    walk->mixes = 0;
    walk->rate_step = start->rate_step > 0 ? start->rate_step : 1;
    if (mix_record_forks(start)) {
        struct mix_member last = start->peer[0];
        size_t known = 0;
        last.mixes = count_moves(replay, &last, last.version);
        if (!state_at(replay, &last, depth, &known)) {
            return false;
        }
        walk->state = replay->known[known].state;
        return true;
    }
    struct mix_state average;
    uint64_t file = job->checkpoint;
    size_t taken = file != 0 ? job->taken : 0;
    if (start->xid.counter > 0) {
        const struct mix_member *author = start->peer_count > 0 ? &start->peer[0] : NULL;
        const struct mix_record *record = find_average(replay, start->xid, author);
        if (!record) {
            return is_missing(replay, "the average that begins", of, start->xid.counter);
        }
        if (!sum_up(replay, record, depth, &average)) {
            return false;
        }
        file = mix_digest_file(&average, job->units);
        taken = job->units;
    }
    for (size_t u = 0; u < job->units; u++) {
        walk->state.unit[u] = u < taken ? digest_start(file, u) : digest_initial(job->seed, u);
    }
    return true;
}

/* The furthest state before it that is known. false: none. */
static bool resume(const struct mix_replay *replay, const struct mix_member *at, struct walk *walk)
{
    walk->mixes = walk->version = -1;
    for (size_t i = 0; i < replay->known_count; i++) {
        const struct mix_member *known = &replay->known[i].at;
        if (known->group == at->group && known->generation == at->generation &&
            known->mixes <= at->mixes && known->version <= at->version &&
            (known->mixes > walk->mixes ||
             (known->mixes == walk->mixes && known->version > walk->version))) {
            walk->mixes = known->mixes;
            walk->version = known->version;
            walk->rate_step = replay->known[i].rate_step;
            walk->state = replay->known[i].state;
        }
    }
    return walk->mixes >= 0;
}

static void load(struct mix_replay *replay, const struct walk *walk)
{
    replay->stage = (struct digest_stage){
        .end = replay->job.units, .units = replay->job.units, .clips = replay->job.clips};
    memcpy(replay->stage.state, walk->state.unit, sizeof(replay->stage.state));
}

static void store(const struct mix_replay *replay, struct walk *walk)
{
    memcpy(walk->state.unit, replay->stage.state, sizeof(walk->state.unit));
}

/* The data of its device that an incarnation trains on, by its start; NULL: a shard. */
static const char *data_of(const struct mix_replay *replay, const struct mix_member *of)
{
    for (size_t i = 0; i < replay->record_count; i++) {
        const struct mix_record *record = replay->record[i];
        if (record->kind == MIX_START && record->own.group == of->group &&
            record->own.generation == of->generation && record->samples > 0) {
            return record->sha256;
        }
    }
    return NULL;
}

static void train(struct mix_replay *replay, const struct mix_member *of, int64_t until,
                  struct walk *walk)
{
    struct reference_job job = replay->job;
    const int64_t attempt = of->generation >> MIX_ATTEMPT_SHIFT;
    ASSERT(attempt > 0 && attempt <= REPLAY_ATTEMPTS_MAX);
    const char *sha256 = data_of(replay, of);
    job.samples_seed =
        sha256 ? digest_local_seed(job.seed, sha256) : replay->samples_seed[of->group][attempt - 1];
    load(replay, walk);
    while (walk->version < until) {
        walk->version++;
        job.train_step(&replay->stage, &job, walk->version);
        mix_digest_update(&replay->stage, walk->version, walk->rate_step,
                          digest_sum(&replay->stage, 0));
    }
    store(replay, walk);
}

static bool move(struct mix_replay *replay, const struct mix_record *record, int depth,
                 struct walk *walk)
{
    struct mix_state other;
    size_t own = 0, peer = 0;
    if (record->kind == MIX_ADOPT) {
        const struct mix_record *average = find_average(replay, record->xid, &record->peer[0]);
        if (!average) {
            return is_missing(replay, "average", &record->peer[0], record->xid.counter);
        }
        if (!sum_up(replay, average, depth, &other)) {
            return false;
        }
    } else {
        if (!state_at(replay, &record->peer[0], depth, &peer)) {
            return false;
        }
        other = replay->known[peer].state;
    }
    if (!state_at(replay, &record->own, depth, &own)) {
        return false;
    }
    const struct mix_share share = {record->xid, record->alpha, record->statistics_alpha};
    load(replay, walk);
    mix_digest_move(&replay->stage, &replay->known[own].state, &other, &share);
    store(replay, walk);
    walk->mixes++;
    walk->rate_step = record->rate_step > 0 ? record->rate_step : 1;
    return true;
}

static bool find_known(const struct mix_replay *replay, const struct mix_member *at, size_t *out)
{
    for (size_t i = 0; i < replay->known_count; i++) {
        const struct mix_member *known = &replay->known[i].at;
        if (known->group == at->group && known->generation == at->generation &&
            known->version == at->version && known->mixes == at->mixes) {
            *out = i;
            return true;
        }
    }
    return false;
}

static bool state_at(struct mix_replay *replay, const struct mix_member *at, int depth, size_t *out)
{
    struct walk walk = {{{0}}, 0, 0, 0};
    if (find_known(replay, at, out)) {
        return true;
    }
    if (depth > DEPTH_MAX || at->group < 0 || at->group >= GROUPS_MAX) {
        return is_missing(replay, "the end of the log at", at, at->version);
    }
    if (!resume(replay, at, &walk) && !begin(replay, at, depth + 1, &walk)) {
        return false;
    }
    while (walk.mixes < at->mixes) {
        const struct mix_record *record = find_move(replay, at, walk.mixes);
        if (!record || record->applied_step > at->version) {
            return is_missing(replay, "mix", at, walk.mixes);
        }
        train(replay, at, record->applied_step, &walk);
        if (!move(replay, record, depth + 1, &walk)) {
            return false;
        }
    }
    train(replay, at, at->version, &walk);
    ASSERT(replay->known_count < REPLAY_STATES_MAX);
    replay->known[replay->known_count].at = *at;
    replay->known[replay->known_count].rate_step = walk.rate_step;
    replay->known[replay->known_count].state = walk.state;
    *out = replay->known_count++;
    return true;
}

const struct mix_state *mix_replay_state(struct mix_replay *replay, const struct mix_member *at)
{
    size_t known = 0;
    return state_at(replay, at, 0, &known) ? &replay->known[known].state : NULL;
}
