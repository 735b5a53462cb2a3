#include "schema/servers_preview.h"

static const char *const way_names[] = {[SERVERS_WAY_NONE] = "none",
                                        [SERVERS_WAY_SINGLE] = "single",
                                        [SERVERS_WAY_PIPELINE] = "pipeline",
                                        [SERVERS_WAY_PARAMETER_SERVER] = "parameter_server",
                                        NULL};

#define SECONDS(member, name, text)                                                                \
    MEMBER_DOUBLE(struct servers_preview, member, name, FIELD_REQUIRED | FIELD_NULLABLE, 0, 0,     \
                  .about = (text))

static const struct field preview_fields[] = {
    MEMBER_ENUM(struct servers_preview, transfers, "transfers", FIELD_REQUIRED, transfers_names,
                .about = "The transfers of the plan. With `auto` the plan takes the faster of "
                         "`optimal` and `stream`. Without a plan: the transfers of the job."),
    SECONDS(step_seconds, "step_seconds", "Seconds of a step of the plan; null: there is no plan."),
    SECONDS(optimal_seconds, "optimal_step_seconds",
            "Seconds of a step with the transfers `optimal`, on the same devices and with the same "
            "units and shares."),
    SECONDS(whole_seconds, "whole_step_seconds", "The same with the transfers `whole`."),
    SECONDS(layer_seconds, "layer_step_seconds", "The same with the transfers `layer`."),
    SECONDS(layer_window_seconds, "layer_window_step_seconds",
            "The same with the transfers `layer_window`."),
    SECONDS(pipeline_seconds, "pipeline_step_seconds",
            "Seconds of a step of a pipeline on `devices.min` to `devices.max` of the candidates "
            "of the plan, whatever their labels of servers and workers; null: there is no plan."),
    SECONDS(
        single_seconds, "single_step_seconds",
        "Seconds of a step on the fastest of these candidates alone; null: the job fits on none."),
    MEMBER_FORM(struct servers_preview, single_device.text, "single_device",
                FIELD_REQUIRED | FIELD_NULLABLE, &device_id_form,
                .about = "The device of `single_step_seconds`."),
    MEMBER_TEXT(struct servers_preview, single_name, "single_name", FIELD_REQUIRED | FIELD_NULLABLE,
                .about = "The name of this device."),
    MEMBER_ENUM(struct servers_preview, fastest, "fastest", FIELD_REQUIRED, way_names,
                .about = "The way with the shortest step. Of equal ways it is the first in the "
                         "list of values. none: no way has a plan."),
};
const struct record servers_preview_record = RECORD_WITH(
    struct servers_preview, "parameter_server_preview", preview_fields, .answer = true,
    .about = "The step of a job of servers and workers, compared with other ways to train.");
