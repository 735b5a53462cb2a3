#include "agent/core/admission.h"

#include <string.h>

void admission_set(struct admission *admission, const struct assignment *assignment)
{
    const struct assignment_run *run = assignment->has_run ? &assignment->run : NULL;
    admission->caller_count = assignment->caller_count;
    memcpy(admission->caller, assignment->caller,
           assignment->caller_count * sizeof(admission->caller[0]));
    admission->job = run ? run->job : (struct job_id){{0}};
    admission->generation = run ? run->generation : 0;
    admission->replica_bytes = run ? run->replica_bytes : 0;
}

/* The newest generation of the job that this device knows; 0: none. */
static int64_t newest_generation(const struct admission *admission, const char *job)
{
    int64_t newest = id_equal(admission->job.text, job) ? admission->generation : 0;
    for (size_t i = 0; i < admission->caller_count; i++) {
        const struct caller *caller = &admission->caller[i];
        if (id_equal(caller->job.text, job) && caller->generation > newest) {
            newest = caller->generation;
        }
    }
    return newest;
}

static bool has_key(const struct caller *caller, const char *peer_key)
{
    return !peer_key ||
           (caller->public_key[0] != '\0' && strcmp(peer_key, caller->public_key) == 0);
}

static bool is_let_in(const struct admission *admission, const char *job, int64_t generation,
                      const char *bearer, const char *peer_key, struct device_id *out)
{
    bool found = false;
    for (size_t i = 0; i < admission->caller_count; i++) {
        const struct caller *caller = &admission->caller[i];
        if (caller->generation == generation && caller->ticket[0] != '\0' &&
            id_equal(caller->job.text, job) && has_key(caller, peer_key)) {
            const bool is_it = id_secret_equal(bearer, caller->ticket);
            found = is_it || found;
            if (is_it && out) {
                *out = caller->device;
            }
        }
    }
    return found;
}

enum admission_verdict admission_judge(const struct admission *admission, const char *job,
                                       int64_t generation, const char *bearer, const char *peer_key,
                                       struct device_id *caller)
{
    if (!bearer) {
        return ADMISSION_NO_TICKET;
    }
    if (is_let_in(admission, job, generation, bearer, peer_key, caller)) {
        return ADMISSION_GRANTED;
    }
    const int64_t newest = newest_generation(admission, job);
    if (generation == newest) {
        return ADMISSION_WRONG_TICKET;
    }
    return generation < newest ? ADMISSION_STALE : ADMISSION_EARLY;
}

enum admission_verdict admission_without_stage(const struct admission *admission, const char *job,
                                               int64_t generation)
{
    const bool older = id_equal(admission->job.text, job) && generation < admission->generation;
    return older ? ADMISSION_STALE : ADMISSION_EARLY;
}

int64_t admission_replica_bytes(const struct admission *admission, const char *job,
                                int64_t generation)
{
    const bool present = id_equal(admission->job.text, job) && admission->generation == generation;
    return present ? admission->replica_bytes : 0;
}
