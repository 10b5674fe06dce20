/* list.h: an intrusive, circular, doubly linked list. A list is a struct list of its own that heads
 * the ring; an element embeds one and is found again by container_of(). An unlinked element points
 * at itself, so unlinking twice is harmless and being linked can be asked.
 *
 * It deliberately keeps no length. Locking: the caller's. Contexts: any. */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include "types.h"

struct list {
    struct list *next, *prev;
};

#define LIST_INIT(name)                                                                            \
    {                                                                                              \
        &(name), &(name)                                                                           \
    }

static ALWAYS_INLINE void list_init(struct list *l)
{
    l->next = l;
    l->prev = l;
}

static ALWAYS_INLINE bool list_empty(const struct list *l)
{
    return l->next == l;
}

static ALWAYS_INLINE bool list_linked(const struct list *e)
{
    return e->next != e;
}

static ALWAYS_INLINE void list_insert_between(struct list *e, struct list *prev, struct list *next)
{
    e->prev = prev;
    e->next = next;
    prev->next = e;
    next->prev = e;
}

static ALWAYS_INLINE void list_push_front(struct list *l, struct list *e)
{
    list_insert_between(e, l, l->next);
}

static ALWAYS_INLINE void list_push_back(struct list *l, struct list *e)
{
    list_insert_between(e, l->prev, l);
}

static ALWAYS_INLINE void list_remove(struct list *e)
{
    e->prev->next = e->next;
    e->next->prev = e->prev;
    list_init(e);
}

/* NULL if empty. */
static ALWAYS_INLINE struct list *list_first(const struct list *l)
{
    return list_empty(l) ? NULL : l->next;
}

static ALWAYS_INLINE struct list *list_last(const struct list *l)
{
    return list_empty(l) ? NULL : l->prev;
}

static ALWAYS_INLINE struct list *list_pop_front(struct list *l)
{
    struct list *e = list_first(l);

    if (e)
        list_remove(e);
    return e;
}

/* Moves all of from to the end of to; from is empty afterwards. */
static ALWAYS_INLINE void list_splice_back(struct list *to, struct list *from)
{
    if (list_empty(from))
        return;
    from->next->prev = to->prev;
    to->prev->next = from->next;
    from->prev->next = to;
    to->prev = from->prev;
    list_init(from);
}

#define list_entry(e, type, member) container_of(e, type, member)

/* The body may remove the element it is on (and no other). */
#define list_for_each(e, l)                                                                        \
    for (struct list *e = (l)->next, *e##_next = e->next; e != (l);                                \
         e = e##_next, e##_next = e->next)

#endif
