/* groups.h: a parent and its parts: jobs inside of a job. A part is a job as every other module
 * knows it; here it is begun, paused, resumed and ended for its parent, which shows one state. The
 * strategy of the parent (submodel.c) decides which part comes next. docs/adr/0094. */
#ifndef COORDINATOR_CORE_GROUPS_H
#define COORDINATOR_CORE_GROUPS_H

#include "coordinator/core/core.h"

struct job_slot;
struct parent_slot;

/* What a parent has in memory beside its rows. */
struct group_work {
    bool touched;     /* a part has changed: the strategy looks at it in this step */
    bool job_changed; /* the job's row, and that of the parts */
    bool row_changed;
    bool ended;
    bool asked;               /* a derivation or a harvest is under way */
    bool full;                /* a part waits until another job ends: there is no room */
    int harvests;             /* failed ones in a row */
    char wait[MESSAGE_SIZE];  /* what it waits for before any part begins; "": nothing */
    char note[MESSAGE_SIZE];  /* is added to the message of groups that mix; "": nothing */
    char fault[MESSAGE_SIZE]; /* of the last harvest; "": it did not fail */
    int64_t retry_ms;         /* of the next harvest */
    int64_t deadline_ms;      /* of the groups; NEVER: none */
    int64_t tick_ms;          /* when its strategy looks at it again; NEVER: when a part changes */
    int64_t shown_ms;         /* of the last row with progress */
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
/* The parts of the present phase: their number, and one of them. */
size_t groups_part_count(const struct parent_slot *parent);
struct parent_part *groups_part(struct parent_slot *parent, size_t index);
/* Return how many groups are in that state. */
size_t groups_count(const struct parent *parent, enum part_state state);
/* Whether a file is assembled: the harvest, or the last one without missing classes. */
bool groups_harvests(const struct parent_slot *parent);
/* The same, and the edge is not at it. */
bool groups_harvest_waits(const struct parent_slot *parent);
/* The part that the job is of, or NULL. */
struct parent_part *groups_part_of(struct parent_slot *parent, const struct job_slot *job);
/* The live job of a part that trains, or NULL. */
struct job_slot *groups_job(const struct core *core, const struct parent_part *part);
/* Begin a part with a job of its own. false: there is no room for it yet. */
bool groups_begin(struct core *core, struct parent_slot *parent, struct parent_part *part,
                  const struct group_job *made);
/* Whether a part waits for room among the live jobs, and there is some. */
bool groups_has_room(const struct core *core, const struct parent_slot *parent);
/* End the phase of the groups after left_ms; 0: when its parts end. */
void groups_set_deadline(struct core *core, struct parent_slot *parent, int64_t left_ms);
/* Pause the parent; its parts follow. */
void groups_pause(struct core *core, struct parent_slot *parent);
/* Resume the parent and the jobs of the present phase that are paused; retry those that wait. */
void groups_resume(struct core *core, struct parent_slot *parent);
/* Pause the jobs of the present phase if the parent is paused; else resume those whose pause ended
 * after their parent was resumed. */
void groups_follow(struct core *core, struct parent_slot *parent);
/* Cancel the job of a part. */
void groups_cancel(struct core *core, struct parent_part *part, const char *reason,
                   const char *message);
/* End the parent, and with it the parts that train. */
void groups_end(struct core *core, struct parent_slot *parent, int state, const char *reason,
                const char *message);
/* The class of a part becomes the parent's. Parts of different numeric classes do not make what any
 * one device would make. */
void groups_take_class(struct parent_slot *parent, const struct job *job);
/* Set the state of the parent by those of its parts. */
void groups_show(struct core *core, struct parent_slot *parent);
/* Note that the row of the parts has changed. */
void groups_changed(struct parent_slot *parent);
/* At the end of a step: write rows, and forget parents that have ended. */
void groups_flush(struct core *core);
/* The next time at which a parent needs a tick; NEVER: none. */
int64_t groups_due_ms(const struct core *core);

/* Take the rows of a parent; then, when all jobs are restored, make them agree. */
void groups_restore_job(struct core *core, const struct restored_job *row);
void groups_restore(struct core *core, const struct parent *row);
void groups_restored(struct core *core);

#endif
