/* plat_impl.h: the inline part of the platform contract for the host, a process whose CPUs are
 * threads.
 *
 * No interrupt enters a CPU, so "interrupts off" and "preemption off" order the compiler and
 * nothing else. Under a sanitizer the one-instruction counter add becomes a relaxed load and store,
 * because a sanitizer cannot see into assembly.
 *
 * Locking: none. Contexts: any thread; CPU ids mean something on CPU threads only. */
#ifndef ARCH_HOST_PLAT_IMPL_H
#define ARCH_HOST_PLAT_IMPL_H

#include "../../base/types.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HOST_ASAN          1
#define PLAT_REDZONE_BYTES 16
#include <sanitizer/asan_interface.h>
#endif
#if __has_feature(thread_sanitizer)
#define HOST_TSAN 1
#endif
#endif

#define PLAT_ORDERS_OTHERS 1 /* by membarrier(2) */

/* Written once by the thread itself. Local to the program: one instruction reads it. */
extern __thread unsigned host_cpu_id __attribute__((tls_model("local-exec")));
extern unsigned host_cpu_number; /* published by host_cpus_start() */
extern bool host_crowded;        /* CPUs outnumber cores: a waiter gives its core away */
void host_relax_crowded(void);

static ALWAYS_INLINE unsigned plat_cpu_id(void)
{
    return host_cpu_id;
}

static ALWAYS_INLINE size_t plat_cpu_offset(void)
{
    return host_cpu_id * PLAT_CPU_STRIDE;
}

static ALWAYS_INLINE void *plat_cpu_part(void *cpu0)
{
    return (char *)cpu0 + plat_cpu_offset();
}

static ALWAYS_INLINE unsigned plat_cpu_count(void)
{
    return __atomic_load_n(&host_cpu_number, __ATOMIC_ACQUIRE);
}

static ALWAYS_INLINE unsigned long plat_irq_save(void)
{
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    return 0;
}

static ALWAYS_INLINE void plat_irq_restore(unsigned long flags)
{
    (void)flags;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

static ALWAYS_INLINE bool plat_irqs_off(void)
{
    return true;
}

static ALWAYS_INLINE void plat_preempt_disable(void)
{
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

static ALWAYS_INLINE void plat_preempt_enable(void)
{
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

static ALWAYS_INLINE void plat_relax(void)
{
    /* Plain read: set before the second CPU runs. */
    if (unlikely(host_crowded))
        host_relax_crowded();
    else
        __builtin_ia32_pause();
}

static ALWAYS_INLINE u64 plat_cycles(void)
{
    unsigned aux;

    return __builtin_ia32_rdtscp(&aux);
}

static ALWAYS_INLINE void plat_counter_add(u64 *p, u64 v)
{
#if defined(HOST_ASAN) || defined(HOST_TSAN)
    __atomic_store_n(p, __atomic_load_n(p, __ATOMIC_RELAXED) + v, __ATOMIC_RELAXED);
#else
    __asm__ volatile("addq %1, %0" : "+m"(*p) : "er"(v) : "cc");
#endif
}

static ALWAYS_INLINE bool plat_word_is(const u32 *p, u32 v)
{
#if defined(HOST_ASAN) || defined(HOST_TSAN)
    return __atomic_load_n(p, __ATOMIC_RELAXED) == v;
#else
    bool same;

    __asm__ volatile("cmpl %2, %1" : "=@cce"(same) : "m"(*p), "i"(v));
    return same;
#endif
}

static ALWAYS_INLINE void plat_poison(void *p, size_t n)
{
#ifdef HOST_ASAN
    __asan_poison_memory_region(p, n);
#else
    (void)p;
    (void)n;
#endif
}

static ALWAYS_INLINE void plat_unpoison(void *p, size_t n)
{
#ifdef HOST_ASAN
    __asan_unpoison_memory_region(p, n);
#else
    (void)p;
    (void)n;
#endif
}

#endif
