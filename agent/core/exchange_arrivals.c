#include "agent/core/exchange_arrivals.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

#define PART_FREE 0
#define PART_HERE UINT64_MAX

int exchange_arrivals_init(struct exchange_arrivals *arrivals, size_t count, struct err *err)
{
    *arrivals = (struct exchange_arrivals){.count = count};
    arrivals->part = calloc(count + 1, sizeof(*arrivals->part));
    return arrivals->part ? 0 : err_set(err, ERR_MEMORY, "%zu parts", count);
}

void exchange_arrivals_done(struct exchange_arrivals *arrivals)
{
    free(arrivals->part);
    arrivals->part = NULL;
}

size_t exchange_arrivals_here(const struct exchange_arrivals *arrivals, struct exchange_parts parts)
{
    ASSERT(parts.first < parts.end && parts.end <= arrivals->count);
    size_t here = 0;
    for (size_t i = parts.first; i < parts.end; i++) {
        here += arrivals->part[i] == PART_HERE;
    }
    return here;
}

uint64_t exchange_arrivals_claim(struct exchange_arrivals *arrivals, struct exchange_parts parts)
{
    ASSERT(exchange_arrivals_here(arrivals, parts) == 0);
    arrivals->claims++;
    for (size_t i = parts.first; i < parts.end; i++) {
        arrivals->part[i] = arrivals->claims;
    }
    return arrivals->claims;
}

bool exchange_arrivals_holds(const struct exchange_arrivals *arrivals, struct exchange_parts parts,
                             uint64_t claim)
{
    for (size_t i = parts.first; i < parts.end; i++) {
        if (arrivals->part[i] != claim) {
            return false;
        }
    }
    return true;
}

void exchange_arrivals_fill(struct exchange_arrivals *arrivals, struct exchange_parts parts,
                            bool here)
{
    for (size_t i = parts.first; i < parts.end; i++) {
        arrivals->part[i] = here ? PART_HERE : PART_FREE;
    }
}

void exchange_arrivals_clear(struct exchange_arrivals *arrivals)
{
    memset(arrivals->part, 0, arrivals->count * sizeof(*arrivals->part));
}
