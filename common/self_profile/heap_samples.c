#include "common/self_profile/heap_samples.h"

#include "common/base/hash.h"
#include "common/self_profile/quiet_lock.h"
#include "common/self_profile/sampling.h"

#include <sys/mman.h>

enum {
    STACKS_MAX = 4096,    /* 2.3 MiB */
    BLOCKS_MAX = 1 << 16, /* 96 GiB of heap at 2 MiB a sample; 1.5 MiB. A power of two */
    BLOCKS_FULL = BLOCKS_MAX / 4 * 3,
    FILTER_SLOTS = 8192, /* 16 KiB, which stay in the processor's cache. A power of two */
};

/* Of `ptr` in a slot. */
static const uintptr_t NEVER_USED = 0, REMOVED = 1;

struct heap_block {
    _Atomic uintptr_t ptr;
    uint32_t stack;
    uint32_t objects_1024;
    int64_t bytes;
};

struct fg_heap_samples {
    int64_t mean_bytes;
    pthread_mutex_t lock;
    struct fg_stack_counts *stacks; /* locked */
    uint32_t n_blocks;              /* locked */
    _Atomic uint64_t dropped;
    /* How many blocks of the table have this hash: most that were not sampled meet a 0 here, and
     * are not looked for in the table, which is too large for a cache. */
    _Atomic uint16_t filter[FILTER_SLOTS];
    /* Open addressing. Removed blocks leave a mark and no block ever moves, so looking for one
     * needs no lock. */
    struct heap_block blocks[BLOCKS_MAX];
};

struct fg_heap_samples *_Atomic fg_heap_sampled;

struct fg_heap_samples *fg_heap_samples_create(int64_t mean_bytes)
{
    struct fg_heap_samples *heap;

    heap = mmap(NULL, sizeof *heap, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    fg_assert(heap != MAP_FAILED);
    heap->mean_bytes = mean_bytes;
    heap->stacks = fg_stack_counts_create(STACKS_MAX);
    fg_assert(pthread_mutex_init(&heap->lock, NULL) == 0);
    return heap;
}

void fg_heap_samples_destroy(struct fg_heap_samples *heap)
{
    if (heap == NULL)
        return;
    fg_stack_counts_destroy(heap->stacks);
    (void)pthread_mutex_destroy(&heap->lock);
    (void)munmap(heap, sizeof *heap);
}

int64_t fg_heap_samples_mean(const struct fg_heap_samples *heap)
{
    return heap->mean_bytes;
}

static uint32_t slot_of(uintptr_t ptr)
{
    return (uint32_t)fg_mix64(ptr) & (BLOCKS_MAX - 1);
}

/* Of other bits than its slot. */
static _Atomic uint16_t *filter_of(struct fg_heap_samples *heap, uintptr_t ptr)
{
    return &heap->filter[fg_mix64(ptr) >> 32 & (FILTER_SLOTS - 1)];
}

static uint32_t slot_after(uint32_t slot)
{
    return (slot + 1) & (BLOCKS_MAX - 1);
}

/* A slot that is free for a new block. There is one: the table is never full. */
static struct heap_block *free_slot(struct fg_heap_samples *heap, uintptr_t ptr)
{
    uint32_t slot = slot_of(ptr);

