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

#include "agent/runtime/offers_parts.h"
#include "agent/runtime/thread.h"
#include "base/file.h"
#include "base/log.h"

#define STEP_MS 100 /* between two checks of cancel_fd and of the progress */
#define END_MS 1000

/* ---- the options ---- */

/* Return the length of the name in "NAME=PATHS"; 0: another form. */
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
    (void)pthread_mutex_lock(&offers->lock);
    offers->progress++;
    const bool ends = offers->stops;
    (void)pthread_mutex_unlock(&offers->lock);
    return ends ? err_set(err, ERR_CANCELLED, "the agent ends") : 0;
}

/* Note the item to report if the thread makes no progress. */
static void note_item(struct offers *offers, size_t index)
{
    (void)pthread_mutex_lock(&offers->lock);
    offers->at = index;
    offers->progress++;
    (void)pthread_mutex_unlock(&offers->lock);
}

static void open_items(struct offers *offers)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < offers->count; i++) {
        struct offers_item *item = &offers->item[i];
        struct err why = {0};
        note_item(offers, i);
        rc = offers_open_item(offers, item, &why);
        if (rc == ERR_CANCELLED) {
            offers->open_err = why;
        } else if (rc != 0) {
            offers_log_fault(item, &why);
            rc = 0;
        }
    }
    if (rc == 0) {
        offers_remove_others(offers);
    }
    offers->open_rc = rc; /* read after `opened` */
}

/* ---- looks ---- */

/* Wait for the next check. Return whether to check again. */
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

static void look_at_all(struct offers *offers)
{
    bool changed = false;
    for (size_t i = 0; i < offers->count && !stops(offers); i++) {
        note_item(offers, i);
        changed = offers_look_at(offers, &offers->item[i]) || changed;
    }
    if (changed) {
        offers->changed(offers->changed_arg);
    }
}

/* Wait until offers_watch. Return whether to check; *late: offers_open returned before all items
 * were open. */
static bool wait_for_watch(struct offers *offers, bool *late)
{
    (void)pthread_mutex_lock(&offers->lock);
    offers->opened = true;
    (void)pthread_cond_broadcast(&offers->wake);
    while (!offers->stops && !offers->changed) {
        (void)pthread_cond_wait(&offers->wake, &offers->lock);
    }
    *late = offers->late;
    const bool looks = !offers->stops;
    (void)pthread_mutex_unlock(&offers->lock);
    return looks;
}

static void *run(void *arg)
{
    struct offers *offers = arg;
    bool late = false;
    thread_set_name("data");
    open_items(offers);
    thread_be_nice();
    if (wait_for_watch(offers, &late)) {
        if (late) {
            offers->changed(offers->changed_arg);
        }
        while (wait_for_look(offers)) {
            look_at_all(offers);
        }
    }
    (void)pthread_mutex_lock(&offers->lock);
    offers->ended = true;
    (void)pthread_cond_broadcast(&offers->wake);
    (void)pthread_mutex_unlock(&offers->lock);
    return NULL;
}

void offers_watch(struct offers *offers, void (*changed)(void *arg), void *arg)
{
    if (offers && offers->has_thread) {
        (void)pthread_mutex_lock(&offers->lock);
        offers->changed = changed;
        offers->changed_arg = arg;
        (void)pthread_cond_broadcast(&offers->wake);
        (void)pthread_mutex_unlock(&offers->lock);
    }
}

/* Log that the file system does not answer. Under the lock. */
static void log_hang(const struct offers *offers, int64_t silent_ms)
{
    log_error("data_hangs", "data=%s silent_ms=%" PRId64, offers->item[offers->at].name, silent_ms);
}

bool offers_unwatch(struct offers *offers)
{
    if (!offers || !offers->has_thread) {
        return true;
    }
    int rc = 0;
    (void)pthread_mutex_lock(&offers->lock);
    offers->stops = true;
    (void)pthread_cond_broadcast(&offers->wake);
    while (!offers->ended && rc != ETIMEDOUT) {
        rc = thread_condition_wait(&offers->wake, &offers->lock, (int64_t)END_MS * 1000000);
    }
    const bool ended = offers->ended;
    (void)pthread_mutex_unlock(&offers->lock);
    if (ended) {
        (void)pthread_join(offers->thread, NULL);
        offers->has_thread = false;
    }
    return ended;
}

