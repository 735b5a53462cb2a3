/* What must hold of matches, records and averages. The law of the log is in check_log.c. */
#include "tests/sim/check_gossip.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/pages.h"
#include "tests/sim/check_log.h"
#include "tests/sim/coordinator.h"
#include "tests/sim/mixer.h"
#include "tests/sim/trace.h"

#define MATCHES_MAX 8192
#define MOVES_MAX 16384
#define SIDES_MAX 512
#define AVERAGES_MAX 2048
#define KEPT_MAX 16384
#define SLACK_MS 500
#define PATIENCE_MS 2000 /* of every match, at least (coordinator/core/gossip/gossip.c) */

struct check_gossip {
    struct {
        struct job_id parent;
        struct mix_xid xid;
        bool pairs;
        uint64_t life; /* of the coordinator that made it */
        struct mix_member side[2];
        size_t sides;
    } match[MATCHES_MAX];
    size_t match_count;
    struct {
        struct job_id parent;
        struct mix_member own;
        struct mix_xid xid;
        size_t agent;
    } move[MOVES_MAX];
    size_t move_count;
    struct side {
        struct job_id parent;
        int64_t group;
        bool heard;    /* since it began to be matched, */
        uint64_t life; /* in this life of the coordinator */
        struct mix_xid open;
        bool ended;       /* as a report said */
        int64_t until_ms; /* nothing else is matched until then, by the coordinator's clock */
    } side[SIDES_MAX];
    size_t side_count;
    struct {
        struct job_id parent;
        struct mix_xid xid;
        uint64_t file;
        bool stored;
    } average[AVERAGES_MAX];
    size_t average_count;
    struct {
        struct job_id job;
        int64_t version;
        size_t unit;
        uint64_t digest;
    } kept[KEPT_MAX];
    size_t kept_count;
    struct {
        struct job_id parent;
        struct mix_xid newest;
        int64_t averages;
    } parent[PARENTS_SEEN_MAX];
    size_t parent_count;
    struct check_log *log;
};

int check_gossip_new(struct check_gossip **out, struct err *err)
{
    *out = pages_new(1, sizeof(**out));
    return *out ? check_log_new(&(*out)->log, err) : err_set(err, ERR_MEMORY, "check");
}

void check_gossip_free(struct check_gossip **gossip)
{
    if (*gossip) {
        check_log_free(&(*gossip)->log);
        pages_free(*gossip);
        *gossip = NULL;
    }
}

bool check_is_group(const struct job *job)
{
    return job->part == JOB_GROUP &&
           (job->spec.view.is_shard || (job_is_local(&job->spec) && !job->spec.has_view));
}

/* NULL: it is no group, or a backup does not know it. */
static const struct job *parent_of(const struct world *world, const char *job_id)
{
    const struct rows *rows = &world->coordinator->rows;
    const struct job *job = rows_job(rows, job_id);
    return job && check_is_group(job) ? rows_job(rows, job->parent.text) : NULL;
}

static bool is_side(const struct mix_member *a, const struct mix_member *b)
{
    return a->group == b->group && a->generation == b->generation;
}

/* ---- matches ---- */

static struct side *side_of(struct check_gossip *gossip, const char *parent, int64_t group)
{
    size_t at = 0;
    while (at < gossip->side_count &&
           (gossip->side[at].group != group || !id_equal(gossip->side[at].parent.text, parent))) {
        at++;
    }
    if (at == gossip->side_count) {
        ASSERT(at < SIDES_MAX);
        gossip->side[gossip->side_count++].group = group;
        memcpy(gossip->side[at].parent.text, parent, ID_SIZE);
    }
    return &gossip->side[at];
}

static size_t find_match(struct world *world, const struct job *parent,
                         const struct mix_order *order)
{
    struct check_gossip *gossip = world->check->gossip;
    size_t at = gossip->match_count;
    while (at > 0 && !(mix_xid_is(gossip->match[at - 1].xid, order->xid) &&
                       id_equal(gossip->match[at - 1].parent.text, parent->id.text))) {
        at--;
    }
    if (at > 0) {
        return at - 1;
    }
    ASSERT(gossip->match_count < MATCHES_MAX);
    memset(&gossip->match[gossip->match_count], 0, sizeof(gossip->match[0]));
    gossip->match[gossip->match_count].parent = parent->id;
    gossip->match[gossip->match_count].xid = order->xid;
    gossip->match[gossip->match_count].pairs = order->kind == MIX_PAIR;
    gossip->match[gossip->match_count].life = world->coordinator->lives;
    return gossip->match_count++;
}

