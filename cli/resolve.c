#include "cli/resolve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "base/utf8.h"
#include "cli/layout.h"

#define SHOWN_MAX 6      /* candidates of an ambiguous word */
#define NEAREST_MAX 1000 /* most names among which the nearest one is searched */

void candidates_done(struct candidates *candidates)
{
    free(candidates->item);
    *candidates = (struct candidates){0};
}

static int add(struct candidates *candidates, const char *id, const char *name, struct err *err)
{
    if (candidates->count == candidates->capacity) {
        size_t capacity = candidates->capacity ? 2 * candidates->capacity : 64;
        struct candidate *longer = realloc(candidates->item, capacity * sizeof(*longer));
        if (!longer) {
            return err_set(err, ERR_MEMORY, "no memory for a list");
        }
        candidates->item = longer;
        candidates->capacity = capacity;
    }
    struct candidate *item = &candidates->item[candidates->count++];
    (void)snprintf(item->id, sizeof(item->id), "%s", id);
    (void)snprintf(item->name, sizeof(item->name), "%s", name);
    utf8_repair_line(item->id);
    utf8_repair_line(item->name);
    return 0;
}

int candidates_add(struct candidates *candidates, const struct thing *thing, const json_t *page,
                   struct err *err)
{
    size_t index;
    json_t *item;
    json_array_foreach(json_object_get(page, "items"), index, item)
    {
        bool part = json_is_string(json_object_get(item, "parent"));
        const char *name =
            thing->name && !part ? json_string_value(layout_value(item, thing->name)) : NULL;
        const char *id = thing->prefix ? json_string_value(json_object_get(item, "id")) : name;
        int rc = id ? add(candidates, id, name ? name : "", err) : 0;
        if (rc) {
            return rc;
        }
    }
    return 0;
}

static bool begins(const char *text, const char *word)
{
    return strncmp(text, word, strlen(word)) == 0;
}

/* How well a thing fits a word. The word is its id: 3; its name: 2; a beginning of either: 1; none
 * of these: 0. */
static int fit_of(const struct candidate *item, const struct thing *thing, const char *word)
{
    const char *bare = thing->prefix ? item->id + strlen(thing->prefix) : item->id;
    if (strcmp(item->id, word) == 0) {
        return 3;
    }
    if (strcmp(item->name, word) == 0) {
        return 2;
    }
    return begins(item->id, word) || begins(bare, word) || begins(item->name, word) ? 1 : 0;
}

static int refuse_unknown(const struct candidates *candidates, const struct thing *thing,
                          const char *word, struct err *err)
{
    const char *names[NEAREST_MAX];
    size_t count = 0;
    for (size_t i = 0; i < candidates->count && count < NEAREST_MAX; i++) {
        if (candidates->item[i].name[0] != '\0') {
            names[count++] = candidates->item[i].name;
        }
    }
    const char *nearest = parse_nearest(word, names, count);
    return nearest ? err_set(err, ERR_NOT_FOUND, "no %s '%s'; did you mean '%s'?", thing->noun,
                             word, nearest)
                   : err_set(err, ERR_NOT_FOUND, "no %s '%s' (see paceline %s list)", thing->noun,
                             word, strcmp(thing->noun, "data set") == 0 ? "dataset" : thing->noun);
}

static int refuse_ambiguous(const struct candidates *candidates, const struct thing *thing,
                            const char *word, int best, size_t count, struct err *err)
{
    char list[ERR_TEXT_MAX / 2] = "";
    size_t shown = 0;
    for (size_t i = 0; i < candidates->count && shown < SHOWN_MAX; i++) {
        const struct candidate *item = &candidates->item[i];
        size_t used = strlen(list);
        if (fit_of(item, thing, word) == best) {
            bool named = thing->prefix && item->name[0] != '\0';
            (void)snprintf(list + used, sizeof(list) - used, "%s%s%s%s%s", shown ? ", " : "",
                           item->id, named ? " (" : "", named ? item->name : "", named ? ")" : "");
            shown++;
        }
    }
    return err_set(err, ERR_NOT_FOUND, "'%s' is the %s of %zu %ss: %s%s", word,
                   best == 2 ? "name" : "beginning", count, thing->noun, list,
                   count > shown ? " ..." : "");
}

int resolve_pick(const struct candidates *candidates, const struct thing *thing, const char *word,
                 const struct candidate **out, struct err *err)
{
    int best = 0;
    size_t count = 0, at = 0;
    for (size_t i = 0; i < candidates->count; i++) {
        int fit = fit_of(&candidates->item[i], thing, word);
        if (fit > best) {
            best = fit;
            count = 0;
            at = i;
        }
        count += fit > 0 && fit == best;
    }
    if (count == 0 || word[0] == '\0') {
        return refuse_unknown(candidates, thing, word, err);
    }
    if (count > 1) {
        return refuse_ambiguous(candidates, thing, word, best, count, err);
    }
    *out = &candidates->item[at];
    return 0;
}
