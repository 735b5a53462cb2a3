/* base/json and base/record under any bytes. A value that was read must come out of
 * write and read unchanged. */
#include <string.h>

#include "base/assert.h"
#include "base/json.h"
#include "base/record.h"

struct part {
    char name[8];
    int64_t level;
    json_t *extra;
};

struct label {
    char key[6];
    char value[6];
};

struct whole {
    bool flag;
    int64_t count;
    double rate;
    char text[12];
    int kind;
    int64_t time_ms;
    struct part part;
    bool has_option;
    struct part option;
    struct part parts[3];
    size_t part_count;
    double numbers[4];
    size_t number_count;
    json_t *any;
    struct label labels[3];
    size_t label_count;
    double limit;
    bool has_limit;
    int64_t sizes[3];
    size_t size_count;
    int64_t size; /* in place of sizes */
    struct part named[2];
    size_t named_count;
    int name; /* in place of named */
    uint32_t range[2];
    size_t range_count;
    bool has_ranges;
    double ratio;
};

static const char *const kinds[] = {"none", "red", "green", NULL};

static const struct field part_fields[] = {
    MEMBER_TEXT(struct part, name, "name", FIELD_REQUIRED),
    MEMBER_INT(struct part, level, "level", 0, -5, 9007199254740992.0),
    MEMBER_JSON(struct part, extra, "extra", FIELD_SKIP_EMPTY),
};
static const struct record part_record = RECORD(struct part, "part", part_fields);

static bool is_short(const char *text)
{
    return text[0] != '\0' && strlen(text) < 5;
}

static const struct text_form short_form = {.valid = is_short, .expected = "short"};

static const struct field label_fields[] = {
    MEMBER_FORM(struct label, key, "key", FIELD_REQUIRED, &short_form),
    MEMBER_TEXT(struct label, value, "value", FIELD_REQUIRED),
};
static const struct record label_record = RECORD(struct label, "label", label_fields);

static const struct field limit_fields[] = {
    MEMBER_DOUBLE_OPTIONAL(struct whole, limit, has_limit, "limit", 0, -1, 1),
    MEMBER_CONSTANT("mode", "[1, \"x\"]"),
};
static const struct field range_field = {
    .type = FIELD_INT, .size = sizeof(uint32_t), .min = 0, .max = UINT32_MAX};
static const struct field range_fields[] = {
    MEMBER_LIST(struct whole, range, range_count, "list", FIELD_REQUIRED, &range_field),
};
static const struct record range_record = RECORD(struct whole, "ranges", range_fields);

static const struct record limit_record = RECORD(struct whole, "limits", limit_fields);

static const struct field size_field = {.type = FIELD_INT, .min = -5, .max = 5};
static const struct field size_alone =
    MEMBER_INT(struct whole, size, "sizes", FIELD_NULLABLE, 1, 8);
static const struct field name_alone = MEMBER_ENUM(struct whole, name, "named", 0, kinds);

static const struct field number_field = {.type = FIELD_DOUBLE, .min = -1e300, .max = 1e300};

static const struct field whole_fields[] = {
    MEMBER_BOOL(struct whole, flag, "flag", 0),
    MEMBER_INT(struct whole, count, "count", FIELD_NULLABLE, 0, 0),
    MEMBER_DOUBLE(struct whole, rate, "rate", FIELD_NULLABLE, 0, 0),
    MEMBER_TEXT(struct whole, text, "te~/xt", FIELD_NULLABLE),
    MEMBER_ENUM(struct whole, kind, "kind", 0, kinds),
    MEMBER_TIME(struct whole, time_ms, "time", FIELD_NULLABLE),
    MEMBER_RECORD(struct whole, part, "part", FIELD_SKIP_EMPTY, &part_record),
    MEMBER_OPTIONAL(struct whole, option, has_option, "option", 0, &part_record),
    MEMBER_RECORDS(struct whole, parts, part_count, "parts", FIELD_SKIP_EMPTY, &part_record),
    MEMBER_LIST(struct whole, numbers, number_count, "numbers", FIELD_NULLABLE, &number_field),
    MEMBER_JSON(struct whole, any, "any", FIELD_NULLABLE),
    MEMBER_MAP(struct whole, labels, label_count, "labels", 0, &label_record),
    MEMBER_GROUP("limits", 0, &limit_record),
    MEMBER_LIST(struct whole, sizes, size_count, "sizes", 0, &size_field, .instead = &size_alone,
                .min = 1),
    MEMBER_RECORDS(struct whole, named, named_count, "named", FIELD_SKIP_EMPTY, &part_record,
                   .instead = &name_alone, .min = 1),
    MEMBER_GROUP_OPTIONAL(struct whole, has_ranges, "ranges", FIELD_SKIP_EMPTY, &range_record),
    MEMBER_DOUBLE(struct whole, ratio, "ratio", 0, -1, 1, .unless = "ranges"),
};
static const struct record whole_record = RECORD(struct whole, "whole", whole_fields);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int read_whole(const json_t *value, struct whole *out, struct record_faults *faults)
{
    struct err err = {0};
    memset(out, 0, sizeof(*out));
    out->kind = 1; /* defaults, where zero has a form of its own */
    out->count = 7;
    faults->count = 0;
    faults->more = false;
    int rc = record_read(&whole_record, value, "/base", out, faults, &err);
    ASSERT((rc == 0) == (faults->count == 0));
    for (size_t i = 0; i < faults->count; i++) {
        ASSERT(strncmp(faults->fault[i].pointer, "/base", 5) == 0 && faults->fault[i].message[0]);
        json_auto_t *shown = json_pack("[ss]", faults->fault[i].pointer, faults->fault[i].message);
        ASSERT(shown);
    }
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct record_faults faults;
    json_auto_t *value = NULL;
    struct err err = {0};
    if (json_parse((const char *)data, size, &value, &err)) {
        ASSERT(err.code < 0 && err.text[0]);
        return 0;
    }
    struct whole first;
    if (read_whole(value, &first, &faults) == 0) {
        json_auto_t *written = record_write(&whole_record, &first);
        struct whole second;
        ASSERT(written && read_whole(written, &second, &faults) == 0);
        json_auto_t *again = record_write(&whole_record, &second);
        ASSERT(again && json_equal(written, again));
        record_done(&whole_record, &second);
    }
    record_done(&whole_record, &first);
    return 0;
}
