/* rcufree.c: kfree_rcu: a free that waits until no reader can see the block any more.
 *
 * The block is claimed at once (ALLOCATED → RCU; LARGE → RCU), so a second free is refused at once,
 * and it is counted as a free at once. What remains is to give it back when a grace period is over.
 * A front end with a place for such objects takes it (front_ops.put_rcu); else, and for large
 * blocks, it joins the CPU's plain batch, a list through the rcu_heads that lie in the blocks.
 *
 *   open ──(nothing waits)──► waiting, one callback for all ──(grace period)──► front end, slab, pages
 *
 * So a batch is what gathers while its predecessor waits, and a CPU has one callback out however
 * many blocks it frees. A callback gives back RUN_AT_MOST blocks and goes again, since interrupts
 * are off.
 *
 * The rcu_head is written to while the block waits, so it must lie in the block, whatever kind and size that has:
 * anywhere in its usable bytes (heap_ksize), which may be more than were asked for. A head elsewhere is a bad
 * free, and a block of less than an rcu_head's 16 bytes can only be freed the other way.
 *
 * Shortage cannot wait for it: a grace period needs other CPUs.
 *
 * Locking: none; a batch is its CPU's, interrupts off. Contexts: thread, interrupt. */
#include "objstate_impl.h"

#define RUN_AT_MOST 64u

static struct rcu_batch *batch_mine(struct heap *h)
{
    return h->cpus ? cpu_part(h->rcu_batch, plat_cpu_offset()) : &h->boot_rcu_batch;
}

static void batch_over(struct rcu_head *head);

/* Interrupts off. */
static void batch_post(struct rcu_batch *b)
{
    if (b->posted || !b->open)
        return;
    b->waiting = b->open;
    b->open = NULL;
    b->posted = true;
    call_rcu(&b->head, batch_over);
}

static void batch_add(struct heap *h, struct rcu_head *head, void *p)
{
    unsigned long flags = plat_irq_save();
    struct rcu_batch *b = batch_mine(h);

    head->object = p;
    head->next = b->open;
    b->open = head;
    batch_post(b);
    plat_irq_restore(flags);
}

static void give_back(struct heap *h, void *p)
{
    struct frame *f = frame_of(&h->frames, p);
    u64 tag = frame_tag_load(f);
    struct kmem_cache *c;
    unsigned visit;

    if (TAG_KIND(tag) != FRAME_SLAB) {
        large_rcu_over(h, f);
        return;
    }
    visit = heap_visit_begin(h);
    c = TAG_CACHE(tag);
    cache_rcu_over(c, p);
    cache_put_back(c, p);
    cache_rcu_freed(c, 1);
    heap_visit_end(h, visit);
}

/* Interrupts off. */
static void batch_over(struct rcu_head *head)
{
    struct rcu_batch *b = container_of(head, struct rcu_batch, head);

    for (unsigned i = 0; i < RUN_AT_MOST && b->waiting; i++) {
        struct rcu_head *e = b->waiting;

        b->waiting = e->next;
        give_back(b->heap, e->object);
    }
    if (b->waiting) {
        rcu_call_again(&b->head, batch_over);
        return;
    }
    b->posted = false;
    batch_post(b);
}

static bool front_takes(struct kmem_cache *c, void *p)
{
    unsigned long flags = plat_irq_save();
    struct cache_cpu *cc = cache_cpu_mine(c);
    bool taken = cc->limit && c->front->put_rcu && c->front->put_rcu(c, cc, p);

    plat_irq_restore(flags);
    return taken;
}

/* All of it, in a block of so many usable bytes. */
static bool head_inside(const void *p, const struct rcu_head *head, u64 bytes)
{
    return GUARD(94, bytes >= sizeof(*head)) &&
           GUARD(52, (uintptr_t)head - (uintptr_t)p <= bytes - sizeof(*head));
}

/* p lies in a slab of c. */
static bool object_free_rcu(struct kmem_cache *c, void *p, struct rcu_head *head)
{
    if (unlikely(!head_inside(p, head, c->size)))
        return badfree(c->heap, BADFREE_rcu_head, p, (u64)(uintptr_t)head, c);
    if (!GUARD(51, cache_claim_rcu(c, p)))
        return false;
    if (!front_takes(c, p))
        batch_add(c->heap, head, p);
    return true;
}

bool heap_kfree_rcu(struct heap *h, void *p, struct rcu_head *head)
{
    struct frame *f = frame_of(&h->frames, p);
    u64 tag;

    if (!p || p == ZERO_SIZE_PTR)
        return true;
    if (!f)
        return badfree(h, BADFREE_foreign, p, 0, NULL);
    tag = pages_owner(h, f);
    if (TAG_IS_USERS(tag))
        return object_free_rcu(TAG_CACHE(tag), p, head);
    if (TAG_KIND(tag) != FRAME_LARGE)
        return badfree(h, badfree_kind_of(h, p), p, tag, NULL);
    if (!GUARD(95, head_inside(p, head, PAGE_SIZE << TAG_ORDER(tag))))
        return badfree(h, BADFREE_rcu_head, p, (u64)(uintptr_t)head, NULL);
    if (!large_free_rcu(h, f, tag, p))
        return false;
    batch_add(h, head, p);
    return true;
}

static void post_here(void *heap)
{
    unsigned long flags = plat_irq_save();
    struct heap *h = heap;
    unsigned visit = heap_visit_begin(h);

    for (u32 i = 0; i < heap_cache_count(h); i++) {
        struct kmem_cache *c = heap_cache(h, i);

        if (c && c->limit && c->front->rcu_post && GUARD_STEP(53))
            c->front->rcu_post(c, cache_cpu_mine(c));
    }
    heap_visit_end(h, visit);
    plat_irq_restore(flags);
}

/* Twice: what is open when the first begins waits for the batch before it. */
void heap_kfree_rcu_barrier(struct heap *h)
{
    plat_run_on_cpus(plat_all_cpus(), post_here, h);
    rcu_barrier();
    rcu_barrier();
}
