/* transfers.h: chooses in each step which layers a worker pulls and pushes in one request, from the
 * times of its layers and of its transfers (libtrain/model/segments.h). One thread; functions about
 * links need the owner's lock. Allocates in transfers_new only. */
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
    size_t own;     /* the server on this device; servers: none */
    size_t workers; /* of the job; a server bounds the requests of all of them together */
    size_t block[REDUCE_BLOCKS_MAX]; /* micro-batches of each block of the share */
    size_t blocks;                   /* at least 1 */
    const double *bytes;             /* [layers] borrowed for the call */
};

struct transfers;
NODISCARD int transfers_new(const struct transfers_config *config, struct transfers **out,
                            struct err *err);
void transfers_free(struct transfers **transfers);

/* Return how many requests of a direction may be open. */
size_t transfers_window(const struct transfers *transfers);
/* Base the next choices on the links as measured until now. Under the owner's lock. */
void transfers_read_links(struct transfers *transfers);
/* Choose the segments of the next step; they are valid until the next call. */
void transfers_choose(struct transfers *transfers, struct exchange_segments *out);

/* Log, at level debug, the segments of the step and the times that determined them. */
void transfers_log(const struct transfers *transfers, int64_t step);

/* Note the seconds of a pass over all layers, [layers], multiplied by scale. */
void transfers_note_pass(struct transfers *transfers, bool forward, const double *seconds,
                         double scale);
/* Note that the current step begins with an evaluation, so that its time does not measure its
 * transfers. */
void transfers_note_evaluation(struct transfers *transfers);
/* Return the seconds to count for a parked pull. seconds: its time without the parking;
 * answer_seconds: the part from the first byte of the answer to the last. On the way, the request
 * may have waited behind pushes. The wait for the version hides that time, so it must not count as
 * latency. Under the owner's lock, as the next. */
double transfers_parked_seconds(const struct transfers *transfers, size_t server, double seconds,
                                double answer_seconds);
/* Note the bytes and seconds of a request to the server. Under the owner's lock, as the next. */
void transfers_note_link(struct transfers *transfers, bool pull, size_t server, double bytes,
                         double seconds);

#endif
