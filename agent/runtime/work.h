/* work.h: how a device trains in one generation, as one row of functions for each strategy. The
 * life of a generation (generation.c), the receiver (agent/peer), copies and sources call the row
 * and the keeper, and know no strategy. docs/adr/0136.
 *
 * References are counted: the receiver may hold the last one. */
#ifndef AGENT_RUNTIME_WORK_H
#define AGENT_RUNTIME_WORK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/eventfd.h>

#include "agent/core/needs.h"
#include "agent/core/orders.h"
#include "agent/core/rounds.h"
#include "agent/core/slots.h"
#include "agent/core/transfer.h"
#include "agent/runtime/keeper.h"
#include "libtrain/memory/memory.h"
#include "libtrain/quant/coder.h"
#include "schema/assignment.h"
#include "schema/heartbeat.h"

/* Maximum number of devices that one device calls to train. */
#define WORK_PEERS_MAX STAGES_MAX

/* libtrain stages of one device: one for the units that it keeps, one as a worker. */
#define WORK_STAGES_MAX 2

struct links;
struct mixer;
struct trust;
struct troubles;
struct ways;

/* The samples as stored, one after the other. NULL if the device does not need them (needs.h).
 * Borrowed for the life of the work. */
struct work_data {
    const unsigned char *train_inputs, *test_inputs;
    const unsigned char *train_labels, *test_labels; /* I32, little-endian, of any alignment */
};

struct work_config {
    const struct assignment_run *run; /* borrowed, as everything here */
    struct work_data data;
    size_t threads;
    double slowdown; /* >= 1 */
    int room_fd;     /* an eventfd, written to when a slot becomes free that a tensor waits for; -1:
                        none */
    struct ways *ways;
    const struct trust *trust; /* NULL: no TLS */
    struct troubles *troubles;
    struct links *links; /* transfers of copies between groups */
    /* For a group that sends averages to the coordinator. */
    const char *coordinator; /* its URL */
    const struct device_id *device;
    const char *boot;
    /* Called on any thread when a group has news to report. awaited: others wait for them. NULL:
     * not called. */
    void (*mix_changed)(void *arg, bool awaited);
    /* Called once, on any thread, when a peer refuses a tensor; the work is cancelled then. */
    void (*failed)(void *arg, const struct err *why);
    void *arg;
};

/* Called on the compute thread; must not block or allocate. */
struct work_listener {
    void (*metric)(void *arg, const struct metric *metric);
    /* Called when the state is that of `version` and the mark requests a snapshot of it. May be
     * NULL, as the next one. */
    void (*snapshot)(void *arg, int64_t version, const struct round_mark *mark);
    void (*round_opened)(void *arg); /* the lead */
    void *arg;
};

/* Make the receiver check for room again; room_fd: of work_config. */
static inline void work_has_room(int room_fd)
{
    if (room_fd >= 0) {
        (void)eventfd_write(room_fd, 1); /* a counter that is full wakes it as well */
    }
}

static inline void work_report(const struct work_listener *listener, int64_t step,
                               enum metric_name name, double value)
{
    const struct metric metric = {.step = step, .name = name, .value = value};
    listener->metric(listener->arg, &metric);
}

/* The form of a tensor between two devices. */
struct work_tensor {
    size_t samples;
    struct shape shape; /* of one sample */
    bool wide;          /* float64 instead of float32: FORM_NUMBER */
    enum codec codec;   /* encoding on the network */
};

/* The expected form of a received tensor. */
struct work_expected {
    struct work_tensor tensor;
    size_t boundary;       /* of the path: the first unit after the stage boundary */
    struct coder *decoder; /* of its form, owned by the receiver; NULL: not coded */
};

/* The first member of the struct that a row allocates. */
struct work {
    const struct work_row *row;
    struct keeper *keeper; /* owned */
    atomic_uint references;
    int64_t park_ms; /* how long a tensor may wait for its slot: less than its sender's stall
                        timeout */
    struct mixer
        *mixer; /* of a group of a gossip job (agent/gossip); NULL: none. Its row owns it */
};

