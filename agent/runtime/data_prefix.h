/* data_prefix.h: the hash of the first samples of a data set: whether one data set begins with
 * another. Any thread. */
#ifndef AGENT_RUNTIME_DATA_PREFIX_H
#define AGENT_RUNTIME_DATA_PREFIX_H

#include "agent/runtime/data.h"

/* The hash of the file that the first `count` samples alone would be (dataset_send_prefix). It may
 * take long: go_on(arg), unless it is NULL, is called repeatedly, and its error ends it. */
NODISCARD int data_hash_prefix(const struct data *data, uint64_t count,
                               int (*go_on)(void *arg, struct err *err), void *arg,
                               char out[SHA256_SIZE], struct err *err);

#endif
