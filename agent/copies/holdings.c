#include "agent/copies/holdings.h"

#include <string.h>

bool holdings_have_room(int64_t bound, int64_t held, int64_t present, int64_t bytes)
{
    return bytes <= bound - held || bytes <= bound / 2 - present;
}

void holdings_units_count(struct holdings_units *units, const struct holding *other)
{
    const bool older = units->here_before > 0 && other->version < units->before;
    if (other->version > units->of->version || older ||
        strcmp(other->job.text, units->of->job.text) != 0) {
        return;
    }
    if (other->version == units->of->version) {
        units->here++;
    } else if (units->here_before > 0 && other->version == units->before) {
        units->here_before++;
    } else {
        units->before = other->version;
        units->here_before = 1;
    }
}
