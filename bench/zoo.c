/* The models of the zoo: parameters, FLOPs and activation bytes, counted from the descriptions
 * alone
 *
 *   zoo
 *
 * Each model for the samples it is usually trained on; all numbers but the parameters are per
 * sample. Nothing is timed: the same on every machine. docs/models.md has this table. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "libtrain/description/description.h"
#include "libtrain/description/zoo.h"
#include "libtrain/model/cost.h"
#include "libtrain/model/model.h"

/* A model's costs, summed over its units. */
struct row {
    const char *name;
    char input[32];
    const struct model_fit *fit;
    size_t units;
    uint64_t parameters;
    double forward_flops, backward_flops;
    uint64_t activation_bytes; /* kept from forward to backward */
    uint64_t border_bytes_min; /* of the smallest border between two units */
    double largest_unit_share; /* of the FLOPs of a step */
};

static void count(const struct model *model, struct row *row)
{
    static struct unit_cost cost[MODEL_UNITS_MAX];
    double largest = 0;
    cost_count(model, cost);
    row->units = model->unit_count;
    row->border_bytes_min = UINT64_MAX;
    for (size_t i = 0; i < model->unit_count; i++) {
        double flops = cost[i].forward_flops + cost[i].backward_flops;
        largest = flops > largest ? flops : largest;
        row->parameters += cost[i].parameter_bytes / sizeof(float);
        row->forward_flops += cost[i].forward_flops;
        row->backward_flops += cost[i].backward_flops;
        row->activation_bytes += cost[i].activation_bytes;
        if (i + 1 < model->unit_count && cost[i].output_bytes < row->border_bytes_min) {
            row->border_bytes_min = cost[i].output_bytes;
        }
    }
    row->largest_unit_share = largest / (row->forward_flops + row->backward_flops);
}

static int make_row(const char *name, struct row *row, struct err *err)
{
    struct model *model AUTO(model_free) = NULL;
    const char *text = zoo_text(name);
    const struct model_fit *fit = zoo_fit(name);
    if (!fit) {
        return err_set(err, ERR_NOT_FOUND, "model '%s': no usual samples", name);
    }
    json_t *description = NULL;
    int rc = json_parse(text, strlen(text), &description, err);
    rc = rc ? rc : description_parse(description, fit, &model, NULL, err);
    json_decref(description);
    if (rc) {
        return err_wrap(err, "model '%s'", name);
    }
    *row = (struct row){.name = name, .fit = fit};
    (void)snprintf(row->input, sizeof(row->input), "%" PRIu32 " x %" PRIu32 " x %" PRIu32,
                   fit->input.h, fit->input.w, fit->input.c);
    count(model, row);
    return 0;
}

/* Digits after the decimal point, so that a number has about three in all. */
static int digits(double value)
{
    return value < 1 ? 3 : value < 100 ? 1 : 0;
}

static void print_row(const struct row *row)
{
    double forward = row->forward_flops / 1e6;
    double backward = row->backward_flops / 1e6;
    double activations = (double)row->activation_bytes / 1e3;
    printf("| `%s` | %s | %" PRIu32 " | %zu | %" PRIu64 " | %.*f | %.*f | %.0f | %.0f %% |\n",
           row->name, row->input, row->fit->classes, row->units, row->parameters, digits(forward),
           forward, digits(backward), backward, activations, 100 * row->largest_unit_share);
}

/* The last line: one JSON object. */
static void print_json(const struct row *row, size_t count)
{
    printf("{\"bench\": \"zoo\", \"rows\": [");
    for (size_t i = 0; i < count; i++, row++) {
        printf("%s{\"model\": \"%s\", \"input\": [%" PRIu32 ", %" PRIu32 ", %" PRIu32
               "], \"classes\": %" PRIu32 ", \"units\": %zu, \"parameters\": %" PRIu64
               ", \"forward_flops\": %.0f, \"backward_flops\": %.0f, "
               "\"activation_bytes\": %" PRIu64 ", \"border_bytes_min\": %" PRIu64
               ", \"largest_unit_share\": %.4f}",
               i ? ", " : "", row->name, row->fit->input.h, row->fit->input.w, row->fit->input.c,
               row->fit->classes, row->units, row->parameters, row->forward_flops,
               row->backward_flops, row->activation_bytes, row->border_bytes_min,
               row->largest_unit_share);
    }
    printf("]}\n");
}

int main(int argc, char **argv)
{
    enum { ROWS_MAX = 64 };
    static struct row row[ROWS_MAX];
    struct err err = {0};
    size_t rows = 0;
    (void)argv;
    if (argc != 1) {
        fprintf(stderr, "usage: zoo\n");
        return 2;
    }
    printf("| name | input | classes | units | parameters | forward MFLOP | backward MFLOP | "
           "activations kB | largest "
           "unit |\n|---|---|--:|--:|--:|--:|--:|--:|--:|\n");
    for (; rows < ROWS_MAX && zoo_name(rows); rows++) {
        if (make_row(zoo_name(rows), &row[rows], &err)) {
            fprintf(stderr, "zoo: %s\n", err.text);
            return 1;
        }
        print_row(&row[rows]);
    }
    print_json(row, rows);
    return 0;
}
