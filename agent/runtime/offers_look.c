/* Checks the sources of the offered data sets and updates the offers. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/runtime/offers_parts.h"
#include "base/log.h"

/* ---- what is offered ---- */

/* Offer what NAME.data has. Under the lock. */
static void offer(struct offers_item *item, const struct offer_note *note)
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

static void offer_kept(struct offers *offers, struct offers_item *item,
                       const struct offer_note *note)
{
    (void)pthread_mutex_lock(&offers->lock);
    offer(item, note);
    (void)pthread_mutex_unlock(&offers->lock);
}

/* Publish NAME.data and the offer in one step, so that they always match. */
static int publish(struct offers *offers, struct offers_item *item, const struct offer_note *made,
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

/* Return whether the error may pass without a change of the sources: the disk may get room, or
 * answer again. */
static bool may_pass(int rc)
{
    return rc == ERR_FULL || rc == ERR_IO || rc == ERR_MEMORY;
}

/* Keep the offer and mark whether it is stale. Return whether the mark was the same before. */
static bool keep_stale(struct offers *offers, struct offers_item *item, bool stale)
{
    (void)pthread_mutex_lock(&offers->lock);
    const bool was = item->offer.stale;
    item->offer.stale = item->offered && stale;
    const bool is = item->offer.stale;
    (void)pthread_mutex_unlock(&offers->lock);
    return was == is;
}

void offers_log_fault(const struct offers_item *item, const struct err *why)
{
    if (item->offered) {
        log_error("data_not_read", "data=%s samples=%" PRId64 " action=%s error=%s", item->name,
                  item->offer.samples, "offers_the_earlier_ones", log_quote(why->text).text);
    } else {
        log_error("data_not_offered", "data=%s error=%s", item->name, log_quote(why->text).text);
    }
}

/* ---- at the start ---- */

static void note_failure(struct offers_item *item, int rc, const char stamp[SHA256_SIZE])
{
    memset(item->failed, 0, sizeof(item->failed));
    if (!may_pass(rc)) {
        memcpy(item->failed, stamp, sizeof(item->failed));
    }
}

/* Offer the data of an earlier run of the agent, if it exists, until newer data is read. Offer
 * nothing if the sources are gone: whoever removed them does not want them used. */
int offers_open_item(struct offers *offers, struct offers_item *item, struct err *err)
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
        offer_kept(offers, item, &note);
        return 0;
    }
    rc = offer_file_make(&item->source, item->seen, item->noted ? &note : NULL, &made, err);
    rc = rc ? rc : publish(offers, item, &made, err);
    if (rc == 0 || rc == ERR_CANCELLED) {
        return rc;
    }
    note_failure(item, rc, item->seen);
    if (kept && note.settings[0] != '\0') {
        offer_kept(offers, item, &note);
        (void)keep_stale(offers, item, true);
    }
    return rc;
}

/* ---- files that are not needed any more ---- */

/* The note and the order of the files contain no samples. They are kept while the options name the
 * data set, because its sources may come back with samples appended. */
static bool is_needed(const struct offers *offers, const char *file)
{
    for (size_t i = 0; i < offers->count; i++) {
        const struct offers_item *item = &offers->item[i];
        const size_t length = strlen(item->name);
        if (strncmp(file, item->name, length) == 0 &&
            ((item->offered && strcmp(file + length, ".data") == 0) ||
             strcmp(file + length, ".note") == 0 || strcmp(file + length, ".files") == 0)) {
            return true;
        }
    }
    return false;
}

void offers_remove_others(const struct offers *offers)
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

/* Read sources that have changed and are quiet now. Return whether the offer has changed. */
static bool read_again(struct offers *offers, struct offers_item *item,
                       const char stamp[SHA256_SIZE])
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
        offers_log_fault(item, &err);
    }
    note_failure(item, rc, stamp);
    return !known;
}

bool offers_look_at(struct offers *offers, struct offers_item *item)
{
    char stamp[SHA256_SIZE] = "";
    struct err err = {0};
    const int rc = offer_file_stamp(&item->source, stamp, &err);
    if (rc == ERR_CANCELLED) {
        return false;
    }
    if (rc != 0) { /* the sources are gone or being replaced */
        item->seen[0] = '\0';
        const bool known = keep_stale(offers, item, true);
        if (!known || (!item->offered && !item->silent)) {
            offers_log_fault(item, &err);
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
