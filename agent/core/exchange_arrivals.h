/* exchange_arrivals.h: which parts of a stage's receive buffers hold what they are for. A part is
 * claimed by the connection that brings its data, then here until the owner clears it. The newest
 * claim of a part wins: an earlier connection that died half way does not block its repeat. Holds
 * no data. Pure; allocates in exchange_arrivals_init only. */
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

/* How many of the parts are here. */
size_t exchange_arrivals_here(const struct exchange_arrivals *arrivals,
                              struct exchange_parts parts);
/* The number of a new claim; none of the parts is here. */
uint64_t exchange_arrivals_claim(struct exchange_arrivals *arrivals, struct exchange_parts parts);
/* Whether the claim still counts: no newer one has taken a part over. */
bool exchange_arrivals_holds(const struct exchange_arrivals *arrivals, struct exchange_parts parts,
                             uint64_t claim);
/* All of them are here, or (here: false) free. */
void exchange_arrivals_fill(struct exchange_arrivals *arrivals, struct exchange_parts parts,
                            bool here);
void exchange_arrivals_clear(struct exchange_arrivals *arrivals);

#endif
