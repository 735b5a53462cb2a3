/* kernel_text.h: the kernels of a model's convolutions as short text, as devices report what they
 * have measured: three letters for each convolution in the model's order, one for each pass in that
 * of enum conv2d_pass. Each letter names a kernel: c columns, p pointwise, d depthwise, x direct, w
 * winograd4; D, N and W are oneDNN's direct, nhwc and winograd. Texts of ranges of units, one
 * behind the other, are the text of the whole range. Pure; any thread. */
#ifndef LIBTRAIN_KERNELS_KERNEL_TEXT_H
#define LIBTRAIN_KERNELS_KERNEL_TEXT_H

#include "libtrain/model/model.h"

#define KERNEL_TEXT_SIZE 3073 /* of 1024 convolutions, and a 0 */

/* Letters of the units [first, end); no model has so many that it overflows. */
size_t kernel_text_length(const struct model *model, size_t first, size_t end);

/* Whether some pass of a convolution names no kernel, and the whole model's text fits
 * KERNEL_TEXT_SIZE: then there is something to measure. */
bool kernel_text_wanted(const struct model *model);

/* Write the text of the units [first, end), whose passes all name a kernel, and a 0. */
void kernel_text_write(const struct model *model, size_t first, size_t end, char *out);

/* Whether the text is one of the units [first, end) with kernels that can do their passes. */
bool kernel_text_fits(const struct model *model, size_t first, size_t end, const char *text);

/* Put a text of the whole model that fits into it; what the model names already stays. */
void kernel_text_apply(struct model *model, const char *text);

#endif
