/* device_event.h: the inputs of the coordinator's core that come from devices or are about one.
 * Part of event.h. Pure. */
#ifndef COORDINATOR_CORE_DEVICE_EVENT_H
#define COORDINATOR_CORE_DEVICE_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include "schema/device.h"
#include "schema/heartbeat.h"

/* The edge has checked the token and, with TLS, that the caller has the key. */
struct event_join {
    const struct join_request *request;
    char token[ID_SIZE];     /* "": the coordinator has no tokens */
    bool pending;            /* a user must accept the device */
    struct device_id device; /* the request's key replaces the key of this device; "": new device */
};

struct event_enroll {
    const struct enroll_request *request;
    const char *source; /* the address that the agent calls from, for people */
};

struct event_heartbeat {
    const struct heartbeat *heartbeat;
};

enum device_verb {
    DEVICE_ACCEPT,
    DEVICE_RENAME,
    DEVICE_CORDON,
    DEVICE_UNCORDON,
    DEVICE_DRAIN,
    DEVICE_UNDRAIN,
    DEVICE_DELETE,
};
struct event_device_verb {
    struct device_id device;
    enum device_verb verb;
    char name[NAME_SIZE]; /* DEVICE_RENAME */
    int64_t if_revision;  /* 0: any */
};

/* The edge has checked the device's boot. */
struct event_contact {
    struct device_id device;
};

struct event_poll_broken {
    struct device_id device;
};

#endif
