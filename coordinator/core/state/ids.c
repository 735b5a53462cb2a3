#include "coordinator/core/state/ids.h"

#include <string.h>

#include "coordinator/core/state/state.h"

/* Ids rise strictly within a life of the coordinator, so that the newest plan is the one with the
 * greatest id. */
void ids_new(struct core *core, char out[ID_SIZE], const char *prefix)
{
    struct rng_stream stream = rng_stream(core->seed, RNG_ID, 0, 0);
    struct rng_block words = rng_block(&stream, core->id_count++);
    if (core->wall_ms > core->id_wall_ms) {
        core->id_wall_ms = core->wall_ms;
        core->id_word = words.word[0] & UINT32_MAX >> 1; /* leaves room for ids of the same ms */
    } else if (core->id_word == UINT32_MAX) {
        core->id_wall_ms++;
        core->id_word = 0;
    } else {
        core->id_word++;
    }
    words.word[0] = core->id_word;
    memset(out, 0, ID_SIZE);
    id_make(out, prefix, core->id_wall_ms, words);
}

void ids_seen(struct core *core, const char *id)
{
    int64_t wall_ms = id_wall_ms(id);
    if (wall_ms >= core->id_wall_ms) {
        core->id_wall_ms = wall_ms + 1;
        core->id_word = 0;
    }
}
