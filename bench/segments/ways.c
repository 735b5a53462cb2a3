#include "bench/segments/ways.h"

const struct way ways[WAYS] = {
    {"whole", SEGMENTS_WHOLE, 0},         {"layer", SEGMENTS_LAYER, 0},
    {"1 MiB", SEGMENTS_FIXED, 1 << 20},   {"4 MiB", SEGMENTS_FIXED, 4 << 20},
    {"greedy", SEGMENTS_GREEDY, 0},       {"ready", SEGMENTS_READY, 0},
    {"window", SEGMENTS_LAYER_WINDOW, 0}, {"stream", SEGMENTS_STREAM, 0},
};

double way_seconds(const struct segments_problem *problem, const struct way *way,
                   struct segments_scratch *scratch, size_t *end)
{
    size_t count;
    if (way->transfers == SEGMENTS_STREAM) {
        return segments_stream(problem);
    }
    if (way->transfers == SEGMENTS_LAYER_WINDOW) {
        return segments_window(problem, SEGMENTS_WINDOW);
    }
    segments_choose(problem, way->transfers, way->bytes, scratch, end, &count);
    return segments_evaluate(problem, end, count);
}
