/* story.h: a script in the simulator: devices, a job in three stages, faults at chosen moments, and
 * what the trace must say. Nothing is drawn but jitter. One thread. */
#ifndef TESTS_SIM_STORIES_STORY_H
#define TESTS_SIM_STORIES_STORY_H

#include "tests/sim/agent.h"
#include "tests/sim/check.h"
#include "tests/sim/coordinator.h"
#include "tests/sim/faults.h"
#include "tests/sim/sim.h"
#include "tests/sim/users.h"
#include "tests/support/test.h"

#define FOREVER (3600 * SECOND) /* of a dead machine */

struct story {
    struct world world;
    struct models models;
    struct trace trace;
    size_t desired; /* bytes of the trace that were asserted already */
    struct user_job *job;
};

#define PROTOCOL_BEFORE_VIEWS 2

/* A world and its job. */
struct story_setting {
    size_t devices;
    int64_t devices_min; /* of the job */
    int64_t stages;      /* at most; 0: three, with the same boundaries in each story */
    int64_t steps;
    int64_t check_every;  /* steps between two checks of the plan; 0: it never changes by itself */
    int64_t test_samples; /* evaluated after step 30 and at its end; 0: as usual */
    int64_t servers;      /* the job has so many, and all devices work; 0: it is a pipeline */
    int64_t neighbor_every; /* steps between rounds; 0: as usual */
    bool async;
    bool view;                               /* epochs of 5 steps, evaluated with a hold-out */
    size_t old;                              /* the first devices speak PROTOCOL_BEFORE_VIEWS */
    size_t frozen;                           /* first units of the model */
    const struct submodel_options *submodel; /* the job consists of groups; NULL: it does not */
    int64_t epochs;                          /* of its parts; 0: one */
    const struct class_groups *groups;       /* these; NULL: the coordinator divides the classes */
    const struct gossip_options *gossip;     /* one group on each device, which mix; NULL: none */
    int64_t samples;                         /* of these groups together */
};

/* Three groups of ten classes, which are the same on any devices. */
extern const struct class_groups story_thirds;

struct story *story_new_as(const struct story_setting *setting);
/* `devices` devices and one job of 40 steps, which starts with as many stages (at most 3). */
struct story *story_new(size_t devices);
/* The same with a job that needs at least devices_min devices. */
struct story *story_new_min(size_t devices, int64_t devices_min);
/* The same with a job that is evaluated on test_samples samples after step 30 and at its end. */
struct story *story_new_evaluated(size_t devices, int64_t test_samples);
/* The same with a job of that many steps, without evaluations, whose plan is checked at step 10 and
 * every check_every steps (0: never). Plans of the others never change by themselves. */
struct story *story_new_checked(size_t devices, int64_t steps, int64_t check_every);
void story_free(struct story *story);

/* Time passes until the trace has this line (from where the last one was found on): "who: what", a
 * prefix. */
void story_until(struct story *story, const char *line);
void story_pass(struct story *story, int64_t us);
/* Time passes until some device has applied this step. */
void story_step(struct story *story, int64_t step);
/* No line from the beginning on starts so. */
void story_never(const struct story *story, const char *line);
/* The device of a stage of the present plan. */
size_t story_stage(const struct story *story, size_t stage);
const struct job *story_job(const struct story *story);
/* SHA-256 of the model that the job left. */
const char *story_model(const struct story *story);
/* Lets the job end, and asserts that it has succeeded, with the right digest, in generation
 * `generation`. */
void story_succeeds(struct story *story, int64_t generation);

#endif
