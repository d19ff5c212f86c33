/*
 * model_atomic.h - the names of base/atomic.h and the system calls of
 * rma/wake.h as steps of the checker (checker.h). base/atomic.h includes this
 * when ORIEL_MODEL is defined, so the code under test is compiled unchanged.
 *
 * fence_compiler() is what it is: nothing for the CPU. Plain accesses to shared
 * payload are data_read() and data_write(), and are checked for races.
 */
#ifndef MODEL_ATOMIC_H
#define MODEL_ATOMIC_H

#include <stddef.h>
#include <stdint.h>

#define MODEL_API static __attribute__((unused))

enum model_order { MODEL_RELAXED = 0, MODEL_ACQUIRE = 1, MODEL_RELEASE = 2, MODEL_ACQ_REL = 3 };
enum model_rmw { MODEL_ADD, MODEL_OR, MODEL_SWAP };

MODEL_API uint64_t model_load(const void *p, size_t size, enum model_order order);
MODEL_API void model_store(void *p, size_t size, enum model_order order, uint64_t v);
MODEL_API uint64_t model_rmw(void *p, size_t size, enum model_order order, enum model_rmw rmw,
                             uint64_t v);
MODEL_API int model_cas(void *p, size_t size, uint64_t *expected, uint64_t v);
MODEL_API void model_fence_full(void);
MODEL_API void model_fence_all_cpus(void);
MODEL_API void model_futex_sleep(uint32_t *word, uint32_t seen);
MODEL_API void model_futex_wake_all(uint32_t *word);
MODEL_API uint64_t model_data_read(const void *p);
MODEL_API void model_data_write(void *p, uint64_t v);

#define load_relaxed(p) ((__typeof__(*(p)))model_load(p, sizeof(*(p)), MODEL_RELAXED))
#define load_acquire(p) ((__typeof__(*(p)))model_load(p, sizeof(*(p)), MODEL_ACQUIRE))
#define store_relaxed(p, v) model_store(p, sizeof(*(p)), MODEL_RELAXED, (uint64_t)(v))
#define store_release(p, v) model_store(p, sizeof(*(p)), MODEL_RELEASE, (uint64_t)(v))
#define add_relaxed(p, v) model_rmw(p, sizeof(*(p)), MODEL_RELAXED, MODEL_ADD, v)
#define add_release(p, v) model_rmw(p, sizeof(*(p)), MODEL_RELEASE, MODEL_ADD, v)
#define add_acq_rel(p, v) model_rmw(p, sizeof(*(p)), MODEL_ACQ_REL, MODEL_ADD, v)
#define or_release(p, v) model_rmw(p, sizeof(*(p)), MODEL_RELEASE, MODEL_OR, v)
#define swap_acquire(p, v)                                                                         \
	((__typeof__(*(p)))model_rmw(p, sizeof(*(p)), MODEL_ACQUIRE, MODEL_SWAP, (uint64_t)(v)))
#define cas_acq_rel(p, expected, v)                                                                \
	({                                                                                         \
		uint64_t model_expected = (uint64_t) * (expected);                                 \
		int model_done = model_cas(p, sizeof(*(p)), &model_expected, (uint64_t)(v));       \
		*(expected) = (__typeof__(*(expected)))model_expected;                             \
		model_done;                                                                        \
	})
#define fence_compiler() ((void)0)
#define fence_full() model_fence_full()
#define cpu_relax() ((void)0)

/* wake.h: a sleep ends by a wake-up only, so that a lost one is a deadlock. */
#define fence_all_cpus() model_fence_all_cpus()
#define futex_sleep(word, seen, ns) ((void)(ns), model_futex_sleep(word, seen))
#define futex_wake_all(word) model_futex_wake_all(word)

#define data_read(p) model_data_read(p)
#define data_write(p, v) model_data_write(p, v)

#endif
