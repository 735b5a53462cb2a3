/* matching.h: whether a device meets the requirements of a job. */
#ifndef COORDINATOR_CORE_PLACEMENT_MATCHING_H
#define COORDINATOR_CORE_PLACEMENT_MATCHING_H

#include "coordinator/core/failures/avoidance.h"
#include "coordinator/core/state/device.h"

struct job_slot;
struct plan_question;

enum candidates {
    CANDIDATES_FREE,   /* ready (device.h), without another job */
    CANDIDATES_ONLINE, /* ready, busy or not */
    CANDIDATES_KNOWN,  /* every known device, by memory instead of speed: can the job ever fit? */
};

enum matching_offer {
    OFFER_FITS,
    OFFER_NONE,            /* no offer, or other data than those with which a group has begun */
    OFFER_OF_OTHER_FORM,   /* than the job has */
    OFFER_OF_MORE_CLASSES, /* than the job has */
    OFFER_OF_FEW_SAMPLES,  /* less than a batch, without the held-out samples */
};

struct placement_request {
    const struct job_spec *spec;
    const struct model *model;
    const struct job_slot *job; /* NULL: not submitted yet */
    enum candidates candidates;
    const struct replan_request *wanted; /* stage boundaries and devices; NULL: planner's choice */
    enum avoid_level avoid;
    struct absent without;                /* further devices to exclude */
    const struct plan_question *question; /* of a user, possibly hypothetical; NULL: none */
    size_t groups;  /* groups with which the job, not begun yet, mixes; 0: it does not mix */
    bool is_change; /* an optional change of the running plan */
};

/* Return whether the device has the labels, or the numeric class, that the job requests. If the job
 * has servers and workers, the labels of either suffice. */
bool matching_labels(const struct job_spec *spec, const struct device *device);
bool matching_class(const struct job_spec *spec, const struct device *device);
/* Return whether the device has the labels that the job requests of servers; of workers. */
bool matching_servers(const struct job_spec *spec, const struct device *device);
bool matching_workers(const struct job_spec *spec, const struct device *device);
/* Check whether a job on data that stay on devices can train on the offer of the device, and on the
 * data of its group. Return OFFER_FITS or the first reason against it. */
enum matching_offer matching_offer(const struct job_spec *spec, const struct device *device);
/* Return whether the job can train on the device's offer, or trains on uploaded data. */
bool matching_data(const struct placement_request *request, const struct device *device);
/* Return whether the device's agent knows the strategy, schedule, fields and ops of the job. */
bool matching_protocol(const struct placement_request *request, const struct device *device);
/* Write the property of the job that agents of old versions cannot train. */
void matching_protocol_words(const struct placement_request *request, char *out, size_t size);
/* Return whether the device's agent knows the strict order in synchronous steps. */
bool matching_strict_order(const struct device *device);
/* Return whether the device's build has the kernels that the model names. Measured kernels are not
 * a requirement. */
bool matching_kernels(const struct placement_request *request, const struct device *device);

#endif
