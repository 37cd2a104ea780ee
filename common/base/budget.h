/*
 * A budget is a number of bytes that many threads share: what is admitted takes from it before it
 * asks for memory, and gives back when it is gone. An empty budget is an answer to the client
 * (429).
 */
#ifndef FG_COMMON_BASE_BUDGET_H
#define FG_COMMON_BASE_BUDGET_H

#include "common/base/def.h"

#include <stdatomic.h>

struct fg_budget {
    _Atomic uint64_t used_bytes;
    uint64_t limit_bytes;
};

static inline void fg_budget_init(struct fg_budget *budget, uint64_t limit_bytes)
{
    atomic_init(&budget->used_bytes, 0);
    budget->limit_bytes = limit_bytes;
}

/*
 * false: it does not fit, and nothing was taken. Any thread. Never adds first and takes back: for
 * that moment a large request would make small ones fail, or wrap the sum around and let them all
 * in.
 */
static inline bool fg_budget_take(struct fg_budget *budget, uint64_t bytes)
{
    uint64_t used = atomic_load_explicit(&budget->used_bytes, memory_order_relaxed);

    do {
        if (used > budget->limit_bytes || bytes > budget->limit_bytes - used)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&budget->used_bytes, &used, used + bytes,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

/* Takes even beyond the limit: for memory that is already there and has to be counted. */
static inline void fg_budget_force(struct fg_budget *budget, uint64_t bytes)
{
    atomic_fetch_add_explicit(&budget->used_bytes, bytes, memory_order_relaxed);
}

static inline void fg_budget_give(struct fg_budget *budget, uint64_t bytes)
{
    uint64_t before = atomic_fetch_sub_explicit(&budget->used_bytes, bytes, memory_order_relaxed);

    fg_assert(before >= bytes);
}

static inline uint64_t fg_budget_used(struct fg_budget *budget)
{
    return atomic_load_explicit(&budget->used_bytes, memory_order_relaxed);
}

#endif
