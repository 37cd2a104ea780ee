#include "common/self_profile/lock_waits.h"

#include "common/self_profile/quiet_lock.h"

#include <string.h>

enum { STACKS_MAX = 1024 };

struct fg_lock_waits {
    pthread_mutex_t lock;
    struct fg_stack_counts *stacks; /* locked */
    _Atomic uint64_t dropped;
};

struct fg_lock_waits *_Atomic fg_lock_waits_sampled;

struct fg_lock_waits *fg_lock_waits_create(void)
{
    struct fg_lock_waits *waits = fg_new(struct fg_lock_waits);

    waits->stacks = fg_stack_counts_create(STACKS_MAX);
    fg_assert(pthread_mutex_init(&waits->lock, NULL) == 0);
    return waits;
}

void fg_lock_waits_destroy(struct fg_lock_waits *waits)
{
    if (waits == NULL)
        return;
    fg_stack_counts_destroy(waits->stacks);
    (void)pthread_mutex_destroy(&waits->lock);
    free(waits);
}

void fg_lock_waits_add(struct fg_lock_waits *waits, int64_t count, int64_t delay_ns,
                       const uintptr_t *pcs, uint32_t depth)
{
    uint32_t stack = FG_STACK_NONE;

    fg_quiet_lock(&waits->lock);
    if (depth > 0)
        stack = fg_stack_counts_find(waits->stacks, 0, pcs, depth);
    if (stack != FG_STACK_NONE) {
        fg_stack_counts_at(waits->stacks, stack)->values[FG_LOCK_CONTENTIONS] += count;
        fg_stack_counts_at(waits->stacks, stack)->values[FG_LOCK_DELAY_NS] += delay_ns;
    }
    fg_quiet_unlock(&waits->lock);
    if (stack == FG_STACK_NONE)
        atomic_fetch_add_explicit(&waits->dropped, 1, memory_order_relaxed);
}

void fg_lock_waits_sweep(struct fg_lock_waits *waits,
                         void (*each)(void *arg, const struct fg_stack_entry *entry), void *arg)
{
    struct fg_stack_batch *batch = fg_new(struct fg_stack_batch);
    uint32_t from = 0;
    bool more = true;

    while (more) {
        fg_quiet_lock(&waits->lock);
        more = fg_stack_counts_take(waits->stacks, FG_STACK_ALL_VALUES, &from, batch);
        fg_quiet_unlock(&waits->lock);
        for (uint32_t i = 0; i < batch->count; i++)
            each(arg, &batch->entries[i]);
    }
    free(batch);
}

uint64_t fg_lock_waits_dropped(const struct fg_lock_waits *waits)
{
    return atomic_load_explicit(&waits->dropped, memory_order_relaxed);
}
