/* types.h: fixed-width names, attributes and the few sizes that every layer shares.
 *
 * Locking: none. Contexts: any. */
#ifndef BASE_TYPES_H
#define BASE_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int32_t i32;
typedef int64_t i64;

#define MAX_CPUS   64u /* a CPU mask is one u64 */
#define CACHE_LINE 64u
#define PAGE_SHIFT 12u
#define PAGE_SIZE  ((size_t)1 << PAGE_SHIFT)

#define ALIGNED(n)    __attribute__((aligned(n)))
#define PACKED        __attribute__((packed))
#define NODISCARD     __attribute__((warn_unused_result))
#define NOINLINE      __attribute__((noinline))
#define ALWAYS_INLINE inline __attribute__((always_inline))
#define COLD          __attribute__((cold))
#define HOT           __attribute__((hot))
#define UNUSED        __attribute__((unused))
#define NORETURN      _Noreturn
#define PRINTF(f, a)  __attribute__((format(printf, f, a)))
#define NO_TSAN       __attribute__((no_sanitize("thread")))

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#define ARRAY_SIZE(a)              (sizeof(a) / sizeof((a)[0]))
#define container_of(p, type, mem) ((type *)((char *)(p)-offsetof(type, mem)))
#define round_up(x, a)             (((x) + (a)-1) & ~((__typeof__(x))(a)-1)) /* a: power of two */
#define round_down(x, a)           ((x) & ~((__typeof__(x))(a)-1))           /* a: power of two */

#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

#endif
