#include "schema/strategy_rules.h"

#include "schema/gossip.h"
#include "schema/parameter_server.h"
#include "schema/submodel.h"

static int check_joint(const struct job_spec *spec, const struct model *model,
                       struct record_faults *faults, struct err *err)
{
    return submodel_joint_check(&spec->submodel, model, faults, err);
}

static int check_servers(const struct job_spec *spec, const struct model *model,
                         struct record_faults *faults, struct err *err)
{
    return parameter_server_units_check(&spec->parameter_server, model->unit_count, faults, err);
}

static const struct {
    bool pipelines;
    int (*job)(const struct job_spec *spec, struct record_faults *faults, struct err *err);
    int (*model)(const struct job_spec *spec, const struct model *model,
                 struct record_faults *faults, struct err *err);
    int (*assignment)(const struct assignment_run *run, struct err *err);
} rules[] = {
    [STRATEGY_PIPELINE] = {.pipelines = true, .assignment = assignment_check_neighbours},
    [STRATEGY_SUBMODEL] = {true, submodel_check, check_joint, assignment_check_neighbours},
    [STRATEGY_PARAMETER_SERVER] = {false, parameter_server_check, check_servers,
                                   parameter_server_stages_check},
    [STRATEGY_GOSSIP] = {true, gossip_check, NULL, assignment_check_neighbours},
};
STRATEGY_TABLE_CHECK(rules);

bool strategy_rules_pipelines(const struct job_spec *spec)
{
    return rules[spec->strategy].pipelines;
}

int strategy_rules_job(const struct job_spec *spec, struct record_faults *faults, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; i < STRATEGY_COUNT; i++) {
        const int one = rules[i].job ? rules[i].job(spec, faults, err) : 0;
        rc = rc ? rc : one;
    }
    return rc;
}

int strategy_rules_model(const struct job_spec *spec, const struct model *model,
                         struct record_faults *faults, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; i < STRATEGY_COUNT; i++) {
        const int one = rules[i].model ? rules[i].model(spec, model, faults, err) : 0;
        rc = rc ? rc : one;
    }
    return rc;
}

int strategy_rules_assignment(const struct assignment_run *run, struct err *err)
{
    return rules[run->job_spec.strategy].assignment(run, err);
}
