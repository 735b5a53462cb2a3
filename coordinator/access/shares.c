#include "coordinator/access/shares.h"

#include <stdlib.h>

#include "base/assert.h"

#define SETS 256 /* an address may be in one of WAYS places of its set */
#define WAYS 4
#define UNIT 1000 /* a level counts thousandths: what one millisecond adds at one a second */

struct bucket {
    int64_t level, at_ms; /* how much of the burst is used up at that time */
};

struct share {
    uint64_t address; /* of an address's share */
    int64_t used_ms;
    struct bucket requests, refusals;
    size_t held[SHARE_KINDS];
};

struct shares {
    struct shares_limits limits;
    uint64_t seed;
    size_t tokens;
    struct share share[]; /* [tokens + SETS * WAYS] */
};

int shares_new(const struct shares_limits *limits, size_t tokens, uint64_t seed,
               struct shares **out, struct err *err)
{
    const size_t count = tokens + (size_t)SETS * WAYS;
    struct shares *shares = calloc(1, sizeof(*shares) + count * sizeof(shares->share[0]));
    if (!shares) {
        return err_set(err, ERR_MEMORY, "shares of callers: out of memory");
    }
    shares->limits = *limits;
    shares->seed = seed;
    shares->tokens = tokens;
    *out = shares;
    return 0;
}

void shares_free(struct shares **shares)
{
    free(*shares);
    *shares = NULL;
}

static struct share *share_at(struct shares *shares, size_t place)
{
    ASSERT(place < shares->tokens + (size_t)SETS * WAYS);
    return &shares->share[place];
}

static bool is_idle(const struct share *share)
{
    for (int kind = 0; kind < SHARE_KINDS; kind++) {
        if (share->held[kind] > 0) {
            return false;
        }
    }
    return true;
}

/* The finisher of SplitMix64. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

size_t shares_of_address(struct shares *shares, uint64_t address, int64_t now_ms)
{
    const uint64_t hash = mix(address ^ shares->seed);
    const size_t first = shares->tokens + (size_t)(hash % SETS) * WAYS;
    size_t chosen = first + (size_t)(hash >> 32) % WAYS; /* all are busy: share one */
    int64_t oldest_ms = INT64_MAX;
    for (size_t place = first; place < first + WAYS; place++) {
        struct share *share = &shares->share[place];
        if (share->address == address && share->used_ms > 0) {
            share->used_ms = now_ms;
            return place;
        }
        if (is_idle(share) && share->used_ms < oldest_ms) {
            oldest_ms = share->used_ms;
            chosen = place;
        }
    }
    if (oldest_ms != INT64_MAX) {
        shares->share[chosen] = (struct share){.address = address, .used_ms = now_ms};
    }
    return chosen;
}

void shares_reset(struct shares *shares, size_t place)
{
    ASSERT(shares_idle(shares, place));
    *share_at(shares, place) = (struct share){0};
}

bool shares_idle(const struct shares *shares, size_t place)
{
    return is_idle(&shares->share[place]);
}

/* A leaking bucket: one more unit, unless it would overflow. */
static bool spend(struct bucket *bucket, const struct share_rate *rate, int64_t now_ms)
{
    const int64_t passed_ms = now_ms > bucket->at_ms ? now_ms - bucket->at_ms : 0;
    const int64_t full_ms = (rate->burst * UNIT + rate->per_second - 1) / rate->per_second;
    const int64_t leaked = passed_ms < full_ms ? passed_ms * rate->per_second : bucket->level;
    bucket->level = leaked < bucket->level ? bucket->level - leaked : 0;
    bucket->at_ms = now_ms;
    if (bucket->level > (rate->burst - 1) * UNIT) {
        return false;
    }
    bucket->level += UNIT;
    return true;
}

bool shares_spend(struct shares *shares, size_t place, int64_t now_ms)
{
    return spend(&share_at(shares, place)->requests, &shares->limits.requests, now_ms);
}

bool shares_spend_refusal(struct shares *shares, size_t place, int64_t now_ms)
{
    return spend(&share_at(shares, place)->refusals, &shares->limits.refusals, now_ms);
}

bool shares_take(struct shares *shares, size_t place, enum share_kind kind)
{
    struct share *share = share_at(shares, place);
    if (share->held[kind] >= shares->limits.held[kind]) {
        return false;
    }
    share->held[kind]++;
    return true;
}

void shares_give_back(struct shares *shares, size_t place, enum share_kind kind)
{
    struct share *share = share_at(shares, place);
    ASSERT(share->held[kind] > 0);
    share->held[kind]--;
}
