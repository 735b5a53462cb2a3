/* routes.h: the one table of the API's routes, and the handlers by resource. Every handler has the
 * coordinator as its context and runs on the loop's thread. */
#ifndef COORDINATOR_HTTP_ROUTES_H
#define COORDINATOR_HTTP_ROUTES_H

#include "base/err.h"
#include "net/http_server.h"
#include "schema/token.h"

struct coordinator;

/* A route that collects its body, and one that streams it. The role is the first argument, so that
 * a route without a role does not compile. */
#define ROUTE(who, verb, path, handler, body_bytes)                                                \
    {                                                                                              \
        .method = (verb), .pattern = (path), .handle = (handler), .body_max = (body_bytes),        \
        .role = ROLE_##who                                                                         \
    }
#define UPLOAD_ROUTE(who, verb, path, body_sink)                                                   \
    {                                                                                              \
        .method = (verb), .pattern = (path), .sink = &(body_sink), .role = ROLE_##who              \
    }

/* Listen with all routes. */
NODISCARD int routes_open(struct coordinator *coordinator, struct http_server **out,
                          struct err *err);
/* Log the first rejections of a series (too few connections or too little memory). Call it
 * regularly. */
void routes_look(struct coordinator *coordinator);

#define HANDLER(name) void name(void *context, struct http_exchange *exchange)

/* service.c */
HANDLER(serve_health);
HANDLER(serve_ready);
HANDLER(serve_version);
HANDLER(serve_authority);
HANDLER(serve_openapi);
HANDLER(serve_events);
/* prometheus.c */
HANDLER(serve_prometheus);
/* devices.c */
HANDLER(serve_devices);
HANDLER(serve_device);
HANDLER(serve_device_patch);
HANDLER(serve_device_accept);
HANDLER(serve_device_delete);
HANDLER(serve_dataset_delete);
HANDLER(serve_model_delete);
HANDLER(serve_checkpoint_delete);
HANDLER(serve_job_delete);
HANDLER(serve_incident_delete);
HANDLER(serve_device_cordon);
HANDLER(serve_device_uncordon);
HANDLER(serve_device_drain);
HANDLER(serve_device_undrain);
/* measured.c */
HANDLER(serve_measurements);
HANDLER(serve_device_links);
HANDLER(serve_links);
/* models.c */
HANDLER(serve_models);
HANDLER(serve_model);
HANDLER(serve_model_post);
/* datasets.c */
HANDLER(serve_dataset);
HANDLER(serve_dataset_class_names);
HANDLER(serve_dataset_content);
extern const struct http_sink dataset_sink;
/* dataset_lists.c */
HANDLER(serve_datasets);
/* job_submit.c */
HANDLER(serve_job_post);
/* jobs.c */
HANDLER(serve_jobs);
HANDLER(serve_job);
HANDLER(serve_job_patch);
HANDLER(serve_job_pause);
HANDLER(serve_job_resume);
HANDLER(serve_job_cancel);
HANDLER(serve_job_export);
HANDLER(serve_job_clone);
HANDLER(serve_job_replan);
/* records.c: plans, checkpoints and kernels of a job */
HANDLER(serve_plans);
HANDLER(serve_plan);
HANDLER(serve_checkpoints);
HANDLER(serve_job_groups);
HANDLER(serve_job_group_spec);
HANDLER(serve_job_kernels);
HANDLER(serve_job_mixes);
/* metrics.c */
HANDLER(serve_metrics);
/* checkpoints.c */
HANDLER(serve_all_checkpoints);
HANDLER(serve_checkpoint);
HANDLER(serve_checkpoint_content);
extern const struct http_sink checkpoint_sink;
/* incidents.c */
HANDLER(serve_incidents);
HANDLER(serve_job_incidents);
HANDLER(serve_incident);
/* replicas.c */
HANDLER(serve_replicas);
HANDLER(serve_plan_question);
/* predictions.c */
HANDLER(serve_prediction);
/* tokens.c */
HANDLER(serve_tokens);
HANDLER(serve_token);
HANDLER(serve_own_token);
HANDLER(serve_token_post);
HANDLER(serve_token_revoke);
/* audit.c */
HANDLER(serve_audit);
/* join.c */
HANDLER(serve_join);
/* agent.c */
HANDLER(serve_enroll);
HANDLER(serve_heartbeat);
HANDLER(serve_assignment);
HANDLER(serve_blob_get);
HANDLER(serve_agent_dataset);
/* unit_upload.c */
extern const struct http_sink blob_sink, average_sink;

#undef HANDLER

#endif
