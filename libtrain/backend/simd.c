#include "libtrain/backend/simd.h"

const char *simd_isa(void)
{
#if defined(__x86_64__) && !defined(SIMD_BASELINE_ONLY)
    return __builtin_cpu_supports("avx512f") ? "avx512" : __builtin_cpu_supports("avx2") ? "avx2" : "sse2";
#elif defined(__x86_64__)
    return "sse2";
#else
    return "neon";
#endif
}
