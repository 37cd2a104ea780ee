#include "common/model/definition_cache.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    CACHE_SHARDS = 64,  /* each with a lock, so that pushes of different services rarely wait */
    SET_MIN_SLOTS = 32, /* most services are small */
    AHEAD = 16,         /* slots prefetched ahead of the lookup */
    STACK_BYTES = 16,   /* average: 11 in a full set, 21 in one that has just grown */
};

/* A set of 64-bit halves of ids. A false hit costs one more round trip, nothing else. */
struct stack_set {
    uint64_t key, start_id;
    uint64_t *slots; /* 0: empty */
    size_t mask, count;
    bool used; /* since make_room() last passed */
    struct stack_set *next;
};

struct shard {
    pthread_mutex_t lock; /* of the sets, their stacks included */
    struct stack_set *sets;
};

struct fg_definition_cache {
    struct shard shards[CACHE_SHARDS];
    _Atomic uint64_t bytes; /* of all sets: one limit, because a few shards may hold nearly all */
    uint64_t bytes_max;
    _Atomic unsigned hand; /* the next shard that has to give something up */
};

struct fg_definition_cache *fg_definition_cache_create(size_t stacks_max)
{
    struct fg_definition_cache *cache = fg_new(struct fg_definition_cache);

    /* A limit in bytes, because sets that are half empty take as much memory as full ones. */
    cache->bytes_max = (uint64_t)stacks_max * STACK_BYTES;
    for (size_t i = 0; i < CACHE_SHARDS; i++)
        (void)pthread_mutex_init(&cache->shards[i].lock, NULL);
    return cache;
}

static uint64_t set_bytes(const struct stack_set *set)
{
    return sizeof *set + (set->slots == NULL ? 0 : (set->mask + 1) * sizeof *set->slots);
}

static void set_free(struct fg_definition_cache *cache, struct stack_set *set)
{
    (void)atomic_fetch_sub(&cache->bytes, set_bytes(set));
    free(set->slots);
    free(set);
}

void fg_definition_cache_destroy(struct fg_definition_cache *cache)
{
    if (cache == NULL)
        return;
    for (size_t i = 0; i < CACHE_SHARDS; i++) {
        struct shard *shard = &cache->shards[i];

        while (shard->sets != NULL) {
            struct stack_set *set = shard->sets;

            shard->sets = set->next;
            set_free(cache, set);
        }
        (void)pthread_mutex_destroy(&shard->lock);
    }
    fg_assert(atomic_load(&cache->bytes) == 0);
    free(cache);
}

uint64_t fg_definition_cache_bytes(const struct fg_definition_cache *cache)
{
    return sizeof *cache + atomic_load(&cache->bytes);
}

uint64_t fg_definition_cache_service_key(struct fg_slice tenant, struct fg_slice service)
{
    /* Mixed, so that tenant "a" with service "b" and tenant "b" with service "a" have different
     * keys. */
    return fg_mix64(fg_hash64(tenant)) ^ fg_hash64(service);
}

static struct shard *shard_of(struct fg_definition_cache *cache, uint64_t key)
{
    return &cache->shards[key % CACHE_SHARDS];
}

static struct stack_set *find_set(const struct shard *shard, uint64_t key)
{
    struct stack_set *set = shard->sets;

    while (set != NULL && set->key != key)
        set = set->next;
    if (set != NULL)
        set->used = true;
    return set;
}

/* Returns what a set has of an id. Seeded: a client can look for stacks whose ids meet in a slot. 0
 * marks an empty slot, and is stored as 1. */
static uint64_t half(struct fg_id id)
{
    uint64_t value = fg_id_table(id);

    return value == 0 ? 1 : value;
}

static bool set_has(const struct stack_set *set, uint64_t value)
{
    if (set->slots == NULL)
        return false;
    for (size_t i = value & set->mask; set->slots[i] != 0; i = (i + 1) & set->mask)
        if (set->slots[i] == value)
            return true;
    return false;
}

static void set_put(struct stack_set *set, uint64_t value)
{
    size_t i = value & set->mask;

    while (set->slots[i] != 0)
        i = (i + 1) & set->mask;
    set->slots[i] = value;
}

static void set_grow(struct fg_definition_cache *cache, struct stack_set *set)
{
    uint64_t *old = set->slots;
    size_t old_slots = old == NULL ? 0 : set->mask + 1;
    size_t slots = FG_MAX(SET_MIN_SLOTS, old_slots * 2);

    set->slots = fg_calloc(slots, sizeof *set->slots);
    set->mask = slots - 1;
    for (size_t i = 0; i < old_slots; i++)
        if (old[i] != 0)
            set_put(set, old[i]);
    free(old);
    (void)atomic_fetch_add(&cache->bytes, (slots - old_slots) * sizeof *set->slots);
}

