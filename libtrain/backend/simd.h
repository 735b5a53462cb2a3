/* simd.h: SIMD_CLONES compiles a loop once per x86 vector ISA; the loader picks one. Only for loops
 * whose bits cannot differ between the clones: elementwise arithmetic without reordered sums (the
 * project is compiled with -ffp-contract=off). Sanitizers start after that choice, so their builds
 * use the baseline. */
#ifndef LIBTRAIN_BACKEND_SIMD_H
#define LIBTRAIN_BACKEND_SIMD_H

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SIMD_BASELINE_ONLY 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||                         \
    __has_feature(undefined_behavior_sanitizer)
#define SIMD_BASELINE_ONLY 1
#endif
#endif

/* Clang before version 17 gives the resolvers of static functions one name, and those of others
 * none: it gets the baseline. */
#if defined(__x86_64__) && !defined(SIMD_BASELINE_ONLY) &&                                         \
    (!defined(__clang__) || __clang_major__ >= 17)
#define SIMD_CHOSEN 1
#define SIMD_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define SIMD_CLONES
#endif

/* For a loop whose output may be exactly its input (in place): its elements are independent. */
#if defined(SIMD_BASELINE_ONLY)
#define SIMD_IN_PLACE
#elif defined(__clang__)
#define SIMD_IN_PLACE _Pragma("clang loop vectorize(assume_safety)")
#else
#define SIMD_IN_PLACE _Pragma("GCC ivdep")
#endif

/* The vector of most kernels over channels: one to four registers. */
#define SIMD_FLOATS 16
typedef float simd __attribute__((vector_size(SIMD_FLOATS * sizeof(float)), aligned(4), may_alias));

/* The vector ISA that kernels use on this machine. */
enum simd_isa { SIMD_BASELINE, SIMD_AVX2, SIMD_AVX512 };
enum simd_isa simd_isa(void);
/* "avx512", "avx2", "sse2"; 64-bit ARM: "neon"; 32-bit ARM: "vfpv3", or "vfpv4" if built for it. */
const char *simd_isa_name(void);

#endif