    while (atomic_load_explicit(&heap->blocks[slot].ptr, memory_order_relaxed) > REMOVED)
        slot = slot_after(slot);
    return &heap->blocks[slot];
}

void fg_heap_samples_add(struct fg_heap_samples *heap, const void *ptr, size_t size,
                         const uintptr_t *pcs, uint32_t depth)
{
    int64_t objects_1024 = fg_sampling_weight_1024(size, heap->mean_bytes);
    int64_t bytes = (int64_t)size * objects_1024 / 1024;
    uint32_t stack = FG_STACK_NONE;
    struct heap_block *block;
    int64_t *values;

    fg_quiet_lock(&heap->lock);
    if (depth > 0 && heap->n_blocks < BLOCKS_FULL)
        stack = fg_stack_counts_find(heap->stacks, 0, pcs, depth);
    if (stack == FG_STACK_NONE) {
        fg_quiet_unlock(&heap->lock);
        atomic_fetch_add_explicit(&heap->dropped, 1, memory_order_relaxed);
        return;
    }
    values = fg_stack_counts_at(heap->stacks, stack)->values;
    values[FG_HEAP_ALLOC_OBJECTS] += objects_1024;
    values[FG_HEAP_ALLOC_BYTES] += bytes;
    values[FG_HEAP_INUSE_OBJECTS] += objects_1024;
    values[FG_HEAP_INUSE_BYTES] += bytes;
    block = free_slot(heap, (uintptr_t)ptr);
    block->stack = stack;
    block->objects_1024 = (uint32_t)objects_1024; /* at most a block of a byte: 2^10 * mean */
    block->bytes = bytes;
    heap->n_blocks++;
    atomic_fetch_add_explicit(filter_of(heap, (uintptr_t)ptr), 1, memory_order_relaxed);
    atomic_store_explicit(&block->ptr, (uintptr_t)ptr, memory_order_release);
    fg_quiet_unlock(&heap->lock);
}

static struct heap_block *find(struct fg_heap_samples *heap, uintptr_t ptr)
{
    uint32_t slot = slot_of(ptr);

    for (uint32_t i = 0; i < BLOCKS_MAX; i++, slot = slot_after(slot)) {
        uintptr_t here = atomic_load_explicit(&heap->blocks[slot].ptr, memory_order_acquire);

        if (here == ptr)
            return &heap->blocks[slot];
        if (here == NEVER_USED)
            return NULL;
    }
    return NULL;
}

/* Frees a slot, and the marks before it that lead no further. Locked. */
static void free_block(struct fg_heap_samples *heap, struct heap_block *block)
{
    uint32_t slot = (uint32_t)(block - heap->blocks);
    bool leads_on = atomic_load(&heap->blocks[slot_after(slot)].ptr) != NEVER_USED;

    atomic_store(&block->ptr, REMOVED);
    heap->n_blocks--;
    while (!leads_on && atomic_load(&heap->blocks[slot].ptr) == REMOVED) {
        atomic_store(&heap->blocks[slot].ptr, NEVER_USED);
        slot = (slot - 1) & (BLOCKS_MAX - 1);
    }
}

void fg_heap_samples_remove(struct fg_heap_samples *heap, const void *ptr)
{
    /* The block was added before the pointer came here, so it is seen without the lock. */
    bool is_there = atomic_load_explicit(filter_of(heap, (uintptr_t)ptr), memory_order_relaxed) > 0;
    struct heap_block *block = is_there ? find(heap, (uintptr_t)ptr) : NULL;
    int64_t *values;

    if (block == NULL)
        return;
    fg_quiet_lock(&heap->lock);
    values = fg_stack_counts_at(heap->stacks, block->stack)->values;
    values[FG_HEAP_INUSE_OBJECTS] -= block->objects_1024;
    values[FG_HEAP_INUSE_BYTES] -= block->bytes;
    free_block(heap, block);
    atomic_fetch_sub_explicit(filter_of(heap, (uintptr_t)ptr), 1, memory_order_relaxed);
    fg_quiet_unlock(&heap->lock);
}

void fg_heap_samples_sweep(struct fg_heap_samples *heap,
                           void (*each)(void *arg, const struct fg_stack_entry *entry), void *arg)
{
    struct fg_stack_batch *batch = fg_new(struct fg_stack_batch);
    uint32_t from = 0;
    bool more = true;

    while (more) {
        fg_quiet_lock(&heap->lock);
        more = fg_stack_counts_take(
            heap->stacks, 1 << FG_HEAP_ALLOC_OBJECTS | 1 << FG_HEAP_ALLOC_BYTES, &from, batch);
        fg_quiet_unlock(&heap->lock);
        for (uint32_t i = 0; i < batch->count; i++)
            each(arg, &batch->entries[i]);
    }
    free(batch);
}

uint64_t fg_heap_samples_dropped(const struct fg_heap_samples *heap)
{
    return atomic_load_explicit(&heap->dropped, memory_order_relaxed);
}
