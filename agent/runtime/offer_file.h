/* offer_file.h: the files of one offered data set (offers.h) in the agent's state directory:
 *
 *     NAME.data   the converted samples
 *     NAME.note   what is offered of them, and a stamp of the sources (names, sizes, times)
 *     NAME.files  the files of a directory in the order of their samples
 *     NAME.new    converted samples that are to take the place of NAME.data
 *
 * Files added to a directory follow the existing files, regardless of their names. So samples are
 * only appended, and the data offered before is a part of the new data (struct offer_part). The
 * hash, not the names, shows that it is. One thread. */
#ifndef AGENT_RUNTIME_OFFER_FILE_H
#define AGENT_RUNTIME_OFFER_FILE_H

#include <limits.h>
#include <stdbool.h>

#include "base/err.h"
#include "schema/offer.h"

struct offer_source {
    const char *directory; /* of the files */
    const char *name;
    const char *paths;                        /* "PATH[,PATH]" */
    const char *reading;                      /* "": by content */
    int (*go_on)(void *arg, struct err *err); /* called repeatedly; an error ends the work */
    void *arg;
};

/* The content of NAME.note. */
struct offer_note {
    char stamp[SHA256_SIZE];    /* of the sources when they were read */
    char settings[SHA256_SIZE]; /* of where and how they are read; "": not known */
    struct offer offer;
};

/* Write the path of one of the files. */
NODISCARD int offer_file_path(const char *directory, const char *name, const char *suffix,
                              char out[PATH_MAX], struct err *err);
/* Compute the stamp of the current sources. */
NODISCARD int offer_file_stamp(const struct offer_source *source, char out[SHA256_SIZE],
                               struct err *err);
/* Read the note. false: there is none, or it is for other sources or another reading. */
bool offer_file_note(const struct offer_source *source, struct offer_note *out);
/* Return whether NAME.data matches the note. If NAME.new matches instead, because of a crash before
 * offer_file_publish, it replaces NAME.data. */
bool offer_file_recover(const struct offer_source *source, const struct offer_note *note);
/* Convert the sources to NAME.new, and write its note, so that offer_file_recover finds it after a
 * crash before offer_file_publish.
 *
 *     stamp   of the sources
 *     before  what was offered, which is a part of the new data if those begin with it; NULL:
 *             nothing */
NODISCARD int offer_file_make(const struct offer_source *source, const char stamp[SHA256_SIZE],
                              const struct offer_note *before, struct offer_note *out,
                              struct err *err);
/* Replace NAME.data by NAME.new. It does not wait for a disk. */
NODISCARD int offer_file_publish(const struct offer_source *source, struct err *err);

#endif
