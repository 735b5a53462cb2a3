#include "tests/unit/coordinator_plan/sample.h"

#include <math.h>
#include <string.h>

#include "coordinator/plan/timeline.h"

struct draws draws_of(uint64_t seed, uint64_t purpose)
{
    return (struct draws){.stream = rng_stream(seed, RNG_SIMULATION, purpose, 0)};
}

double draw_uniform(struct draws *draws, double low, double high)
{
    return low + (high - low) * (double)rng_uniform(&draws->stream, draws->index++);
}

size_t draw_below(struct draws *draws, size_t bound)
{
    return (size_t)rng_below(&draws->stream, draws->index++, bound);
}

static uint64_t sample_memory(void *arg, size_t device, size_t first, size_t end, size_t in_flight,
                              size_t stage_count)
{
    (void)device;
    (void)stage_count;
    struct sample *sample = arg;
    uint64_t bytes = 0;
    sample->memory_calls++;
    sample->memory_work += 1e4; /* a large model: 1.5 ms */
    for (size_t u = first; u < end; u++) {
        bytes += sample->unit_bytes[u] + in_flight * sample->activation_bytes[u];
    }
    return bytes;
}

void sample_init(struct sample *sample, size_t units, size_t devices, size_t micro_batches)
{
    memset(sample, 0, sizeof(*sample));
    sample->problem = (struct partition_problem){
        .unit_count = units,
        .device_count = devices,
        .stages_min = 1,
        .stages_max = PARTITION_STAGES_MAX,
        .forward_seconds = sample->forward,
        .backward_seconds = sample->backward,
        .update_seconds = sample->update,
        .border_bytes = sample->border,
        .usual_link = {.latency_seconds = 0, .bytes_per_second = 1e9},
        .pair = sample->pair,
        .codec = sample->codec,
        .memory_cap_bytes = sample->cap,
        .stage_memory = sample_memory,
        .arg = sample,
        .micro_batches = micro_batches,
    };
    for (size_t d = 0; d < devices; d++) {
        sample->cap[d] = UINT64_MAX;
        for (size_t u = 0; u < units; u++) {
            sample->forward[d * units + u] = 1;
            sample->backward[d * units + u] = 2;
        }
    }
}

static void draw_device(struct sample *sample, struct draws *draws, size_t device)
{
    const size_t units = sample->problem.unit_count;
    const double speed = (double)(device % 3 + 1);
    /* Every third device equals the one before it in everything but, perhaps, its links. */
    const bool twin = device > 0 && draw_below(draws, 3) == 0;
    for (size_t u = 0; u < units; u++) {
        const size_t at = device * units + u, before = (device - twin) * units + u;
        const double work = sample->border[u] % 7 == 0 ? 0.3 : 1 + (double)(sample->border[u] % 3);
        sample->forward[at] =
            twin ? sample->forward[before] : work * speed * draw_uniform(draws, 0.8, 1.2);
        sample->backward[at] =
            twin ? sample->backward[before] : 2 * work * speed * draw_uniform(draws, 0.8, 1.2);
        sample->update[at] = twin ? sample->update[before] : draw_uniform(draws, 0, 0.3);
    }
    sample->overhead[device] = twin ? sample->overhead[device - 1] : draw_uniform(draws, 0, 0.4);
    sample->overhead_per_byte[device] =
        twin ? sample->overhead_per_byte[device - 1] : draw_uniform(draws, 0, 3e-4);
    sample->cap[device] = twin ? sample->cap[device - 1] : 50 + draw_below(draws, 600);
}

static void draw_links(struct sample *sample, struct draws *draws)
{
    const size_t devices = sample->problem.device_count;
    const double slow = draw_below(draws, 2) ? 1 : 0.05;
    const bool all = draw_below(draws, 2) == 0;
    sample->problem.usual_link =
        (struct link_speed){.latency_seconds = slow * draw_uniform(draws, 0, 1),
                            .bytes_per_second = draw_uniform(draws, 200, 2000) / slow};
    for (size_t a = 0; a < devices; a++) {
        for (size_t b = a + 1; b < devices; b++) {
            if (!all && draw_below(draws, 4) > 0) {
                continue;
            }
            sample->pair[sample->problem.pair_count++] = (struct partition_pair){
                .a = a,
                .b = b,
                .link = {.latency_seconds = slow * draw_uniform(draws, 0, 1),
                         .bytes_per_second = draw_uniform(draws, 200, 2000) / slow}};
        }
    }
}

