/* device.h: a device as the API shows it, and how it enrols. Plain structs; wire form by the
 * records below. */
#ifndef SCHEMA_DEVICE_H
#define SCHEMA_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/record.h"
#include "schema/id.h"
#include "schema/limits.h"
#include "schema/offer.h"

enum device_state {
    DEVICE_JOINED, /* its agent has not enrolled yet */
    DEVICE_ONLINE,
    DEVICE_SUSPECT,      /* two heartbeats missed */
    DEVICE_DISCONNECTED, /* socket refused, lease still running */
    DEVICE_LOST,         /* lease over */
    DEVICE_REMOVED,
};
extern const char *const device_state_names[];

struct label {
    char key[NAME_SIZE];
    char value[NAME_SIZE];
};

struct device_inventory {
    char hostname[NAME_SIZE];
    char os[NAME_SIZE];
    char architecture[32];
    char cpu[96];
    char agent_version[32];
    int64_t cores;
    int64_t memory_bytes;
    bool zstd; /* the agent supports the codecs with +zstd */
};

/* Measured at enrolment with the threads and the slowdown that the agent will train with. */
struct device_probe {
    double gemm_gflops;
    double memory_bytes_per_second;
    double disk_write_bytes_per_second;
    double processor_share; /* part of the time for which its threads had processors; 0: unknown */
    int64_t free_memory_bytes;
    int64_t threads;
};

/* POST /v1/agent/enroll */
struct enroll_request {
    char name[NAME_SIZE];
    char public_key[SHA256_SIZE]; /* Ed25519, hexadecimal; the same key is the same device */
    char token[128];              /* never used: join_request has the token */
    char boot[ID_SIZE];
    char address[URL_SIZE]; /* URL for its peers: "http://127.0.0.1:7411" */
    char numeric_class[128];
    int64_t protocol;
    struct device_inventory inventory;
    struct device_probe probe;
    struct label label[LABELS_MAX];
    size_t label_count;
    struct offer offer[OFFERS_MAX]; /* data sets that never leave it */
    size_t offer_count;
};

struct enroll_reply {
    struct device_id device;
    int64_t protocol; /* the coordinator's */
    int64_t interval_ms;
    bool pending; /* a user must accept the device */
};

/* POST /v1/agent/join: from then on the key may enrol. */
struct join_request {
    char token[JOIN_TOKEN_SIZE]; /* struct join_token */
    char name[NAME_SIZE];
    char public_key[SHA256_SIZE];
    int64_t protocol;
};

struct join_reply {
    struct device_id device;
    char name[NAME_SIZE];
    bool pending;
    int64_t time_ms; /* the coordinator's wall time, because the machine's clock may be wrong */
};

/* PATCH /v1/devices/{id} */
struct device_patch {
    char name[NAME_SIZE];
};

struct device {
    struct device_id id;
    int64_t revision;
    char name[NAME_SIZE];
    int state; /* enum device_state */
    bool cordoned;
    bool draining; /* a user drains it: plans leave it */
    bool leaving;  /* its agent announced that it leaves: plans leave it too */
    bool drained;  /* no job or copy needs it any more */
    bool pending;  /* it has joined, but no user has accepted it: no plan uses it */
    char public_key[SHA256_SIZE];
    char boot[ID_SIZE];       /* secret of the device and the coordinator */
    bool untried;             /* no plan has used it yet */
    bool renamed;             /* a user named it: the name that its agent reports is ignored */
    char join_token[ID_SIZE]; /* the token with which it joined; "": it enrolled without one */
    char address[URL_SIZE];
    char numeric_class[128];
    int64_t protocol;
    struct device_inventory inventory;
    struct device_probe probe;
    struct label label[LABELS_MAX];
    size_t label_count;
    struct offer offer[OFFERS_MAX]; /* data sets that never leave it */
    size_t offer_count;
    struct device_id relayed[RELAYED_MAX]; /* devices that it reaches only through a relay, as last
                                              reported; volatile */
    size_t relayed_count;
    struct job_id job;         /* its present job, or "" */
    int64_t created_ms;        /* wall time */
    int64_t last_seen_ms;      /* wall time; volatile: written to the row only with other changes */
    int64_t resident_bytes;    /* this and the next four: last reported, volatile */
    int64_t free_memory_bytes; /* without the memory that the agent has allocated; 0: unknown */
    double busy_share; /* the part of its steps in which it computed; 0: it does not train */
    int64_t replica_bytes_sent, replica_bytes_written; /* since its boot */
};

/* A label as a member of {"key": "value"}: element of MEMBER_MAP. */
extern const struct record label_record;
extern const struct record enroll_request_record;
extern const struct record enroll_reply_record;
extern const struct record join_request_record;
extern const struct record join_reply_record;
extern const struct record device_patch_record;
extern const struct record device_record;
/* The row in the store. The API does not show the boot, which gives access to assignments. */
extern const struct record device_row_record;

#endif
