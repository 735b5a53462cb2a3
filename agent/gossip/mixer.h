/* mixer.h: the mixes of one group (strategy gossip): core/mixing with the memory and the threads
 * that it needs. Owned by the work of the group's device, which trains all units in one stage.
 *
 * The compute thread copies and applies at step boundaries (mixer_boundary). Two threads, one for
 * pairs and one for averages, fetch the copies of other groups; the second one also sends an
 * average that this group computes to the coordinator. The receiver serves copies (mix_routes.h),
 * the control thread brings matches and reports. mixer_new allocates all memory for states. */
#ifndef AGENT_GOSSIP_MIXER_H
#define AGENT_GOSSIP_MIXER_H

#include "agent/core/mixing.h"
#include "agent/runtime/work.h"
#include "base/buf.h"

struct mixer;

/* Of one evaluation of an average. */
struct mix_figures {
    double loss, accuracy; /* means */
    struct mix_tests sums; /* reported of held-out samples */
};

struct mixer_config {
    const struct work_config *work; /* read by mixer_new only, as its run, which has_mix */
    struct keeper *keeper;          /* borrowed; one version, synchronous */
    /* Called by mixer_boundary: evaluate the keeper's state on the test set, or on the samples that
     * the device holds out. false: it cannot. NULL: the job has neither. */
    bool (*evaluate)(void *arg, struct mix_figures *out);
    /* Called by mixer_boundary: the mean loss of the keeper's state of MIX_PROBE_SAMPLES training
     * samples, the same for all groups. false: it cannot. */
    bool (*probe)(void *arg, double *loss);
    /* Called on any thread: mixer_is_due has become true. */
    void (*wake)(void *arg);
    void *arg;
};

/* Bytes that the mixer of such a group allocates; 0 for a model that has no plan. */
uint64_t mixer_bytes(const struct model *model, const struct mix_duty *duty);

NODISCARD int mixer_new(const struct mixer_config *config, struct mixer **out, struct err *err);
/* After mixer_stop. */
void mixer_free(struct mixer **mixer);
/* Start the threads. */
NODISCARD int mixer_start(struct mixer *mixer, struct err *err);
/* The keeper was cancelled: end all waits. */
void mixer_cancel(struct mixer *mixer);
/* After mixer_cancel: wait for the end of the threads. */
void mixer_stop(struct mixer *mixer);

/* ---- the control side; any thread ---- */

/* A new assignment: take its matches. One of another generation of the group is ignored. */
void mixer_take(struct mixer *mixer, const struct mix_duty *duty);
/* The coordinator has stored the records of that report. */
void mixer_stored(struct mixer *mixer, const struct mix_report *report);
void mixer_report(struct mixer *mixer, struct heartbeat *out);

/* ---- the compute thread ---- */

/* A step has ended. */
void mixer_note_step(struct mixer *mixer, double now_seconds);
/* Whether something is to be done at the boundary after the step `version`. Cheap. */
bool mixer_is_due(struct mixer *mixer, int64_t version);
/* Whether no step is to be made after the step `version` until that changes; config.wake is called
 * then. Cheap. */
bool mixer_holds(const struct mixer *mixer, int64_t version);
/* Do it: copy, evaluate an average, apply. */
void mixer_boundary(struct mixer *mixer, int64_t version);
/* The group stops: it gives copies and averages, but moves no more. */
void mixer_close(struct mixer *mixer);
/* Whether the coordinator has stored all records of its moves: then its state may be saved. `wake`
 * says so. */
bool mixer_is_logged(struct mixer *mixer);
/* The learning rate of the next step: the parent's in the step that the last mix names. */
double mixer_rate(const struct mixer *mixer);

/* ---- the receiver ---- */

/* A copy, or an average, that is being sent. */
struct mixer_reply {
    struct mixer_slab *slab;
    struct buf *header;
    size_t bytes; /* that follow the header */
};
/* What another group asks for. *out: of SERVE, to be given back by mixer_end_reply: until then the
 * copy stays as it is. */
enum mixing_verdict mixer_serve(struct mixer *mixer, struct mix_xid xid, bool average,
                                double parked_seconds, struct mixer_reply *out);
/* Read bytes after the header. false: the reader was too slow, its match is over. */
bool mixer_read(struct mixer *mixer, const struct mixer_reply *reply, size_t at, void *out,
                size_t size);
void mixer_end_reply(struct mixer *mixer, struct mixer_reply *reply);
bool mixer_is_cancelled(const struct mixer *mixer);

#endif
