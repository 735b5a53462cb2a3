/* denormal.h: the denormal mode of a thread. Every compute thread flushes denormals to zero, so
 * that bits and speed are equal on all threads (x86: FTZ and DAZ of MXCSR, ARM: FZ of FPCR, of
 * FPSCR in 32 bits). Workers of a pool keep the mode; a call into libtrain sets it on the calling
 * thread and restores the earlier mode before it returns. */
#ifndef LIBTRAIN_BACKEND_DENORMAL_H
#define LIBTRAIN_BACKEND_DENORMAL_H

#include <stdint.h>

#if defined(__x86_64__)
#include <xmmintrin.h>

#define DENORMAL_MODE "ftz"

/* Flush denormals from now on; returns the earlier mode for denormal_restore. */
static inline uint64_t denormal_flush(void)
{
    unsigned mode = _mm_getcsr();
    _mm_setcsr(mode | 0x8040u);
    return mode;
}

static inline void denormal_restore(uint64_t mode)
{
    _mm_setcsr((unsigned)mode);
}

#elif defined(__aarch64__)

#define DENORMAL_MODE "ftz"

static inline uint64_t denormal_flush(void)
{
    uint64_t mode;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    __asm__ volatile("msr fpcr, %0" : : "r"(mode | (UINT64_C(1) << 24)));
    return mode;
}

static inline void denormal_restore(uint64_t mode)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(mode));
}

#elif defined(__arm__) && defined(__ARM_FP)

#define DENORMAL_MODE "ftz"

static inline uint64_t denormal_flush(void)
{
    uint32_t mode;
    __asm__ volatile("vmrs %0, fpscr" : "=r"(mode));
    __asm__ volatile("vmsr fpscr, %0" : : "r"(mode | (UINT32_C(1) << 24)));
    return mode;
}

static inline void denormal_restore(uint64_t mode)
{
    __asm__ volatile("vmsr fpscr, %0" : : "r"((uint32_t)mode));
}

#else
#error "libtrain knows the denormal mode of x86-64 and of ARM with a floating point unit only"
#endif

#endif
