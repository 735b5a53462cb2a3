#include "agent/core/needs.h"
#include "schema/job_check.h"

#include <inttypes.h>
#include <string.h>

struct needs_data needs_data(const struct assignment_run *run)
{
    const bool first = run->stage_index == 0;
    const bool last = run->stage_index + 1 == run->stage_count;
    const bool view = run->job_spec.has_view;
    const bool tests = run->data.test_sha256[0] != '\0' &&
                       (run->job_spec.evaluate_every_epochs > 0 || run->has_mix);
    return (struct needs_data){.inputs = first,
                               .labels = last || (first && view),
                               .train = first || last,
                               .test = (first || last) && tests};
}

size_t needs_neighbours(const struct assignment_run *run,
                        const struct peer *out[NEEDS_NEIGHBOURS_MAX])
{
    size_t count = 0;
    if (run->has_previous) {
        out[count++] = &run->previous;
    }
    if (run->has_next) {
        out[count++] = &run->next;
    }
    return count;
}

int needs_check_local(const struct assignment_run *run, struct err *err)
{
    const struct job_spec *spec = &run->job_spec;
    const bool alone = run->stage_count == 1 && spec->strategy == STRATEGY_PIPELINE;
    return alone || !job_is_local(spec)
               ? 0
               : err_set(err, ERR_UNSUPPORTED,
                         "the data '%s' of this device are for a job that trains its whole model "
                         "here",
                         spec->train_local.name);
}

int needs_check_sources(const struct assignment_run *run, struct err *err)
{
    size_t first, end;
    assignment_loads(run, &first, &end);
    if (run->source_count == 0 || run->source_count != end - first) {
        return err_set(err, ERR_FORMAT, "units %zu to %zu with %zu sources", first, end,
                       run->source_count);
    }
    for (size_t i = 0; i < run->source_count; i++) {
        if (run->source[i].unit != (int64_t)(first + i)) {
            return err_set(err, ERR_FORMAT, "source %zu is of unit %" PRId64, i,
                           run->source[i].unit);
        }
    }
    return 0;
}

bool needs_rounds(const struct assignment_run *run)
{
    return (run->has_neighbor && run->job_spec.neighbor_every > 0) ||
           job_center_rounds(&run->job_spec);
}

int needs_check_hash(const struct source *source, const char *sha256, struct err *err)
{
    return strcmp(sha256, source->sha256) == 0
               ? 0
               : err_set(err, ERR_FORMAT, "its hash is %.12s, expected %.12s", sha256,
                         source->sha256);
}

const char *needs_error_code(int from)
{
    return from == SOURCE_DEVICE ? "peer" : from == SOURCE_SELF ? "snapshot" : "internal";
}
