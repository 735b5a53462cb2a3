/* job_check.h: the rules between the fields of a job, which the record table cannot state, and
 * their consequences for a model and its data. Pure; any thread. */
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

/* Check the rules between the fields of a submitted job (batch divisible by micro_batches, devices
 * min <= max ...). Adds faults. ERR_INVALID when there is one; err names the first. */
NODISCARD int job_spec_check(const struct job_spec *spec, struct record_faults *faults,
                             struct err *err);
/* Check the rules between the fields of a replan request. */
NODISCARD int replan_request_check(const struct replan_request *request,
                                   struct record_faults *faults, struct err *err);
/* Check the rules between the fields of a question about a model or a job. */
NODISCARD int prediction_question_check(const struct prediction_question *question,
                                        struct record_faults *faults, struct err *err);
/* Check that stage boundaries (rising, by the checks above) lie within a model of unit_count units.
 * Adds a fault at /cuts/i for each other one. */
NODISCARD int job_cuts_check(const int64_t *cut, size_t cut_count, size_t unit_count,
                             struct record_faults *faults, struct err *err);

/* Check that the job's augmentations fit samples of a shape: images, larger than the padding, with
 * as many channels as the augmentation has numbers. Adds a fault at /augment/i for each other. */
NODISCARD int job_augment_check(const struct job_spec *spec, struct shape sample,
                                struct record_faults *faults, struct err *err);
/* Return how the job normalises the model's input (model_normalise); without numbers if it does
 * not. */
const struct normalise *job_normalise(const struct job_spec *spec);
/* Return whether devices may measure the kernels that the model does not name. They may not if the
 * job gives a table, even an empty one, or if its model names kernels that some devices lack. */
bool job_tunes(const struct job_spec *spec, const struct model *model);
/* Check that names are distinct units of the model. Adds a fault at `pointer`/i for each other
 * name, with the closest match. */
NODISCARD int job_units_check(const struct unit_name *name, size_t count, const struct model *model,
                              const char *pointer, struct record_faults *faults, struct err *err);
/* Set frozen[] for the units of the model that the job freezes. Adds faults as above, and one if no
 * unit would be left to train. */
NODISCARD int job_freeze(const struct job_spec *spec, const struct model *model,
                         bool frozen[MODEL_UNITS_MAX], struct record_faults *faults,
                         struct err *err);
/* Return whether version 0 of the unit comes from the job's checkpoint. */
bool job_from_checkpoint(const struct job_spec *spec, const char *unit);

/* Check the rules of `stop` and `checkpoint`; part of job_spec_check. */
NODISCARD int job_stop_check(const struct job_spec *spec, struct record_faults *faults,
                             struct err *err);
/* Return the metric by which versions of the job are compared (enum judged_metric). */
int job_judged_metric(const struct job_spec *spec);
/* Return the steps between two evaluations of the job; 0: none. */
int64_t job_evaluate_steps(const struct job_spec *spec, const struct job_data *data);
/* Return the steps between two checkpoints while the job trains; 0: none. */
int64_t job_checkpoint_steps(const struct job_spec *spec, const struct job_data *data);
/* Return whether versions go to the center while the job trains. */
bool job_center_rounds(const struct job_spec *spec);
/* Return whether the version becomes a checkpoint while the job trains. */
bool job_checkpoint_due(const struct job_spec *spec, const struct job_data *data, int64_t version);

/* Return the view whose class indices are the job's labels; NULL: the labels are the class numbers
 * of its data. */
const struct view *job_view(const struct job_spec *spec);
/* Return the samples of an epoch: those of the training data, or of the job's view of it. */
int64_t job_epoch_samples(const struct job_data *data);
/* Return the steps of the whole job: min(steps, epochs * floor(epoch_samples / batch)). */
int64_t job_total_steps(const struct job_spec *spec, int64_t epoch_samples);

#endif
