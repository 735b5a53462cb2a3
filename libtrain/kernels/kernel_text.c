#include "libtrain/kernels/kernel_text.h"

#include <string.h>

#include "base/assert.h"
#include "libtrain/kernels/conv2d_kernel.h"
#include "libtrain/kernels/op_workspace.h"

static const char letters[CONV2D_KERNELS] = {
    [CONV2D_BY_SHAPE] = '-',      [CONV2D_COLUMNS] = 'c',     [CONV2D_POINTWISE] = 'p',
    [CONV2D_DEPTHWISE] = 'd',     [CONV2D_DIRECT] = 'x',      [CONV2D_WINOGRAD4] = 'w',
    [CONV2D_ONEDNN_DIRECT] = 'D', [CONV2D_ONEDNN_NHWC] = 'N', [CONV2D_ONEDNN_WINOGRAD] = 'W',
};

size_t kernel_text_length(const struct model *model, size_t first, size_t end)
{
    size_t unit = first, index = 0, length = 0;
    while (model_next_convolution(model, end, &unit, &index)) {
        length += CONV2D_PASSES;
    }
    return length;
}

bool kernel_text_wanted(const struct model *model)
{
    size_t unit = 0, index = 0, open = 0;
    const struct op *op = model_next_convolution(model, model->unit_count, &unit, &index);
    for (; op; op = model_next_convolution(model, model->unit_count, &unit, &index)) {
        for (size_t pass = 0; pass < CONV2D_PASSES; pass++) {
            open += op->kernels.pass[pass] == CONV2D_BY_SHAPE;
        }
    }
    return open > 0 && kernel_text_length(model, 0, model->unit_count) < KERNEL_TEXT_SIZE;
}

void kernel_text_write(const struct model *model, size_t first, size_t end, char *out)
{
    size_t unit = first, index = 0;
    const struct op *op = model_next_convolution(model, end, &unit, &index);
    for (; op; op = model_next_convolution(model, end, &unit, &index)) {
        for (size_t pass = 0; pass < CONV2D_PASSES; pass++) {
            ASSERT(op->kernels.pass[pass] != CONV2D_BY_SHAPE);
            *out++ = letters[op->kernels.pass[pass]];
        }
    }
    *out = '\0';
}

/* Return the kernel of a letter; CONV2D_BY_SHAPE for an unknown letter. */
static enum conv2d_kernel kernel_of(char letter)
{
    size_t kernel = CONV2D_KERNELS - 1;
    while (kernel > CONV2D_BY_SHAPE && letters[kernel] != letter) {
        kernel--;
    }
    return (enum conv2d_kernel)kernel;
}

bool kernel_text_fits(const struct model *model, size_t first, size_t end, const char *text)
{
    size_t unit = first, index = 0;
    if (strlen(text) != kernel_text_length(model, first, end)) {
        return false;
    }
    const struct op *op = model_next_convolution(model, end, &unit, &index);
    for (; op; op = model_next_convolution(model, end, &unit, &index)) {
        struct conv2d_shape shape = op_conv2d_shape(op, 1);
        for (size_t pass = 0; pass < CONV2D_PASSES; pass++) {
            enum conv2d_kernel kernel = kernel_of(*text++);
            if (kernel == CONV2D_BY_SHAPE ||
                !conv2d_kernel_can(kernel, &shape, (enum conv2d_pass)pass)) {
                return false;
            }
        }
    }
    return true;
}

void kernel_text_apply(struct model *model, const char *text)
{
    ASSERT(kernel_text_fits(model, 0, model->unit_count, text));
    size_t unit = 0, index = 0;
    struct op *op = model_next_convolution(model, model->unit_count, &unit, &index);
    for (; op; op = model_next_convolution(model, model->unit_count, &unit, &index)) {
        for (size_t pass = 0; pass < CONV2D_PASSES; pass++, text++) {
            bool open = op->kernels.pass[pass] == CONV2D_BY_SHAPE;
            op->kernels.pass[pass] = open ? (uint8_t)kernel_of(*text) : op->kernels.pass[pass];
        }
    }
}