/* A name is of one match, of one life; a pair has the same two incarnations for ever. */
static void check_name(struct world *world, const struct job *parent, const struct mix_duty *duty,
                       const struct mix_order *order)
{
    struct check_gossip *gossip = world->check->gossip;
    const size_t at = find_match(world, parent, order);
    const struct mix_member own = {.group = duty->group, .generation = duty->generation};
    if (gossip->match[at].life != world->coordinator->lives ||
        gossip->match[at].pairs != (order->kind == MIX_PAIR)) {
        check_fail(world, "match %" PRId64 "-%" PRId64 " of %s is made twice", order->xid.life,
                   order->xid.counter, parent->spec.name);
        return;
    }
    if (order->kind != MIX_PAIR) {
        return;
    }
    const struct mix_member peer = {.group = order->source[0].group,
                                    .generation = order->source[0].generation};
    if (gossip->match[at].sides == 0) {
        gossip->match[at].side[0] = own;
        gossip->match[at].side[1] = peer;
        gossip->match[at].sides = 2;
    }
    const size_t own_at = is_side(&gossip->match[at].side[0], &own) ? 0 : 1;
    if (!is_side(&gossip->match[at].side[own_at], &own) ||
        !is_side(&gossip->match[at].side[1 - own_at], &peer)) {
        check_fail(world,
                   "match %" PRId64 "-%" PRId64 " of %s is handed to group %" PRId64 ".%" PRId64
                   " with a copy of %" PRId64 ".%" PRId64 ", not to %" PRId64 ".%" PRId64
                   " and %" PRId64 ".%" PRId64,
                   order->xid.life, order->xid.counter, parent->spec.name, own.group,
                   own.generation, peer.group, peer.generation, gossip->match[at].side[0].group,
                   gossip->match[at].side[0].generation, gossip->match[at].side[1].group,
                   gossip->match[at].side[1].generation);
    }
}

/* A group has one match of a pair at a time, and none before a report has said which is open. */
static void check_time(struct world *world, const struct job *parent, const struct mix_duty *duty,
                       const struct mix_order *order)
{
    struct side *side = side_of(world->check->gossip, parent->id.text, duty->group);
    if (!side->heard || side->life != world->coordinator->lives) {
        check_fail(world, "group %" PRId64 " of %s is matched before it has reported", duty->group,
                   parent->spec.name);
    } else if (order->kind == MIX_PAIR && !mix_xid_is(side->open, order->xid)) {
        if (side->open.counter > 0 && !side->ended && side->open.life == order->xid.life &&
            world_now_ms(world, ACTOR_COORDINATOR) < side->until_ms) {
            check_fail(world,
                       "group %" PRId64 " of %s has match %" PRId64 "-%" PRId64 " while %" PRId64
                       "-%" PRId64 " is open",
                       duty->group, parent->spec.name, order->xid.life, order->xid.counter,
                       side->open.life, side->open.counter);
        }
        const int64_t left_ms = order->left_ms < PATIENCE_MS ? order->left_ms : PATIENCE_MS;
        side->open = order->xid;
        side->ended = false;
        side->until_ms = world->coordinator->stepped_ms + left_ms - SLACK_MS;
    }
}

void check_orders(struct world *world, const struct assignment *assignment)
{
    const struct mix_duty *duty = &assignment->run.mix;
    const struct job *parent = assignment->has_run && assignment->run.has_mix
                                   ? parent_of(world, assignment->run.job.text)
                                   : NULL;
    for (size_t i = 0; parent && i < duty->order_count; i++) {
        check_name(world, parent, duty, &duty->order[i]);
        check_time(world, parent, duty, &duty->order[i]);
    }
}

void check_ticket(struct world *world, const struct assignment *assignment,
                  const struct core_ticket *ticket)
{
    const struct mix_duty *duty = &assignment->run.mix;
    char name[sizeof(ticket->relay_name)];
    for (size_t o = 0; assignment->has_run && o < duty->order_count; o++) {
        for (size_t i = 0; i < duty->order[o].source_count; i++) {
            const struct mix_source *source = &duty->order[o].source[i];
            (void)snprintf(name, sizeof(name), "%s.%s", source->peer.device.text,
                           source->plan.text);
            if (ticket->out == source->peer.ticket && strcmp(ticket->relay_name, name) != 0) {
                check_fail(world, "a relay knows %s, and not %s of the order", ticket->relay_name,
                           name);
            }
        }
    }
}

void check_mix_report(struct world *world, const struct call *call)
{
    const struct heartbeat *heartbeat = call->heartbeat;
    const struct job *parent = heartbeat->has_mix ? parent_of(world, heartbeat->job.text) : NULL;
    if (!parent) {
        return;
    }
    struct side *side = side_of(world->check->gossip, parent->id.text, heartbeat->mix.group);
    side->heard = true;
    side->life = world->coordinator->lives;
    if (mix_xid_is(side->open, heartbeat->mix.pair.xid) &&
        !mix_is_open(heartbeat->mix.pair.state)) {
        side->ended = true;
    }
}

