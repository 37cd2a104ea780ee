/*
 * What it costs to add an entry to a full cache that many owners share, and to evict one for it.
 *
 *     bench_cache [OWNERS [ROUNDS]]
 *
 * tests/bench/run cache counts instructions: those of twice as many rounds less those of once.
 */
#include "common/base/arena.h"
#include "common/storage/cache/cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum {
    OWNERS = 10000,
    ROUNDS = 1000000,
    ENTRY_BYTES = 100,
    OWN_BYTES = 300, /* of the cache, for each owner */
};

static void destroy_nothing(void *value)
{
    (void)value;
}

static void add(struct fg_cache *cache, uint64_t number, uint64_t owner)
{
    struct fg_cache_key key = {.object = {.lo = number}};
    enum fg_cache_state state;
    bool mine;
    struct fg_cache_entry *entry = fg_cache_open(cache, &key, owner, &state, &mine);

    fg_assert(mine);
    fg_cache_fill(entry, cache, ENTRY_BYTES, destroy_nothing);
    fg_cache_unref(entry);
}

int main(int argc, char **argv)
{
    unsigned long owners = argc > 1 ? strtoul(argv[1], NULL, 10) : OWNERS;
    unsigned long rounds = argc > 2 ? strtoul(argv[2], NULL, 10) : ROUNDS;
    unsigned long filled = owners * 2;
    struct fg_cache *cache;
    struct timespec begin, end;

    if (argc > 3 || owners == 0 || owners > 10000000) {
        (void)fprintf(stderr, "usage: bench_cache [OWNERS [ROUNDS]]\n");
        return 2;
    }
    cache = fg_cache_create(owners * OWN_BYTES, fg_clock_real());
    for (unsigned long i = 0; i < filled; i++)
        add(cache, i, i % owners);
    uint64_t entries = fg_cache_stats(cache).entries;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
    for (unsigned long i = 0; i < rounds; i++)
        add(cache, filled + i, i % owners);
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    fg_assert(fg_cache_stats(cache).entries == entries); /* each addition evicted one */
    printf("| %lu owners, %lu entries | %.0f ns |\n", owners, (unsigned long)entries,
           ((double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec)) /
               (double)FG_MAX(rounds, 1));
    fg_cache_destroy(cache);
    return 0;
}
