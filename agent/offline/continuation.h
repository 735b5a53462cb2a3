/* continuation.h: the continuation of a text by a trained model: greedy decoding, one byte at a
 * time. For predict.c; one thread. */
#ifndef AGENT_OFFLINE_CONTINUATION_H
#define AGENT_OFFLINE_CONTINUATION_H

#include <stddef.h>

#include "base/err.h"
#include "libtrain/train.h"

struct continuation {
    struct train_stage *stage; /* the whole model, loaded */
    const struct model *model; /* one byte a position */
    const unsigned char *prompt;
    size_t prompt_size;   /* the last bytes, at most model->positions */
    size_t count;         /* bytes to generate */
    unsigned char *input; /* scratch [model->positions] */
    float *scores;        /* scratch [model->positions][model->classes] */
};

/* Generate the continuation. *out: `count` bytes, freed by the caller. Each is the most probable
 * byte after the bytes before it. ERR_INVALID for an empty prompt and, if the model's positions see
 * later ones, for a prompt that does not fill them; ERR_DIVERGED for scores that are not finite;
 * ERR_MEMORY. */
NODISCARD int continuation_make(const struct continuation *continuation, unsigned char **out,
                                struct err *err);

#endif
