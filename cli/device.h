/* device.h: the commands about devices. They write results to out; the caller prints errors. One
 * thread. */
#ifndef CLI_DEVICE_H
#define CLI_DEVICE_H

#include <stdio.h>

#include "cli/api.h"

/* Drain the device, or end its drain (verb "drain", "undrain"), and write it as indented JSON. */
NODISCARD int device_verb(struct api *api, const char *id, const char *verb, FILE *out,
                          struct err *err);

#endif
