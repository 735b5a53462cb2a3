/* shares.h: limits each caller's use of the service: requests per second, concurrent requests,
 * uploads and event streams, refused attempts. A caller is a token, or an address without a token.
 * Pure; one thread. */
#ifndef COORDINATOR_ACCESS_SHARES_H
#define COORDINATOR_ACCESS_SHARES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* The things of which a caller may hold a limited number at a time. */
enum share_kind { SHARE_REQUESTS, SHARE_STREAMS, SHARE_CHECKPOINTS, SHARE_DATASETS, SHARE_KINDS };

/* A caller may spend `burst` at once and `per_second` in the long run. */
struct share_rate {
    int64_t per_second, burst;
};

struct shares_limits {
    struct share_rate requests, refusals;
    size_t held[SHARE_KINDS]; /* at once */
};

struct shares;

/* Create the limits. Tokens have the places below `tokens`, addresses the places after them. seed:
 * random, so that nobody can choose addresses that share a place. */
NODISCARD int shares_new(const struct shares_limits *limits, size_t tokens, uint64_t seed,
                         struct shares **out, struct err *err);
void shares_free(struct shares **shares);

/* Return the place of an address. If there are too many callers, addresses share a place. */
size_t shares_of_address(struct shares *shares, uint64_t address, int64_t now_ms);
/* Reset a place that belongs to another token from now on. */
void shares_reset(struct shares *shares, size_t place);
bool shares_idle(const struct shares *shares, size_t place);

/* Spend one request; false: the rate is exceeded. */
bool shares_spend(struct shares *shares, size_t place, int64_t now_ms);
/* Spend one refused attempt; false: the rate is exceeded. */
bool shares_spend_refusal(struct shares *shares, size_t place, int64_t now_ms);
/* Take one of a kind; false: the caller is at its limit. */
bool shares_take(struct shares *shares, size_t place, enum share_kind kind);
void shares_give_back(struct shares *shares, size_t place, enum share_kind kind);

#endif
