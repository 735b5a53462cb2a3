#include "schema/job_patch.h"

#include <stdio.h>
#include <string.h>

static const struct field patch_fields[] = {
    MEMBER_GROUP("replication", 0, &job_replication_group),
    MEMBER_GROUP("replan", 0, &job_replan_group),
};
const struct record job_patch_record =
    RECORD_WITH(struct job_spec, "job_patch", patch_fields,
                .about = "The fields of a job that may change after its submission.");

static bool has_field(const struct record *record, const char *name)
{
    for (size_t i = 0; i < record->field_count; i++) {
        if (strcmp(record->fields[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

int job_patch_read(json_t *patch, struct job_spec *spec, struct record_faults *faults,
                   struct err *err)
{
    const char *name;
    json_t *value;
    json_object_foreach(patch, name, value)
    {
        if (has_field(&job_spec_record, name) && !has_field(&job_patch_record, name)) {
            char pointer[RECORD_POINTER_MAX];
            (void)snprintf(pointer, sizeof(pointer), "/%s", name);
            record_fault(faults, pointer, "is fixed at submission; submit a new job");
        }
    }
    if (faults->count > 0) {
        return err_set(err, ERR_INVALID, "%s: %s", faults->fault[0].pointer,
                       faults->fault[0].message);
    }
    return record_read(&job_patch_record, patch, "", spec, faults, err);
}
