/* limits.h: every bound that both sides of the wire must agree on: sizes of bodies, lengths of
 * names, numbers of objects. */
#ifndef SCHEMA_LIMITS_H
#define SCHEMA_LIMITS_H

/* The protocol between coordinator and agents. This build speaks PROTOCOL_VERSION; a coordinator
 * also takes agents down to PROTOCOL_VERSION_MIN. Rule for a change of a message between the two:
 * PROTOCOL_VERSION rises by one, PROTOCOL_VERSION_MIN stays below it, and the new fields state the
 * number of the version (`.since = 3`, base/record_table.h). Tables are strict, so each agent is
 * read and answered by the fields of the version of its enrolment. Coordinators are upgraded first.
 * Any other version is refused at enrolment with the problem protocol_version, which names both
 * sides' numbers. */
#define PROTOCOL_VERSION 6
#define PROTOCOL_VERSION_MIN 1

#define ID_SIZE 32     /* "job_" + 26 characters + NUL, rounded up */
#define NAME_SIZE 64   /* names that users give: [a-z0-9][a-z0-9._-]* */
#define SHA256_SIZE 65 /* hexadecimal + NUL */
#define URL_SIZE 128
#define TICKET_SIZE 65
#define TOKEN_TEXT_SIZE 47  /* "pl_" + 43 characters + NUL */
#define JOIN_TOKEN_SIZE 112 /* the same, "_" and a SHA-256 */
#define MESSAGE_SIZE 256
#define REASON_SIZE 48
#define READING_SIZE 128 /* = READING_TEXT_MAX */

#define DEVICES_MAX 4096
#define JOBS_LIVE_MAX 1024   /* not yet ended */
#define STAGES_MAX 32        /* devices of one job */
#define PLAN_LEFT_OUT_MAX 32 /* devices that a plan shows as left out */
#define LABELS_MAX 16
#define TOKENS_MAX 256                             /* rows, revoked and expired ones included */
#define TOKEN_SECONDS_MAX (10ll * 366 * 24 * 3600) /* until a token expires */
#define TOKEN_JOIN_SECONDS (24ll * 3600)           /* the default expiry of a join token */
#define TOKEN_USES_MAX 4096                        /* = DEVICES_MAX */
#define UNITS_MAX 256                              /* = MODEL_UNITS_MAX */
#define POSITIONS_MAX 32767                        /* = DATASET_POSITIONS_MAX */
#define COUNTED_CLASSES_MAX 1024                   /* = DATASET_COUNTED_CLASSES_MAX */
#define OFFERS_MAX 4                               /* data sets that a device offers */
#define OFFER_PARTS_MAX 16                         /* earlier states that an offer names */
#define OFFER_CLASSES_MAX 256 /* with more, the classes of an offer are not counted */
#define DROPS_MAX 16
#define METRICS_MAX 256 /* of one heartbeat */
#define HOLDINGS_MAX 1024
#define LINK_REPORTS_MAX 32 /* of one heartbeat: by device, kind and codec */
#define PEER_REPORTS_MAX 4
#define RELAYS_MAX 4   /* of an assignment, the best first */
#define RELAYED_MAX 8  /* devices that a device reaches only through a relay */
#define PARENTS_MAX 64 /* jobs that consist of groups, not yet ended */
#define GROUPS_MAX 32  /* of a parent, replicas included */
#define GROUP_CLASSES_MAX (2 * COUNTED_CLASSES_MAX) /* each class in two groups at most */
#define LINE_STARTS_MAX 64                          /* recorded starts of a job's lineage */
#define BATCH_MAX 65536
#define MICRO_BATCHES_MAX 1024
#define EPOCHS_MAX 1000000
#define STEPS_MAX 1000000000ll
#define INTEGER_MAX 9007199254740991.0 /* 2^53 - 1: every JSON reader keeps it exactly */

#define JSON_BODY_MAX (2u << 20)
#define DATASET_BYTES_MAX (64ull << 30)
#define BLOB_BYTES_MAX (4ull << 30)
#define LIST_LIMIT_DEFAULT 50
#define LIST_LIMIT_MAX 500
#define METRICS_LIMIT_MAX 10000 /* metrics of one answer */
#define WAIT_SECONDS_MAX 60
#define CALL_RETRY_MS_MAX                                                                          \
    2500 /* an agent repeats a failed call within this time, jitter included */
/* A lease covers the due heartbeat, a heartbeat whose connection died silently (the agent abandons
 * it after one and a half intervals), and the wait until the agent repeats it. docs/protocol.md,
 * "Which timeout is longer". */
#define LEASE_HEARTBEATS_MIN 3
#define IDEMPOTENCY_KEY_SIZE 128

#endif
