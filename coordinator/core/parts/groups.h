/* groups.h: a parent and its parts: jobs inside of a job. For every other module, a part is an
 * ordinary job. This module begins, pauses, resumes and ends parts for their parent, which shows
 * one state. The strategy of the parent (submodel.c) decides which part comes next. docs/adr/0094.
 */
#ifndef COORDINATOR_CORE_PARTS_GROUPS_H
#define COORDINATOR_CORE_PARTS_GROUPS_H

#include "coordinator/core/core.h"

struct job_slot;
struct parent_slot;

/* State of a parent that is not in its rows. */
struct group_work {
    bool touched;     /* a part has changed: the strategy runs in this step */
    bool job_changed; /* the row of the job changed; row_changed: the row of its parts */
    bool row_changed;
    bool ended;
    bool asked;               /* a derivation or a harvest is under way */
    bool weighed;             /* the present division was compared with another one */
    bool full;                /* a part waits for room until another job ends */
    int harvests;             /* consecutive failed harvests */
    char wait[MESSAGE_SIZE];  /* reason of the wait before any part begins; "": no wait */
    char note[MESSAGE_SIZE];  /* addition to the message of groups that mix; "": none */
    char fault[MESSAGE_SIZE]; /* error of the last harvest; "": it did not fail */
    int64_t retry_ms;         /* of the next harvest */
    int64_t deadline_ms;      /* of the groups; NEVER: none */
    int64_t tick_ms;          /* next run of its strategy; NEVER: only when a part changes */
    int64_t shown_ms;         /* time of the last row with progress */
};

/* A part that begins. */
struct group_job {
    int part; /* enum job_part */
    size_t group;
    const struct device_id *device; /* tried first; NULL: none */
    const struct job_spec *spec;
    const struct job_data *data;
    const struct model *model;
};

/* Add a parent. NULL: the coordinator has its maximum of them. */
struct parent_slot *groups_add(struct core *core, const struct event_job_submit *submit);
/* Return the number of parts of the present phase, and one of them. */
size_t groups_part_count(const struct parent_slot *parent);
struct parent_part *groups_part(struct parent_slot *parent, size_t index);
/* Return the number of groups in the state. */
size_t groups_count(const struct parent *parent, enum part_state state);
/* Return whether the parent needs a model file: the harvest, or the last one without missing
 * classes. */
bool groups_harvests(const struct parent_slot *parent);
/* Return whether the parent needs the file and the edge does not work on it yet. */
bool groups_harvest_waits(const struct parent_slot *parent);
/* Return the part to which the job belongs, or NULL. */
struct parent_part *groups_part_of(struct parent_slot *parent, const struct job_slot *job);
/* Return the live job of a part that trains, or NULL. */
struct job_slot *groups_job(const struct core *core, const struct parent_part *part);
/* Begin a part with a job of its own. false: no room for the job yet. */
bool groups_begin(struct core *core, struct parent_slot *parent, struct parent_part *part,
                  const struct group_job *made);
/* Return whether a part waits for room among the live jobs, and there is room now. */
bool groups_has_room(const struct core *core, const struct parent_slot *parent);
/* End the phase of the groups after left_ms; 0: when its parts end. */
void groups_set_deadline(struct core *core, struct parent_slot *parent, int64_t left_ms);
/* Pause the parent; its parts follow. */
void groups_pause(struct core *core, struct parent_slot *parent);
/* Resume the parent and the paused jobs of the present phase. Retry the jobs that wait. */
void groups_resume(struct core *core, struct parent_slot *parent);
/* Pause the jobs of the present phase if the parent is paused; else resume those whose pause ended
 * after their parent was resumed. */
void groups_follow(struct core *core, struct parent_slot *parent);
/* Cancel the job of a part. */
void groups_cancel(struct core *core, struct parent_part *part, const char *reason,
                   const char *message);
/* End the parent and its parts that train. */
void groups_end(struct core *core, struct parent_slot *parent, int state, const char *reason,
                const char *message);
/* Take the numeric class of a part as the parent's. Parts of different numeric classes give other
 * bits than any single device would. */
void groups_take_class(struct parent_slot *parent, const struct job *job);
/* Set the state of the parent by the states of its parts. */
void groups_show(struct core *core, struct parent_slot *parent);
/* Note that the row of the parts has changed. */
void groups_changed(struct parent_slot *parent);
/* At the end of a step: write rows, and forget parents that have ended. */
void groups_flush(struct core *core);
/* Return the next time at which a parent needs a tick; NEVER: none. */
int64_t groups_due_ms(const struct core *core);

/* Restore the rows of a parent. groups_restored, called when all jobs are restored, makes the
 * parent and its jobs agree. */
void groups_restore_job(struct core *core, const struct restored_job *row);
void groups_restore(struct core *core, const struct parent *row);
void groups_restored(struct core *core);

#endif
