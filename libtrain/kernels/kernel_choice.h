/* kernel_choice.h: the kernels of one convolution as a JSON object with a member for each pass, in
 * a description (the field `kernels` of an op) and in a kernel table. Pure; any thread. */
#ifndef LIBTRAIN_KERNELS_KERNEL_CHOICE_H
#define LIBTRAIN_KERNELS_KERNEL_CHOICE_H

#include <stdbool.h>

#include "base/record.h"
#include "libtrain/model/model.h"

struct kernel_choice {
    int kernel[CONV2D_PASSES]; /* enum conv2d_kernel */
};
extern const struct record kernel_choice_record;
struct kernel_choice kernel_choice_of(struct conv2d_kernels kernels);
/* Check that each kernel supports this op, whose shapes are known. False: a fault at `pointer`
 * names the kernel that does not. */
bool kernel_choice_fits(const struct kernel_choice *choice, const struct op *op,
                        const char *pointer, struct record_faults *faults);
struct conv2d_kernels kernel_choice_kernels(const struct kernel_choice *choice);

#endif
