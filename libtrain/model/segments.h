/* segments.h: chooses the layers that a worker and a server transfer in one request, so that
 * transfers and computation overlap best. A request costs a fixed time besides the time of its
 * bytes. Many small requests waste time; few large ones wait for computation, or delay it.
 *
 * One transfer runs at a time in each direction, except those of a stream. A worker pulls layers in
 * forward order while the forward pass computes, and pushes their gradients in backward order while
 * the backward pass computes. In push time, with layer j the first of a segment [j, i) and R[j] the
 * seconds after which its gradients are final:
 *
 *     T[j] = min over i of  max(T[i], R[j]) + request + bytes[j, i) / rate,  T[count] = busy
 *
 * A pull is the same with time reversed. segments_solve finds the minimum in O(count), then the
 * fewest requests that reach it, which takes as long unless nearly all of the layers could begin
 * late. A segment never spans two servers.
 *
 * Source: the idea of DynaComm (JSAC 40(2), 2022), optimal segments at run time. Only its abstract
 * was available; the model and the method are our own derivation. Pure; nothing allocates after
 * segments_scratch_new. */
#ifndef LIBTRAIN_MODEL_SEGMENTS_H
#define LIBTRAIN_MODEL_SEGMENTS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define SEGMENTS_LAYERS_MAX 4096
#define SEGMENTS_WINDOW 4 /* open requests of SEGMENTS_LAYER_WINDOW */

/* The link to a server: a request of n bytes takes request_seconds + n / bytes_per_second. */
struct segments_link {
    double request_seconds;
    double bytes_per_second; /* > 0; INFINITY */
    bool local;              /* the worker keeps the layers itself: they are not transferred */
};

/* One direction of one step. */
struct segments_problem {
    size_t count;                     /* layers */
    const double *bytes;              /* [count] */
    const double *seconds;            /* [count] of the pass: forward for a pull, else backward */
    const size_t *server;             /* [count] index in link; those of a server are consecutive */
    const struct segments_link *link; /* borrowed, as all arrays */
    bool pull;
    double first_request_seconds; /* pull: request time of the step's first request, instead of its
                                     link's */
    double busy_seconds;          /* push: until the link is free, from the beginning of the pass */
};

/* Ways to choose the segments. */
enum segments_transfers {
    SEGMENTS_OPTIMAL,
    SEGMENTS_STREAM, /* one request per server, whose layers are computed during its transfer */
    SEGMENTS_LAYER,  /* one request for each layer */
    SEGMENTS_LAYER_WINDOW, /* the same, SEGMENTS_WINDOW of them open */
    SEGMENTS_GREEDY,       /* adjacent layers are joined while that helps */
    SEGMENTS_READY,        /* all layers that are ready when the link is free */
    SEGMENTS_WHOLE,        /* one request for each server */
    SEGMENTS_FIXED,        /* requests of at least a number of bytes */
};

struct segments_scratch;
/* Allocate memory for up to `layers` layers. ERR_INVALID above SEGMENTS_LAYERS_MAX; ERR_MEMORY. */
NODISCARD int segments_scratch_new(size_t layers, struct segments_scratch **out, struct err *err);
void segments_scratch_free(struct segments_scratch **scratch);

/* Find the segments with which the pass and its transfers end first, and of these the fewest.
 *
 *     end    out: [count] one past the last layer of each segment, rising
 *     count  out: how many
 *
 * Returns the seconds from the beginning of the pass (a pull: from its first request) to the end of
 * both. */
double segments_solve(const struct segments_problem *problem, struct segments_scratch *scratch,
                      size_t *end, size_t *count);
/* The same by a double loop, O(count^2): the reference of the tests and of bench. */
double segments_solve_slowly(const struct segments_problem *problem,
                             struct segments_scratch *scratch);

/* Choose the segments of another way, of at least `bytes` each with SEGMENTS_FIXED. Not for STREAM,
 * which has one per server. Out as segments_solve. GREEDY takes O(count^3), the others O(count). */
void segments_choose(const struct segments_problem *problem, enum segments_transfers transfers,
                     double bytes, struct segments_scratch *scratch, size_t *end, size_t *count);
/* Return the seconds of given segments, one transfer at a time. */
double segments_evaluate(const struct segments_problem *problem, const size_t *end, size_t count);
/* Return the seconds of layers with `window` requests open at a time. */
double segments_window(const struct segments_problem *problem, size_t window);
/* Return the seconds of one request per server, all open at a time, whose bodies are produced and
 * consumed on their way. The rates of the links are those of simultaneous use. A push to several
 * servers ends with one more request, because the last request of the step waits for the answers to
 * the others. */
double segments_stream(const struct segments_problem *problem);

#endif
