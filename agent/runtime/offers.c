#include "agent/runtime/offers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/runtime/offer_file.h"
#include "agent/runtime/thread.h"
#include "base/file.h"
#include "base/log.h"

/* A data set of the options. */
struct item {
    struct offer_source source;
    char name[NAME_SIZE];
    /* Under the lock. */
    struct offer offer;
    bool offered;
    /* Of the thread that looks; before it is there, of the owner. */
    struct offer_note note;   /* of the newest samples that were read, offered or not */
    bool noted;               /* there is one */
    char seen[SHA256_SIZE];   /* the stamp of the sources at the last look */
    char failed[SHA256_SIZE]; /* that could not be read, and cannot unless they change */
    bool silent;              /* that they cannot be found was logged */
};

struct offers {
    char directory[PATH_MAX];
    char *reading;
    int cancel_fd;
    int64_t look_ms;
    struct item item[OFFERS_MAX];
    size_t count;
    pthread_t thread;
    bool has_lock, has_wake, watches;
    pthread_mutex_t lock; /* what is offered, and NAME.data, which has it; and `stops` */
    pthread_cond_t wake;
    bool stops;
    void (*changed)(void *arg);
    void *changed_arg;
};

/* ---- the options ---- */

/* The length of the name of "NAME=PATHS"; 0: it is none. */
static size_t name_length(const char *item)
{
    char name[NAME_SIZE];
    const char *equals = strchr(item, '=');
    const size_t length = equals ? (size_t)(equals - item) : 0;
    if (length == 0 || length >= NAME_SIZE || equals[1] == '\0') {
        return 0;
    }
    (void)snprintf(name, sizeof(name), "%.*s", (int)length, item);
    return name_valid(name) ? length : 0;
}

int offers_check(const struct conf_list *data, const char *reading, struct err *err)
{
    struct reading parsed = reading_default;
    if (data->count > OFFERS_MAX) {
        return err_set(err, ERR_LIMIT, "--data: at most %d", OFFERS_MAX);
    }
    for (size_t i = 0; i < data->count; i++) {
        const size_t length = name_length(data->item[i]);
        if (length == 0) {
            return err_set(err, ERR_INVALID, "--data '%s': expected NAME=PATH, the name of %s",
                           data->item[i], name_form.expected);
        }
        for (size_t k = 0; k < i; k++) {
            if (strncmp(data->item[i], data->item[k], length + 1) == 0) {
                return err_set(err, ERR_INVALID, "--data: '%.*s' is given twice", (int)length,
                               data->item[i]);
            }
        }
    }
    const int rc = reading[0] != '\0' ? reading_parse(reading, &parsed, err) : 0;
    return rc ? err_wrap(err, "--data-as") : 0;
}

/* ---- what is offered ---- */

static bool stops(struct offers *offers)
{
    (void)pthread_mutex_lock(&offers->lock);
    const bool stops = offers->stops;
    (void)pthread_mutex_unlock(&offers->lock);
    return stops;
}

static int go_on(void *arg, struct err *err)
{
    struct offers *offers = arg;
    struct pollfd fd = {.fd = offers->cancel_fd, .events = POLLIN};
    return (fd.fd >= 0 && poll(&fd, 1, 0) == 1) || stops(offers)
               ? err_set(err, ERR_CANCELLED, "the agent ends")
               : 0;
}

/* Offer what NAME.data has. Under the lock, if the thread is there. */
static void offer(struct item *item, const struct offer_note *note)
{
    const struct offer *made = &note->offer;
    item->note = *note;
    item->noted = item->offered = true;
    item->offer = *made;
    log_info("data_offered",
             "data=%s samples=%" PRId64 " classes=%" PRId64 " sha256=%.12s extends=%" PRId64,
             made->name, made->samples, made->classes, made->sha256,
             made->part_count > 0 ? made->part[made->part_count - 1].samples : 0);
}

/* In one step: NAME.data is at any time what is offered. */
static int publish(struct offers *offers, struct item *item, const struct offer_note *made,
                   struct err *err)
{
    (void)pthread_mutex_lock(&offers->lock);
    const int rc = offer_file_publish(&item->source, err);
    if (rc == 0) {
        offer(item, made);
    }
    (void)pthread_mutex_unlock(&offers->lock);
    return rc;
}

