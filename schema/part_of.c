#include "schema/part_of.h"

const char *const job_part_names[] = {
    [JOB_WHOLE] = "whole", [JOB_STEM] = "stem", [JOB_GROUP] = "group", [JOB_JOINT] = "joint", NULL,
};
