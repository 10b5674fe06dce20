/* mem_global.c: the singletons that mm/ and base/ do not have: the kernel's one heap, the effective
 * knobs, and what was refused on the way to them; and how much memory it takes to come up.
 *
 * Locking: none; each is written once by the platform's bring-up, before the second CPU runs.
 * Contexts: any; what is about memory: boot. */
#include "kernel.h"
#include "../base/fmt.h"

#define ENOUGH_BASE    (8ul << 20)
#define ENOUGH_PER_CPU (512ul << 10)
#define ENOUGH_PER_NODE                                                                            \
    (8ul << 20) /* beyond the first: parts end at whole blocks of 4 MiB, and none is empty */

struct heap *kheap;
struct knobs knobs;
struct knob_refusals knob_refused;

u64 memory_enough(unsigned cpus_found)
{
    return ENOUGH_BASE + MIN((u64)cpus_found, knobs.maxcpus) * ENOUGH_PER_CPU +
           (knobs.nodes - 1) * ENOUGH_PER_NODE;
}

/* There may be more than enough free, and no piece of it large enough: holes do that. */
void memory_refusal(struct memory_refusal *r, u64 usable, const char *what, u64 bytes)
{
    u64 free = heap_pages_free(kheap) * PAGE_SIZE, block = PAGE_SIZE, piece;

    while (block < bytes)
        block <<= 1;
    piece = heap_largest_block(kheap);
    if (block <= free && (piece < block || !bytes)) { /* 0: of unknown size, and larger than any */
        fmt(r->reason, sizeof(r->reason), "no piece of memory is large enough for %s", what);
        r->of_have = "in one piece";
        r->have = piece;
        r->need = MAX(block, bytes ? block : 2 * piece);
        return;
    }
    fmt(r->reason, sizeof(r->reason), "too little memory for %s", what);
    r->of_have = "usable";
    r->have = usable;
    r->need = usable + block;
}
