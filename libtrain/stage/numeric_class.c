#include <stdio.h>

#include "libtrain/backend/denormal.h"
#include "libtrain/backend/gemm.h"
#include "libtrain/backend/onednn.h"
#include "libtrain/backend/simd.h"
#include "libtrain/train.h"

/* Increase this number with every change to a kernel that changes the bits of its results. */
#define KERNELS 3

enum conv2d_backend train_backend(void)
{
    return onednn_built() ? CONV2D_BACKEND_ONEDNN : CONV2D_BACKEND_OWN;
}

void train_numeric_class(char out[TRAIN_NUMERIC_CLASS_MAX])
{
    char gemm_name[40];
    char onednn_name[56];
    gemm_describe(gemm_name, sizeof(gemm_name));
    onednn_describe(onednn_name, sizeof(onednn_name));
    (void)snprintf(out, TRAIN_NUMERIC_CLASS_MAX, "libtrain-%s-%d/%s/%s/%s%s", PACELINE_VERSION,
                   KERNELS, gemm_name, simd_isa_name(), DENORMAL_MODE, onednn_name);
}