void check_group_started(struct world *world, const struct action *action)
{
    int64_t group = 0;
    if (strcmp(action->event, "group_started") == 0 &&
        sscanf(action->text, "group %" SCNd64, &group) == 1) {
        struct side *side = side_of(world->check->gossip, action->id, group);
        side->heard = false;
        side->open = (struct mix_xid){0};
    }
}

void check_applied(struct world *world, const struct run *run, const struct mixing *mixing,
                   enum mixing_place place)
{
    struct check_gossip *gossip = world->check->gossip;
    const struct job *parent = parent_of(world, run->desired->job.text);
    const struct mixing_slot *slot = &mixing->slot[place];
    const struct mixing_slot *average = &mixing->slot[MIXING_AVERAGES];
    const struct mix_member own = {.group = mixing->group, .generation = mixing->generation};
    for (size_t i = 0; parent && i < gossip->move_count; i++) {
        if (mix_xid_is(gossip->move[i].xid, slot->match.xid) &&
            is_side(&gossip->move[i].own, &own) &&
            /* A restored backup repeats the numbers of incarnations that are at work still. */
            (world->check->backups == 0 || gossip->move[i].agent == run->agent->index) &&
            id_equal(gossip->move[i].parent.text, parent->id.text)) {
            check_fail(world, "%s applies match %" PRId64 "-%" PRId64 " again", run->agent->name,
                       slot->match.xid.life, slot->match.xid.counter);
        }
    }
    /* What was copied before the copy for an average that is adopted is not applied after it. */
    const bool tagged = place == MIXING_PAIRS && average->has_copy && average->match.alpha > 0;
    if (tagged &&
        (average->copy.version > slot->copy.version ||
         (average->copy.version == slot->copy.version && average->copy.mixes > slot->copy.mixes))) {
        check_fail(world, "match %" PRId64 "-%" PRId64 " spans the copy for an adopted average",
                   slot->match.xid.life, slot->match.xid.counter);
    }
    if (parent) {
        ASSERT(gossip->move_count < MOVES_MAX);
        gossip->move[gossip->move_count].parent = parent->id;
        gossip->move[gossip->move_count].own = own;
        gossip->move[gossip->move_count].agent = run->agent->index;
        gossip->move[gossip->move_count++].xid = slot->match.xid;
    }
}

/* ---- records ---- */

static bool has_row(const struct rows *rows, const struct job *parent,
                    const struct mix_record *record)
{
    size_t at = rows->mix_count;
    while (at > 0 && !(mix_record_is(&rows->mix[at - 1].record, record) &&
                       id_equal(rows->mix[at - 1].job.text, parent->id.text))) {
        at--;
    }
    return at > 0;
}

void check_acknowledged(struct world *world, const struct run *run, const struct mix_report *report)
{
    const struct job *parent = parent_of(world, run->desired->job.text);
    if (!parent || world->check->backups > 0) {
        return;
    }
    for (size_t i = 0; i < report->record_count; i++) {
        const struct mix_record *record = &report->record[i];
        if (!has_row(&world->coordinator->rows, parent, record)) {
            check_fail(world, "a record of %" PRId64 "-%" PRId64 " of %s is acknowledged, no row",
                       record->xid.life, record->xid.counter, parent->spec.name);
        }
    }
}

void check_records_due(struct world *world)
{
    check_log_due(world->check->gossip->log);
}

/* Names of incarnations are given out again, those of matches are not. */
void check_mix_backup(struct world *world)
{
    world->check->gossip->move_count = 0;
}

void check_records_done(struct world *world)
{
    check_log_done(world->check->gossip->log);
}

void check_mix_rows(struct world *world, const struct transaction *transaction)
{
    for (size_t i = 0; i < transaction->count; i++) {
        if (transaction->item[i].kind == OBJECT_MIX) {
            check_log_note(world->check->gossip->log);
        }
    }
}

/* ---- averages ---- */

void check_computed(struct world *world, const struct run *run, struct mix_xid xid, uint64_t file)
{
    struct check_gossip *gossip = world->check->gossip;
    const struct job *parent = parent_of(world, run->desired->job.text);
    if (parent) {
        const size_t at = gossip->average_count++;
        ASSERT(at < AVERAGES_MAX);
        gossip->average[at].parent = parent->id;
        gossip->average[at].xid = xid;
        gossip->average[at].file = file;
    }
}

static const struct checkpoint *find_checkpoint(const struct rows *rows, const char *id)
{
    for (size_t i = 0; i < rows->checkpoint_count; i++) {
        if (id_equal(rows->checkpoint[i].id.text, id)) {
            return &rows->checkpoint[i];
        }
    }
    return NULL;
}

