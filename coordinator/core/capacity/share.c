#include "coordinator/core/capacity/share.h"

#include <math.h>

#include "base/elementary.h"

/* A device that is hardly ever stopped does not show its share. Then half of the difference to a
 * whole processor is forgotten in HALF_LIFE_MS. */
#define GRANTED_FREE 0.95
#define HALF_LIFE_MS (10 * 60 * 1000)
#define LN2 0.6931471805599453
/* A stage that runs for at least this part of its granted time counts as always having work. */
#define GRANTED_BUSY 0.8
#define GRANTED_NOISE 1.25
/* Smallest change beyond the noise: stops of short work differ by less between windows. */
#define GRANTED_CHANGE 2.0
/* Smallest difference of logarithms beyond the noise of two probes of 0.2 s beside other programs.
 */
#define PROBE_NOISE 0.5

static double clamp(double value, double least, double most)
{
    return value < least ? least : value > most ? most : value;
}

bool share_valid(double value)
{
    return value >= SHARE_MIN && value <= 1;
}

void share_begin(struct share *share, double probed)
{
    const double value = probed > 0 ? clamp(probed, SHARE_MIN, 1) : 1;
    *share = (struct share){.value = value, .seen = value, .granted = -1};
}

void share_probed(struct share *share, double probed)
{
    if (!(probed > 0)) {
        return;
    }
    const double seen = clamp(probed, SHARE_MIN, 1);
    const double change = elementary_log(seen / share->value);
    share->value = fabs(change) > PROBE_NOISE ? seen : sqrt(seen * share->value);
    share->seen = share->value;
}

/* An upper bound of the share. A stage that always has work shows the share; other stages show it
 * only roughly, because they wait for other stages of their step. */
static double most_of(double granted, double used)
{
    return used >= GRANTED_BUSY * granted ? granted : fmin(granted * GRANTED_NOISE, 1);
}

/* Within a plan the work stays the same, so its stops change as the share does. */
void share_ran(struct share *share, const struct stage_load *load, int64_t now_ms)
{
    if (!(load->granted >= 0)) {
        return;
    }
    const double granted = clamp(load->granted, SHARE_MIN, 1);
    const double used = clamp(load->used, SHARE_MIN, granted);
    if (share->granted < 0 || share->plan != load->plan) {
        share->granted = granted;
        share->plan = load->plan;
    } else {
        const double change = granted / share->granted;
        const double halvings = (double)(now_ms - share->measured_ms) / HALF_LIFE_MS;
        const double kept = granted < GRANTED_FREE ? 1 : elementary_exp(-LN2 * fmin(halvings, 60));
        if (change > GRANTED_CHANGE || change * GRANTED_CHANGE < 1) {
            share->value *= change;
            share->seen *= change;
            share->granted = granted;
        }
        share->value = 1 - (1 - share->value) * kept;
    }
    share->value = clamp(share->value, used, most_of(granted, used));
    share->seen = clamp(share->seen, used, most_of(granted, used));
    share->measured_ms = now_ms;
}
