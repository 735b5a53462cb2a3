#include "coordinator/core/state/planning.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"

#define SECONDS_MIN 1e-9 /* of a micro-batch; predictions are longer */

_Static_assert(PLANNING_CLASS_SIZE == sizeof(((struct device *)0)->numeric_class),
               "a numeric class is copied whole");

void planning_write(const struct planned *planned, struct plan *out)
{
    memcpy(out->stage, planned->stage, planned->stage_count * sizeof(planned->stage[0]));
    out->stage_count = planned->stage_count;
    memcpy(out->link, planned->link, sizeof(out->link));
    out->link_count = planned->link_count;
    out->bottleneck = planned->bottleneck;
    out->predicted_step_seconds = planned->expected_seconds;
    out->predicted_efficiency = planned->efficiency;
    out->strict = planned->strict;
    out->optimal = planned->optimal;
    out->gap = planned->gap;
    memcpy(out->left_out, planned->left_out, sizeof(out->left_out));
    out->left_out_count = planned->left_out_count;
    out->unbound = planned->unbound;
}

size_t planning_find(const struct planning *planning, const char *device_id)
{
    size_t first = 0, end = planning->device_count;
    while (first < end) {
        size_t middle = first + (end - first) / 2;
        if (strcmp(planning->device[middle].id.text, device_id) < 0) {
            first = middle + 1;
        } else {
            end = middle;
        }
    }
    bool found =
        first < planning->device_count && id_equal(planning->device[first].id.text, device_id);
    return found ? first : planning->device_count;
}

double planning_speed(const struct planning *planning, size_t device, size_t frozen)
{
    const size_t units = planning->model->unit_count, row = device * units;
    double seconds = planning->device[device].overhead_seconds;
    for (size_t u = 0; u < units; u++) {
        seconds += planning->expected_forward_seconds[row + u];
        seconds += u >= frozen ? planning->expected_backward_seconds[row + u] : 0;
    }
    return planning->device[device].processor_share / fmax(seconds, SECONDS_MIN);
}

/* The link by the transfers of both devices with others, or else the usual link. */
static struct link_speed usual_link(const struct planning_device *a,
                                    const struct planning_device *b)
{
    static const struct link_sums none;
    return a->has_link && b->has_link ? link_slower(a->link, b->link) : link_estimate(&none);
}

static size_t find_index(const size_t *list, size_t count, size_t value)
{
    size_t at = 0;
    while (at < count && list[at] != value) {
        at++;
    }
    return at;
}

void planning_copies(const struct planning *planning, const size_t *candidate, size_t count,
                     double bytes, double *seconds, double *rate)
{
    for (size_t a = 0; a < count; a++) {
        rate[a] = 0;
        for (size_t b = 0; b < count; b++) {
            const struct link_speed link =
                usual_link(&planning->device[candidate[a]], &planning->device[candidate[b]]);
            seconds[a * count + b] =
                a == b ? 0 : fmax(link_transfer_seconds(link, bytes), SECONDS_MIN);
        }
    }
    for (size_t i = 0; i < planning->measured_count; i++) {
        const struct partition_pair *pair = &planning->measured[i];
        const size_t a = find_index(candidate, count, pair->a);
        const size_t b = find_index(candidate, count, pair->b);
        if (a < count && b < count) {
            seconds[a * count + b] = seconds[b * count + a] =
                fmax(link_transfer_seconds(pair->link, bytes), SECONDS_MIN);
            rate[a] = fmax(rate[a], pair->link.bytes_per_second);
            rate[b] = fmax(rate[b], pair->link.bytes_per_second);
        }
    }
    for (size_t a = 0; a < count; a++) {
        const struct planning_device *device = &planning->device[candidate[a]];
        rate[a] = rate[a] == 0 && device->has_link ? device->link.bytes_per_second : rate[a];
    }
}

void planning_try(struct planning *planning, enum planning_stages stages, enum avoid_level avoid,
                  enum candidates candidates)
{
    ASSERT(planning->attempt_count < PLANNING_ATTEMPTS_MAX);
    planning->attempt[planning->attempt_count++] =
        (struct planning_attempt){.stages = stages, .avoid = avoid, .candidates = candidates};
}

bool planning_may_use(const struct planning_device *device, const struct planning_attempt *attempt)
{
    bool excluded = (attempt->avoid == AVOID_ALL && device->avoided) ||
                    (attempt->avoid != AVOID_NONE && device->failed);
    return attempt->candidates == CANDIDATES_KNOWN ||
           (!excluded && (attempt->candidates == CANDIDATES_ONLINE || !device->busy));
}
