#include "schema/records.h"

#include <stdlib.h>
#include <string.h>

#include "schema/assignment.h"
#include "schema/audit.h"
#include "schema/brief.h"
#include "schema/dataset.h"
#include "schema/device.h"
#include "schema/event.h"
#include "schema/groups_view.h"
#include "schema/heartbeat.h"
#include "schema/incident.h"
#include "schema/job.h"
#include "schema/job_check.h"
#include "schema/job_metric.h"
#include "schema/job_patch.h"
#include "schema/job_preview.h"
#include "schema/measured.h"
#include "schema/mix_row.h"
#include "schema/model_view.h"
#include "schema/offer.h"
#include "schema/plan.h"
#include "schema/prediction.h"
#include "schema/problem.h"
#include "schema/replicas.h"
#include "schema/service.h"
#include "schema/token.h"
#include "schema/what_if.h"

static int check_job_spec(const void *value, struct record_faults *faults, struct err *err)
{
    return job_spec_check(value, faults, err);
}

static int check_replan_request(const void *value, struct record_faults *faults, struct err *err)
{
    return replan_request_check(value, faults, err);
}

static int check_prediction_question(const void *value, struct record_faults *faults,
                                     struct err *err)
{
    return prediction_question_check(value, faults, err);
}

static int check_plan_question(const void *value, struct record_faults *faults, struct err *err)
{
    return plan_question_check(value, faults, err);
}

static int check_token_request(const void *value, struct record_faults *faults, struct err *err)
{
    struct token_request copy = *(const struct token_request *)value;
    return token_request_settle(&copy, faults, err);
}

static int check_assignment(const void *value, struct record_faults *faults, struct err *err)
{
    (void)faults;
    return assignment_check(value, err);
}

static void start_job_spec(void *value)
{
    *(struct job_spec *)value = job_spec_default;
}

static void start_assignment(void *value)
{
    assignment_start(value);
}

static void start_job(void *value)
{
    ((struct job *)value)->spec = job_spec_default;
}

static void start_plan_question(void *value)
{
    ((struct plan_question *)value)->spec = job_spec_default;
}

const struct records_entry records_all[] = {
    {&assignment_record, start_assignment, check_assignment},
    {&audit_entry_record, NULL, NULL},
    {&center_unit_record, NULL, NULL},
    {&checkpoint_record, NULL, NULL},
    {&dataset_record, NULL, NULL},
    {&device_brief_record, NULL, NULL},
    {&device_record, NULL, NULL},
    {&device_patch_record, NULL, NULL},
    {&enroll_reply_record, NULL, NULL},
    {&enroll_request_record, NULL, NULL},
    {&groups_view_record, NULL, NULL},
    {&public_event_record, NULL, NULL},
    {&heartbeat_record, NULL, NULL},
    {&heartbeat_reply_record, NULL, NULL},
    {&incident_record, NULL, NULL},
    {&join_reply_record, NULL, NULL},
    {&join_request_record, NULL, NULL},
    {&job_brief_record, NULL, NULL},
    {&job_record, start_job, NULL},
    {&job_metric_record, NULL, NULL},
    {&job_preview_record, NULL, NULL},
    {&job_spec_record, start_job_spec, check_job_spec},
    {&job_patch_record, start_job_spec, NULL},
    {&measured_link_list_record, NULL, NULL},
    {&measured_unit_list_record, NULL, NULL},
    {&local_dataset_record, NULL, NULL},
    {&metric_record, NULL, NULL},
    {&mix_row_record, NULL, NULL},
    {&model_row_record, NULL, NULL},
    {&model_view_record, NULL, NULL},
    {&part_replicas_record, NULL, NULL},
    {&plan_record, NULL, NULL},
    {&plan_answer_record, NULL, NULL},
    {&plan_question_record, start_plan_question, check_plan_question},
    {&prediction_record, NULL, NULL},
    {&prediction_question_record, NULL, check_prediction_question},
    {&problem_record, NULL, NULL},
    {&replicas_record, NULL, NULL},
    {&replan_request_record, NULL, check_replan_request},
    {&service_status_record, NULL, NULL},
    {&service_version_record, NULL, NULL},
    {&token_record, NULL, NULL},
    {&token_created_record, NULL, NULL},
    {&token_request_record, NULL, check_token_request},
};
const size_t records_count = sizeof(records_all) / sizeof(records_all[0]);

const struct records_entry *records_find(const char *name)
{
    size_t size = strcspn(name, ".");
    for (size_t i = 0; i < records_count; i++) {
        const char *known = records_all[i].record->name;
        if (strlen(known) == size && strncmp(known, name, size) == 0) {
            return &records_all[i];
        }
    }
    return NULL;
}

void *records_new(const struct records_entry *test)
{
    void *value = calloc(1, test->record->size);
    if (value && test->start) {
        test->start(value);
    }
    return value;
}
