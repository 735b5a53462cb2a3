/* kernel_text.h: the kernels of a model's convolutions as short text, for the measurements of
 * devices. It has three letters per convolution, one for each pass (enum conv2d_pass), in the
 * model's order. c columns, p pointwise, d depthwise, x direct, w winograd4; D, N and W are
 * oneDNN's direct, nhwc and winograd. The texts of adjacent ranges of units, concatenated, are the
 * text of the whole range. Pure; any thread. */
#ifndef LIBTRAIN_KERNELS_KERNEL_TEXT_H
#define LIBTRAIN_KERNELS_KERNEL_TEXT_H

#include "libtrain/model/model.h"

#define KERNEL_TEXT_SIZE 3073 /* 1024 convolutions and the final NUL */

/* Number of letters for the units [first, end). It cannot overflow for any valid model. */
size_t kernel_text_length(const struct model *model, size_t first, size_t end);

/* Whether there is something to measure: some pass of a convolution names no kernel, and the whole
 * model's text fits KERNEL_TEXT_SIZE. */
bool kernel_text_wanted(const struct model *model);

/* Write the text of the units [first, end), NUL-terminated. All their passes name a kernel. */
void kernel_text_write(const struct model *model, size_t first, size_t end, char *out);

/* Whether the text is valid for the units [first, end): its length, its letters, and kernels that
 * support their passes. */
bool kernel_text_fits(const struct model *model, size_t first, size_t end, const char *text);

/* Store a valid text of the whole model in it. Kernels that the model names already stay. */
void kernel_text_apply(struct model *model, const char *text);

#endif
