/* job_check.h: the rules between the fields of a job, which a table of single fields cannot state,
 * and their consequences for a model and its data. Pure; any thread. */
#ifndef SCHEMA_JOB_CHECK_H
#define SCHEMA_JOB_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/record.h"
#include "libtrain/model/model.h"
#include "libtrain/model/shape.h"
#include "schema/job.h"
#include "schema/prediction.h"

/* Rules between the fields of a job as it is submitted (batch divisible by micro_batches, devices
 * min <= max ...). Adds faults. ERR_INVALID when there is one; err names the first. */
NODISCARD int job_spec_check(const struct job_spec *spec, struct record_faults *faults,
                             struct err *err);
/* Rules between the fields of a replan. */
NODISCARD int replan_request_check(const struct replan_request *request,
                                   struct record_faults *faults, struct err *err);
/* Rules between the fields of a question about a model or a job. */
NODISCARD int prediction_question_check(const struct prediction_question *question,
                                        struct record_faults *faults, struct err *err);
/* Whether boundaries (rising, as the checks above say) lie within a model of unit_count units: a
 * fault at /cuts/i for each that does not. */
NODISCARD int job_cuts_check(const int64_t *cut, size_t cut_count, size_t unit_count,
                             struct record_faults *faults, struct err *err);

/* Whether the job's augment fits samples of a shape: images, of as many channels as it has numbers,
 * larger than the padding. A fault at /augment/i for each that does not. */
NODISCARD int job_augment_check(const struct job_spec *spec, struct shape sample,
                                struct record_faults *faults, struct err *err);
/* What the job makes of the model's input (model_normalise): no numbers without one. */
const struct normalise *job_normalise(const struct job_spec *spec);
/* Whether kernels that the model does not name may be measured where devices have a choice: not
 * when the job gives a table, not even an empty one, nor when its model names kernels that some
 * devices lack. */
bool job_tunes(const struct job_spec *spec, const struct model *model);
/* Check that names are distinct units of the model: a fault at `pointer`/i for each other name,
 * with the nearest unit. */
NODISCARD int job_units_check(const struct unit_name *name, size_t count, const struct model *model,
                              const char *pointer, struct record_faults *faults, struct err *err);
/* Which units of the model the job freezes. Faults as above, and one where nothing would be left to
 * train. */
NODISCARD int job_freeze(const struct job_spec *spec, const struct model *model,
                         bool frozen[MODEL_UNITS_MAX], struct record_faults *faults,
                         struct err *err);
/* Whether version 0 of the unit is taken from the job's checkpoint. */
bool job_from_checkpoint(const struct job_spec *spec, const char *unit);

/* Rules of `stop` and `checkpoint`; part of job_spec_check. */
NODISCARD int job_stop_check(const struct job_spec *spec, struct record_faults *faults,
                             struct err *err);
/* The metric by which versions of the job are compared (enum judged_metric). */
int job_judged_metric(const struct job_spec *spec);
/* Steps between two evaluations of the job; 0: there are none. */
int64_t job_evaluate_steps(const struct job_spec *spec, const struct job_data *data);
/* Steps between two checkpoints while the job trains; 0: there are none. */
int64_t job_checkpoint_steps(const struct job_spec *spec, const struct job_data *data);
/* Whether versions go to the center while the job trains. */
bool job_center_rounds(const struct job_spec *spec);
/* Whether the version becomes a checkpoint while the job trains. */
bool job_checkpoint_due(const struct job_spec *spec, const struct job_data *data, int64_t version);

/* The view whose places are the labels of the job; NULL: they are class numbers of its data. */
const struct view *job_view(const struct job_spec *spec);
/* Samples of an epoch: those of the training data, or of the job's view of it. */
int64_t job_epoch_samples(const struct job_data *data);
/* Steps of the whole job: min(steps, epochs * floor(epoch_samples / batch)). */
int64_t job_total_steps(const struct job_spec *spec, int64_t epoch_samples);

#endif
