#include "libtrain/formats/reading.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "libtrain/formats/dataset.h"

#define TEXT_MAX 512

#define FIELD(name) offsetof(struct reading, name)

/* A parameter, and which kinds of reading it belongs to: bit k is kind k. */
struct parameter {
    const char *name;
    size_t offset; /* of an int64_t */
    int64_t min, max;
    uint32_t kinds;
    enum reading_kind says; /* what it makes of an upload; READING_RECOGNISED: it only goes with others */
};

static const struct parameter parameters[] = {
    {"text", FIELD(text), 1, DATASET_POSITIONS_MAX, 1u << READING_TEXT, READING_TEXT},
};
#define PARAMETER_COUNT (sizeof(parameters) / sizeof(parameters[0]))

static const char *const kind_names[READING_KINDS] = {
    [READING_RECOGNISED] = "data that are recognised", [READING_TEXT] = "a text"};

const struct reading reading_default = {.kind = READING_RECOGNISED};

static int unknown(const char *name, struct err *err)
{
    const char *names[PARAMETER_COUNT];
    for (size_t i = 0; i < PARAMETER_COUNT; i++) {
        names[i] = parameters[i].name;
    }
    const char *nearest = parse_nearest(name, names, PARAMETER_COUNT);
    return nearest ? err_set(err, ERR_INVALID, "'%.40s' is unknown; did you mean '%s'?", name, nearest)
                   : err_set(err, ERR_INVALID, "'%.40s' is unknown", name);
}

int reading_set(struct reading *reading, const char *name, const char *value, struct err *err)
{
    size_t i = 0;
    while (i < PARAMETER_COUNT && strcmp(parameters[i].name, name) != 0) {
        i++;
    }
    if (i == PARAMETER_COUNT) {
        return unknown(name, err);
    }
    const struct parameter *parameter = &parameters[i];
    if (reading->given & 1u << i) {
        return err_set(err, ERR_INVALID, "'%s' is there twice", name);
    }
    int64_t number = 0;
    int rc = parse_i64(value, parameter->min, parameter->max, &number, err);
    if (rc) {
        return err ? err_wrap(err, "'%s'", name) : rc;
    }
    memcpy((char *)reading + parameter->offset, &number, sizeof(number));
    reading->given |= 1u << i;
    return 0;
}

int reading_check(struct reading *reading, struct err *err)
{
    reading->kind = READING_RECOGNISED;
    for (size_t i = 0; i < PARAMETER_COUNT; i++) {
        const enum reading_kind says = parameters[i].says;
        if (!(reading->given & 1u << i) || says == READING_RECOGNISED) {
            continue;
        }
        if (reading->kind != READING_RECOGNISED) {
            return err_set(err, ERR_INVALID, "'%s': the data set is %s already", parameters[i].name,
                           kind_names[reading->kind]);
        }
        reading->kind = says;
    }
    for (size_t i = 0; i < PARAMETER_COUNT; i++) {
        if (reading->given & 1u << i && !(parameters[i].kinds & 1u << reading->kind)) {
            return err_set(err, ERR_INVALID, "'%s' does not go with %s", parameters[i].name, kind_names[reading->kind]);
        }
    }
    return 0;
}

int reading_parse(const char *text, struct reading *out, struct err *err)
{
    char copy[TEXT_MAX];
    struct reading reading = reading_default;
    if (snprintf(copy, sizeof(copy), "%s", text) >= (int)sizeof(copy)) {
        return err_set(err, ERR_LIMIT, "more than %d characters", TEXT_MAX - 1);
    }
    char *rest = copy;
    for (char *name = strsep(&rest, ","); name; name = strsep(&rest, ",")) {
        char *value = strchr(name, '=');
        if (!value) {
            return err_set(err, ERR_INVALID, "'%.40s': expected NAME=VALUE", name);
        }
        *value++ = '\0';
        int rc = reading_set(&reading, name, value, err);
        if (rc) {
            return rc;
        }
    }
    int rc = reading_check(&reading, err);
    if (rc == 0) {
        *out = reading;
    }
    return rc;
}