/* Tensors that cross a boundary between stages; called by the receiver. */
struct work_tensors {
    void (*expect)(struct work *work, const struct transfer *transfer, struct work_expected *out);
    /* TAKE: *slot is the destination of the data. FULL: room_fd will be written to when a slot is
     * free. */
    enum transfer_verdict (*offer)(struct work *work, const struct transfer *transfer,
                                   struct slot_claim *claim, void **slot);
    /* Return whether the claim is still valid: no newer connection has taken over the slot. */
    bool (*holds)(struct work *work, const struct transfer *transfer,
                  const struct slot_claim *claim);
    /* Note that the slot is filled. false: it was taken over. */
    bool (*received)(struct work *work, const struct transfer *transfer,
                     const struct slot_claim *claim);
    /* Note that the body did not arrive. */
    void (*abandon)(struct work *work, const struct transfer *transfer,
                    const struct slot_claim *claim);
    /* Note that a stop mark arrived for that step. */
    void (*mark)(struct work *work, int64_t step);
};

struct work_row {
    /* ---- what follows from the assignment ---- */
    struct needs_data (*needs)(const struct assignment_run *run);
    /* Complete the memory requests for the libtrain stages of the assignment; *more: bytes needed
     * in addition. Return the number of requests. */
    size_t (*memory)(const struct assignment_run *run, const struct model *model,
                     struct memory_request out[WORK_STAGES_MAX], uint64_t *more);
    /* List the peers that must be reachable before the device is ready. Return their count. */
    size_t (*peers)(const struct assignment_run *run, const struct peer *out[WORK_PEERS_MAX]);

    /* ---- the generation's thread ---- */
    /* Allocate all memory of the work and its keeper. The units have no state yet. model: taken,
     * also on failure. ERR_INVALID, ERR_MEMORY. */
    int (*make)(const struct work_config *config, struct model **model, struct work **out,
                struct err *err);
    /* Start the threads that send tensors. The units have their state. */
    int (*start)(struct work *work, const struct work_config *config, struct err *err);
    /* Work until a stop: *version is the final state. ERR_DIVERGED if a loss or gradient is not
     * finite (nothing of that step was applied here); ERR_INVALID for a label outside the model's
     * classes; ERR_CANCELLED. Allocates nothing. */
    int (*loop)(struct work *work, const struct work_listener *listener, int64_t *version,
                struct err *err);
    /* End the threads of start, after cancel. */
    void (*release)(struct work *work);
    /* Free the work after its last reference was released. */
    void (*free)(struct work *work);

    /* ---- the control side; any thread, not at once with release ---- */
    /* Follow the orders: run, stop, hold, away. */
    void (*follow)(struct work *work, const struct orders *orders);
    /* As rounds_take. */
    void (*take_rounds)(struct work *work, const struct round round[REPLICA_KINDS]);
    /* End every wait. */
    void (*cancel)(struct work *work);
    /* Report the last step applied, times, links and open rounds. */
    void (*measure)(struct work *work, struct heartbeat *out);

    /* For a group (agent/gossip); both NULL: the strategy has no groups. Take the matches of an
     * assignment; note that the records of that report are stored. */
    void (*mix)(struct work *work, const struct mix_duty *duty);
    void (*mixes_stored)(struct work *work, const struct mix_report *report);
    /* Called after the loop has ended with success; runs until cancel. NULL: nothing is left to
     * do. */
    void (*linger)(struct work *work);

    /* Handles tensors that cross a stage boundary; NULL: there are none. */
    const struct work_tensors *tensors;
};

static inline struct work *work_retain(struct work *work)
{
    (void)atomic_fetch_add(&work->references, 1);
    return work;
}

static inline void work_release(struct work **work)
{
    if (*work && atomic_fetch_sub(&(*work)->references, 1) == 1) {
        (*work)->row->free(*work);
    }
    *work = NULL;
}

#endif
