#include "libtrain/formats/reading.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/parse.h"
#include "libtrain/formats/dataset.h"
#include "libtrain/images/image.h"

#define TEXT_MAX 512

#define FIELD(name) offsetof(struct reading, name)
#define ONLY(kind) (1u << (kind))

/* A parameter and the kinds of reading that have it: bit k is kind k. */
struct parameter {
    const char *name;
    size_t offset; /* offset of an int64_t, or of two if `pair` */
    int64_t min, max;
    uint32_t kinds;
    enum reading_kind says;   /* the kind that it selects; READING_RECOGNISED: it selects none */
    const char *const *words; /* [max - min + 1]: the names of its values, NULL for a number */
    bool pair;                /* two numbers, "32x48" */
};

static const char *const label_words[] = {
    [DATASET_LABEL_DIRECTORY] = "directory", [DATASET_LABEL_PREFIX] = "prefix"};

static const struct parameter parameters[] = {
    {"text", FIELD(text), 1, DATASET_POSITIONS_MAX, ONLY(READING_TEXT), READING_TEXT, NULL, false},
    {"sound", FIELD(sound), 4000, 96000, ONLY(READING_SOUND), READING_SOUND, NULL, false},
    {"clip_ms", FIELD(clip_ms), 10, 10000, ONLY(READING_SOUND), READING_RECOGNISED, NULL, false},
    {"window_ms", FIELD(window_ms), 1, 200, ONLY(READING_SOUND), READING_RECOGNISED, NULL, false},
    {"hop_ms", FIELD(hop_ms), 1, 200, ONLY(READING_SOUND), READING_RECOGNISED, NULL, false},
    {"mels", FIELD(mels), 1, 256, ONLY(READING_SOUND), READING_RECOGNISED, NULL, false},
    {"floor_db", FIELD(floor_db), 0, 200, ONLY(READING_SOUND), READING_RECOGNISED, NULL, false},
    {"label", FIELD(label), DATASET_LABEL_DIRECTORY, DATASET_LABEL_PREFIX,
     ONLY(READING_SOUND) | ONLY(READING_IMAGES), READING_RECOGNISED, label_words, false},
    {"size", FIELD(size), 1, IMAGE_RESIZED_SIDE_MAX, ONLY(READING_IMAGES), READING_IMAGES, NULL,
     true},
    {"channels", FIELD(channels), 1, 3, ONLY(READING_IMAGES), READING_IMAGES, NULL, false},
};
#define PARAMETER_COUNT (sizeof(parameters) / sizeof(parameters[0]))

static const char *const kind_names[READING_KINDS] = {[READING_RECOGNISED] =
                                                          "data that are recognised",
                                                      [READING_TEXT] = "a text",
                                                      [READING_SOUND] = "sounds",
                                                      [READING_IMAGES] = "images"};

/* The clip, window and hop of the key-word models: 49 frames. */
const struct reading reading_default = {.kind = READING_RECOGNISED,
                                        .clip_ms = 1000,
                                        .window_ms = 40,
                                        .hop_ms = 20,
                                        .mels = 10,
                                        .floor_db = 60,
                                        .label = DATASET_LABEL_DIRECTORY,
                                        .channels = 3};

static int unknown(const char *name, struct err *err)
{
    const char *names[PARAMETER_COUNT];
    for (size_t i = 0; i < PARAMETER_COUNT; i++) {
        names[i] = parameters[i].name;
    }
    const char *nearest = parse_nearest(name, names, PARAMETER_COUNT);
    return nearest
               ? err_set(err, ERR_INVALID, "'%.40s' is unknown; did you mean '%s'?", name, nearest)
               : err_set(err, ERR_INVALID, "'%.40s' is unknown", name);
}

static int parse_word(const struct parameter *parameter, const char *value, int64_t *out,
                      struct err *err)
{
    char known[128] = "";
    for (int64_t i = parameter->min; i <= parameter->max; i++) {
        const char *word = parameter->words[i - parameter->min];
        const size_t used = strlen(known);
        if (strcmp(value, word) == 0) {
            *out = i;
            return 0;
        }
        (void)snprintf(known + used, sizeof(known) - used, "%s'%s'", used > 0 ? ", " : "", word);
    }
    return err_set(err, ERR_INVALID, "'%.40s' is invalid; expected %s", value, known);
}

static int parse_pair(const struct parameter *parameter, const char *value, int64_t out[2],
                      struct err *err)
{
    char first[24];
    const char *mark = strchr(value, 'x');
    const size_t size = mark ? (size_t)(mark - value) : sizeof(first);
    if (size >= sizeof(first)) {
        return err_set(err, ERR_INVALID, "'%.40s': expected two numbers, as in 32x48", value);
    }
    memcpy(first, value, size);
    first[size] = '\0';
    int rc = parse_i64(first, parameter->min, parameter->max, &out[0], err);
    return rc ? rc : parse_i64(mark + 1, parameter->min, parameter->max, &out[1], err);
}

