/* snapshot_support.h: for the tests of snapshots: stores, texts kept as the states of units, and
 * what a store then has. */
#ifndef TESTS_UNIT_AGENT_COPIES_SNAPSHOT_SUPPORT_H
#define TESTS_UNIT_AGENT_COPIES_SNAPSHOT_SUPPORT_H

#include <stddef.h>
#include <stdint.h>

#include "agent/copies/snapshot.h"

#define JOB "job_00000000000000000000000001"

extern const struct job_id this_job, other_job;

/* directory NULL: in memory. */
struct snapshot_store *snapshots_new(const char *directory);
struct holding holding_of(const struct job_id *of, int64_t generation, int64_t version,
                          int64_t unit, const char *text);
/* A snapshot_waiter's function: arg is the int that gets the code. */
void snapshots_note(void *arg, int rc, const struct err *why);
/* Keep a text and wait for its end. */
int snapshots_try(struct snapshot_store *store, const struct holding *holding,
                  enum snapshot_origin origin, const char *text, struct err *err);
/* The same; it must succeed. */
void snapshots_add_of(struct snapshot_store *store, const struct job_id *of, int64_t generation,
                      int64_t version, int64_t unit, const char *text);
/* In generation 1 of this_job. */
void snapshots_add(struct snapshot_store *store, int64_t version, int64_t unit, const char *text);
void snapshots_expect(struct snapshot_store *store, int64_t version, int64_t unit,
                      const char *text);
/* Files of this_job's directory. */
size_t snapshots_files(const char *directory);

#endif
