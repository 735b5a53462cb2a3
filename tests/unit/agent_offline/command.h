/* command.h: for tests of the commands that work without a coordinator: their arguments, and a job
 * with its data in a directory. Tests only; one thread. */
#ifndef TESTS_UNIT_AGENT_OFFLINE_COMMAND_H
#define TESTS_UNIT_AGENT_OFFLINE_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

typedef int (*command_fn)(int argc, char **argv, bool *misused, struct err *err);

/* "@" in a word becomes a path in the directory: "@x", "--option=@x", "--dataset=name=@x". The
 * words end with NULL.
 */
int command_run(command_fn command, const char *directory, const char *const *words, bool *misused,
                struct err *err);
#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

void command_write_text(const char *directory, const char *name, const char *text);
/* Samples of the tiny model (tiny.h). */
void command_write_data(const char *directory, const char *name, size_t samples, uint32_t seed);
/* A job of the tiny model on the data sets "a" and "b", with these fields as well. */
void command_write_job_with(const char *directory, const char *name, const char *fields);
/* job.json: the same in 4 micro-batches, for 3 epochs. */
void command_write_job(const char *directory);

#endif
