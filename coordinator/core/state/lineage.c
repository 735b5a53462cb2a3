/* A generation that starts from an older version abandons the newer ones. Snapshots of abandoned
 * generations have valid hashes but belong to another history, so they must never be mixed in. */
#include "coordinator/core/state/lineage.h"

#include <string.h>

#include "coordinator/core/state/state.h"

/* A generation that starts from `first` abandons every newer version of earlier generations.
 * Generations before the oldest known start do not count, because their abandoned versions are
 * unknown. Generations that are not in the rows, after a restored backup, do not count either. */
bool lineage_holds(const struct job *job, int64_t generation, int64_t version)
{
    if (version == 0) {
        return true;
    }
    if (generation > job->generation ||
        (job->line_count == LINE_STARTS_MAX && generation < job->line[0].generation)) {
        return false;
    }
    for (size_t i = 0; i < job->line_count; i++) {
        if (job->line[i].generation > generation) {
            return version <= job->line[i].first;
        }
    }
    return true;
}

void lineage_push(struct job *job, int64_t generation, int64_t first)
{
    while (job->line_count > 0 && job->line[job->line_count - 1].first >= first) {
        job->line_count--;
    }
    if (job->line_count == LINE_STARTS_MAX) {
        memmove(job->line, job->line + 1, (LINE_STARTS_MAX - 1) * sizeof(job->line[0]));
        job->line_count--;
    }
    job->line[job->line_count++] = (struct line_start){.generation = generation, .first = first};
}
