/* progress.h: the progress of a job as one line of text. Pure. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stddef.h>

#include "schema/groups_view.h"
#include "schema/job.h"
#include "schema/plan.h"

/* The stages of the current plan, with names that users know. */
struct progress_shares {
    int64_t generation; /* 0: no plan yet */
    size_t count;
    struct {
        char name[NAME_SIZE];
        int64_t units;
        int64_t first;                            /* unit */
        int64_t micro_batches, first_micro_batch; /* of each step, with a parameter server */
        double busy;                              /* predicted share of the step */
    } device[STAGES_MAX];
};

/* "running  step 46/93  ETA 0:12  loss 0.4213  accuracy 0.8512  1234 samples/s  epoch 1  units
 * kitchen 2/5, board1 3/5", with a parameter server then "  micro-batches board1 3/4, attic 1/4";
 * unknown values are left out, and so is the loss before the first step
 * has completed. columns (0: unlimited): items that do not fit are left out, the last first; a
 * message is truncated with "...", and so is a line of more than `size` bytes. A job that consists
 * of parts states its phase after the state: "running  phase groups: 1 of 3 trained  step 46/93".
 */
void progress_line(const struct job *job, const struct progress_shares *shares, size_t columns,
                   char *out, size_t size);
/* How a job that runs came to its newest generation: "running  step 650/1860  (runs generation 2 on
 * 2 devices; device 'board1' was lost, 49 steps to retrain from step 650)" */
void progress_news(const struct job *job, char *out, size_t size);
/* How it ended: "succeeded: trained 93 steps, accuracy 0.8512, checkpoint ckpt_..." */
void progress_end(const struct job *job, char *out, size_t size);
/* Whole seconds: "0:12", "1:23:45". */
void progress_duration(double seconds, char *out, size_t size);
/* The numbers, runs of rising ones in brief: "0-3,7". A long list is truncated with "...". */
void progress_numbers(const int64_t *number, size_t count, char *out, size_t size);

/* Write what a group does that trains apart from the others:
 * "  600 samples  step 132  every 3 steps  12 mixes  loss 0.3100  distance 0.021". */
void progress_mixes(const struct group_mixes *mixes, char *out, size_t size);
/* The same after its number, as a line without its end. */
void progress_group(const struct group_view *group, char *out, size_t size);

#endif
