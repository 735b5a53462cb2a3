#include "agent/peer/access.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "net/hash.h"

struct access {
    pthread_mutex_t lock;
    struct caller caller[STAGES_MAX];
    size_t caller_count;
    struct job_id job; /* of the run, "" when idle */
    int64_t generation;
    int64_t replica_bytes;
    struct stage *stage;
};

int access_new(struct access **out, struct err *err)
{
    struct access *access = calloc(1, sizeof(*access));
    if (!access || pthread_mutex_init(&access->lock, NULL) != 0) {
        free(access);
        return err_set(err, ERR_MEMORY, "peer access");
    }
    *out = access;
    return 0;
}

void access_free(struct access **access)
{
    if (*access) {
        stage_release(&(*access)->stage);
        (void)pthread_mutex_destroy(&(*access)->lock);
        free(*access);
        *access = NULL;
    }
}

void access_set_callers(struct access *access, const struct assignment *assignment)
{
    (void)pthread_mutex_lock(&access->lock);
    access->caller_count = assignment->caller_count;
    memcpy(access->caller, assignment->caller,
           assignment->caller_count * sizeof(access->caller[0]));
    access->job = assignment->has_run ? assignment->run.job : (struct job_id){0};
    access->generation = assignment->has_run ? assignment->run.generation : 0;
    access->replica_bytes = assignment->has_run ? assignment->run.replica_bytes : 0;
    (void)pthread_mutex_unlock(&access->lock);
}

void access_set_stage(struct access *access, struct stage *stage)
{
    (void)pthread_mutex_lock(&access->lock);
    struct stage *old = access->stage;
    access->stage = stage ? stage_retain(stage) : NULL;
    (void)pthread_mutex_unlock(&access->lock);
    stage_release(&old);
}

void access_clear_stage(struct access *access, const struct stage *stage)
{
    struct stage *old = NULL;
    (void)pthread_mutex_lock(&access->lock);
    if (access->stage == stage) {
        old = access->stage;
        access->stage = NULL;
    }
    (void)pthread_mutex_unlock(&access->lock);
    stage_release(&old);
}

/* The newest generation of the job that this device knows; 0: none. Under the lock. */
static int64_t newest_generation(const struct access *access, const char *job)
{
    int64_t newest = id_equal(access->job.text, job) ? access->generation : 0;
    for (size_t i = 0; i < access->caller_count; i++) {
        const struct caller *caller = &access->caller[i];
        if (id_equal(caller->job.text, job) && caller->generation > newest) {
            newest = caller->generation;
        }
    }
    return newest;
}

static bool is_let_in(const struct access *access, const char *job, int64_t generation,
                      const char *bearer)
{
    bool found = false;
    for (size_t i = 0; i < access->caller_count; i++) {
        const struct caller *caller = &access->caller[i];
        if (caller->generation == generation && caller->ticket[0] != '\0' &&
            id_equal(caller->job.text, job)) {
            found = hash_text_equal(bearer, caller->ticket) || found;
        }
    }
    return found;
}

enum access_verdict access_judge(struct access *access, const char *job, int64_t generation,
                                 const char *bearer)
{
    if (!bearer) {
        return ACCESS_NO_TICKET;
    }
    (void)pthread_mutex_lock(&access->lock);
    const bool granted = is_let_in(access, job, generation, bearer);
    const int64_t newest = newest_generation(access, job);
    (void)pthread_mutex_unlock(&access->lock);
    if (granted) {
        return ACCESS_GRANTED;
    }
    if (generation == newest) {
        return ACCESS_WRONG_TICKET;
    }
    return generation < newest ? ACCESS_STALE : ACCESS_EARLY;
}

int64_t access_replica_bytes(struct access *access, const char *job, int64_t generation)
{
    (void)pthread_mutex_lock(&access->lock);
    const bool present = id_equal(access->job.text, job) && access->generation == generation;
    const int64_t bytes = present ? access->replica_bytes : 0;
    (void)pthread_mutex_unlock(&access->lock);
    return bytes;
}

struct stage *access_stage(struct access *access, const char *job, int64_t generation,
                           enum access_verdict *verdict)
{
    (void)pthread_mutex_lock(&access->lock);
    const struct stage_config *config = access->stage ? stage_config(access->stage) : NULL;
    const bool same_job = config && id_equal(config->job.text, job);
    struct stage *stage =
        same_job && config->generation == generation ? stage_retain(access->stage) : NULL;
    const bool older = id_equal(access->job.text, job) && generation < access->generation;
    (void)pthread_mutex_unlock(&access->lock);
    *verdict = stage ? ACCESS_GRANTED : older ? ACCESS_STALE : ACCESS_EARLY;
    return stage;
}
