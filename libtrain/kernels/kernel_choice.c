#include "libtrain/kernels/kernel_choice.h"

#include <stdio.h>

#include "libtrain/kernels/op_workspace.h"

#define MEMBER_PASS(pass, name)                                                                    \
    MEMBER_ENUM(struct kernel_choice, kernel[pass], name, FIELD_SKIP_EMPTY, conv2d_kernel_names)
static const struct field choice_fields[] = {
    MEMBER_PASS(CONV2D_FORWARD, "forward"),
    MEMBER_PASS(CONV2D_BACKWARD_DATA, "backward_data"),
    MEMBER_PASS(CONV2D_BACKWARD_WEIGHTS, "backward_weights"),
};
const struct record kernel_choice_record = RECORD(struct kernel_choice, "kernels", choice_fields);

struct kernel_choice kernel_choice_of(struct conv2d_kernels kernels)
{
    struct kernel_choice choice;
    for (size_t pass = 0; pass < CONV2D_PASSES; pass++) {
        choice.kernel[pass] = kernels.pass[pass];
    }
    return choice;
}

struct conv2d_kernels kernel_choice_kernels(const struct kernel_choice *choice)
{
    struct conv2d_kernels kernels;
    for (size_t pass = 0; pass < CONV2D_PASSES; pass++) {
        kernels.pass[pass] = (uint8_t)choice->kernel[pass];
    }
    return kernels;
}

bool kernel_choice_fits(const struct kernel_choice *choice, const struct op *op,
                        const char *pointer, struct record_faults *faults)
{
    struct conv2d_shape shape = op_conv2d_shape(op, 1);
    bool fits = true;
    for (size_t pass = 0; pass < CONV2D_PASSES; pass++) {
        if (!conv2d_kernel_can((enum conv2d_kernel)choice->kernel[pass], &shape,
                               (enum conv2d_pass)pass)) {
            char member[RECORD_POINTER_MAX];
            (void)snprintf(member, sizeof(member), "%.130s/%s", pointer, conv2d_pass_names[pass]);
            record_fault(
                faults, member,
                "'%s' does not support %zu x %zu, stride %zu x %zu, padding %zu x %zu, %zu "
                "groups, %zu to %zu"
                " channels on %zu x %zu",
                conv2d_kernel_names[choice->kernel[pass]], shape.KH, shape.KW, shape.SH, shape.SW,
                shape.PH, shape.PW, shape.G, shape.C, shape.O, shape.H, shape.W);
            fits = false;
        }
    }
    return fits;
}
