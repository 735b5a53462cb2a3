/* id.h: prefixed, sortable identifiers: a prefix and a ULID ("job_01J9ZQ4X7C8E2N5R3T6V9W0Y1A").
 * One-field structs, so that they cannot be mixed up. Pure. */
#ifndef SCHEMA_ID_H
#define SCHEMA_ID_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/record.h"
#include "base/rng.h"
#include "schema/limits.h"

struct device_id {
    char text[ID_SIZE];
};
struct job_id {
    char text[ID_SIZE];
};
struct plan_id {
    char text[ID_SIZE];
};
struct checkpoint_id {
    char text[ID_SIZE];
};
struct incident_id {
    char text[ID_SIZE];
};

/* Write prefix ("dev_", "job_", "plan_", "ckpt_", "inc_", "evt_", "tok_", "aud_") + 48 bits of
 * wall_ms + 80 bits of words, in Crockford's base 32. */
void id_make(char out[ID_SIZE], const char *prefix, int64_t wall_ms, struct rng_block words);
/* A series of strictly rising ids, also within a millisecond and when the clock goes back. The
 * caller's random words distinguish it from other series. */
struct id_series {
    int64_t ms;     /* of the newest id */
    uint32_t count; /* of ids with that time */
};
/* Make the next id. Returns its time, which goes into the row: a series continues after the newest
 * one. */
int64_t id_series_next(struct id_series *series, const struct rng_stream *words, const char *prefix,
                       int64_t wall_ms, char out[ID_SIZE]);
/* Return whether two ids are the same; "" is no id and equals "" only. */
static inline bool id_equal(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}
/* Return whether two secrets, such as tickets, are the same. Constant time in the length of b. */
bool id_secret_equal(const char *a, const char *b);
/* Return the wall_ms of the id. */
int64_t id_wall_ms(const char *text);
/* Return whether text is prefix + 26 characters of the alphabet. */
bool id_valid(const char *text, const char *prefix);
/* Return whether text is a valid user-given name: 1 to NAME_SIZE - 1 of [a-z0-9._-], first
 * [a-z0-9]. */
bool name_valid(const char *text);

/* Forms of texts from outside, for the record tables: safe in a path, a URL and a header line. An
 * identifier is its prefix and 1 to 26 letters or digits; the core decides whether it exists. */
extern const struct text_form name_form;
extern const struct text_form device_id_form;
extern const struct text_form job_id_form;
extern const struct text_form plan_id_form;
extern const struct text_form checkpoint_id_form;
extern const struct text_form incident_id_form;
extern const struct text_form token_id_form;
extern const struct text_form audit_id_form;
extern const struct text_form sha256_form;     /* 64 lower-case hexadecimal digits */
extern const struct text_form public_key_form; /* the same, of Ed25519 */
extern const struct text_form url_form;        /* http:// or https:// and printable ASCII */
extern const struct text_form
    origin_form; /* http:// or https://, host and port, nothing after it */
extern const struct text_form
    word_form; /* printable ASCII without space: tickets, boots, challenges */

extern const struct field device_id_element; /* of a list of struct device_id */

#endif