static void draw_codecs(struct sample *sample, struct draws *draws, size_t codecs_max)
{
    sample->problem.codec_count = draw_below(draws, codecs_max + 1);
    for (size_t c = 0; c < sample->problem.codec_count; c++) {
        sample->codec[c] = (struct partition_codec){
            .ratio = c == 0 ? 1 : draw_uniform(draws, 1.5, 8),
            .encode_bytes_per_second = c == 0 ? INFINITY : draw_uniform(draws, 500, 20000),
            .decode_bytes_per_second = c == 0 ? INFINITY : draw_uniform(draws, 500, 40000)};
    }
}

void sample_draw(struct sample *sample, struct draws *draws, size_t units_max, size_t devices_max,
                 size_t micro_batches_max, size_t codecs_max)
{
    const size_t units = 1 + draw_below(draws, units_max);
    const size_t devices = 1 + draw_below(draws, devices_max);
    sample_init(sample, units, devices, 1 + draw_below(draws, micro_batches_max));
    struct partition_problem *problem = &sample->problem;
    problem->clips_norm = draw_below(draws, 4) == 0;
    const size_t most = devices < units ? devices : units;
    problem->stages_min = draw_below(draws, 3) == 0 ? 1 + draw_below(draws, most) : 1;
    problem->stages_max =
        draw_below(draws, 3) == 0 ? problem->stages_min + draw_below(draws, 3) : devices;
    const bool tight = draw_below(draws, 3) == 0;
    for (size_t u = 0; u < units; u++) {
        sample->border[u] = draw_below(draws, 1000);
        sample->unit_bytes[u] = draw_below(draws, 100);
        sample->activation_bytes[u] = draw_below(draws, 50);
        sample->replica_bytes[u] = (double)sample->unit_bytes[u] / 4;
    }
    for (size_t d = 0; d < devices; d++) {
        draw_device(sample, draws, d);
    }
    for (size_t d = 0; d < devices && !tight; d++) {
        sample->cap[d] = UINT64_MAX;
    }
    draw_links(sample, draws);
    draw_codecs(sample, draws, codecs_max);
    problem->replica_bytes = draw_below(draws, 2) ? sample->replica_bytes : NULL;
    problem->overhead_seconds = draw_below(draws, 2) ? sample->overhead : NULL;
    problem->overhead_seconds_per_byte = draw_below(draws, 2) ? sample->overhead_per_byte : NULL;
}

static double choose(size_t count, size_t of)
{
    double ways = 1;
    for (size_t i = 0; i < count; i++) {
        ways *= (double)(of - i) / (double)(i + 1);
    }
    return ways;
}

double sample_plays(const struct sample *sample)
{
    const struct partition_problem *problem = &sample->problem;
    const size_t units = problem->unit_count, devices = problem->device_count;
    const double codecs = problem->codec_count > 0 ? (double)problem->codec_count : 1;
    double plays = 0;
    for (size_t stages = problem->stages_min;
         stages <= problem->stages_max && stages <= devices && stages <= units; stages++) {
        double orders = choose(stages, devices);
        for (size_t i = 2; i <= stages; i++) {
            orders *= (double)i;
        }
        plays += orders * choose(stages - 1, units - 1) * pow(codecs, (double)stages - 1) *
                 choose(stages - 1, problem->micro_batches + stages - 2);
    }
    return plays;
}

/* ---- brute force ---- */

struct trial {
    const struct sample *sample;
    struct sample_answer answer;
    size_t count;
    size_t device[PARTITION_STAGES_MAX], end[PARTITION_STAGES_MAX], codec[PARTITION_STAGES_MAX];
    struct timeline_stage stage[PARTITION_STAGES_MAX];
};

static struct link_speed link_of(const struct partition_problem *problem, size_t a, size_t b)
{
    for (size_t i = 0; i < problem->pair_count; i++) {
        const struct partition_pair *pair = &problem->pair[i];
        if ((pair->a == a && pair->b == b) || (pair->a == b && pair->b == a)) {
            return pair->link;
        }
    }
    return problem->usual_link;
}

