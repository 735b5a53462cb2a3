/* offers.h: the data sets that this device offers to jobs (--data), converted with the code of
 * uploads into files of its state directory (offer_file.h). The samples never leave the device;
 * what is stated of them is struct offer.
 *
 * A thread converts them, and looks at the sources from time to time. When they have changed and
 * have been quiet for one interval, they are converted again, and what is offered changes. If they
 * cannot be read, what was offered before stays. No other thread reads the sources: a file system
 * that does not answer stops nothing else. Any thread reads what is offered. */
#ifndef AGENT_RUNTIME_OFFERS_H
#define AGENT_RUNTIME_OFFERS_H

#include "agent/runtime/data.h"
#include "base/conf.h"
#include "base/err.h"
#include "schema/offer.h"

struct offers_config {
    const char *directory;        /* of the converted files */
    const struct conf_list *data; /* "NAME=PATH[,PATH]", checked by offers_check */
    const char *reading;          /* how to read them, as parameters of an upload; "": by content */
    int cancel_fd;                /* becomes readable while they are opened: stop; -1: never */
    int64_t look_ms;              /* between two looks at the sources */
    int64_t patience_ms; /* with a file system that does not answer, until it goes on without */
};

/* ERR_INVALID, ERR_LIMIT: an item is not NAME=PATH, a name occurs twice, there are too many, or the
 * reading is none. */
NODISCARD int offers_check(const struct conf_list *data, const char *reading, struct err *err);

struct offers;
/* Convert what has changed. ERR_MEMORY, ERR_CANCELLED: cancel_fd became readable. Other faults are
 * those of one data set: they are logged. Removes converted samples that are not offered. If the
 * sources do not answer, that is logged, and the rest follows when they do. */
NODISCARD int offers_open(const struct offers_config *config, struct offers **out, struct err *err);
/* Ends the thread as well; if it hangs in a call, it keeps the memory. */
void offers_free(struct offers **offers);

/* Look at the sources from now on. changed(arg) is called on that thread when other data are
 * offered, until offers_unwatch. */
void offers_watch(struct offers *offers, void (*changed)(void *arg), void *arg);
/* false: the thread hangs in a call of the file system. It may be called again. */
NODISCARD bool offers_unwatch(struct offers *offers);

/* Copy what is offered. offers: NULL: none, as in the next. Return the number. */
size_t offers_list(struct offers *offers, struct offer out[OFFERS_MAX]);
/* Map a data set, or a part of one. ERR_NOT_FOUND: none of this name has this hash. */
NODISCARD int offers_data(struct offers *offers, const char *name, const char *sha256,
                          struct data **out, struct err *err);

#endif