static int parse_value(const struct parameter *parameter, const char *value, int64_t out[2],
                       struct err *err)
{
    if (parameter->words) {
        return parse_word(parameter, value, out, err);
    }
    return parameter->pair ? parse_pair(parameter, value, out, err)
                           : parse_i64(value, parameter->min, parameter->max, out, err);
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
        return err_set(err, ERR_INVALID, "'%s' occurs twice", name);
    }
    int64_t number[2] = {0};
    int rc = parse_value(parameter, value, number, err);
    if (rc) {
        return err ? err_wrap(err, "'%s'", name) : rc;
    }
    memcpy((char *)reading + parameter->offset, number,
           (parameter->pair ? 2 : 1) * sizeof(number[0]));
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
        if (reading->kind != READING_RECOGNISED && reading->kind != says) {
            return err_set(err, ERR_INVALID, "'%s': the data set is %s already", parameters[i].name,
                           kind_names[reading->kind]);
        }
        reading->kind = says;
    }
    for (size_t i = 0; i < PARAMETER_COUNT; i++) {
        if (reading->given & 1u << i && !(parameters[i].kinds & 1u << reading->kind)) {
            return err_set(err, ERR_INVALID, "'%s' does not go with %s", parameters[i].name,
                           kind_names[reading->kind]);
        }
    }
    if (reading->channels == 2) {
        return err_set(err, ERR_INVALID, "'channels': expected 1 or 3");
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

/* Whether the parameter determines the values of the samples of this kind, not only their shape. */
static bool makes_samples(const struct parameter *parameter, enum reading_kind kind)
{
    return kind == READING_SOUND && parameter->kinds == ONLY(READING_SOUND);
}

static int64_t value_of(const struct reading *reading, const struct parameter *parameter)
{
    int64_t value;
    memcpy(&value, (const char *)reading + parameter->offset, sizeof(value));
    return value;
}

void reading_write(const struct reading *reading, char out[READING_TEXT_MAX])
{
    size_t size = 0;
    out[0] = '\0';
    for (size_t i = 0; i < PARAMETER_COUNT; i++) {
        if (makes_samples(&parameters[i], reading->kind)) {
            size += (size_t)snprintf(out + size, READING_TEXT_MAX - size, "%s%s=%" PRId64,
                                     size > 0 ? "," : "", parameters[i].name,
                                     value_of(reading, &parameters[i]));
        }
    }
}

int reading_parse_written(const char *text, struct reading *out, struct err *err)
{
    char again[READING_TEXT_MAX];
    struct reading reading;
    int rc = reading_parse(text, &reading, err);
    if (rc) {
        return rc;
    }
    reading_write(&reading, again);
    if (strcmp(text, again) != 0) {
        return err_set(err, ERR_INVALID, "'%.120s': expected how sounds become samples, '%s'", text,
                       again[0] ? again : "sound=8000,...");
    }
    *out = reading;
    return 0;
}

int reading_follow(struct reading *reading, const struct reading *other, struct err *err)
{
    ASSERT(reading->kind == other->kind);
    for (size_t i = 0; i < PARAMETER_COUNT; i++) {
        const struct parameter *parameter = &parameters[i];
        const int64_t own = value_of(reading, parameter);
        const int64_t wanted = value_of(other, parameter);
        if (!makes_samples(parameter, reading->kind) || own == wanted) {
            continue;
        }
        if (reading->given & 1u << i) {
            return err_set(err, ERR_INVALID, "'%s' is %" PRId64 ", not %" PRId64, parameter->name,
                           wanted, own);
        }
        memcpy((char *)reading + parameter->offset, &wanted, sizeof(wanted));
    }
    return 0;
}

static bool was_given(const struct reading *reading, size_t offset)
{
    size_t i = 0;
    while (parameters[i].offset != offset) {
        i++;
    }
    return reading->given & 1u << i;
}

void reading_fill_images(struct reading *reading, uint32_t h, uint32_t w, uint32_t channels)
{
    if (channels != 1 && channels != 3) {
        return;
    }
    if (!was_given(reading, FIELD(size)) && h <= IMAGE_RESIZED_SIDE_MAX &&
        w <= IMAGE_RESIZED_SIDE_MAX) {
        reading->size.h = h;
        reading->size.w = w;
    }
    if (!was_given(reading, FIELD(channels))) {
        reading->channels = channels;
    }
}
