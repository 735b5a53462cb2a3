#include "agent/core/transfer.h"

#include <string.h>

const struct transfer_info transfer_table[TRANSFER_KINDS] = {
    [TRANSFER_ACTIVATION] = {.name = "activation",
                             .key = KEY_MICRO_BATCH,
                             .lane = LANE_ACTIVATION,
                             .form = FORM_MICRO_BATCH,
                             .measures_link = true,
                             .coded = true},
    [TRANSFER_GRADIENT] = {.name = "gradient",
                           .back = true,
                           .key = KEY_MICRO_BATCH,
                           .lane = LANE_GRADIENT,
                           .form = FORM_MICRO_BATCH,
                           .measures_link = true,
                           .coded = true},
    [TRANSFER_EVALUATION] = {.name = "evaluation",
                             .key = KEY_MICRO_BATCH,
                             .lane = LANE_ACTIVATION,
                             .form = FORM_TEST},
    [TRANSFER_NORM] =
        {.name = "norm", .back = true, .key = KEY_STEP, .lane = LANE_NORM, .form = FORM_NUMBER},
    [TRANSFER_NORM_TOTAL] = {.name = "norm_total",
                             .key = KEY_STEP,
                             .lane = LANE_TOTAL,
                             .form = FORM_NUMBER},
    [TRANSFER_JUDGED] =
        {.name = "judged", .back = true, .key = KEY_STEP, .lane = LANE_JUDGED, .form = FORM_NUMBER},
};

bool transfer_equal(const struct transfer *a, const struct transfer *b)
{
    return a->kind == b->kind && a->step == b->step && a->micro_batch == b->micro_batch;
}

bool transfer_find(const char *name, enum transfer_kind *out)
{
    for (int kind = 0; kind < TRANSFER_KINDS; kind++) {
        if (strcmp(name, transfer_table[kind].name) == 0) {
            *out = (enum transfer_kind)kind;
            return true;
        }
    }
    return false;
}
