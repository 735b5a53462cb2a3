/* zoo.h: the model descriptions in every build, by name. Pure; any thread. */
#ifndef LIBTRAIN_DESCRIPTION_ZOO_H
#define LIBTRAIN_DESCRIPTION_ZOO_H

#include <stddef.h>

#include "libtrain/description/description.h"

/* Return a description of the zoo by name ("lenet5"): borrowed static JSON text, or NULL. */
const char *zoo_text(const char *name);
/* Return the name at `index`, or NULL after the last. */
const char *zoo_name(size_t index);
/* Return the usual training samples of a model of the zoo, for answers without a data set: static,
 * or NULL for an unknown name. */
const struct model_fit *zoo_fit(const char *name);

#endif
