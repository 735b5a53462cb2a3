/* offers_parts.h: shared by offers.c (the thread) and offers_look.c (which reads the sources on
 * that thread). For these two only. */
#ifndef AGENT_RUNTIME_OFFERS_PARTS_H
#define AGENT_RUNTIME_OFFERS_PARTS_H

#include <limits.h>
#include <pthread.h>

#include "agent/runtime/offer_file.h"
#include "agent/runtime/offers.h"

/* A data set of the options. */
struct offers_item {
    struct offer_source source;
    char name[NAME_SIZE];
    char *paths; /* owned: a thread that hangs outlives the options */
    /* Under the lock. */
    struct offer offer;
    bool offered;
    /* Of the thread. */
    struct offer_note note;   /* of the newest samples that were read, offered or not */
    bool noted;               /* `note` is set */
    char seen[SHA256_SIZE];   /* the stamp of the sources at the last look */
    char failed[SHA256_SIZE]; /* stamp of sources that cannot be read unless they change */
    bool silent;              /* it was logged that they cannot be found */
};

struct offers {
    char directory[PATH_MAX];
    char *reading;
    int cancel_fd;
    int64_t look_ms;
    struct offers_item item[OFFERS_MAX];
    size_t count;
    pthread_t thread;
    int64_t patience_ms;
    bool has_lock, has_wake, has_thread;
    pthread_mutex_t lock; /* guards the offers, NAME.data and the fields that follow */
    pthread_cond_t wake;
    uint64_t progress; /* calls of go_on */
    size_t at;         /* the item that the thread reads or looks at */
    bool opened;       /* all items were opened once, with the code open_rc */
    bool late;         /* offers_open returned before that */
    bool stops, ended; /* the thread is to end; it ends */
    int open_rc;
    struct err open_err;
    void (*changed)(void *arg); /* NULL: offers_watch was not called */
    void *changed_arg;
};

/* On the thread. Open a data set for the first time. */
NODISCARD int offers_open_item(struct offers *offers, struct offers_item *item, struct err *err);
void offers_log_fault(const struct offers_item *item, const struct err *why);
/* Remove converted samples that the device does not offer any more. */
void offers_remove_others(const struct offers *offers);
/* Check the item's sources. Return whether its offer has changed. */
bool offers_look_at(struct offers *offers, struct offers_item *item);

#endif
