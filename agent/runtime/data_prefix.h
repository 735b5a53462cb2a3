/* data_prefix.h: the hash of the first samples of a data set, to check whether one data set begins
 * with another. Any thread. */
#ifndef AGENT_RUNTIME_DATA_PREFIX_H
#define AGENT_RUNTIME_DATA_PREFIX_H

#include "agent/runtime/data.h"

/* Compute the hash of the file that would contain only the first `count` samples
 * (dataset_send_prefix). It may take long: go_on(arg), unless it is NULL, is called repeatedly, and
 * an error of it ends the computation. */
NODISCARD int data_hash_prefix(const struct data *data, uint64_t count,
                               int (*go_on)(void *arg, struct err *err), void *arg,
                               char out[SHA256_SIZE], struct err *err);

#endif
