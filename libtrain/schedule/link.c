#include "libtrain/schedule/link.h"

#include <math.h>

/* Transfers beyond this number add no evidence about the slope, because their errors are not
 * independent. */
#define EVIDENCE_MAX 1000.0
#define KNOWN_COUNT 1.5

void link_add(struct link_sums *sums, const struct link_sums *more)
{
    sums->count += more->count;
    sums->seconds += more->seconds;
    sums->bytes += more->bytes;
    sums->bytes_squared += more->bytes_squared;
    sums->bytes_seconds += more->bytes_seconds;
    if (sums->count > LINK_COUNT_MAX) {
        const double kept = LINK_COUNT_MAX / sums->count;
        sums->count *= kept;
        sums->seconds *= kept;
        sums->bytes *= kept;
        sums->bytes_squared *= kept;
        sums->bytes_seconds *= kept;
    }
}

/* Return the share of a transfer's time that depends on its size, estimated from the size. Up to
 * the time of a usual link, latency and transfer have their usual shares. The excess is divided in
 * proportion to the squares of the shares, as for errors in proportion to each share. A slow
 * transfer of few bytes raises the latency; a slow transfer of many bytes lowers the bandwidth. */
static double expected_share(double bytes, double seconds)
{
    const double moving = bytes / LINK_BYTES_PER_SECOND;
    const double expected = LINK_LATENCY_SECONDS + moving;
    const double share = moving / expected;
    const double share_above = share * share / (share * share + (1 - share) * (1 - share));
    return (fmin(seconds, expected) * share + fmax(seconds - expected, 0) * share_above) / seconds;
}

/* Return the same share by the least-squares line, which is arbitrary where sizes hardly differ. */
static double fitted_share(const struct link_sums *sums, double spread)
{
    const double slope = sums->count * sums->bytes_seconds - sums->bytes * sums->seconds;
    return fmin(fmax(slope / (spread * sums->bytes * sums->seconds), 0), 1);
}

/* Return the weighted mean of both shares. The line has more weight the more the sizes differ, and
 * the more the transfer of the bytes is expected to matter. */
static double moving_share(const struct link_sums *sums, double bytes, double seconds)
{
    const double expected = expected_share(bytes, seconds);
    /* Variance of the sizes divided by the square of their mean. */
    const double spread = sums->count * (sums->bytes_squared / sums->bytes) / sums->bytes - 1;
    if (!(spread > 0) || !isfinite(spread)) {
        return expected;
    }
    const double weight = fmin(sums->count, EVIDENCE_MAX) * spread * expected * expected;
    const double share = expected + weight / (weight + 1) * (fitted_share(sums, spread) - expected);
    return isfinite(share) ? share : expected;
}

bool link_is_known(const struct link_sums *sums)
{
    return sums->count >= KNOWN_COUNT;
}

struct link_speed link_estimate(const struct link_sums *sums)
{
    struct link_speed link = {.latency_seconds = LINK_LATENCY_SECONDS,
                              .bytes_per_second = LINK_BYTES_PER_SECOND};
    const double bytes = sums->bytes / sums->count, seconds = sums->seconds / sums->count;
    if (!link_is_known(sums) || !(bytes >= 1) || !(seconds > 0) || !isfinite(bytes) ||
        !isfinite(seconds)) {
        return link;
    }
    const double moving = moving_share(sums, bytes, seconds) * seconds;
    link.latency_seconds = fmin(fmax(seconds - moving, 0), LINK_LATENCY_SECONDS_MAX);
    link.bytes_per_second = moving > 0 ? bytes / moving : LINK_BYTES_PER_SECOND_MAX;
    link.bytes_per_second =
        fmin(fmax(link.bytes_per_second, LINK_BYTES_PER_SECOND_MIN), LINK_BYTES_PER_SECOND_MAX);
    return link;
}

double link_transfer_seconds(struct link_speed link, double bytes)
{
    return link.latency_seconds + bytes / link.bytes_per_second;
}

struct link_speed link_in_series(struct link_speed a, struct link_speed b)
{
    struct link_speed link = link_slower(a, b);
    link.latency_seconds = fmin(a.latency_seconds + b.latency_seconds, LINK_LATENCY_SECONDS_MAX);
    return link;
}

struct link_speed link_slower(struct link_speed a, struct link_speed b)
{
    return (struct link_speed){.latency_seconds = fmax(a.latency_seconds, b.latency_seconds),
                               .bytes_per_second = fmin(a.bytes_per_second, b.bytes_per_second)};
}
