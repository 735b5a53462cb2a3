/* Plans and assignments by hand. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tests/sim/coordinator.h"
#include "tests/sim/stories/hand.h"

#define PEER_MS 2000
#define TICKET "hand"

/* ---- a plan ---- */

static void draw_servers(struct hand *hand)
{
    const size_t units = hand->job->model->unit_count;
    size_t most = hand->count < units ? hand->count : units;
    most = most < EXCHANGE_SERVERS_MAX ? most : EXCHANGE_SERVERS_MAX;
    hand->servers = 1 + (size_t)hand_draw(hand, most);
    int64_t first = 0;
    for (size_t i = 0; i < hand->servers; i++) {
        const int64_t left = (int64_t)units - first - (int64_t)(hand->servers - 1 - i);
        const int64_t count = i + 1 == hand->servers ? (int64_t)units - first
                                                     : 1 + (int64_t)hand_draw(hand, (uint64_t)left);
        hand->stage[i].first = first;
        hand->stage[i].end = first += count;
    }
}

/* Stages that keep no units have a share. */
static void draw_shares(struct hand *hand)
{
    const int64_t micro_batches = hand->job->spec.micro_batches;
    size_t worker[HAND_DEVICES_MAX], workers = 0;
    for (size_t i = 0; i < hand->count; i++) {
        if (i >= hand->servers || hand_draw(hand, 2) == 0) {
            worker[workers++] = i;
        }
    }
    workers += workers == 0 ? (worker[0] = 0, 1) : 0;
    const size_t most_workers = (size_t)micro_batches;
    int64_t first = 0;
    const size_t without = workers > most_workers ? workers - most_workers : 0;
    for (size_t w = without; w < workers; w++) { /* in any order */
        const size_t at = w + (size_t)hand_draw(hand, workers - w);
        const size_t next = worker[at];
        worker[at] = worker[w];
        worker[w] = next;
    }
    for (size_t w = without; w < workers; w++) {
        const int64_t most = micro_batches - first - (int64_t)(workers - 1 - w);
        const int64_t count =
            w + 1 == workers ? most : 1 + (int64_t)hand_draw(hand, (uint64_t)most);
        hand->stage[worker[w]].share_first = first;
        hand->stage[worker[w]].share_end = first += count;
    }
}

bool hand_is_up(const struct hand *hand, size_t device)
{
    return hand->world.actor[ACTOR_DEVICE + device].up;
}

void hand_draw_plan(struct hand *hand)
{
    const size_t micro_batches = (size_t)hand->job->spec.micro_batches;
    memset(hand->stage, 0, sizeof(hand->stage));
    memset(hand->prepared, 0, sizeof(hand->prepared));
    memset(hand->stopped, 0, sizeof(hand->stopped));
    hand->failed = false;
    hand->lost = HAND_NONE;
    size_t up[HAND_DEVICES_MAX], count = 0;
    for (size_t i = 0; i < hand->world.agent_count; i++) {
        up[count] = i;
        count += hand_is_up(hand, i);
    }
    /* A stage without units needs a micro-batch. */
    const size_t most = count < micro_batches ? count : micro_batches;
    hand->count = 1 + (size_t)hand_draw(hand, most);
    for (size_t s = 0; s < hand->count; s++) {
        const size_t at = (size_t)hand_draw(hand, count);
        hand->device[s] = up[at];
        up[at] = up[--count];
    }
    draw_servers(hand);
    draw_shares(hand);
    for (size_t s = 0; s < hand->count; s++) {
        struct peer *peer = &hand->stage[s].peer;
        peer->device = hand->world.agent[hand->device[s]]->id;
        (void)snprintf(peer->url, URL_SIZE, "http://d%zu:7411", hand->device[s] + 1);
        (void)snprintf(peer->ticket, TICKET_SIZE, TICKET);
    }
    (void)snprintf(hand->plan.text, ID_SIZE, "plan_%" PRId64, ++hand->generation);
}

/* ---- assignments ---- */

static bool works(const struct assigned_stage *stage)
{
    return stage->share_first < stage->share_end;
}

/* Who needs whom: docs/adr/0139. */
static bool calls(const struct hand *hand, size_t from, size_t to)
{
    const bool server = to < hand->servers;
    return from != to && (from == 0 || (server && works(&hand->stage[from])) ||
                          (server && from < hand->servers && (from == to + 1 || to == from + 1)));
}

