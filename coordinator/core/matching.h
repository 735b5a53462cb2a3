/* matching.h: whether a device meets the requirements of a job. */
#ifndef COORDINATOR_CORE_MATCHING_H
#define COORDINATOR_CORE_MATCHING_H

#include "coordinator/core/avoidance.h"
#include "coordinator/core/device.h"

struct job_slot;
struct plan_question;

enum candidates {
    CANDIDATES_FREE,   /* ready (device.h), without another job */
    CANDIDATES_ONLINE, /* ready, busy or not */
    CANDIDATES_KNOWN,  /* every known device, by memory instead of speed: can the job ever fit? */
};

enum matching_offer {
    OFFER_FITS,
    OFFER_NONE,            /* or of other data than those that a group has begun with */
    OFFER_OF_OTHER_FORM,   /* than the job has */
    OFFER_OF_MORE_CLASSES, /* than the job has */
    OFFER_OF_FEW_SAMPLES,  /* without those that are held out: less than a batch */
};

struct placement_request {
    const struct job_spec *spec;
    const struct model *model;
    const struct job_slot *job; /* NULL: not submitted yet */
    enum candidates candidates;
    const struct replan_request *wanted; /* stage boundaries and devices; NULL: planner's choice */
    enum avoid_level avoid;
    struct absent without;                /* devices to exclude besides */
    const struct plan_question *question; /* of a user, which may assume devices; NULL: none */
    size_t groups;  /* that the job, not begun yet, mixes with; 0: it does not mix */
    bool is_change; /* of the plan that the job runs, without need */
};

/* Return whether the device has the labels, or the numeric class, that the job requests; those of
 * servers or workers, if the job has them. */
bool matching_labels(const struct job_spec *spec, const struct device *device);
bool matching_class(const struct job_spec *spec, const struct device *device);
/* Return whether the device has the labels that the job requests of servers, or of workers. */
bool matching_servers(const struct job_spec *spec, const struct device *device);
bool matching_workers(const struct job_spec *spec, const struct device *device);
/* Return whether the job, which trains on data that stay on devices, can train on those that the
 * device offers, and on those of its group: the first reason why not. */
enum matching_offer matching_offer(const struct job_spec *spec, const struct device *device);
/* Return whether it can, or trains on uploaded data. */
bool matching_data(const struct placement_request *request, const struct device *device);
/* Return whether the device's agent knows the strategy, schedule, fields and ops of the job. */
bool matching_protocol(const struct placement_request *request, const struct device *device);
/* Write what agents of an old version do not train, for a job that not all know. */
void matching_protocol_words(const struct placement_request *request, char *out, size_t size);
/* Return whether the device's agent knows the strict order in synchronous steps. */
bool matching_strict_order(const struct device *device);
/* Return whether the device's build has the kernels that the model names. Measured kernels are not
 * a requirement. */
bool matching_kernels(const struct placement_request *request, const struct device *device);

#endif
