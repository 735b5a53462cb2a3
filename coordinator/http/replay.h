/* replay.h: Idempotency-Key: for a day the same key and body get the same answer, and the same key
 * with another body is rejected. The answer is stored by the turn in the transaction of the effect.
 * The loop's thread only. */
#ifndef COORDINATOR_HTTP_REPLAY_H
#define COORDINATOR_HTTP_REPLAY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "coordinator/coordinator.h"

#define REPLAY_ROW_ID_SIZE (REPLAY_KEY_SIZE + 16)
/* The most stored answers. More new keys are rejected, so that each answer stays for its day. */
#define REPLAYS_MAX 100000
/* Write the row id of a key used at wall_ms. It begins with the day, so that the oldest rows are
 * deleted first. */
void replay_row_id(char out[REPLAY_ROW_ID_SIZE], int64_t wall_ms, const char *key);
/* Store the answer to a request with a key, in the open transaction of its effect. */
NODISCARD int replay_store(struct coordinator *coordinator, const struct turn_extra *extra,
                           const struct turn_reply *reply, struct err *err);

/* Check the request's key. Returns true to continue, with the key in *extra for turn_event; false
 * if the stored answer, or a problem, was sent. */
bool replay_check(struct coordinator *coordinator, struct http_exchange *exchange,
                  struct turn_extra *extra);

#endif
