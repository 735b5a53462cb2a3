#include "agent/peer/access.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/parse.h"

struct access {
    pthread_mutex_t lock;
    struct admission admission;
    struct work *work;
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
        work_release(&(*access)->work);
        (void)pthread_mutex_destroy(&(*access)->lock);
        free(*access);
        *access = NULL;
    }
}

void access_set_callers(struct access *access, const struct assignment *assignment)
{
    (void)pthread_mutex_lock(&access->lock);
    admission_set(&access->admission, assignment);
    (void)pthread_mutex_unlock(&access->lock);
}

void access_set_work(struct access *access, struct work *work)
{
    (void)pthread_mutex_lock(&access->lock);
    struct work *old = access->work;
    access->work = work ? work_retain(work) : NULL;
    (void)pthread_mutex_unlock(&access->lock);
    work_release(&old);
}

void access_clear_work(struct access *access, const struct work *work)
{
    struct work *old = NULL;
    (void)pthread_mutex_lock(&access->lock);
    if (access->work == work) {
        old = access->work;
        access->work = NULL;
    }
    (void)pthread_mutex_unlock(&access->lock);
    work_release(&old);
}

enum admission_verdict access_judge(struct access *access, struct http_exchange *exchange,
                                    const char *job, int64_t generation, const char *bearer,
                                    struct device_id *caller)
{
    uint8_t key[HASH_SIZE];
    char text[HASH_TEXT_SIZE] = "";
    if (http_peer_key(exchange, key)) {
        parse_to_hex(key, sizeof(key), text);
    }
    (void)pthread_mutex_lock(&access->lock);
    const enum admission_verdict verdict = admission_judge(
        &access->admission, job, generation, bearer, http_is_tls(exchange) ? text : NULL, caller);
    (void)pthread_mutex_unlock(&access->lock);
    if (verdict == ADMISSION_WRONG_TICKET) {
        log_info("peer_refused", "path=%s key=%s reason=\"wrong ticket, or that of another key\"",
                 log_quote(http_path(exchange)).text, text[0] ? text : "none");
    }
    return verdict;
}

int64_t access_replica_bytes(struct access *access, const char *job, int64_t generation)
{
    (void)pthread_mutex_lock(&access->lock);
    const int64_t bytes = admission_replica_bytes(&access->admission, job, generation);
    (void)pthread_mutex_unlock(&access->lock);
    return bytes;
}

struct work *access_work(struct access *access, const char *job, int64_t generation,
                         enum admission_verdict *verdict)
{
    (void)pthread_mutex_lock(&access->lock);
    const struct keeper_config *at = access->work ? keeper_config(access->work->keeper) : NULL;
    const bool present = at && id_equal(at->job.text, job) && at->generation == generation;
    struct work *work = present ? work_retain(access->work) : NULL;
    *verdict =
        present ? ADMISSION_GRANTED : admission_without_stage(&access->admission, job, generation);
    (void)pthread_mutex_unlock(&access->lock);
    return work;
}
