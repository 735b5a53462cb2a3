#include "coordinator/content/publication.h"

#include <stdio.h>
#include <string.h>

#include "coordinator/coordinator.h"

static void publication_report(struct work_job *job)
{
    const struct publication *publication = (const struct publication *)job;
    publication->done(publication->arg);
}

/* The blob writer's thread. */
static void on_durable(void *arg, int code, const char *sha256, uint64_t size,
                       const struct err *err)
{
    struct publication *publication = arg;
    publication->code = code;
    publication->err = *err;
    publication->bytes = size;
    snprintf(publication->sha256, sizeof(publication->sha256), "%s", sha256);
    publication->job.done = publication_report;
    work_post(publication->coordinator->work, &publication->job);
}

static void publish(struct work_job *job)
{
    struct publication *publication = (struct publication *)job;
    struct coordinator *coordinator = publication->coordinator;
    if (!coordinator->blobs) { /* the store was closed, which dropped the upload */
        publication->code =
            err_set(&publication->err, ERR_CANCELLED, "the coordinator is stopping");
        publication->done(publication->arg);
        return;
    }
    awaited_begin(coordinator, &publication->awaited, publication->sha256);
    blob_upload_finish(publication->blob, on_durable, publication);
}

/* The blob writer's thread. */
static void on_sealed(void *arg, const char *sha256)
{
    struct publication *publication = arg;
    snprintf(publication->sha256, sizeof(publication->sha256), "%s", sha256);
    publication->job.done = publish;
    work_post(publication->coordinator->work, &publication->job);
}

static void set_up(struct publication *publication, struct coordinator *coordinator,
                   void (*done)(void *arg), void *arg)
{
    publication->coordinator = coordinator;
    publication->done = done;
    publication->arg = arg;
}

void publication_begin(struct publication *publication, struct coordinator *coordinator,
                       struct blob_upload *blob, void (*done)(void *arg), void *arg)
{
    set_up(publication, coordinator, done, arg);
    publication->blob = blob;
    if (publication->awaited.sha256[0]) {
        blob_upload_finish(blob, on_durable, publication);
    } else {
        blob_upload_seal(blob, on_sealed, publication);
    }
}

void publication_end(struct publication *publication)
{
    char sha256[SHA256_SIZE];
    memcpy(sha256, publication->awaited.sha256, sizeof(sha256));
    awaited_end(&publication->awaited);
    if (sha256[0]) {
        awaited_discard(publication->coordinator, sha256);
    }
}

int publication_confirm(struct publication *publication, struct coordinator *coordinator,
                        void (*done)(void *arg), void *arg, struct err *err)
{
    set_up(publication, coordinator, done, arg);
    return blob_confirm(coordinator->blobs, publication->awaited.sha256, on_durable, publication,
                        err);
}