/* Written from the header of the planner, not from its code. */
static void fill(struct trial *trial)
{
    const struct partition_problem *problem = &trial->sample->problem;
    const size_t units = problem->unit_count;
    double received = 0;
    for (size_t i = 0, first = 0; i < trial->count; first = trial->end[i++]) {
        const size_t d = trial->device[i];
        struct timeline_stage stage = {.update_seconds = 0};
        double replicas = 0, sent = 0;
        for (size_t u = first; u < trial->end[i]; u++) {
            stage.forward_seconds += problem->forward_seconds[d * units + u];
            stage.backward_seconds += problem->backward_seconds[d * units + u];
            stage.update_seconds += problem->update_seconds[d * units + u];
            replicas += problem->replica_bytes ? problem->replica_bytes[u] : 0;
        }
        if (i + 1 < trial->count) {
            const struct link_speed link = link_of(problem, d, trial->device[i + 1]);
            const double bytes = (double)problem->border_bytes[trial->end[i] - 1];
            double encode = 0, decode = 0;
            sent = bytes;
            if (problem->codec_count > 0) {
                const struct partition_codec *codec = &problem->codec[trial->codec[i]];
                sent = bytes / codec->ratio;
                encode = bytes / codec->encode_bytes_per_second;
                decode = bytes / codec->decode_bytes_per_second;
            }
            stage.send_backward_seconds =
                encode + sent / link.bytes_per_second + link.latency_seconds;
            stage.send_forward_seconds =
                stage.send_backward_seconds +
                replicas / (double)problem->micro_batches / link.bytes_per_second;
            stage.latency_seconds = link.latency_seconds;
            stage.after_seconds = decode - link.latency_seconds / 2;
        }
        const double each = problem->overhead_seconds ? problem->overhead_seconds[d] / 2 : 0;
        const double bytes_seconds = problem->overhead_seconds_per_byte
                                         ? problem->overhead_seconds_per_byte[d] * (received + sent)
                                         : 0;
        stage.forward_seconds += each + bytes_seconds;
        stage.backward_seconds += each + bytes_seconds;
        trial->stage[i] = stage;
        received = sent;
    }
}

static void try_limits(struct trial *trial, size_t index, size_t most)
{
    const struct partition_problem *problem = &trial->sample->problem;
    if (index == trial->count) {
        const struct timeline_rules rules = {.micro_batches = problem->micro_batches,
                                             .clips_norm = problem->clips_norm,
                                             .strict = problem->order == PARTITION_STRICT};
        struct timeline_result result;
        timeline_play(trial->stage, trial->count, &rules, &result);
        trial->answer.plays++;
        trial->answer.least[trial->count] =
            fmin(trial->answer.least[trial->count], result.step_seconds);
        return;
    }
    most = index + 1 == trial->count ? 1 : most;
    for (size_t limit = 1; limit <= most; limit++) {
        uint64_t bytes = problem->stage_memory(problem->arg, trial->device[index],
                                               index == 0 ? 0 : trial->end[index - 1],
                                               trial->end[index], limit, trial->count);
        if (bytes > problem->memory_cap_bytes[trial->device[index]]) {
            break;
        }
        trial->stage[index].in_flight = limit;
        try_limits(trial, index + 1, limit);
    }
}

static void try_codecs(struct trial *trial, size_t boundary)
{
    const size_t codecs = trial->sample->problem.codec_count;
    if (boundary + 1 >= trial->count) {
        fill(trial);
        try_limits(trial, 0, trial->sample->problem.micro_batches);
        return;
    }
    for (size_t c = 0; c == 0 || c < codecs; c++) {
        trial->codec[boundary] = c;
        try_codecs(trial, boundary + 1);
    }
}

static void try_stages(struct trial *trial, size_t index, size_t first, uint64_t used)
{
    const struct partition_problem *problem = &trial->sample->problem;
    if (index == problem->stages_max) {
        return;
    }
    for (size_t d = 0; d < problem->device_count; d++) {
        if (used >> d & 1) {
            continue;
        }
        trial->device[index] = d;
        for (size_t end = first + 1; end <= problem->unit_count; end++) {
            trial->end[index] = end;
            if (end < problem->unit_count) {
                try_stages(trial, index + 1, end, used | (uint64_t)1 << d);
            } else if (index + 1 >= problem->stages_min) {
                trial->count = index + 1;
                try_codecs(trial, 0);
            }
        }
    }
}

struct sample_answer sample_brute_force(const struct sample *sample)
{
    static struct trial trial;
    memset(&trial, 0, sizeof(trial));
    trial.sample = sample;
    for (size_t i = 0; i <= PARTITION_STAGES_MAX; i++) {
        trial.answer.least[i] = INFINITY;
    }
    try_stages(&trial, 0, 0, 0);
    trial.answer.step_seconds = INFINITY;
    for (size_t i = 1; i <= PARTITION_STAGES_MAX; i++) {
        trial.answer.step_seconds = fmin(trial.answer.step_seconds, trial.answer.least[i]);
    }
    return trial.answer;
}

void sample_slow_down(struct sample *sample, size_t device, double times)
{
    for (size_t u = 0; u < sample->problem.unit_count; u++) {
        sample->forward[device * sample->problem.unit_count + u] *= times;
        sample->backward[device * sample->problem.unit_count + u] *= times;
    }
}
