/* offers.h: the data sets that this device offers to jobs (--data), converted with the code of
 * uploads into files of its state directory (offer_file.h). The samples never leave the device;
 * only struct offer is reported.
 *
 * A thread converts them and checks the sources periodically. When the sources have changed and
 * then stayed unchanged for one interval, the thread converts them again and the offer changes. If
 * they cannot be read, the previous offer stays. No other thread reads the sources: a file system
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
    int cancel_fd;                /* readable: cancel the opening; -1: none */
    int64_t look_ms;              /* between two checks of the sources */
    int64_t patience_ms;          /* timeout for a file system that does not answer */
};

/* ERR_INVALID, ERR_LIMIT: an item is not NAME=PATH, a name occurs twice, there are too many, or the
 * reading is invalid. */
NODISCARD int offers_check(const struct conf_list *data, const char *reading, struct err *err);

struct offers;
/* Convert the data sets that have changed, and remove converted samples that are not offered.
 * ERR_MEMORY; ERR_CANCELLED: cancel_fd became readable. Other faults concern one data set and are
 * logged. Sources that do not answer are logged too, and the rest follows when they answer. */
NODISCARD int offers_open(const struct offers_config *config, struct offers **out, struct err *err);
/* Ends the thread as well; if it hangs in a call, it keeps the memory. */
void offers_free(struct offers **offers);

/* Begin to check the sources. Until offers_unwatch, the thread calls changed(arg) when the offered
 * data changes. */
void offers_watch(struct offers *offers, void (*changed)(void *arg), void *arg);
/* false: the thread hangs in a call of the file system. It may be called again. */
NODISCARD bool offers_unwatch(struct offers *offers);

/* Copy the offers. Return their number. offers NULL: there are none, here and in offers_data. */
size_t offers_list(struct offers *offers, struct offer out[OFFERS_MAX]);
/* Map a data set, or a part of one. ERR_NOT_FOUND: no offer with this name has this hash. */
NODISCARD int offers_data(struct offers *offers, const char *name, const char *sha256,
                          struct data **out, struct err *err);

#endif
