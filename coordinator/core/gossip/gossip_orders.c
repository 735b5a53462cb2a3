/* The orders of matches, in a ring. */
#include <math.h>

#include "base/assert.h"
#include "coordinator/core/gossip/gossip_inside.h"

#define PATIENCE_MS 2000 /* shortest timeout of a match */
#define PATIENCE_TIMES 3
/* A group that was frozen or waited looks slow. Without a bound, the timeouts for it would rise
 * further. */
#define STEP_SECONDS_MAX 5

struct mix_match *gossip_add(struct gossip *gossip, size_t group, struct mix_xid xid, int kind,
                             int64_t deadline_ms)
{
    ASSERT(gossip->orders < GOSSIP_ORDERS_MAX);
    struct gossip_order *order =
        &gossip->order[(gossip->first + gossip->orders++) % GOSSIP_ORDERS_MAX];
    *order = (struct gossip_order){
        .group = group,
        .match = {.xid = xid,
                  .kind = kind,
                  .own = {.group = (int64_t)group, .generation = gossip->group[group].generation},
                  .rate_step = gossip->rate_step,
                  .deadline_ms = deadline_ms}};
    return &order->match;
}

void gossip_add_peer(const struct gossip *gossip, struct mix_match *match, size_t group)
{
    match->peer[match->peer_count++] =
        (struct mix_member){.group = (int64_t)group, .generation = gossip->group[group].generation};
}

void gossip_add_alpha(struct mix_match *match, double alpha)
{
    match->alpha = match->statistics_alpha = alpha;
}

bool gossip_next(struct gossip *gossip, struct gossip_order *out)
{
    if (gossip->orders == 0) {
        return false;
    }
    *out = gossip->order[gossip->first];
    gossip->first = (gossip->first + 1) % GOSSIP_ORDERS_MAX;
    gossip->orders--;
    return true;
}

bool gossip_has_room(const struct gossip *gossip, size_t orders)
{
    return gossip->orders + orders <= GOSSIP_ORDERS_MAX;
}

struct mix_xid gossip_new_xid(struct gossip *gossip)
{
    return (struct mix_xid){gossip->rules.life, ++gossip->counter};
}

double gossip_step_seconds(const struct gossip *gossip, size_t group)
{
    return fmin((double)gossip->rules.batch / gossip->group[group].speed, STEP_SECONDS_MAX);
}

double gossip_longest_step(const struct gossip *gossip)
{
    double seconds = 0;
    for (size_t g = 0; g < gossip->count; g++) {
        const bool counts = gossip->group[g].present;
        seconds = counts ? fmax(seconds, gossip_step_seconds(gossip, g)) : seconds;
    }
    return seconds;
}

int64_t gossip_patience_ms(double seconds)
{
    return (int64_t)fmax(PATIENCE_MS, PATIENCE_TIMES * 1000 * fmin(seconds, 1e6));
}
