#include "libtrain/backend/simd.h"

/* The ISA that the compiler may use. The product's sums are fused if the ISA has a fused a * b +
 * c. */
#if defined(__x86_64__)
#define BASELINE_NAME "sse2"
#elif defined(__aarch64__)
#define BASELINE_NAME "neon"
#elif defined(__arm__) && defined(__ARM_FEATURE_FMA)
#define BASELINE_NAME "vfpv4"
#elif defined(__arm__)
#define BASELINE_NAME "vfpv3"
#else
#error "libtrain knows x86-64 and ARM only"
#endif

enum simd_isa simd_isa(void)
{
#if defined(SIMD_CHOSEN)
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
