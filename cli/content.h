/* content.h: commands that move files: uploads of data sets and checkpoints, downloads. */
#ifndef CLI_CONTENT_H
#define CLI_CONTENT_H

#include "cli/session.h"

/* Upload the file of the command ("-": standard input) and show the answer. */
NODISCARD int content_put(struct session *session, struct err *err);
/* With --output download the content, else show the record. */
NODISCARD int content_get(struct session *session, struct err *err);
/* Download a path of the API into a file ("-": session->out), which appears when it is whole. */
NODISCARD int content_fetch(struct session *session, const char *target, const char *path,
                            struct err *err);

#endif