/* The same samples once more when the disk has room, or answers: the sources need not change. */
static bool may_pass(int rc)
{
    return rc == ERR_FULL || rc == ERR_IO || rc == ERR_MEMORY;
}

/* What was offered stays. Return whether that was said of it before. */
static bool keep_stale(struct offers *offers, struct item *item, bool stale)
{
    (void)pthread_mutex_lock(&offers->lock);
    const bool was = item->offer.stale;
    item->offer.stale = item->offered && stale;
    const bool is = item->offer.stale;
    (void)pthread_mutex_unlock(&offers->lock);
    return was == is;
}

static void log_fault(const struct item *item, const struct err *why)
{
    if (item->offered) {
        log_error("data_not_read", "data=%s samples=%" PRId64 " action=%s error=%s", item->name,
                  item->offer.samples, "offers_the_earlier_ones", log_quote(why->text).text);
    } else {
        log_error("data_not_offered", "data=%s error=%s", item->name, log_quote(why->text).text);
    }
}

/* ---- at the start ---- */

static void note_failure(struct item *item, int rc, const char stamp[SHA256_SIZE])
{
    memset(item->failed, 0, sizeof(item->failed));
    if (!may_pass(rc)) {
        memcpy(item->failed, stamp, sizeof(item->failed));
    }
}

/* What an earlier life offered, if it is there, until newer data are read. Not of sources that are
 * gone: who removes them wants no use of them. */
static int open_one(struct offers *offers, struct item *item, struct err *err)
{
    struct offer_note note = {0}, made = {0};
    item->noted = offer_file_note(&item->source, &item->note);
    int rc = offer_file_stamp(&item->source, item->seen, err);
    if (rc != 0) {
        return rc;
    }
    note = item->note;
    const bool kept = item->noted && offer_file_recover(&item->source, &note);
    if (kept && strcmp(item->seen, note.stamp) == 0) {
        offer(item, &note);
        return 0;
    }
    rc = offer_file_make(&item->source, item->seen, item->noted ? &note : NULL, &made, err);
    rc = rc ? rc : publish(offers, item, &made, err);
    if (rc == 0 || rc == ERR_CANCELLED) {
        return rc;
    }
    note_failure(item, rc, item->seen);
    if (kept && note.settings[0] != '\0') {
        offer(item, &note);
        (void)keep_stale(offers, item, true);
    }
    return rc;
}

/* ---- files that are not needed any more ---- */

/* The note and the order of the files have no samples. They stay as long as the data set is named:
 * its sources may be back later, and samples may have been appended. */
static bool is_needed(const struct offers *offers, const char *file)
{
    for (size_t i = 0; i < offers->count; i++) {
        const struct item *item = &offers->item[i];
        const size_t length = strlen(item->name);
        if (strncmp(file, item->name, length) == 0 &&
            ((item->offered && strcmp(file + length, ".data") == 0) ||
             strcmp(file + length, ".note") == 0 || strcmp(file + length, ".files") == 0)) {
            return true;
        }
    }
    return false;
}

/* A device keeps no copy of samples that it does not offer any more. */
static void remove_others(const struct offers *offers)
{
    DIR *directory = opendir(offers->directory);
    if (!directory) {
        return;
    }
    for (const struct dirent *entry = readdir(directory); entry; entry = readdir(directory)) {
        if (entry->d_name[0] != '.' && !is_needed(offers, entry->d_name) &&
            unlinkat(dirfd(directory), entry->d_name, 0) != 0) {
            log_warn("data_not_removed", "file=%s error=%s", log_quote(entry->d_name).text,
                     log_quote(strerror(errno)).text);
        }
    }
    (void)closedir(directory);
}

/* ---- looks ---- */

