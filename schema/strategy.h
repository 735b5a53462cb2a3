/* strategy.h: how the devices of a job train together. */
#ifndef SCHEMA_STRATEGY_H
#define SCHEMA_STRATEGY_H

enum job_strategy { STRATEGY_PIPELINE, STRATEGY_SUBMODEL, STRATEGY_PARAMETER_SERVER };
extern const char *const job_strategy_names[];

#endif
