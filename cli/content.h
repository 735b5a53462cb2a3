/* content.h: commands that move files: uploads of data sets and checkpoints, downloads. */
#ifndef CLI_CONTENT_H
#define CLI_CONTENT_H

#include "cli/session.h"
#include "cli/upload.h"

/* Upload the file or directory of the command ("-": standard input) and show the answer. */
NODISCARD int content_put(struct session *session, struct err *err);
/* With --output download the content, else show the record. */
NODISCARD int content_get(struct session *session, struct err *err);
/* Send an upload to a path of the API; the answer stays in session->api. */
NODISCARD int content_send(struct session *session, const char *method, const char *target,
                           struct upload *upload, struct err *err);
/* Download a path of the API into a file ("-": session->out), which appears when it is whole. */
NODISCARD int content_fetch(struct session *session, const char *target, const char *path,
                            struct err *err);

#endif
