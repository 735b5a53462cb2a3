/* exchange_arrivals.h: which parts of a stage's receive buffers are filled. The connection that
 * brings the data of a part claims it. Once filled, the part is "here" until the owner clears it.
 * The newest claim of a part wins, so that an earlier connection that broke half way does not block
 * its repeat. Holds no data. Pure; allocates in exchange_arrivals_init only. */
#ifndef AGENT_CORE_EXCHANGE_ARRIVALS_H
#define AGENT_CORE_EXCHANGE_ARRIVALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct exchange_arrivals {
    uint64_t *part; /* [count] 0: free; UINT64_MAX: here; others: the claim */
    size_t count;
    uint64_t claims; /* made so far: each has its own number */
};

/* Parts [first, end), at least one. */
struct exchange_parts {
    size_t first, end;
};

/* ERR_MEMORY; exchange_arrivals_done also on failure. */
NODISCARD int exchange_arrivals_init(struct exchange_arrivals *arrivals, size_t count,
                                     struct err *err);
void exchange_arrivals_done(struct exchange_arrivals *arrivals);

/* Return how many of the parts are here. */
size_t exchange_arrivals_here(const struct exchange_arrivals *arrivals,
                              struct exchange_parts parts);
/* Claim the parts, none of which may be here. Return the number of the claim. */
uint64_t exchange_arrivals_claim(struct exchange_arrivals *arrivals, struct exchange_parts parts);
/* Return whether the claim is still valid: no newer claim has taken over a part. */
bool exchange_arrivals_holds(const struct exchange_arrivals *arrivals, struct exchange_parts parts,
                             uint64_t claim);
/* Mark all of the parts as here, or (here: false) as free. */
void exchange_arrivals_fill(struct exchange_arrivals *arrivals, struct exchange_parts parts,
                            bool here);
void exchange_arrivals_clear(struct exchange_arrivals *arrivals);

#endif
