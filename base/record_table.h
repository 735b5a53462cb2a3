/* record_table.h: the table that describes a C struct (for record.h), and the macros for its rows.
 * A struct need not be nested as its JSON is: a group (MEMBER_GROUP) nests members of the same
 * struct. */
#ifndef BASE_RECORD_TABLE_H
#define BASE_RECORD_TABLE_H

#include <stdbool.h>
#include <stddef.h>

enum field_type {
    FIELD_BOOL,   /* bool */
    FIELD_INT,    /* int64_t within [min, max], or uint32_t (MEMBER_UINT32) */
    FIELD_DOUBLE, /* double, finite, within [min, max]; JSON integers are accepted too */
    FIELD_TEXT,   /* char[size], NUL-terminated; longer text is a fault */
    FIELD_ENUM,   /* int: index into names, which ends with NULL */
    FIELD_TIME,   /* int64_t wall_ms as RFC 3339 text */
    FIELD_RECORD, /* a nested struct; with FIELD_NULLABLE the bool at presence_offset says whether
                     it is present */
    FIELD_LIST, /* element[size] inside the struct, their number (size_t) at count_offset; elements
                   are `element` */
    FIELD_MAP,  /* as a LIST of records with two TEXT fields; in JSON one object of texts: the first
                   field is the  member's name, the second its value */
    FIELD_JSON, /* json_t *, owned by the struct (record_done), any value */
    FIELD_CONSTANT, /* no member of the struct: one value is written and accepted, every other is a
                       fault */
};

enum field_flag {
    FIELD_REQUIRED = 1,
    FIELD_NULLABLE = 2,
    FIELD_OUTPUT = 4,     /* written, and rejected when read */
    FIELD_SKIP_EMPTY = 8, /* not written while it has its zero value (a record: while all its
                             members have theirs), which is its default as well */
    FIELD_INPUT = 16,     /* read, never written */
    FIELD_PRESENCE =
        32, /* with FIELD_NULLABLE: the bool at presence_offset, not the zero value, marks null */
    FIELD_ADDED = 64, /* of an answer: missing in documents stored by an earlier version */
};

struct record;

/* The required form of a text. */
struct text_form {
    bool (*valid)(const char *text);
    const char *expected; /* "a name: 1 to 63 of a-z 0-9 . _ -" */
    /* For the contract. */
    const char *pattern; /* a regular expression that no valid text fails */
    const char *shared;  /* the contract's schema of such texts ("job_id"), whose pattern bounds
                            their length; NULL: none */
};

struct field {
    const char *name;
    enum field_type type;
    unsigned flags;
    size_t offset;
    double min, max; /* INT and DOUBLE: bounds (both 0: none); LIST or MAP: least and most elements
                        (max 0: size) */
    size_t size;     /* TEXT: bytes of the array with the NUL; LIST, MAP: capacity in elements; INT:
                        bytes of the member, 0: 8 */
    const char *const *names;     /* ENUM */
    const struct text_form *form; /* TEXT: NULL for any text */
    const char *constant;         /* CONSTANT: the value as JSON text */
    const struct record *record;  /* RECORD, MAP, and LIST of records */
    const struct field *element;  /* LIST: type, bounds and size of one element (its offset is 0) */
    const struct field *instead;  /* LIST of min 1 or more: an INT or ENUM of the same struct that
                                     receives any value except a list. A list sets the INT to its
                                     number of elements, the ENUM to the index after the names */
    size_t element_size;          /* LIST, MAP: bytes of one element */
    size_t count_offset;          /* LIST, MAP: size_t */
    size_t presence_offset;       /* RECORD with FIELD_NULLABLE, FIELD_PRESENCE: bool */
    const char *unless; /* the name of a nullable RECORD beside it, which excludes it: while that
                           RECORD is present, the field is zero, not written, and a fault */
    int since; /* the version of the messages that added it; 0: the first. Readers and writers of an
                  earlier version do not know it */
    /* For the contract and the documents; each may be NULL. */
    const char *about;  /* sentences in Markdown, links relative to docs/ */
    const char *rule;   /* bounds not stated by the other members: "divisible by `n`" */
    const char *shared; /* a hand-written schema of openapi.yaml that describes the value */
};

struct record {
    const char *name; /* "job", for messages */
    size_t size;      /* of the struct */
    const struct field *fields;
    size_t field_count;
    const char *about; /* as of a field */
    bool first_alone; /* a text T stands for an object with only the first member, an optional TEXT,
                         set to T. Writing uses this form too, except in a list. With FIELD_NULLABLE
                         null stands for an object without members */
    bool answer;      /* sent by the coordinator only: the contract requires every member that is
                         always written */
};

/* Table helpers: MEMBER_x(struct type, member, "name", flags, ...). A list's or a map's count and
 * an optional's presence stand after the member. Further members of struct field follow the last
 * argument: .about = "Samples of one step." */
#define MEMBER_BOOL(T, m, n, ...)                                                                  \
    {                                                                                              \
        .name = (n), .type = FIELD_BOOL, .offset = offsetof(T, m), .flags = __VA_ARGS__            \
    }
#define MEMBER_INT(T, m, n, f, lo, ...)                                                            \
    {                                                                                              \
        .name = (n), .type = FIELD_INT, .flags = (f), .offset = offsetof(T, m), .min = (lo),       \
        .max = __VA_ARGS__                                                                         \
    }
#define MEMBER_UINT32(T, m, n, f, lo, ...)                                                         \
    MEMBER_INT(T, m, n, f, lo, __VA_ARGS__, .size = sizeof(((T *)0)->m))
