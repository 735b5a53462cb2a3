/* model_support.h: models from descriptions as C texts, for the tests of libtrain. One thread. */
#ifndef TESTS_UNIT_LIBTRAIN_DESCRIPTION_MODEL_SUPPORT_H
#define TESTS_UNIT_LIBTRAIN_DESCRIPTION_MODEL_SUPPORT_H

#include "libtrain/description/description.h"
#include "libtrain/model/model.h"

/* Parse a JSON text, which must be valid; the caller calls json_decref. */
json_t *read_json(const char *text);
/* Parse a description; the caller frees *out. */
int parse_model(const char *text, const struct model_fit *fit, struct model **out,
                struct record_faults *faults, struct err *err);
/* A description that must be good; the caller frees it. */
struct model *good_model(const char *text, const struct model_fit *fit);
/* A model of the zoo for samples of h x w x c bytes in 10 classes; one of text takes h bytes, each
 * with the next one as its label. The caller frees it. */
struct model *zoo_model(const char *name, uint32_t h, uint32_t w, uint32_t c);
/* A model of the zoo for the samples that it is usually trained on; the caller frees it. */
struct model *usual_model(const char *name);
/* A model of branches that can be sliced into up to five groups; the caller frees it. */
struct model *branched_model(void);
/* Fail unless the description has a fault at `pointer` whose message holds `part`. */
void assert_fault(const char *text, const struct model_fit *fit, const char *pointer,
                  const char *part);
/* The op of that name; fails if it does not exist. */
const struct op *find_op(const struct model *model, const char *name);

#endif
