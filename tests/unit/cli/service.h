/* service.h: for the tests of the commands: a coordinator whose answers are the examples of
 * schema/, and `paceline` run against it. */
#ifndef TESTS_UNIT_CLI_SERVICE_H
#define TESTS_UNIT_CLI_SERVICE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/buf.h"
#include "tests/unit/net/serve.h"

#define ID "job_01JD6Z0A4B6C8D0E2F4G6H8J0K"
#define KITCHEN "dev_01JD6Y3K9T2V4W8X0Z1B5C7D9E"
#define ATTIC "dev_01JD6Y3M0Q7R2S4T6V8W0X2Y4Z" /* listed only */
#define NEWS 20
#define SERVICE_ROUTES 8

struct service {
    struct serve serve;
    struct buf running, ended, plan, device, problem, groups, incident, posted;
    _Atomic(const char *) end_state; /* of the second answer about the job */
    atomic_bool refuses;
    atomic_bool rubbish;
    atomic_bool live;   /* the program looks every second */
    atomic_int news;    /* this many answers about the running job precede its end */
    atomic_int gets;    /* of the job */
    atomic_int starts;  /* of calls that carried an Idempotency-Key and the right type */
    const char *config; /* the directory of contexts; NULL: none */
    char *out, *complaints;
    size_t out_size, complaints_size;
};

/* The first one takes jobs. */
extern const struct http_route service_routes[SERVICE_ROUTES];

/* For cmocka: *state is a struct service with its server running. */
int service_setup(void **state);
int service_teardown(void **state);
/* Run `paceline WORD...` (NULL ends) against the server of the fixture; out NULL: into f->out. */
int service_run(struct service *f, FILE *out, const char *const *words);
#define RUN(f, ...) service_run((f), NULL, (const char *const[]){__VA_ARGS__, NULL})

#endif
