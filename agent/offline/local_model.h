/* local_model.h: the model of a job with its data sets on this machine (local_job.h), and the file
 * that the job starts from. For train.c and replay.c; one thread. */
#ifndef AGENT_OFFLINE_LOCAL_MODEL_H
#define AGENT_OFFLINE_LOCAL_MODEL_H

#include <stddef.h>

#include "agent/offline/local_job.h"
#include "base/err.h"
#include "libtrain/memory/memory.h"
#include "libtrain/model/model.h"
#include "libtrain/state/checkpoint.h"
#include "schema/job.h"

/* The rows of options in a command's table; the last macro argument is a member of the struct
 * `owner`. */
/* clang-format off */
#define LOCAL_CHECKPOINT_OPTION(owner, checkpoint)                                                 \
    {.name = "checkpoint",                                                                         \
     .type = CONF_TEXT,                                                                            \
     .offset = offsetof(owner, checkpoint),                                                        \
     .size = sizeof(((owner *)0)->checkpoint),                                                     \
     .value_name = "FILE",                                                                         \
     .help = "File of the job's init.checkpoint, as safetensors. Default: none."}
#define LOCAL_OUTPUT_OPTION(owner, output)                                                         \
    {.name = "output",                                                                             \
     .type = CONF_TEXT,                                                                            \
     .offset = offsetof(owner, output),                                                            \
     .size = sizeof(((owner *)0)->output),                                                         \
     .value_name = "FILE",                                                                         \
     .help = "File for the trained model, as safetensors. Required."}
#define LOCAL_THREADS_OPTION(owner, threads)                                                       \
    {.name = "threads",                                                                            \
     .type = CONF_INT,                                                                             \
     .offset = offsetof(owner, threads),                                                           \
     .min = 1,                                                                                     \
     .max = MEMORY_THREADS_MAX,                                                                    \
     .value_name = "N",                                                                            \
     .help = "Compute threads; results do not depend on it. Default: 1."}
/* clang-format on */

struct local_model {
    struct model *model;
    int fd;                             /* of the checkpoint; -1: none */
    struct checkpoint_file *checkpoint; /* the job's init.checkpoint; NULL: start from the seed */
};

/* Fit the job's model description, or the zoo's model of that name, to the data. Open its
 * init.checkpoint (`path`; "": none), and choose the kernels as the devices of a job do in its
 * first generation. Call local_model_close(out), also on failure. The checkpoint reads from *out,
 * which must not move. */
NODISCARD int local_model_open(const struct job_spec *spec, const struct local_job_data *data,
                               const char *path, size_t threads, struct local_model *out,
                               struct err *err);
void local_model_close(struct local_model *model);
/* Copy a model for a stage, which takes ownership of its model. */
NODISCARD int local_model_copy(const struct model *model, struct model **out, struct err *err);

#endif