/* The sources have changed, and are quiet. Return whether to tell. */
static bool read_again(struct offers *offers, struct item *item, const char stamp[SHA256_SIZE])
{
    const struct offer_note before = item->note;
    struct offer_note made = {0};
    struct err err = {0};
    int rc = offer_file_make(&item->source, stamp, item->noted ? &before : NULL, &made, &err);
    const bool same = rc == 0 && item->offered && !item->offer.stale &&
                      strcmp(made.offer.sha256, item->offer.sha256) == 0;
    rc = rc ? rc : publish(offers, item, &made, &err);
    if (rc == ERR_CANCELLED) {
        return false;
    }
    if (rc == 0) {
        item->failed[0] = '\0';
        return !same;
    }
    const bool known = keep_stale(offers, item, true);
    if (!known || !may_pass(rc)) {
        log_fault(item, &err);
    }
    note_failure(item, rc, stamp);
    return !known;
}

/* Return whether something else is offered. */
static bool look_at(struct offers *offers, struct item *item)
{
    char stamp[SHA256_SIZE] = "";
    struct err err = {0};
    const int rc = offer_file_stamp(&item->source, stamp, &err);
    if (rc == ERR_CANCELLED) {
        return false;
    }
    if (rc != 0) { /* they are gone, or being replaced */
        item->seen[0] = '\0';
        const bool known = keep_stale(offers, item, true);
        if (!known || (!item->offered && !item->silent)) {
            log_fault(item, &err);
        }
        item->silent = true;
        return !known;
    }
    item->silent = false;
    if (item->offered && strcmp(stamp, item->note.stamp) == 0) {
        memcpy(item->seen, stamp, sizeof(item->seen));
        return !keep_stale(offers, item, false);
    }
    if (strcmp(stamp, item->seen) != 0) { /* they may still be changing */
        memcpy(item->seen, stamp, sizeof(item->seen));
        return false;
    }
    return strcmp(stamp, item->failed) != 0 && read_again(offers, item, stamp);
}

/* Return whether to look again. */
static bool wait_for_look(struct offers *offers)
{
    (void)pthread_mutex_lock(&offers->lock);
    int rc = 0;
    while (!offers->stops && rc != ETIMEDOUT) {
        rc = thread_condition_wait(&offers->wake, &offers->lock, offers->look_ms * 1000000);
    }
    const bool looks = !offers->stops;
    (void)pthread_mutex_unlock(&offers->lock);
    return looks;
}

static void *watch(void *arg)
{
    struct offers *offers = arg;
    thread_set_name("data");
    thread_be_nice();
    while (wait_for_look(offers)) {
        bool changed = false;
        for (size_t i = 0; i < offers->count && !stops(offers); i++) {
            changed = look_at(offers, &offers->item[i]) || changed;
        }
        if (changed) {
            offers->changed(offers->changed_arg);
        }
    }
    return NULL;
}

int offers_watch(struct offers *offers, void (*changed)(void *arg), void *arg, struct err *err)
{
    if (!offers || offers->count == 0) {
        return 0;
    }
    offers->cancel_fd = -1; /* the loop reads it from now on */
    offers->changed = changed;
    offers->changed_arg = arg;
    const int rc = thread_start(&offers->thread, watch, offers, err);
    offers->watches = rc == 0;
    return rc;
}

void offers_unwatch(struct offers *offers)
{
    if (!offers || !offers->watches) {
        return;
    }
    (void)pthread_mutex_lock(&offers->lock);
    offers->stops = true;
    (void)pthread_cond_signal(&offers->wake);
    (void)pthread_mutex_unlock(&offers->lock);
    (void)pthread_join(offers->thread, NULL);
    offers->watches = false;
}

/* ---- life ---- */

static int fill(struct offers *offers, const struct offers_config *config, struct err *err)
{
    offers->cancel_fd = config->cancel_fd;
    offers->look_ms = config->look_ms;
    offers->reading = strdup(config->reading);
    offers->has_lock = pthread_mutex_init(&offers->lock, NULL) == 0;
    if (!offers->reading || !offers->has_lock) {
        return err_set(err, ERR_MEMORY, "offered data sets");
    }
    const int rc = thread_condition_init(&offers->wake, err);
    offers->has_wake = rc == 0;
    if (rc == 0 && snprintf(offers->directory, PATH_MAX, "%s", config->directory) >= PATH_MAX) {
        return err_set(err, ERR_LIMIT, "--state-dir is too long");
    }
    for (size_t i = 0; rc == 0 && i < config->data->count; i++) {
        struct item *item = &offers->item[offers->count++];
        const size_t length = name_length(config->data->item[i]);
        (void)snprintf(item->name, sizeof(item->name), "%.*s", (int)length, config->data->item[i]);
        item->source = (struct offer_source){.directory = offers->directory,
                                             .name = item->name,
                                             .paths = config->data->item[i] + length + 1,
                                             .reading = offers->reading,
                                             .go_on = go_on,
                                             .arg = offers};
    }
    return rc;
}

