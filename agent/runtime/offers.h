/* offers.h: the data sets that this device offers to jobs (--data), converted once with the code of
 * uploads into files of its state directory. The samples never leave the device; what is stated of
 * them is struct offer. A data set that cannot be read is logged and not offered.
 *
 * The converted file is kept with a stamp of its sources (names, sizes, times), and is made again
 * when the stamp differs. Opened before the first thread; constant afterwards, any thread reads. */
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
    int cancel_fd;                /* becomes readable: stop; -1: never */
};

/* ERR_INVALID, ERR_LIMIT: an item is not NAME=PATH, a name occurs twice, there are too many, or the
 * reading is none. */
NODISCARD int offers_check(const struct conf_list *data, const char *reading, struct err *err);

struct offers;
/* Convert what has changed. ERR_MEMORY, ERR_CANCELLED: cancel_fd became readable. Other faults are
 * those of one data set: they are logged. Removes the files of data sets that are not offered. */
NODISCARD int offers_open(const struct offers_config *config, struct offers **out, struct err *err);
void offers_free(struct offers **offers);
/* offers: NULL: none, as in the next. */
const struct offer *offers_list(const struct offers *offers, size_t *count);
/* Map a data set. ERR_NOT_FOUND: none of this name has this hash. */
NODISCARD int offers_data(const struct offers *offers, const char *name, const char *sha256,
                          struct data **out, struct err *err);

#endif
