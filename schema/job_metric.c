#include "schema/job_metric.h"

static const struct field job_metric_fields[] = {
    MEMBER_INT(struct job_metric, metric.step, "step", FIELD_REQUIRED, 0, INTEGER_MAX),
    MEMBER_ENUM(struct job_metric, metric.name, "name", FIELD_REQUIRED, metric_name_names),
    MEMBER_DOUBLE(struct job_metric, metric.value, "value", FIELD_REQUIRED, 0, 0),
    MEMBER_FORM(
        struct job_metric, job.text, "job", FIELD_NULLABLE | FIELD_SKIP_EMPTY, &job_id_form,
        .about = "The part of the job that reported the metric. Left out: the job has no parts."),
    MEMBER_ENUM(struct job_metric, part, "part", FIELD_SKIP_EMPTY, job_part_names,
                .about = "Which part it is. Left out: no part."),
    MEMBER_INT(struct job_metric, group, "group", FIELD_SKIP_EMPTY, 0, GROUPS_MAX,
               .about = "The group's number, from 0, if the part is a group."),
};
const struct record job_metric_record =
    RECORD_WITH(struct job_metric, "job_metric", job_metric_fields, .answer = true);