/* A group has computed it, and the center has it. */
static void check_average(struct world *world, const struct job *job,
                          const struct gossip_average *average)
{
    const struct coordinator *coordinator = world->coordinator;
    const struct checkpoint *row = find_checkpoint(&coordinator->rows, average->checkpoint.text);
    struct check_gossip *gossip = world->check->gossip;
    bool computed = false;
    for (size_t i = 0; i < gossip->average_count; i++) {
        if (mix_xid_is(gossip->average[i].xid, average->xid) &&
            id_equal(gossip->average[i].parent.text, job->id.text) &&
            gossip->average[i].file == digest_of_text(average->sha256)) {
            computed = gossip->average[i].stored = true;
        }
    }
    if (!computed) {
        check_fail(world, "no group of %s has computed its average %" PRId64 "-%" PRId64,
                   job->spec.name, average->xid.life, average->xid.counter);
    } else if (!check_deleted(world, average->checkpoint.text) &&
               (!row || strcmp(row->sha256, average->sha256) != 0 ||
                !blobs_have(&coordinator->blobs, average->sha256))) {
        check_fail(world, "the center does not have average %" PRId64 "-%" PRId64 " of %s",
                   average->xid.life, average->xid.counter, job->spec.name);
    }
}

/* Averages never decrease, unless an earlier time is put back. */
static void check_order(struct world *world, const struct job *job,
                        const struct gossip_state *state)
{
    struct check_gossip *gossip = world->check->gossip;
    const struct mix_xid newest = state->average_count > 0
                                      ? state->average[state->average_count - 1].xid
                                      : (struct mix_xid){0};
    size_t at = 0;
    while (at < gossip->parent_count && !id_equal(gossip->parent[at].parent.text, job->id.text)) {
        at++;
    }
    if (at == gossip->parent_count) {
        ASSERT(at < PARENTS_SEEN_MAX);
        gossip->parent[gossip->parent_count++].parent = job->id;
    }
    const bool more = state->averages > gossip->parent[at].averages;
    const bool rises = mix_xid_after(newest, gossip->parent[at].newest);
    const bool same = mix_xid_is(newest, gossip->parent[at].newest);
    if (world->check->backups == 0 && (more ? !rises : !same)) {
        check_fail(world,
                   "the averages of %s go from %" PRId64 "-%" PRId64 " to %" PRId64 "-%" PRId64,
                   job->spec.name, gossip->parent[at].newest.life,
                   gossip->parent[at].newest.counter, newest.life, newest.counter);
    }
    gossip->parent[at].newest = newest;
    gossip->parent[at].averages = state->averages;
}

static bool was_stored(const struct check_gossip *gossip, const struct job *job, struct mix_xid xid)
{
    bool stored = false;
    for (size_t i = 0; i < gossip->average_count; i++) {
        stored = stored || (gossip->average[i].stored && mix_xid_is(gossip->average[i].xid, xid) &&
                            id_equal(gossip->average[i].parent.text, job->id.text));
    }
    return stored;
}

void check_gossip_parent(struct world *world, const struct job *job, const struct parent *parent)
{
    const struct gossip_state *state = &parent->gossip;
    for (size_t i = 0; i < state->average_count; i++) {
        check_average(world, job, &state->average[i]);
    }
    check_order(world, job, state);
    for (size_t g = 0; g < state->member_count; g++) {
        if (state->member[g].origin.counter > 0 &&
            !was_stored(world->check->gossip, job, state->member[g].origin)) {
            check_fail(world, "group %zu of %s begins with an average that was not stored", g,
                       job->spec.name);
        }
    }
    if (job->state == JOB_SUCCEEDED && job->checkpoint.text[0] == '\0') {
        check_fail(world, "%s has ended without a model", job->spec.name);
    }
    check_log(world, world->check->gossip->log, job, parent);
}

/* ---- states that are kept ---- */

void check_group_keeps(struct world *world, const struct holding *holding, uint64_t digest)
{
    struct check_gossip *gossip = world->check->gossip;
    if (!check_group_kept(world, holding->job.text, holding->version, (size_t)holding->unit,
                          digest)) {
        ASSERT(gossip->kept_count < KEPT_MAX);
        gossip->kept[gossip->kept_count].job = holding->job;
        gossip->kept[gossip->kept_count].version = holding->version;
        gossip->kept[gossip->kept_count].unit = (size_t)holding->unit;
        gossip->kept[gossip->kept_count++].digest = digest;
    }
}

bool check_group_kept(const struct world *world, const char *job, int64_t version, size_t unit,
                      uint64_t digest)
{
    const struct check_gossip *gossip = world->check->gossip;
    for (size_t i = 0; i < gossip->kept_count; i++) {
        if (gossip->kept[i].version == version && gossip->kept[i].unit == unit &&
            gossip->kept[i].digest == digest && id_equal(gossip->kept[i].job.text, job)) {
            return true;
        }
    }
    return false;
}
