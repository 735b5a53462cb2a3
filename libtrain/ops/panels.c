#include "libtrain/ops/panels.h"

#include <string.h>

#include "base/size.h"
#include "libtrain/backend/product.h"

struct panels_job {
    const float *from;
    size_t rows, columns;
    bool transposed;
    float *panels;
};

static void pack_panel(const void *arg, size_t task, size_t worker)
{
    const struct panels_job *job = arg;
    (void)worker;
    size_t first = task * PRODUCT_PANEL;
    size_t columns = job->columns - first < PRODUCT_PANEL ? job->columns - first : PRODUCT_PANEL;
    float *panel = job->panels + first * job->rows;
    for (size_t k = 0; k < job->rows; k++) {
        float *row = panel + k * PRODUCT_PANEL;
        memset(row + columns, 0, (PRODUCT_PANEL - columns) * sizeof(float));
        if (!job->transposed) {
            memcpy(row, job->from + k * job->columns + first, columns * sizeof(float));
            continue;
        }
        for (size_t n = 0; n < columns; n++) {
            row[n] = job->from[(first + n) * job->rows + k];
        }
    }
}

void panels_pack(const struct compute *compute, const float *from, size_t rows, size_t columns,
                 bool transposed, float *panels)
{
    const struct panels_job job = {
        .from = from, .rows = rows, .columns = columns, .transposed = transposed, .panels = panels};
    pool_run(compute->pool, size_divide_up(columns, PRODUCT_PANEL), pack_panel, &job);
}
