#include "agent/offline/continuation.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/offline/predict_report.h"
#include "libtrain/train.h"

#define BYTE_VALUES (UINT8_MAX + 1)

/* Find the most probable byte after the first `size` bytes of a text, from the last bytes that fit
 * the model's positions. */
static int next_byte(const struct continuation *continuation, const unsigned char *text,
                     size_t size, unsigned char *out, struct err *err)
{
    const size_t positions = continuation->model->positions;
    const size_t classes = continuation->model->classes;
    const size_t seen = size < positions ? size : positions;
    memset(continuation->input, 0, positions); /* a causal model ignores the bytes after `seen` */
    memcpy(continuation->input, text + size - seen, seen);
    int rc = train_evaluate(continuation->stage, 1, continuation->input, continuation->scores, NULL,
                            NULL, NULL, err);
    const float *scores = continuation->scores + (seen - 1) * classes;
    rc = rc ? rc : report_check(scores, classes, 0, err);
    *out = (unsigned char)train_best(scores, classes < BYTE_VALUES ? classes : BYTE_VALUES);
    return rc;
}

static int check_prompt(const struct continuation *continuation, struct err *err)
{
    const struct model *model = continuation->model;
    if (continuation->prompt_size == 0) {
        return err_set(err, ERR_INVALID, "the prompt is empty; --generate needs at least one byte");
    }
    if (continuation->prompt_size < model->positions && !model_is_causal(model)) {
        return err_set(err, ERR_INVALID,
                       "the prompt has %zu bytes; the model '%s' needs at least %u, because its "
                       "positions attend to later ones",
                       continuation->prompt_size, model->name, model->positions);
    }
    return 0;
}

int continuation_make(const struct continuation *continuation, unsigned char **out, struct err *err)
{
    const size_t count = continuation->count;
    const size_t prompt_size = continuation->prompt_size;
    int rc = check_prompt(continuation, err);
    unsigned char *text = rc ? NULL : malloc(prompt_size + count);
    if (rc == 0 && !text) {
        rc = err_set(err, ERR_MEMORY, "no memory for %zu bytes of text", prompt_size + count);
    }
    if (rc == 0) {
        memcpy(text, continuation->prompt, prompt_size);
    }
    for (size_t i = 0; rc == 0 && i < count; i++) {
        rc = next_byte(continuation, text, prompt_size + i, &text[prompt_size + i], err);
    }
    if (rc == 0) {
        memmove(text, text + prompt_size, count);
        *out = text;
        text = NULL;
    }
    free(text);
    return rc;
}