#define MEMBER_DOUBLE(T, m, n, f, lo, ...)                                                         \
    {                                                                                              \
        .name = (n), .type = FIELD_DOUBLE, .flags = (f), .offset = offsetof(T, m), .min = (lo),    \
        .max = __VA_ARGS__                                                                         \
    }
#define MEMBER_DOUBLE_OPTIONAL(T, m, p, n, f, lo, ...)                                             \
    {                                                                                              \
        .name = (n), .type = FIELD_DOUBLE, .flags = (f) | FIELD_NULLABLE | FIELD_PRESENCE,         \
        .offset = offsetof(T, m), .presence_offset = offsetof(T, p), .min = (lo),                  \
        .max = __VA_ARGS__                                                                         \
    }
#define MEMBER_FORM(T, m, n, f, ...)                                                               \
    {                                                                                              \
        .name = (n), .type = FIELD_TEXT, .flags = (f), .offset = offsetof(T, m),                   \
        .size = sizeof(((T *)0)->m), .form = __VA_ARGS__                                           \
    }
#define MEMBER_TEXT(T, m, n, ...)                                                                  \
    {                                                                                              \
        .name = (n), .type = FIELD_TEXT, .offset = offsetof(T, m), .size = sizeof(((T *)0)->m),    \
        .flags = __VA_ARGS__                                                                       \
    }
#define MEMBER_ENUM(T, m, n, f, ...)                                                               \
    {                                                                                              \
        .name = (n), .type = FIELD_ENUM, .flags = (f), .offset = offsetof(T, m),                   \
        .names = __VA_ARGS__                                                                       \
    }
#define MEMBER_TIME(T, m, n, ...)                                                                  \
    {                                                                                              \
        .name = (n), .type = FIELD_TIME, .offset = offsetof(T, m), .flags = __VA_ARGS__            \
    }
#define MEMBER_RECORD(T, m, n, f, ...)                                                             \
    {                                                                                              \
        .name = (n), .type = FIELD_RECORD, .flags = (f), .offset = offsetof(T, m),                 \
        .record = __VA_ARGS__                                                                      \
    }
#define MEMBER_OPTIONAL(T, m, p, n, f, ...)                                                        \
    {                                                                                              \
        .name = (n), .type = FIELD_RECORD, .flags = (f) | FIELD_NULLABLE,                          \
        .offset = offsetof(T, m), .presence_offset = offsetof(T, p), .record = __VA_ARGS__         \
    }
#define MEMBER_RECORDS(T, m, c, n, f, ...)                                                         \
    {                                                                                              \
        .name = (n), .type = FIELD_LIST, .flags = (f), .offset = offsetof(T, m),                   \
        .size = sizeof(((T *)0)->m) / sizeof(((T *)0)->m[0]),                                      \
        .element_size = sizeof(((T *)0)->m[0]), .count_offset = offsetof(T, c),                    \
        .record = __VA_ARGS__                                                                      \
    }
#define MEMBER_LIST(T, m, c, n, f, ...)                                                            \
    {                                                                                              \
        .name = (n), .type = FIELD_LIST, .flags = (f), .offset = offsetof(T, m),                   \
        .size = sizeof(((T *)0)->m) / sizeof(((T *)0)->m[0]),                                      \
        .element_size = sizeof(((T *)0)->m[0]), .count_offset = offsetof(T, c),                    \
        .element = __VA_ARGS__                                                                     \
    }
#define MEMBER_LIST_OPTIONAL(T, m, c, p, n, f, ...)                                                \
    {                                                                                              \
        .name = (n), .type = FIELD_LIST, .flags = (f) | FIELD_NULLABLE | FIELD_PRESENCE,           \
        .offset = offsetof(T, m), .size = sizeof(((T *)0)->m) / sizeof(((T *)0)->m[0]),            \
        .element_size = sizeof(((T *)0)->m[0]), .count_offset = offsetof(T, c),                    \
        .presence_offset = offsetof(T, p), .element = __VA_ARGS__                                  \
    }
#define MEMBER_MAP(T, m, c, n, f, ...)                                                             \
    {                                                                                              \
        .name = (n), .type = FIELD_MAP, .flags = (f), .offset = offsetof(T, m),                    \
        .size = sizeof(((T *)0)->m) / sizeof(((T *)0)->m[0]),                                      \
        .element_size = sizeof(((T *)0)->m[0]), .count_offset = offsetof(T, c),                    \
        .record = __VA_ARGS__                                                                      \
    }
/* r: a table of members of the same struct. */
#define MEMBER_GROUP(n, f, ...)                                                                    \
    {                                                                                              \
        .name = (n), .type = FIELD_RECORD, .flags = (f), .offset = 0, .record = __VA_ARGS__        \
    }
#define MEMBER_GROUP_OPTIONAL(T, p, n, f, ...)                                                     \
    MEMBER_GROUP(n, (f) | FIELD_NULLABLE, __VA_ARGS__, .presence_offset = offsetof(T, p))
#define MEMBER_CONSTANT(n, ...)                                                                    \
    {                                                                                              \
        .name = (n), .type = FIELD_CONSTANT, .constant = __VA_ARGS__                               \
    }
#define MEMBER_JSON(T, m, n, ...)                                                                  \
    {                                                                                              \
        .name = (n), .type = FIELD_JSON, .offset = offsetof(T, m), .flags = __VA_ARGS__            \
    }
#define RECORD_WITH(T, n, table, ...)                                                              \
    {                                                                                              \
        .name = (n), .size = sizeof(T), .fields = (table),                                         \
        .field_count = sizeof(table) / sizeof((table)[0]), __VA_ARGS__                             \
    }
#define RECORD(T, n, table) RECORD_WITH(T, n, table, .about = NULL)

#endif
