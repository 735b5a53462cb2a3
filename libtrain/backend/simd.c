#include "libtrain/backend/simd.h"

#ifdef __x86_64__
#define BASELINE_NAME "sse2"
#else
#define BASELINE_NAME "neon"
#endif

enum simd_isa simd_isa(void)
{
#if defined(__x86_64__) && !defined(SIMD_BASELINE_ONLY)
    if (__builtin_cpu_supports("avx512f")) {
        return SIMD_AVX512;
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        return SIMD_AVX2;
    }
#endif
    return SIMD_BASELINE;
}

const char *simd_isa_name(void)
{
    static const char *const names[] = {BASELINE_NAME, "avx2", "avx512"};
    return names[simd_isa()];
}
