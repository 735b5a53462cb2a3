#include "tests/unit/agent/fake_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void fake_device_text(size_t index, char out[ID_SIZE])
{
    (void)snprintf(out, ID_SIZE, "dev_000000000000000000000000%02u", (unsigned)index % 100);
}

static void ticket(int64_t generation, size_t from, size_t to, char out[TICKET_SIZE])
{
    (void)snprintf(out, TICKET_SIZE, "ticket-%" PRId64 "-%zu-%zu", generation, from, to);
}

static void fill_peer(const struct fake_coordinator *fake, size_t from, size_t to, struct peer *out)
{
    fake_device_text(to, out->device.text);
    (void)snprintf(out->url, sizeof(out->url), "%s", fake->agent[to].address);
    (void)snprintf(out->codec, sizeof(out->codec), "none");
    ticket((int64_t)fake->generation + 1, from, to, out->ticket);
}

/* Who holds the unit at the resumed version; agent_count: none. */
static size_t holder(const struct fake_coordinator *fake, int64_t unit, size_t preferred,
                     struct holding *out)
{
    for (size_t step = 0; step < fake->script.agent_count; step++) {
        const size_t index = (preferred + step) % fake->script.agent_count;
        const struct fake_agent *agent = &fake->agent[index];
        for (size_t i = 0; !agent->lost && i < agent->holding_count; i++) {
            if (agent->holding[i].unit == unit &&
                agent->holding[i].version == fake->resume_version) {
                *out = agent->holding[i];
                return index;
            }
        }
    }
    return fake->script.agent_count;
}

static void fill_source(struct fake_coordinator *fake, int64_t unit, size_t own, struct source *out)
{
    struct holding holding;
    out->unit = unit;
    out->from = SOURCE_SEED;
    if (fake->resume_version == 0) {
        return;
    }
    if (fake->through_center) {
        out->from = SOURCE_CENTER;
        (void)snprintf(out->sha256, sizeof(out->sha256), "%s", fake->center[unit].sha256);
        out->bytes = (int64_t)fake->center[unit].size;
        return;
    }
    const size_t index = holder(fake, unit, own, &holding);
    if (index == fake->script.agent_count) {
        fake_over(fake, "a unit is held by no agent");
        return;
    }
    out->from = index == own ? SOURCE_SELF : SOURCE_DEVICE;
    out->bytes = holding.bytes;
    memcpy(out->sha256, holding.sha256, sizeof(out->sha256));
    if (index != own) {
        fake_device_text(index, out->device.text);
        memcpy(out->url, fake->agent[index].address, sizeof(out->url));
        ticket((int64_t)fake->generation + 1, own, index, out->ticket);
    }
}

static int phase_told(const struct fake_coordinator *fake)
{
    static const int phases[] = {PHASE_IDLE,     PHASE_PREPARE,  PHASE_RUN,
                                 PHASE_STOPPING, PHASE_FINISHED, PHASE_IDLE};
    return fake->state == FAKE_OVER ? PHASE_IDLE : phases[fake->state];
}

static void fill_run(struct fake_coordinator *fake, size_t device, size_t stage,
                     struct assignment_run *run)
{
    const struct fake_generation *script = fake_present(fake);
    (void)snprintf(run->job.text, sizeof(run->job.text), "%s", FAKE_JOB);
    run->generation = (int64_t)fake->generation + 1;
    (void)snprintf(run->plan.text, sizeof(run->plan.text), "plan_000000000000000000000000%02u",
                   (unsigned)(fake->generation + 1) % 100);
    run->phase = phase_told(fake);
    run->resume_version =
        fake->state == FAKE_FINISHING ? fake->stopped_at[fake->generation] : fake->resume_version;
    run->stage_index = (int64_t)stage;
    run->stage_count = (int64_t)script->stage_count;
    run->first = stage > 0 ? (int64_t)script->end[stage - 1] : 0;
    run->end = (int64_t)script->end[stage];
    run->job_spec = tiny_spec();
    (void)snprintf(run->job_spec.dataset_train, NAME_SIZE, "train");
    (void)snprintf(run->job_spec.dataset_test, NAME_SIZE, "test");
    (void)snprintf(run->job_spec.name, NAME_SIZE, "tiny");
    (void)snprintf(run->job_spec.model.name, NAME_SIZE, "tiny");
    const size_t left = script->stage_count - stage;
    run->in_flight = left < 4 ? (int64_t)left : 4;
    run->previous_in_flight = stage == 0 ? 0 : left + 1 < 4 ? (int64_t)left + 1 : 4;
    for (int64_t unit = run->first; fake->state == FAKE_PREPARING && unit < run->end; unit++) {
        fill_source(fake, unit, device, &run->source[run->source_count++]);
    }
    run->has_previous = stage > 0;
    run->has_next = stage + 1 < script->stage_count;
    if (run->has_previous) {
        fill_peer(fake, device, script->device[stage - 1], &run->previous);
    }
    if (run->has_next) {
        fill_peer(fake, device, script->device[stage + 1], &run->next);
    }
    run->job_spec.neighbor_every = fake->script.neighbor_every;
    run->job_spec.center_every = fake->script.center_every;
    run->has_neighbor = script->stage_count > 1;
    if (run->has_neighbor) {
        fill_peer(fake, device, script->device[(stage + 1) % script->stage_count], &run->neighbor);
        run->replica_bytes = 1 << 20;
    }
    fake_fill_mix(fake, run);
    run->step_ms = 60000;
    run->peer_ms = 20000;
    run->lease_ms = 60000;
    run->total_steps = TINY_STEPS;
    memcpy(run->data.train_sha256, fake->train->sha256, SHA256_SIZE);
    memcpy(run->data.test_sha256, fake->test->sha256, SHA256_SIZE);
    run->data.train_samples = TINY_SAMPLES;
    run->data.test_samples = TINY_TESTS;
}

void fake_fill_assignment(struct fake_coordinator *fake, size_t device, struct assignment *out)
{
    memset(out, 0, sizeof(*out));
    out->revision = fake->agent[device].revision;
    out->interval_ms = FAKE_INTERVAL_MS;
    if (fake->state == FAKE_CLEARING) {
        out->drop_count = 1;
        (void)snprintf(out->drop[0].job.text, ID_SIZE, "%s", FAKE_JOB);
        out->drop[0].below_version = INT64_MAX;
        return;
    }
    if (fake->state == FAKE_ENROLLING || fake->state == FAKE_OVER) {
        return;
    }
    if (fake->state == FAKE_RUNNING) {
        const int64_t *committed = fake->committed;
        (void)snprintf(out->drop[0].job.text, ID_SIZE, "%s", FAKE_JOB);
        out->drop[0].below_version = committed[0] > committed[1] ? committed[0] : committed[1];
        out->drop_count = out->drop[0].below_version > 0;
    }
    /* All may call all: this coordinator is not about tickets. */
    for (size_t other = 0; other < fake->script.agent_count; other++) {
        struct caller *caller = &out->caller[out->caller_count++];
        (void)snprintf(caller->job.text, ID_SIZE, "%s", FAKE_JOB);
        caller->generation = (int64_t)fake->generation + 1;
        fake_device_text(other, caller->device.text);
        ticket(caller->generation, other, device, caller->ticket);
    }
    const struct fake_generation *script = fake_present(fake);
    for (size_t stage = 0; stage < script->stage_count; stage++) {
        if (script->device[stage] == device) {
            out->has_run = true;
            fill_run(fake, device, stage, &out->run);
        }
    }
    if (!out->has_run) {
        out->run = (struct assignment_run){0};
    }
}
