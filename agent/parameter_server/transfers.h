/* transfers.h: chooses which layers a worker pulls and pushes in one request, in each step anew,
 * from the times of its layers and of its transfers (libtrain/model/segments.h). One thread; what
 * concerns links: the owner's lock. Allocates in transfers_new only. */
#ifndef AGENT_PARAMETER_SERVER_TRANSFERS_H
#define AGENT_PARAMETER_SERVER_TRANSFERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/core/exchange_task.h"
#include "base/err.h"

struct transfers_config {
    int transfers; /* of schema/parameter_server.h */
    int64_t segment_bytes;
    size_t layers;
    size_t servers;
    size_t layer_end[EXCHANGE_SERVERS_MAX];
    size_t own;     /* the server that is this device; servers: none */
    size_t workers; /* of the job: a server has room for so many requests of all of them */
    size_t block[REDUCE_BLOCKS_MAX]; /* micro-batches of each block of the share */
    size_t blocks;                   /* at least 1 */
    const double *bytes;             /* [layers] borrowed for the call */
};

struct transfers;
NODISCARD int transfers_new(const struct transfers_config *config, struct transfers **out,
                            struct err *err);
void transfers_free(struct transfers **transfers);

/* The requests of a direction that may be open. */
size_t transfers_window(const struct transfers *transfers);
/* The next choices are by the links as measured until now. Under the owner's lock. */
void transfers_read_links(struct transfers *transfers);
/* The segments of the next step; they are valid until the next call. */
void transfers_choose(struct transfers *transfers, struct exchange_segments *out);

/* Log, at level debug, the segments of the step, and the times by which they were chosen. */
void transfers_log(const struct transfers *transfers, int64_t step);

/* A pass over all layers took these seconds, [layers], times scale. */
void transfers_note_pass(struct transfers *transfers, bool forward, const double *seconds,
                         double scale);
/* The present step begins with an evaluation: its time says nothing of its transfers. */
void transfers_note_evaluation(struct transfers *transfers);
/* Return the seconds that a pull counts with that was parked and took these seconds beside, of
 * which `answer_seconds` from the first byte of its answer to the last. Its request may have waited
 * behind pushes on the way: that is hidden by the wait for the version and belongs to no latency.
 * Under the owner's lock, as the next. */
double transfers_parked_seconds(const struct transfers *transfers, size_t server, double seconds,
                                double answer_seconds);
/* A request to the server moved so many bytes. Under the owner's lock, as the next. */
void transfers_note_link(struct transfers *transfers, bool pull, size_t server, double bytes,
                         double seconds);

#endif