/* ---- life ---- */

static int fill(struct offers *offers, const struct offers_config *config, struct err *err)
{
    offers->cancel_fd = config->cancel_fd;
    offers->look_ms = config->look_ms;
    offers->patience_ms = config->patience_ms;
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
        struct offers_item *item = &offers->item[offers->count++];
        const size_t length = name_length(config->data->item[i]);
        (void)snprintf(item->name, sizeof(item->name), "%.*s", (int)length, config->data->item[i]);
        item->paths = strdup(config->data->item[i] + length + 1);
        if (!item->paths) {
            return err_set(err, ERR_MEMORY, "offered data sets");
        }
        item->source = (struct offer_source){.directory = offers->directory,
                                             .name = item->name,
                                             .paths = item->paths,
                                             .reading = offers->reading,
                                             .go_on = go_on,
                                             .arg = offers};
    }
    return rc;
}

/* Wait until all items are open, or the thread has made no progress for the time of patience. In
 * the latter case it hangs in a call of the file system, and the agent begins without the remaining
 * items. */
static int wait_for_items(struct offers *offers, struct err *err)
{
    struct pollfd fd = {.fd = offers->cancel_fd, .events = POLLIN};
    uint64_t seen = 0;
    int64_t silent_ms = 0;
    (void)pthread_mutex_lock(&offers->lock);
    while (!offers->opened && silent_ms < (offers->stops ? END_MS : offers->patience_ms)) {
        if (fd.fd >= 0 && poll(&fd, 1, 0) == 1) {
            offers->stops = true;
        }
        (void)thread_condition_wait(&offers->wake, &offers->lock, (int64_t)STEP_MS * 1000000);
        silent_ms = offers->progress == seen ? silent_ms + STEP_MS : 0;
        seen = offers->progress;
    }
    offers->late = !offers->opened;
    const bool ends = offers->late && offers->stops;
    if (offers->late && !ends) {
        log_hang(offers, silent_ms);
    }
    const int rc = offers->late ? 0 : offers->open_rc;
    (void)pthread_mutex_unlock(&offers->lock);
    if (rc != 0) {
        *err = offers->open_err;
    }
    return ends ? err_set(err, ERR_CANCELLED, "the agent ends") : rc;
}

int offers_open(const struct offers_config *config, struct offers **out, struct err *err)
{
    struct offers *offers AUTO(offers_free) = calloc(1, sizeof(*offers));
    if (!offers) {
        return err_set(err, ERR_MEMORY, "offered data sets");
    }
    int rc = fill(offers, config, err);
    if (rc == 0 && offers->count > 0) {
        rc = file_make_directory(offers->directory, 0700, err);
        rc = rc ? rc : thread_start(&offers->thread, run, offers, err);
        offers->has_thread = rc == 0;
        rc = rc ? rc : wait_for_items(offers, err);
    }
    if (rc == 0) {
        *out = offers;
        offers = NULL;
    }
    return rc;
}

void offers_free(struct offers **offers)
{
    if (!*offers || !offers_unwatch(*offers)) {
        *offers = NULL; /* the hanging thread keeps the memory until the process ends */
        return;
    }
    if ((*offers)->has_wake) {
        (void)pthread_cond_destroy(&(*offers)->wake);
    }
    if ((*offers)->has_lock) {
        (void)pthread_mutex_destroy(&(*offers)->lock);
    }
    for (size_t i = 0; i < (*offers)->count; i++) {
        free((*offers)->item[i].paths);
    }
    free((*offers)->reading);
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

/* Open the file that has the data set with this hash. *samples: how many of its samples belong to
 * it. -1: there is no such file. */
static int open_file(struct offers *offers, const char *name, const char *sha256, int64_t *samples)
{
    int fd = -1;
    (void)pthread_mutex_lock(&offers->lock);
    for (size_t i = 0; fd < 0 && i < offers->count; i++) {
        const struct offers_item *item = &offers->item[i];
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
