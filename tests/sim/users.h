/* users.h: users who submit, pause, resume, replan and cancel jobs and expect them to end. One
 * thread. */
#ifndef TESTS_SIM_USERS_H
#define TESTS_SIM_USERS_H

#include "coordinator/core/event.h"
#include "schema/job.h"
#include "tests/sim/course.h"
#include "tests/sim/digest.h"
#include "tests/sim/net.h"
#include "tests/sim/world.h"

#define WISHES_MAX 6
#define PLANS_SEEN_MAX 4

#define SIM_CLASSES 10 /* of the models */

/* Something a user will do to a job. */
enum wish_kind {
    WISH_VERB,
    WISH_EARLIER, /* take one of its earlier plans again */
    WISH_PATCH,   /* other periods */
};
struct wish {
    int64_t at_us;
    enum wish_kind kind;
    enum job_verb verb;
    bool done;
};

struct user_job {
    struct job_spec spec;
    struct job_data data;
    const struct model *model;
    struct reference *reference;          /* NULL: it consists of groups */
    struct course *course;                /* of an asynchronous job; else NULL */
    int64_t samples[COUNTED_CLASSES_MAX]; /* of each class, of a job of sub-models */
    struct event_classes classes;
    struct class_groups groups; /* count 0: the coordinator divides the classes */
    int64_t at_us;              /* when it is submitted */
    struct job_id id;
    bool asking; /* a call is under way */
    bool ended;
    int state; /* enum job_state: how it ended */
    char message[MESSAGE_SIZE];
    struct wish wish[WISHES_MAX];
    size_t wish_count;
    int64_t resume_us;                /* of a paused job; INT64_MAX: not noticed yet */
    struct plan seen[PLANS_SEEN_MAX]; /* its newest plans, as they were last seen */
    size_t seen_count;
    struct plan earlier; /* the one that is asked for, and the request */
    struct replan_request replan;
};

struct users {
    struct user_job job[SIM_JOBS_MAX];
    size_t job_count;
    int64_t collapses; /* groups of this seed that begin with this class do not learn; 0: none */
    int64_t collapsing_class;
    bool insist; /* resume whatever is paused, at once */
};

/* Whether training by this spec collapses, so that its recall is low: some groups do, as a function
 * of seed and classes. */
bool users_collapse(const struct users *users, const struct job_spec *spec);
int users_new(struct world *world, struct err *err);
void users_free(struct world *world);
/* One more job, submitted at once; its fields may be changed until time passes. */
struct user_job *users_add(struct world *world, size_t model, int64_t steps);
/* The job starts from the world's checkpoint, except for its last unit. */
void users_start_from(const struct world *world, struct user_job *job);
/* Let the job be one of sub-models of ten classes, with stem, groups and joint phase. */
void users_divide(struct user_job *job);
/* Make it one of groups that mix, on its train_samples. */
void users_mix(struct user_job *job, const struct gossip_options *options);
/* Compute what a job must come to. course: NULL unless it is asynchronous. */
int users_reference(const struct model *model, const struct job_spec *spec,
                    const struct job_data *data, struct reference **reference,
                    struct course **course, struct err *err);
/* Compute what they must come to, and start to look after them. */
int users_begin(struct world *world, struct err *err);
/* Send a verb; the trace shows the answer. */
void users_ask(struct world *world, struct user_job *job, enum job_verb verb);
/* The call of a user; ended: at its end. It may be changed until time passes. */
struct call *users_send(struct world *world, const struct event *event, call_fn ended, void *owner);
bool users_served(const struct world *world);

#endif
