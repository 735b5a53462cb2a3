#include "coordinator/plan/misfit.h"

#include <inttypes.h>
#include <stdio.h>

#include "coordinator/plan/bound.h"

static int misfit(const struct kinds *kinds, size_t device, size_t first, size_t unit,
                  struct err *err)
{
    const struct partition_problem *problem = kinds->problem;
    char unit_name[80], first_name[80], device_name[80];
    const struct {
        char *text;
        const char *const *names;
        size_t index;
        const char *word;
    } name[] = {
        {unit_name, problem->unit_name, unit, "unit"},
        {first_name, problem->unit_name, first, "unit"},
        {device_name, problem->device_name, device, "device"},
    };
    for (size_t i = 0; i < 3; i++) {
        if (name[i].names) {
            (void)snprintf(name[i].text, sizeof(unit_name), "%s '%s'", name[i].word,
                           name[i].names[name[i].index]);
        } else {
            (void)snprintf(name[i].text, sizeof(unit_name), "%s %zu", name[i].word, name[i].index);
        }
    }
    uint64_t bytes = problem->stage_memory(problem->arg, device, first, unit + 1, 1, 1);
    uint64_t cap = problem->memory_cap_bytes[device];
    uint64_t missing = bytes > cap ? bytes - cap : 0;
    if (first == unit) {
        return err_set(err, ERR_MEMORY,
                       "%s does not fit on %s: it needs %" PRIu64 " bytes, %" PRIu64
                       " are available (%" PRIu64 " too many)",
                       unit_name, device_name, bytes, cap, missing);
    }
    return err_set(err, ERR_MEMORY,
                   "%s does not fit on %s with %zu unit%s from %s on: they need %" PRIu64
                   " bytes, %" PRIu64 " are available (%" PRIu64 " too many)",
                   unit_name, device_name, unit - first, unit - first == 1 ? "" : "s", first_name,
                   bytes, cap, missing);
}

/* List the devices with the most memory, at most PARTITION_STAGES_MAX, or all in their order. */
static size_t list_devices(const struct partition_problem *problem, size_t *list)
{
    size_t count = 0;
    for (size_t d = 0; d < problem->device_count; d++) {
        size_t at = count;
        while (!problem->in_order && at > 0 &&
               problem->memory_cap_bytes[list[at - 1]] < problem->memory_cap_bytes[d]) {
            at--;
        }
        if (at == PARTITION_STAGES_MAX) {
            continue;
        }
        count = count < PARTITION_STAGES_MAX ? count + 1 : count;
        for (size_t i = count - 1; i > at; i--) {
            list[i] = list[i - 1];
        }
        list[at] = d;
    }
    return count;
}

int misfit_explain(const struct kinds *kinds, size_t stages_max, struct err *err)
{
    const struct partition_problem *problem = kinds->problem;
    size_t list[PARTITION_STAGES_MAX], first = 0;
    size_t count = list_devices(problem, list);
    count = count < stages_max ? count : stages_max;
    /* A unit that fits on no device explains more than the device at which the space ends. */
    for (size_t u = 0; u < problem->unit_count && !problem->in_order && !problem->end; u++) {
        if (problem->stage_memory(problem->arg, list[0], u, u + 1, 1, 1) >
            problem->memory_cap_bytes[list[0]]) {
            return misfit(kinds, list[0], u, u, err);
        }
    }
    for (size_t i = 0; i < count && first < problem->unit_count; i++) {
        const size_t kind = kinds->kind_of[list[i]];
        const size_t fits = kinds->fits_end[kind][first];
        const struct bound_ends ends = bound_ends(kinds, kind, first);
        const bool none = problem->end ? ends.least > ends.most : fits == first;
        if (none || (i + 1 == count && fits < problem->unit_count)) {
            return misfit(kinds, list[i], first, fits, err);
        }
        first = problem->end ? ends.most : fits;
    }
    return err_set(err, ERR_MEMORY, "no split of the %zu units fits the memory of the %zu devices",
                   problem->unit_count, problem->device_count);
}