void fg_definition_cache_look_up(struct fg_definition_cache *cache, uint64_t key,
                                 const struct fg_batch *batch, bool *define)
{
    struct shard *shard = shard_of(cache, key);
    const struct stack_set *set;

    (void)pthread_mutex_lock(&shard->lock);
    set = find_set(shard, key);
    /* A large set does not fit into a core's cache. The prefetch hides the misses, under the lock.
     */
    for (uint32_t i = 0; i < batch->n_stacks; i++) {
        if (i + AHEAD < batch->n_stacks && set != NULL && set->slots != NULL)
            __builtin_prefetch(&set->slots[half(batch->stacks[i + AHEAD].id) & set->mask]);
        if (set == NULL || !set_has(set, half(batch->stacks[i].id)))
            define[i] = true;
    }
    (void)pthread_mutex_unlock(&shard->lock);
}

static void empty_set(struct fg_definition_cache *cache, struct stack_set *set)
{
    uint64_t bytes = set_bytes(set);

    free(fg_take(set->slots));
    set->count = 0;
    (void)atomic_fetch_sub(&cache->bytes, bytes - set_bytes(set));
}

static struct stack_set *make_set(struct fg_definition_cache *cache, struct shard *shard,
                                  uint64_t key, uint64_t start_id)
{
    struct stack_set *set = find_set(shard, key);

    if (set == NULL) {
        set = fg_new(struct stack_set);
        set->key = key;
        set->used = true;
        set->next = shard->sets;
        shard->sets = set;
        (void)atomic_fetch_add(&cache->bytes, set_bytes(set));
        /* The process has restarted. It may have lost what was not synced, so nothing that its
         * predecessor was known to have counts. */
    } else if (set->start_id != start_id) {
        empty_set(cache, set);
    }
    set->start_id = start_id;
    return set;
}

/* Evicts sets while the cache is too large. spare: keeps those used since the last pass. Locked. */
static void drop_sets(struct fg_definition_cache *cache, struct shard *shard, bool spare)
{
    struct stack_set **at = &shard->sets;

    while (*at != NULL && atomic_load(&cache->bytes) > cache->bytes_max) {
        struct stack_set *set = *at;

        if (spare && set->used) {
            set->used = false;
            at = &set->next;
        } else {
            *at = set->next;
            set_free(cache, set);
        }
    }
}

/* Evicts from one shard after the other, from where the last call stopped (the clock algorithm). */
static void make_room(struct fg_definition_cache *cache)
{
    /* The first pass over all shards takes the marks of use away and evicts what had none; a second
     * pass evicts the rest. */
    for (unsigned n = 0; atomic_load(&cache->bytes) > cache->bytes_max; n++) {
        struct shard *shard = &cache->shards[atomic_fetch_add(&cache->hand, 1) % CACHE_SHARDS];

        (void)pthread_mutex_lock(&shard->lock);
        drop_sets(cache, shard, n < CACHE_SHARDS);
        (void)pthread_mutex_unlock(&shard->lock);
    }
}

void fg_definition_cache_add(struct fg_definition_cache *cache, uint64_t key, uint64_t start_id,
                             const struct fg_id *ids, uint32_t count)
{
    struct shard *shard = shard_of(cache, key);
    struct stack_set *set;

    (void)pthread_mutex_lock(&shard->lock);
    set = make_set(cache, shard, key, start_id);
    for (uint32_t i = 0; i < count; i++)
        if (!set_has(set, half(ids[i]))) {
            /* Three quarters full at most: linear probing is fast until then, and an empty slot
             * ends each probe. */
            if (set->slots == NULL || set->count + 1 > (set->mask + 1) / 4 * 3)
                set_grow(cache, set);
            fg_assert(set->count < set->mask);
            set_put(set, half(ids[i]));
            set->count++;
        }
    (void)pthread_mutex_unlock(&shard->lock);
    /* After the unlock: it locks one shard after the other, this one included. */
    make_room(cache);
}

void fg_definition_cache_forget(struct fg_definition_cache *cache, uint64_t key)
{
    struct shard *shard = shard_of(cache, key);
    struct stack_set *set;

    (void)pthread_mutex_lock(&shard->lock);
    set = find_set(shard, key);
    if (set != NULL)
        empty_set(cache, set);
    (void)pthread_mutex_unlock(&shard->lock);
}
