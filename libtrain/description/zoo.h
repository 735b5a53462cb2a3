/* zoo.h: the model descriptions that every build brings along, by name. Pure; any thread. */
#ifndef LIBTRAIN_DESCRIPTION_ZOO_H
#define LIBTRAIN_DESCRIPTION_ZOO_H

#include <stddef.h>

#include "libtrain/description/description.h"

/* A description of the zoo by name ("lenet5"): borrowed static JSON text, or NULL. */
const char *zoo_text(const char *name);
/* The name at `index`, or NULL behind the last. */
const char *zoo_name(size_t index);
/* The samples that a model of the zoo is usually trained on, for answers where no data set is
 * named: static, or NULL where the zoo has no such model. */
const struct model_fit *zoo_fit(const char *name);

#endif
