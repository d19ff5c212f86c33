/*
 * atomic.h - the atomic operations of the code that two ranks run on shared
 * words. test/model compiles that same code with ORIEL_MODEL defined, where
 * these names become steps of a checker for weakly ordered CPUs.
 */
#ifndef BASE_ATOMIC_H
#define BASE_ATOMIC_H

#include <stdint.h>

#ifdef ORIEL_MODEL
#include "model_atomic.h"
#else

#define load_relaxed(p) __atomic_load_n(p, __ATOMIC_RELAXED)
#define load_acquire(p) __atomic_load_n(p, __ATOMIC_ACQUIRE)
#define store_relaxed(p, v) __atomic_store_n(p, v, __ATOMIC_RELAXED)
#define store_release(p, v) __atomic_store_n(p, v, __ATOMIC_RELEASE)
#define add_relaxed(p, v) __atomic_fetch_add(p, v, __ATOMIC_RELAXED)
#define add_release(p, v) __atomic_fetch_add(p, v, __ATOMIC_RELEASE)
#define add_acq_rel(p, v) __atomic_fetch_add(p, v, __ATOMIC_ACQ_REL)
#define or_release(p, v) __atomic_fetch_or(p, v, __ATOMIC_RELEASE)
#define swap_acquire(p, v) __atomic_exchange_n(p, v, __ATOMIC_ACQUIRE)
/* Strong; *expected becomes the word seen. */
#define cas_acq_rel(p, expected, v)                                                                \
	__atomic_compare_exchange_n(p, expected, v, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)
/* Only the compiler is held back: pairs with fence_all_cpus() of the other side. */
#define fence_compiler() __atomic_signal_fence(__ATOMIC_SEQ_CST)
#ifdef __SANITIZE_THREAD__ /* which knows no fences; a swap is as good */
#define fence_full() ((void)__atomic_exchange_n(&(uint32_t){ 0 }, 1, __ATOMIC_SEQ_CST))
#else
#define fence_full() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#endif

static inline void
cpu_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield" ::: "memory");
#endif
}

#endif
#endif