int offers_open(const struct offers_config *config, struct offers **out, struct err *err)
{
    struct offers *offers AUTO(offers_free) = calloc(1, sizeof(*offers));
    if (!offers) {
        return err_set(err, ERR_MEMORY, "offered data sets");
    }
    int rc = fill(offers, config, err);
    rc = rc || offers->count == 0 ? rc : file_make_directory(offers->directory, 0700, err);
    for (size_t i = 0; rc == 0 && i < offers->count; i++) {
        struct item *item = &offers->item[i];
        struct err why = {0};
        rc = open_one(offers, item, &why);
        if (rc == ERR_CANCELLED) {
            *err = why;
        } else if (rc != 0) {
            log_fault(item, &why);
            rc = 0;
        }
    }
    if (rc == 0) {
        remove_others(offers);
        *out = offers;
        offers = NULL;
    }
    return rc;
}

void offers_free(struct offers **offers)
{
    if (*offers) {
        offers_unwatch(*offers);
        if ((*offers)->has_wake) {
            (void)pthread_cond_destroy(&(*offers)->wake);
        }
        if ((*offers)->has_lock) {
            (void)pthread_mutex_destroy(&(*offers)->lock);
        }
        free((*offers)->reading);
    }
    free(*offers);
    *offers = NULL;
}

/* ---- reading ---- */

size_t offers_list(struct offers *offers, struct offer out[OFFERS_MAX])
{
    size_t count = 0;
    if (!offers) {
        return 0;
    }
    (void)pthread_mutex_lock(&offers->lock);
    for (size_t i = 0; i < offers->count; i++) {
        if (offers->item[i].offered) {
            out[count++] = offers->item[i].offer;
        }
    }
    (void)pthread_mutex_unlock(&offers->lock);
    return count;
}

/* Open the file that has them. *samples: how many of it. -1: there is none. */
static int open_file(struct offers *offers, const char *name, const char *sha256, int64_t *samples)
{
    int fd = -1;
    (void)pthread_mutex_lock(&offers->lock);
    for (size_t i = 0; fd < 0 && i < offers->count; i++) {
        const struct item *item = &offers->item[i];
        char path[PATH_MAX];
        struct err err = {0};
        if (!item->offered || strcmp(item->name, name) != 0 || !offer_has(&item->offer, sha256)) {
            continue;
        }
        const struct offer_part *part = offer_part(&item->offer, sha256);
        *samples = part ? part->samples : item->offer.samples;
        if (offer_file_path(offers->directory, name, ".data", path, &err) == 0) {
            fd = open(path, O_RDONLY | O_CLOEXEC);
        }
    }
    (void)pthread_mutex_unlock(&offers->lock);
    return fd;
}

int offers_data(struct offers *offers, const char *name, const char *sha256, struct data **out,
                struct err *err)
{
    int64_t samples = 0;
    FD_AUTO int fd = offers ? open_file(offers, name, sha256, &samples) : -1;
    if (samples == 0) {
        return err_set(err, ERR_NOT_FOUND, "this device does not offer the data set '%s' of %.12s",
                       name, sha256);
    }
    if (fd < 0) {
        return err_set(err, ERR_IO, "data set '%s': its converted file cannot be opened", name);
    }
    struct data *data AUTO(data_close) = NULL;
    int rc = data_open_file(fd, &data, err);
    rc = rc ? rc : data_shorten(data, (uint64_t)samples, err);
    if (rc == 0) {
        *out = data;
        data = NULL;
    }
    return rc == 0 ? 0 : err_wrap(err, "data set '%s'", name);
}
