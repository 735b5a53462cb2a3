#include <stdio.h>

#include "libtrain/backend/denormal.h"
#include "libtrain/backend/gemm.h"
#include "libtrain/backend/simd.h"
#include "libtrain/train.h"

/* Goes up with every change of a kernel that changes bits. */
#define KERNELS 3

void train_numeric_class(char out[TRAIN_NUMERIC_CLASS_MAX])
{
    char gemm_name[TRAIN_NUMERIC_CLASS_MAX / 2];
    gemm_describe(gemm_name, sizeof(gemm_name));
    (void)snprintf(out, TRAIN_NUMERIC_CLASS_MAX, "libtrain-%s-%d/%s/%s/%s", PACELINE_VERSION, KERNELS, gemm_name,
                   simd_isa_name(), DENORMAL_MODE);
}
