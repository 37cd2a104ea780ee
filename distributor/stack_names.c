#include "distributor/stack_names.h"

#include <pthread.h>
#include <stdlib.h>

enum {
    WAYS = 4,  /* ids of a bucket: a line of the processor's cache */
    AHEAD = 8, /* buckets prefetched ahead of the lookup */
};

#define SHORT_MASK ((UINT64_C(1) << 8 * FG_STACK_SHORT_BYTES) - 1)

struct names_bucket {
    struct fg_id ids[WAYS]; /* the last one that was added first; zero: none */
};

struct dist_stack_names {
    pthread_mutex_t lock; /* of the buckets; held for one batch */
    struct names_bucket *buckets;
    uint64_t mask;
};

struct dist_stack_names *dist_stack_names_create(uint64_t ids_max)
{
    struct dist_stack_names *names = fg_new(struct dist_stack_names);
    uint64_t n = 1;

    while (n * WAYS < ids_max)
        n *= 2;
    (void)pthread_mutex_init(&names->lock, NULL);
    names->buckets = fg_calloc(n, sizeof *names->buckets);
    names->mask = n - 1;
    return names;
}

void dist_stack_names_destroy(struct dist_stack_names *names)
{
    if (names == NULL)
        return;
    (void)pthread_mutex_destroy(&names->lock);
    free(names->buckets);
    free(names);
}

uint64_t dist_stack_names_key(struct fg_slice tenant)
{
    return fg_hash64_table(tenant);
}

static struct names_bucket *bucket_of(const struct dist_stack_names *names, uint64_t key,
                                      uint64_t short_id)
{
    return &names->buckets[fg_mix64(short_id ^ key) & names->mask];
}

/* The oldest of the bucket makes room. */
static void put(struct names_bucket *bucket, struct fg_id id)
{
    for (unsigned way = 0; way < WAYS; way++)
        if (fg_id_eq(bucket->ids[way], id))
            return;
    memmove(&bucket->ids[1], &bucket->ids[0], (WAYS - 1) * sizeof id);
    bucket->ids[0] = id;
}

void dist_stack_names_add(struct dist_stack_names *names, uint64_t key,
                          const struct fg_wire_stack *stacks, uint32_t n)
{
    (void)pthread_mutex_lock(&names->lock);
    for (uint32_t i = 0; i < n; i++)
        put(bucket_of(names, key, stacks[i].id.lo & SHORT_MASK), stacks[i].id);
    (void)pthread_mutex_unlock(&names->lock);
}

static bool find(const struct names_bucket *bucket, uint64_t short_id, struct fg_id *ret_id)
{
    for (unsigned way = 0; way < WAYS; way++) {
        if ((bucket->ids[way].lo & SHORT_MASK) == short_id && !fg_id_is_zero(bucket->ids[way])) {
            *ret_id = bucket->ids[way];
            return true;
        }
    }
    return false;
}

bool dist_stack_names_find(struct dist_stack_names *names, uint64_t key, const uint64_t *shorts,
                           uint32_t n, struct fg_id *ids)
{
    bool found = true;

    (void)pthread_mutex_lock(&names->lock);
    for (uint32_t i = 0; i < n && found; i++) {
        if (i + AHEAD < n)
            __builtin_prefetch(bucket_of(names, key, shorts[i + AHEAD]));
        found = find(bucket_of(names, key, shorts[i]), shorts[i], &ids[i]);
    }
    (void)pthread_mutex_unlock(&names->lock);
    return found;
}