static size_t keeper_of(const struct hand *hand, int64_t unit)
{
    for (size_t i = 0; i < hand->world.agent_count; i++) {
        if (agent_snapshot(hand->world.agent[i], hand->id.text, hand->version, unit)) {
            return i;
        }
    }
    fail_msg("nobody has unit %" PRId64 " at %" PRId64, unit, hand->version);
    return HAND_NONE;
}

static void fill_source(const struct hand *hand, size_t device, struct source *source)
{
    const int64_t version = hand->version;
    if (version == 0) {
        source->from = SOURCE_SEED;
        return;
    }
    const struct snapshot *own =
        agent_snapshot(hand->world.agent[device], hand->id.text, version, source->unit);
    const size_t keeper = own ? device : keeper_of(hand, source->unit);
    const struct snapshot *held =
        agent_snapshot(hand->world.agent[keeper], hand->id.text, version, source->unit);
    source->from = own ? SOURCE_SELF : SOURCE_DEVICE;
    source->device = hand->world.agent[keeper]->id;
    source->bytes = held->holding.bytes;
    memcpy(source->sha256, held->holding.sha256, SHA256_SIZE);
    (void)snprintf(source->url, URL_SIZE, "http://d%zu:7411", keeper + 1);
    (void)snprintf(source->ticket, TICKET_SIZE, TICKET);
}

static void fill_run(struct hand *hand, size_t index, struct assignment_run *run)
{
    const struct assigned_stage *own = &hand->stage[index];
    run->job = hand->id;
    run->generation = hand->generation;
    run->plan = hand->plan;
    run->phase = PHASE_PREPARE;
    run->resume_version = hand->version;
    run->stage_index = (int64_t)index;
    run->stage_count = (int64_t)hand->count;
    run->first = own->first;
    run->end = own->end;
    run->in_flight = 1;
    run->peer_ms = PEER_MS;
    run->total_steps = hand->job->reference->steps;
    run->early_stop = hand->judged;
    run->has_early_stop = hand->judged.version > 0;
    run->job_spec = hand->job->spec;
    run->data = hand->job->data;
    for (size_t s = 0; s < hand->count; s++) {
        run->stage[s] = hand->stage[s];
        if (!calls(hand, index, s)) {
            run->stage[s].peer.url[0] = run->stage[s].peer.ticket[0] = '\0';
        }
    }
    run->stages_listed = hand->count;
    if (hand->servers > 1 && index < hand->servers) {
        run->has_neighbor = true;
        run->neighbor = hand->stage[(index + 1) % hand->servers].peer;
    }
    run->replica_bytes = 1 << 28;
    size_t first, end;
    assignment_loads(run, &first, &end);
    for (size_t unit = first; unit < end; unit++) {
        struct source *source = &run->source[run->source_count++];
        source->unit = (int64_t)unit;
        fill_source(hand, hand->device[index], source);
    }
}

/* Everybody may call everybody. */
static void fill_callers(struct hand *hand, struct assignment *assignment)
{
    struct caller *caller = &assignment->caller[assignment->caller_count++];
    caller->job = hand->id;
    caller->generation = hand->generation;
    (void)snprintf(caller->ticket, TICKET_SIZE, TICKET);
}

void hand_assign(struct hand *hand)
{
    for (size_t i = 0; i < hand->world.agent_count; i++) {
        struct agent *agent = hand->world.agent[i];
        struct assignment *assignment = net_assignment(&hand->world);
        memset(assignment, 0, sizeof(*assignment));
        fill_callers(hand, assignment);
        size_t index = 0;
        while (index < hand->count && hand->device[index] != i) {
            index++;
        }
        assignment->has_run = index < hand->count;
        if (assignment->has_run) {
            fill_run(hand, index, &assignment->run);
        }
        struct err err = {0};
        assert_ok(assignment_check(assignment, &err), &err);
        admission_set(&agent->admission, assignment);
        if (assignment->has_run && hand_is_up(hand, i)) {
            const struct snapshot_start start = {
                .job = hand->id, .generation = hand->generation, .version = hand->version};
            agent_cut(&hand->world, agent, &start);
            run_start(&hand->world, agent, ++hand->serial, &assignment, &agent->run);
        }
        net_put_assignment(&hand->world, &assignment);
    }
}
