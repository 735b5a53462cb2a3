#include "coordinator/http/parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/json.h"
#include "schema/job.h"

struct listing {
    const struct core *core;
    struct parts *parts;
    struct err err;
    int code;
};

/* Read the part of an ended job, without the rest of its long row. */
static int read_place(const struct state_row *row, struct part_of *out, struct err *err)
{
    json_auto_t *document = NULL;
    int rc = json_parse(row->document, row->document_size, &document, err);
    if (rc) {
        return err_wrap(err, "job %s", row->id);
    }
    const char *part = json_string_value(json_object_get(document, "part"));
    snprintf(out->parent.text, sizeof(out->parent.text), "%s", row->parent);
    out->group = json_integer_value(json_object_get(document, "group"));
    for (int i = 0; part && job_part_names[i]; i++) {
        out->part = strcmp(job_part_names[i], part) == 0 ? i : out->part;
    }
    return 0;
}

/* Add a part with this id. NULL: out of memory. */
static struct part_row *add_part(struct parts *parts, const char *id)
{
    void *grown = grow(parts->row, sizeof(*parts->row), parts->count, &parts->capacity);
    if (!grown) {
        return NULL;
    }
    parts->row = grown;
    struct part_row *part = &parts->row[parts->count++];
    *part = (struct part_row){0};
    snprintf(part->job.text, sizeof(part->job.text), "%s", id);
    return part;
}

static bool list_part(void *arg, const struct state_row *row)
{
    struct listing *listing = arg;
    const struct job *live = core_job(listing->core, row->id);
    struct part_row *part = add_part(listing->parts, row->id);
    if (!part) {
        listing->code = err_set(&listing->err, ERR_MEMORY, "out of memory");
    } else if (live) {
        part->of = job_part_of(live);
    } else {
        listing->code = read_place(row, &part->of, &listing->err);
    }
    return listing->code == 0;
}

int parts_list(struct coordinator *coordinator, const char *id, struct parts *out, struct err *err)
{
    struct listing listing = {.core = coordinator->core, .parts = out};
    *out = (struct parts){0};
    int rc = state_list(coordinator->state, STATE_JOBS, id, "", SIZE_MAX, false, list_part,
                        &listing, err);
    if (!rc && listing.code) {
        *err = listing.err;
        rc = listing.code;
    }
    if (!rc && !add_part(out, id)) {
        rc = err_set(err, ERR_MEMORY, "out of memory");
    }
    return rc;
}

void parts_done(struct parts *parts)
{
    free(parts->row);
    *parts = (struct parts){0};
}
