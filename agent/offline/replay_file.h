/* replay_file.h: the files that `paceline-agent replay` reads in addition to the job: the log of
 * its mixes and the specs of its groups. For replay.c. */
#ifndef AGENT_OFFLINE_REPLAY_FILE_H
#define AGENT_OFFLINE_REPLAY_FILE_H

#include <stddef.h>

#include "base/err.h"
#include "schema/job.h"
#include "schema/mix.h"

/* Read the answer of GET /v1/jobs/{id}/mixes, an array of such answers (its pages in order), or an
 * array of their items. *out: [*count], freed by the caller. ERR_INVALID for a file in another
 * form, without the later pages, or with records of several jobs. Errors name the path. */
NODISCARD int replay_file_mixes(const char *path, struct mix_record **out, size_t *count,
                                struct err *err);

/* Read a JSON array of answers of GET /v1/jobs/{id}/groups/{n}/spec, in the order of the groups,
 * and compare them with the spec of the job. *out: [*count], freed by replay_file_groups_done.
 * Errors name the path and the group. */
NODISCARD int replay_file_groups(const char *path, const struct job_spec *job,
                                 struct job_spec **out, size_t *count, struct err *err);
void replay_file_groups_done(struct job_spec **group, size_t count);

#endif
