/* answer.h: make the request of a command and show the answer in the format that was asked for. */
#ifndef CLI_ANSWER_H
#define CLI_ANSWER_H

#include "cli/session.h"

/* Make the session's request and show its answer; of a list, every page. */
NODISCARD int answer_request(struct session *session, struct err *err);
/* Show an answer that is there. */
NODISCARD int answer_show(struct session *session, const json_t *answer, struct err *err);

#endif
