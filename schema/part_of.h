/* part_of.h: the place of a job in its parent, for rows about jobs: the parent and the part. It is
 * empty for a job that is not a part. Plain struct; a row's record lists PART_OF_FIELDS. */
#ifndef SCHEMA_PART_OF_H
#define SCHEMA_PART_OF_H

#include <stdint.h>

#include "base/record.h"
#include "schema/id.h"
#include "schema/limits.h"

/* The part of a parent that a job is; a job without a parent is whole. */
enum job_part { JOB_WHOLE, JOB_STEM, JOB_GROUP, JOB_JOINT };
extern const char *const job_part_names[];

/* All zero: the job is whole. */
struct part_of {
    struct job_id parent;
    int part;      /* enum job_part */
    int64_t group; /* of a group: its index */
};

/* The fields of the struct part_of that type T has as its member `of`. */
#define PART_OF_FIELDS(T)                                                                          \
    MEMBER_FORM(T, of.parent.text, "parent", FIELD_NULLABLE | FIELD_SKIP_EMPTY, &job_id_form,      \
                .about = "The job that `job` is a part of. Left out: none."),                      \
        MEMBER_ENUM(T, of.part, "part", FIELD_SKIP_EMPTY, job_part_names,                          \
                    .about = "Which part. Left out: none."),                                       \
        MEMBER_INT(T, of.group, "group", FIELD_SKIP_EMPTY, 0, GROUPS_MAX,                          \
                   .about = "Of a group: its number, from 0. Left out: 0.")

#endif
