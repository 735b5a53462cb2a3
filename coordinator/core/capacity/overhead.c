#include "coordinator/core/capacity/overhead.h"

#include <math.h>

#include "base/elementary.h"
#include "coordinator/core/capacity/capacity.h"
#include "coordinator/core/state/state.h"

/* The prior has the weight of one measurement: no overhead per micro-batch, and none per byte. At
 * the scale of bytes, both count the same. */
#define OVERHEAD_KEEP 0.98
#define OVERHEAD_BYTES 1e6

void overhead_take(struct core *core, const struct device_slot *slot, double seconds, double bytes)
{
    struct device_capacity *device = capacity_of(core, slot);
    struct overhead_sums *sums = &device->overhead;
    const double size = bytes / OVERHEAD_BYTES, value = seconds * elementary_exp(-device->level);
    sums->count = OVERHEAD_KEEP * sums->count + 1;
    sums->bytes = OVERHEAD_KEEP * sums->bytes + size;
    sums->bytes_squared = OVERHEAD_KEEP * sums->bytes_squared + size * size;
    sums->seconds = OVERHEAD_KEEP * sums->seconds + value;
    sums->bytes_seconds = OVERHEAD_KEEP * sums->bytes_seconds + size * value;
}

/* The line through the measurements. If one of its coefficients would be negative, the other one
 * explains the whole time. */
struct overhead overhead_of(const struct core *core, const struct device_slot *slot)
{
    const struct device_capacity *device = capacity_of(core, slot);
    const struct overhead_sums *sums = &device->overhead;
    const double a = sums->count + 1, b = sums->bytes, d = sums->bytes_squared + 1;
    const double determinant = a * d - b * b, scale = elementary_exp(device->level);
    double fixed = (d * sums->seconds - b * sums->bytes_seconds) / determinant;
    double slope = (a * sums->bytes_seconds - b * sums->seconds) / determinant;
    if (slope < 0 || fixed < 0) {
        fixed = slope < 0 ? sums->seconds / a : 0;
        slope = slope < 0 ? 0 : sums->bytes_seconds / d;
    }
    const struct overhead overhead = {fixed * scale, slope * scale / OVERHEAD_BYTES};
    const bool known = isfinite(overhead.seconds) && isfinite(overhead.seconds_per_byte);
    return known ? overhead : (struct overhead){0, 0};
}
