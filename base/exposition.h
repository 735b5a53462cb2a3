/* exposition.h: writes metrics as text for Prometheus (exposition format 0.0.4). Families follow
 * one another, each with its HELP and TYPE and all its samples. One owner, one thread. */
#ifndef BASE_EXPOSITION_H
#define BASE_EXPOSITION_H

#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

#define EXPOSITION_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

struct exposition {
    struct buf *out; /* borrowed */
    const char *family;
    int rc; /* the first failure; nothing is written after it */
    struct err err;
};

enum exposition_type { EXPOSITION_COUNTER, EXPOSITION_GAUGE, EXPOSITION_SUMMARY };

/* A value may hold any bytes: it is escaped, and bytes that are not UTF-8 are replaced. */
struct exposition_label {
    const char *name, *value;
};

/* Begin a family. name is borrowed until the next one; a counter's ends with _total. */
void exposition_family(struct exposition *exposition, const char *name, enum exposition_type type,
                       const char *help);
/* Add a sample of the present family. suffix: "", or "_sum" and "_count" of a summary. */
void exposition_sample(struct exposition *exposition, const char *suffix,
                       const struct exposition_label *label, size_t label_count, double value);
/* Write a family of one sample without labels. */
void exposition_single(struct exposition *exposition, const char *name, enum exposition_type type,
                       const char *help, double value);
/* Families of one sample, for exposition_singles. */
struct exposition_family {
    const char *name, *help;
    enum exposition_type type;
    double value;
};
void exposition_singles(struct exposition *exposition, const struct exposition_family *family,
                        size_t count);

#endif
