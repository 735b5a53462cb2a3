/* mixer.h: the mixes of one group (strategy gossip): core/mixing with the memory and the threads
 * that it needs. Owned by the work of the group's device, which trains all units in one stage.
 *
 * The compute thread makes and applies copies at step boundaries (mixer_boundary). One thread for
 * pairs and one for averages fetch the copies of other groups; the latter also sends the averages
 * that this group computes to the coordinator. The receiver serves copies (mix_routes.h), the
 * control thread brings matches and reports. mixer_new allocates all memory for states. */
#ifndef AGENT_GOSSIP_MIXER_H
#define AGENT_GOSSIP_MIXER_H

#include "agent/core/mixing.h"
#include "agent/runtime/work.h"
#include "base/buf.h"

struct mixer;

/* The result of one evaluation of an average. */
struct mix_figures {
    double loss, accuracy; /* means */
    struct mix_tests sums; /* reported for held-out samples */
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

/* Return the bytes that the mixer of such a group allocates; 0 for a model that has no plan. */
uint64_t mixer_bytes(const struct model *model, const struct mix_duty *duty);

NODISCARD int mixer_new(const struct mixer_config *config, struct mixer **out, struct err *err);
/* Free it, after mixer_stop. */
void mixer_free(struct mixer **mixer);
/* Start the threads. */
NODISCARD int mixer_start(struct mixer *mixer, struct err *err);
/* End all waits, because the keeper was cancelled. */
void mixer_cancel(struct mixer *mixer);
/* Wait for the end of the threads, after mixer_cancel. */
void mixer_stop(struct mixer *mixer);

/* ---- the control side; any thread ---- */

/* Take the matches of a new assignment. One for another generation of the group is ignored. */
void mixer_take(struct mixer *mixer, const struct mix_duty *duty);
/* Note that the coordinator has stored the records of that report. */
void mixer_stored(struct mixer *mixer, const struct mix_report *report);
void mixer_report(struct mixer *mixer, struct heartbeat *out);

/* ---- the compute thread ---- */

/* Note that a step has ended. */
void mixer_note_step(struct mixer *mixer, double now_seconds);
/* Return whether mixer_boundary has work at the boundary after the step `version`. Cheap. */
bool mixer_is_due(struct mixer *mixer, int64_t version);
/* Return whether the group must make no step after the step `version` for now. config.wake is
 * called when that changes. Cheap. */
bool mixer_holds(const struct mixer *mixer, int64_t version);
/* Do the work that is due at the boundary: copy, evaluate an average, apply. */
void mixer_boundary(struct mixer *mixer, int64_t version);
/* Stop the group: it still serves copies and averages, but applies no more mixes. */
void mixer_close(struct mixer *mixer);
/* Return whether the coordinator has stored all records of the group's moves, so that its state may
 * be saved. config.wake is called when that changes. */
bool mixer_is_logged(struct mixer *mixer);
/* Return the learning rate of the next step: the parent's rate in the step that the last mix
 * names. */
double mixer_rate(const struct mixer *mixer);

/* ---- the receiver ---- */

/* A copy, or an average, that is being sent. */
struct mixer_reply {
    struct mixer_slab *slab;
    struct buf *header;
    size_t bytes; /* that follow the header */
};
/* Serve a request of another group. *out: with SERVE, to be given back with mixer_end_reply; the
 * copy does not change until then. */
enum mixing_verdict mixer_serve(struct mixer *mixer, struct mix_xid xid, bool average,
                                double parked_seconds, struct mixer_reply *out);
/* Read bytes after the header. false: the reader was too slow, and its match is over. */
bool mixer_read(struct mixer *mixer, const struct mixer_reply *reply, size_t at, void *out,
                size_t size);
void mixer_end_reply(struct mixer *mixer, struct mixer_reply *reply);
bool mixer_is_cancelled(const struct mixer *mixer);

#endif
