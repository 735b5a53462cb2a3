/* local_job.h: reads a job from a file and its data sets from this machine, for the commands
 * without a coordinator. */
#ifndef AGENT_OFFLINE_LOCAL_JOB_H
#define AGENT_OFFLINE_LOCAL_JOB_H

#include <stddef.h>

#include "agent/runtime/local_data.h"
#include "base/conf.h"
#include "base/err.h"
#include "libtrain/description/description.h"
#include "schema/job.h"

#define LOCAL_READING_MAX 512

/* The options for data sets: --dataset NAME=PATH[,PATH], repeatable, and --as. */
struct local_places {
    struct conf_list dataset; /* conf_list_done */
    char reading[LOCAL_READING_MAX];
};
/* The rows of both options in a command's table; `places` is a member of the struct `owner`. */
/* clang-format off */
#define LOCAL_PLACES_OPTIONS(owner, places)                                                        \
    {.name = "dataset",                                                                            \
     .type = CONF_LIST,                                                                            \
     .offset = offsetof(owner, places.dataset),                                                    \
     .value_name = "NAME=PATH[,PATH]",                                                             \
     .help = "A data set of the job: one file of any known format, or images and labels. "         \
             "Repeatable."},                                                                       \
    {.name = "as",                                                                                 \
     .type = CONF_TEXT,                                                                            \
     .offset = offsetof(owner, places.reading),                                                    \
     .size = LOCAL_READING_MAX,                                                                    \
     .value_name = "NAME=VALUE[,...]",                                                             \
     .help = "How to read the data sets, as parameters of an upload, such as text=64. "           \
             "Default: recognised by content."}
/* clang-format on */

/* Read a job in the form of POST /v1/jobs and fill in defaults. Call record_done(&job_spec_record,
 * spec), also on failure. */
NODISCARD int local_job_read(const char *path, struct job_spec *spec, struct err *err);
/* Read a job of strategy gossip. local_job_read rejects it, like every job that has parts. */
NODISCARD int local_job_read_gossip(const char *path, struct job_spec *spec, struct err *err);
/* Open the data set that the job calls `name`. names: out, the names of its classes; NULL: not
 * needed. Call name_list_done(names), also on failure. */
NODISCARD int local_job_dataset(const struct local_places *places, const char *name,
                                struct data **out, struct dataset_info *info,
                                struct name_list *names, struct err *err);

/* Count the job's samples in its opened training data: train_samples, and those of its view.
 * ERR_INVALID if the data cannot have the view. */
NODISCARD int local_job_count(const struct job_spec *spec, const struct data *train,
                              const struct dataset_info *info, struct job_data *out,
                              struct err *err);

/* The data sets of a job. */
struct local_job_data {
    struct data *train, *test;    /* test: NULL without one, or the same pointer as train */
    struct dataset_info info;     /* of the training data */
    struct model_fit fit;         /* the data's requirements on the model */
    struct name_list class_names; /* of the model's outputs; empty: not known */
    struct job_data counts;       /* the numbers of samples */
};
/* Open both data sets, and check that they fit each other and the job. Call
 * local_job_data_done(out), also on failure. */
NODISCARD int local_job_data_open(const struct local_places *places, const struct job_spec *spec,
                                  struct local_job_data *out, struct err *err);
void local_job_data_done(struct local_job_data *data);

#endif
