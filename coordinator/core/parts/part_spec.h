/* part_spec.h: the job of a part, made from that of its parent: an ordinary job with its fields. */
#ifndef COORDINATOR_CORE_PARTS_PART_SPEC_H
#define COORDINATOR_CORE_PARTS_PART_SPEC_H

#include "coordinator/core/core.h"

struct parent_slot;

/* Write the fields of the parent, without those of its strategy: a pipeline. */
void part_spec_begin(const struct parent_slot *parent, struct job_spec *spec);
/* Name it after the parent, with a suffix. */
void part_spec_name(const struct parent_slot *parent, const char *suffix, struct job_spec *spec);
/* Shorten a warm-up that is longer than the part: with it, the part's job would be rejected. */
void part_spec_shorten_warmup(const struct job_data *data, struct job_spec *spec);
/* Remove the facts about the data of other parts. */
void part_spec_own_data(struct job_data *data);
/* Let the part start from a checkpoint as version 0. */
void part_spec_start_from(const struct checkpoint_id *checkpoint, const char *sha256, int64_t bytes,
                          struct job_spec *spec, struct job_data *data);

#endif
