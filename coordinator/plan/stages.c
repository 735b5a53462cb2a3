#include "coordinator/plan/stages.h"

#include <math.h>

static const struct partition_codec unchanged = {
    .ratio = 1, .encode_bytes_per_second = 1e300, .decode_bytes_per_second = 1e300};

static const struct partition_codec *codec_of(const struct kinds *kinds, size_t codec)
{
    const struct partition_problem *problem = kinds->problem;
    return problem->codec_count > 0 ? &problem->codec[codec] : &unchanged;
}

double stages_wire_bytes(const struct kinds *kinds, size_t codec, size_t end)
{
    const struct partition_problem *problem = kinds->problem;
    return end == 0 || end == problem->unit_count
               ? 0
               : (double)problem->border_bytes[end - 1] / codec_of(kinds, codec)->ratio;
}

struct crossing stages_cross(const struct kinds *kinds, const struct link_speed *link, size_t codec,
                             size_t first, size_t end)
{
    const struct partition_codec *coding = codec_of(kinds, codec);
    const double bytes = (double)kinds->problem->border_bytes[end - 1];
    const double replicas = stages_sum(kinds->replica_sum, first, end);
    const double tensor = bytes / coding->encode_bytes_per_second +
                          bytes / (coding->ratio * link->bytes_per_second) + link->latency_seconds;
    const double count = (double)kinds->problem->micro_batches;
    return (struct crossing){
        .forward_seconds = tensor + replicas / (count * link->bytes_per_second),
        .backward_seconds = tensor,
        .latency_seconds = link->latency_seconds,
        .after_seconds = bytes / coding->decode_bytes_per_second - link->latency_seconds / 2};
}

size_t stages_codec(const struct kinds *kinds, const struct link_speed *link, size_t first,
                    size_t end)
{
    size_t best = 0;
    double least = 0;
    for (size_t c = 0; c < kinds->problem->codec_count; c++) {
        const struct crossing crossing = stages_cross(kinds, link, c, first, end);
        double seconds = crossing.forward_seconds + crossing.after_seconds;
        if (c == 0 || seconds < least * (1 - KINDS_EQUAL)) {
            best = c;
            least = seconds;
        }
    }
    return best;
}

void stages_fill(const struct kinds *kinds, const struct layout *layout,
                 struct timeline_stage *stage)
{
    size_t first = 0;
    double received = 0;
    for (size_t i = 0; i < layout->count; i++) {
        const size_t kind = layout->kind[i], end = layout->end[i];
        const struct kind_sums *sums = &kinds->sums[kind];
        const double sent = stages_wire_bytes(kinds, layout->codec[i], end);
        const double overhead = kinds->kind[kind].overhead_seconds / 2 +
                                stages_bytes_seconds(kinds, kind, received + sent) / 2;
        stage[i] = (struct timeline_stage){
            .forward_seconds = stages_sum(sums->forward, first, end) + overhead,
            .backward_seconds = stages_sum(sums->backward, first, end) + overhead,
            .update_seconds = stages_sum(sums->update, first, end),
        };
        if (i + 1 < layout->count) {
            const struct crossing crossing = stages_cross(
                kinds, kinds_link(kinds, kind, layout->kind[i + 1]), layout->codec[i], first, end);
            stage[i].send_forward_seconds = crossing.forward_seconds;
            stage[i].send_backward_seconds = crossing.backward_seconds;
            stage[i].latency_seconds = crossing.latency_seconds;
            stage[i].after_seconds = crossing.after_seconds;
        }
        first = end;
        received = sent;
    }
}

uint64_t stages_memory(const struct kinds *kinds, const struct layout *layout, size_t index,
                       size_t in_flight)
{
    const struct partition_problem *problem = kinds->problem;
    return problem->stage_memory(problem->arg, kinds->kind[layout->kind[index]].device,
                                 index == 0 ? 0 : layout->end[index - 1], layout->end[index],
                                 in_flight, layout->count);
}

/* ---- given stages ---- */

static double round_trip(const struct timeline_stage *stage, size_t first, size_t end, size_t count)
{
    double seconds = 0;
    for (size_t i = first; i < end; i++) {
        seconds += stage[i].forward_seconds + stage[i].backward_seconds;
        if (i + 1 < count) {
            seconds += 2 * stage[i].after_seconds + stage[i].send_forward_seconds +
                       stage[i].send_backward_seconds;
        }
    }
    return seconds;
}

/* In addition to the bound of each stage and link: one micro-batch passes all stages, and each
 * stage and link repeats the same direction for all others before or after it. */
double stages_bound(const struct partition_problem *problem, const struct timeline_stage *stage,
                    size_t count)
{
    const double others = (double)problem->micro_batches - 1;
    const double whole = round_trip(stage, 0, count, count);
    struct stage_bound bound = {0, 0};
    double most = 0;
    for (size_t i = 0; i < count; i++) {
        const struct crossing crossing = {.forward_seconds = stage[i].send_forward_seconds,
                                          .backward_seconds = stage[i].send_backward_seconds,
                                          .after_seconds = stage[i].after_seconds};
        const struct stage_cost cost = {stage[i].forward_seconds + stage[i].backward_seconds,
                                        stage[i].update_seconds, i == 0};
        bound = stages_bound_add(problem, bound, cost, i + 1 < count ? &crossing : NULL);
        most = stages_max(most, stages_max(stage[i].forward_seconds, stage[i].backward_seconds));
        if (i + 1 < count) {
            most =
                stages_max(most, stages_max(crossing.forward_seconds, crossing.backward_seconds));
        }
    }
    return problem->async ? bound.most
                          : stages_max(bound.most, whole + others * most + stage[0].update_seconds);
}

/* With a limit of f, micro-batch k + f starts after k has come back. */
size_t stages_in_flight(const struct partition_problem *problem, const struct timeline_stage *stage,
                        size_t count, size_t index, double limit_seconds)
{
    const double before = round_trip(stage, 0, index, count) + stage[0].update_seconds;
    const double trip = round_trip(stage, index, count, count);
    size_t least = 1;
    while (least < problem->micro_batches &&
           before + ceil((double)problem->micro_batches / (double)least) * trip >=
               limit_seconds * (1 + KINDS_EQUAL)) {
        least++;
    }
    return least;
}
