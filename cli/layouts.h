/* layouts.h: which fields of an answer its table shows. Constant; any thread. */
#ifndef CLI_LAYOUTS_H
#define CLI_LAYOUTS_H

#include <stdbool.h>
#include <stddef.h>

/* How a value is written. Null and absent values are "-". */
enum cell {
    CELL_TEXT,    /* texts as they are, true and false, numbers in their shortest form */
    CELL_STATE,   /* a text, and the flags of the same row that are set: "online,cordoned" */
    CELL_DEVICE,  /* the name of the device with this id, if it is known */
    CELL_DEVICES, /* the same for a list of ids or of objects with a name */
    CELL_SECONDS, /* "1.2 s", "35 ms" */
    CELL_BYTES,   /* "1.5 MiB" */
    CELL_SHARE,   /* a fraction as "46 %" */
    CELL_RANGE,   /* an object of `first` and `end`, one past the last: "0-3" */
    CELL_NUMBERS, /* a list of whole numbers, or of objects with a group, that rise: "0-3,7" */
    CELL_AGE,     /* the time since then: "35s", "12m", "3h", "9d" */
    CELL_SHORT,   /* the first 12 characters */
};

struct column {
    const char *title;
    const char *path; /* "progress/step"; "." is the index of the row */
    enum cell cell;
    bool wide;         /* --format wide only */
    const char *until; /* path of a second value, written after a slash: "46/93"; NULL: none */
};

struct layout {
    const char *rows; /* path of the list of rows; "": the answer is the one row */
    const char *id;   /* path of what --quiet writes of a row */
    const struct column *column;
    size_t column_count;
    bool pages; /* the answer is a page: the request takes limit and cursor */
    /* Of the answer itself, a line each after its rows; NULL: none. */
    const struct column *summary;
    size_t summary_count;
    /* Layouts that take the place of this one where the answer has their rows; ends with NULL. */
    const struct layout *const *variant;
};

extern const struct layout layout_jobs, layout_job, layout_plans, layout_plan, layout_incidents,
    layout_incident, layout_metrics, layout_mixes, layout_replicas, layout_devices, layout_device,
    layout_links, layout_measurements, layout_datasets, layout_dataset, layout_models,
    layout_model_units, layout_model_row, layout_checkpoints, layout_checkpoint, layout_preview,
    layout_forecast, layout_version, layout_contexts, layout_tokens, layout_token, layout_audit,
    layout_findings;

#endif
