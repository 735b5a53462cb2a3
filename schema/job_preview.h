/* job_preview.h: the answer of a dry run: the plan that a job would get now. Wire form by the
 * record below. */
#ifndef SCHEMA_JOB_PREVIEW_H
#define SCHEMA_JOB_PREVIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/record.h"
#include "schema/gossip_preview.h"
#include "schema/id.h"
#include "schema/limits.h"
#include "schema/plan.h"
#include "schema/servers_preview.h"
#include "schema/submodel_preview.h"

#define PREVIEW_LEFT_OUT_MAX (2 * PLAN_LEFT_OUT_MAX)

/* One stage of a preview. */
struct preview_stage {
    struct device_id device;         /* "": hypothetical */
    char name[NAME_SIZE];            /* of the device */
    int64_t first, end;              /* units [first, end) */
    char unit[UNITS_MAX][NAME_SIZE]; /* their names */
    size_t unit_count;
    int64_t in_flight;
    int64_t share_first, share_end; /* as of plan_stage; equal: none */
    int codec;                      /* enum codec, of the link to the next stage */
    int64_t memory_bytes;
    struct plan_memory memory;        /* its parts */
    double predicted_forward_seconds; /* per micro-batch */
    double predicted_backward_seconds;
    double predicted_busy; /* share of the step it computes */
    double predicted_pull_seconds, predicted_push_seconds;
    int64_t pull_segments, push_segments;
};

/* A device that the plan does not use. */
struct preview_left_out {
    struct device_id device; /* "": hypothetical */
    char name[NAME_SIZE];
    int reason;
    double step_seconds_with; /* of the fastest plan found with it; 0: none */
};

/* When the planned job could start. */
enum preview_start {
    PREVIEW_NOW,
    PREVIEW_WHEN_FREE, /* when devices of the plan that are busy now are free */
    PREVIEW_WHEN_MORE, /* no plan: it needs more or larger devices */
};

/* The answer of POST /v1/jobs?dry_run=true: what would happen now. Nearly a megabyte: for the heap.
 */
struct job_preview {
    struct preview_stage stage[STAGES_MAX];
    size_t stage_count; /* 0: no plan; waiting_for says why */
    int starts;         /* enum preview_start */
    struct plan_link link[STAGES_MAX];
    size_t link_count;
    struct plan_bottleneck bottleneck;
    bool optimal;
    double gap;
    struct preview_left_out left_out[PREVIEW_LEFT_OUT_MAX];
    size_t left_out_count;
    struct plan_unbound unbound;
    double predicted_step_seconds;
    double predicted_efficiency; /* fluid bound / predicted step */
    double predicted_total_seconds;
    int64_t steps;                  /* of the whole job */
    char waiting_for[MESSAGE_SIZE]; /* "", or what the job would wait for */
    /* Of a job of sub-models, for which the members above show the target as a pipeline. */
    struct submodel_preview submodel; /* has_submodel */
    bool has_submodel;
    struct gossip_preview gossip; /* the same of a job of strategy gossip; has_gossip */
    bool has_gossip;
    struct servers_preview servers; /* of a job of strategy parameter_server; has_servers */
    bool has_servers;
};
extern const struct record job_preview_record;

#endif
