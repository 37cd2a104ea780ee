#include "common/self_profile/stack_counts.h"

#include "common/base/hash.h"

#include <string.h>
#include <sys/mman.h>

struct fg_stack_counts {
    uint32_t stacks_max, used;
    uint32_t fresh; /* entries from here on were never used */
    uint32_t free;  /* first of the list */
    size_t size_bytes;
    uint32_t *buckets; /* [stacks_max]: first entry plus 1; 0: none */
    struct fg_stack_entry *entries;
};

struct fg_stack_counts *fg_stack_counts_create(uint32_t stacks_max)
{
    struct fg_stack_counts *counts;
    size_t size_bytes = sizeof *counts + stacks_max * sizeof *counts->entries +
                        stacks_max * sizeof *counts->buckets;

    /* Not malloc(), which would touch and keep all of it. */
    counts = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    fg_assert(counts != MAP_FAILED);
    counts->stacks_max = stacks_max;
    counts->free = FG_STACK_NONE;
    counts->size_bytes = size_bytes;
    counts->entries = (struct fg_stack_entry *)(counts + 1);
    counts->buckets = (uint32_t *)(counts->entries + stacks_max);
    return counts;
}

void fg_stack_counts_destroy(struct fg_stack_counts *counts)
{
    if (counts != NULL)
        (void)munmap(counts, counts->size_bytes);
}

static uint32_t *bucket_of(struct fg_stack_counts *counts, uint64_t hash)
{
    return &counts->buckets[hash & (counts->stacks_max - 1)];
}

static uint32_t take_free(struct fg_stack_counts *counts)
{
    uint32_t number = counts->free;

    if (number != FG_STACK_NONE)
        counts->free = counts->entries[number].next;
    else if (counts->fresh < counts->stacks_max)
        number = counts->fresh++;
    return number;
}

uint32_t fg_stack_counts_find(struct fg_stack_counts *counts, uint32_t tag, const uintptr_t *pcs,
                              uint32_t depth)
{
    size_t pcs_bytes = depth * sizeof *pcs;
    uint64_t hash = fg_mix64(fg_hash64(fg_bytes(pcs, pcs_bytes)) ^ tag);
    uint32_t *bucket = bucket_of(counts, hash), number;
    struct fg_stack_entry *entry;

    fg_assert(depth > 0 && depth <= FG_STACK_DEPTH_MAX);
    for (number = *bucket; number > 0; number = entry->next) {
        entry = &counts->entries[number - 1];
        if (entry->hash == hash && entry->tag == tag && entry->depth == depth &&
            memcmp(entry->pcs, pcs, pcs_bytes) == 0)
            return number - 1;
    }
    number = take_free(counts);
    if (number == FG_STACK_NONE)
        return FG_STACK_NONE;
    entry = &counts->entries[number];
    entry->hash = hash;
    entry->tag = tag;
    entry->depth = depth;
    entry->next = *bucket;
    memset(entry->values, 0, sizeof entry->values);
    memcpy(entry->pcs, pcs, pcs_bytes);
    *bucket = number + 1;
    counts->used++;
    return number;
}

struct fg_stack_entry *fg_stack_counts_at(struct fg_stack_counts *counts, uint32_t number)
{
    return &counts->entries[number];
}

static bool is_empty(const struct fg_stack_entry *entry)
{
    for (unsigned i = 0; i < FG_STACK_VALUES; i++)
        if (entry->values[i] != 0)
            return false;
    return true;
}

static void remove_entry(struct fg_stack_counts *counts, uint32_t number)
{
    struct fg_stack_entry *entry = &counts->entries[number];
    uint32_t *link = bucket_of(counts, entry->hash);

    while (*link != number + 1)
        link = &counts->entries[*link - 1].next;
    *link = entry->next;
    entry->depth = 0;
    entry->next = counts->free;
    counts->free = number;
    counts->used--;
}

bool fg_stack_counts_take(struct fg_stack_counts *counts, unsigned reset, uint32_t *from,
                          struct fg_stack_batch *ret_batch)
{
    uint32_t end = FG_MIN(counts->fresh, *from + FG_STACK_BATCH);

    ret_batch->count = 0;
    for (; *from < end; ++*from) {
        struct fg_stack_entry *entry = &counts->entries[*from];

        if (entry->depth == 0)
            continue;
        if (!is_empty(entry))
            ret_batch->entries[ret_batch->count++] = *entry;
        for (unsigned i = 0; i < FG_STACK_VALUES; i++)
            if ((reset >> i & 1) != 0)
                entry->values[i] = 0;
        if (is_empty(entry))
            remove_entry(counts, *from);
    }
    return *from < counts->fresh;
}

uint32_t fg_stack_counts_used(const struct fg_stack_counts *counts)
{
    return counts->used;
}
