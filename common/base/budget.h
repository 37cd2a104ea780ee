/*
 * A budget is a number of bytes that many threads share. Code takes bytes from the budget before it
 * allocates memory, and gives them back after it frees the memory. If a take fails, the client gets
 * an error: 429 for a request, 503 for an answer.
 *
 * Thread: any.
 */
#ifndef FG_COMMON_BASE_BUDGET_H
#define FG_COMMON_BASE_BUDGET_H

#include "common/base/def.h"

#include <stdatomic.h>

struct fg_budget {
    _Atomic uint64_t used_bytes;
    _Atomic uint64_t refusals; /* takes that failed since the start */
    uint64_t limit_bytes;
};

/* Makes a budget of limit_bytes of which nothing is taken. */
static inline void fg_budget_init(struct fg_budget *budget, uint64_t limit_bytes)
{
    atomic_init(&budget->used_bytes, 0);
    atomic_init(&budget->refusals, 0);
    budget->limit_bytes = limit_bytes;
}

/*
 * Takes bytes from the budget. Returns false if they do not fit; nothing is taken then. It does not
 * add first and undo that on failure: in between, a large request would make small ones fail, or
 * overflow the sum and let all of them in.
 */
static inline bool fg_budget_take(struct fg_budget *budget, uint64_t bytes)
{
    uint64_t used = atomic_load_explicit(&budget->used_bytes, memory_order_relaxed);

    do {
        if (used > budget->limit_bytes || bytes > budget->limit_bytes - used) {
            atomic_fetch_add_explicit(&budget->refusals, 1, memory_order_relaxed);
            return false;
        }
    } while (!atomic_compare_exchange_weak_explicit(&budget->used_bytes, &used, used + bytes,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

/*
 * Takes like fg_budget_take(), but any number of bytes if nothing is taken yet. For items that may
 * exceed the whole budget and must succeed eventually.
 */
static inline bool fg_budget_take_any(struct fg_budget *budget, uint64_t bytes)
{
    uint64_t none = 0;

    return atomic_compare_exchange_strong_explicit(&budget->used_bytes, &none, bytes,
                                                   memory_order_relaxed, memory_order_relaxed) ||
           fg_budget_take(budget, bytes);
}

/* Returns whether so many bytes are free. Another thread may take them before the caller does. */
static inline bool fg_budget_has(struct fg_budget *budget, uint64_t bytes)
{
    uint64_t used = atomic_load_explicit(&budget->used_bytes, memory_order_relaxed);

    return used <= budget->limit_bytes && bytes <= budget->limit_bytes - used;
}

/* Takes bytes even beyond the limit, for memory that is already allocated and has to be counted. */
static inline void fg_budget_force(struct fg_budget *budget, uint64_t bytes)
{
    atomic_fetch_add_explicit(&budget->used_bytes, bytes, memory_order_relaxed);
}

/* Gives back bytes that were taken. */
static inline void fg_budget_give(struct fg_budget *budget, uint64_t bytes)
{
    uint64_t before = atomic_fetch_sub_explicit(&budget->used_bytes, bytes, memory_order_relaxed);

    fg_assert(before >= bytes);
}

/* Returns how many bytes are taken. */
static inline uint64_t fg_budget_used(struct fg_budget *budget)
{
    return atomic_load_explicit(&budget->used_bytes, memory_order_relaxed);
}

/* Returns how many takes have failed since the start. Holders of memory can watch it to learn that
 * others need some. */
static inline uint64_t fg_budget_refusals(struct fg_budget *budget)
{
    return atomic_load_explicit(&budget->refusals, memory_order_relaxed);
}

#endif
