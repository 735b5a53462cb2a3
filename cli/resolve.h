/* resolve.h: which thing a word of the command line means: an id, a name, or the beginning of
 * one. */
#ifndef CLI_RESOLVE_H
#define CLI_RESOLVE_H

#include "base/json.h"
#include "cli/command_table.h"
#include "schema/limits.h"

struct candidate {
    char id[NAME_SIZE]; /* of things without ids: the name */
    char name[NAME_SIZE];
};

struct candidates {
    struct candidate *item;
    size_t count, capacity;
};

void candidates_done(struct candidates *candidates);
/* Add the things of one page of a list. Parts of jobs have their id only. */
NODISCARD int candidates_add(struct candidates *candidates, const struct thing *thing,
                             const json_t *page, struct err *err);
/* Choose: the thing with this id, else the only one with this name, else the only one of which id
 * or name begin with the word; an id's beginning may lack the prefix. ERR_NOT_FOUND: there is none,
 * err names the nearest; or several, err lists them. Pure. */
NODISCARD int resolve_pick(const struct candidates *candidates, const struct thing *thing,
                           const char *word, const struct candidate **out, struct err *err);

#endif
