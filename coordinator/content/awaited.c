#include "coordinator/content/awaited.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "coordinator/coordinator.h"

void awaited_begin(struct coordinator *coordinator, struct awaited *awaited, const char *sha256)
{
    snprintf(awaited->sha256, sizeof(awaited->sha256), "%s", sha256);
    awaited->unwanted = false;
    awaited->link = &coordinator->awaited;
    awaited->next = coordinator->awaited;
    if (awaited->next) {
        awaited->next->link = &awaited->next;
    }
    coordinator->awaited = awaited;
}

void awaited_end(struct awaited *awaited)
{
    if (!awaited->sha256[0]) {
        return;
    }
    *awaited->link = awaited->next;
    if (awaited->next) {
        awaited->next->link = awaited->link;
    }
    awaited->sha256[0] = '\0';
}

bool awaited_has(const struct coordinator *coordinator, const char *sha256)
{
    for (const struct awaited *awaited = coordinator->awaited; awaited; awaited = awaited->next) {
        if (strcmp(awaited->sha256, sha256) == 0) {
            return true;
        }
    }
    return false;
}

/* Mark the blob as unwanted in all its protections. */
static bool mark_unwanted(struct coordinator *coordinator, const char *sha256)
{
    bool found = false;
    for (struct awaited *awaited = coordinator->awaited; awaited; awaited = awaited->next) {
        if (strcmp(awaited->sha256, sha256) == 0) {
            awaited->unwanted = found = true;
        }
    }
    return found;
}

void awaited_delete(struct coordinator *coordinator, const char *sha256)
{
    if (!mark_unwanted(coordinator, sha256)) {
        blob_delete(coordinator->blobs, sha256);
    }
}

struct search {
    const char *sha256;
    bool found;
};

static bool names_blob(void *arg, const struct state_row *row)
{
    struct search *search = arg;
    search->found =
        memmem(row->document, row->document_size, search->sha256, strlen(search->sha256)) != NULL;
    return !search->found;
}

/* The core does not know the models of ended jobs; only their rows name them. */
static bool is_model(struct coordinator *coordinator, const char *sha256)
{
    struct search search = {.sha256 = sha256};
    struct err err = {0};
    if (state_list(coordinator->state, STATE_CHECKPOINTS, NULL, "", SIZE_MAX, false, names_blob,
                   &search, &err)) {
        log_warn("blob_kept", "sha256=%s error=%s", sha256, log_quote(err.text).text);
        return true; /* the sweep of the next start decides */
    }
    return search.found;
}

/* The next start sweeps: a coordinator that stops may have closed the store already. */
static bool is_needed(const struct coordinator *coordinator, const char *sha256)
{
    return coordinator->stopping || core_refers(coordinator->core, sha256) ||
           awaited_has(coordinator, sha256);
}

void awaited_discard(struct coordinator *coordinator, const char *sha256)
{
    if (!is_needed(coordinator, sha256) && !is_model(coordinator, sha256)) {
        blob_delete(coordinator->blobs, sha256);
    }
}

void awaited_release(struct coordinator *coordinator, const char *sha256)
{
    if (!mark_unwanted(coordinator, sha256)) {
        awaited_discard(coordinator, sha256);
    }
}

void awaited_let_go(struct coordinator *coordinator, struct awaited *awaited)
{
    char sha256[SHA256_SIZE];
    memcpy(sha256, awaited->sha256, sizeof(sha256));
    awaited_end(awaited);
    if (sha256[0] && awaited->unwanted) {
        awaited_discard(coordinator, sha256);
    }
}
