#include "distributor/known.h"

#include <pthread.h>

enum {
    KNOWN_SHARDS = 64, /* locks: pushes of different services rarely meet */
    SET_MIN_SLOTS = 256,
    AHEAD = 16, /* slots on their way into the cache */
};

/* A set of 64-bit halves of ids. A false "known" costs one more round trip, nothing else. */
struct set {
    uint64_t key, start_id;
    uint64_t *slots; /* 0: empty */
    size_t mask, count;
    struct set *next;
};

struct shard {
    pthread_mutex_t lock;
    struct set *sets;
    size_t stacks;
};

struct known {
    struct shard shards[KNOWN_SHARDS];
    size_t shard_max; /* stacks */
};

struct known *known_create(size_t stacks_max)
{
    struct known *known = fg_new(struct known);

    known->shard_max = FG_MAX(stacks_max / KNOWN_SHARDS, SET_MIN_SLOTS);
    for (size_t i = 0; i < KNOWN_SHARDS; i++)
        (void)pthread_mutex_init(&known->shards[i].lock, NULL);
    return known;
}

static void forget_all(struct shard *shard)
{
    while (shard->sets != NULL) {
        struct set *next = shard->sets->next;

        free(shard->sets->slots);
        free(shard->sets);
        shard->sets = next;
    }
    shard->stacks = 0;
}

void known_destroy(struct known *known)
{
    if (known == NULL)
        return;
    for (size_t i = 0; i < KNOWN_SHARDS; i++) {
        forget_all(&known->shards[i]);
        (void)pthread_mutex_destroy(&known->shards[i].lock);
    }
    free(known);
}

uint64_t known_bytes(struct known *known)
{
    uint64_t bytes = sizeof *known;

    for (size_t i = 0; i < KNOWN_SHARDS; i++) {
        (void)pthread_mutex_lock(&known->shards[i].lock);
        for (struct set *set = known->shards[i].sets; set != NULL; set = set->next)
            bytes += sizeof *set + (set->slots == NULL ? 0 : (set->mask + 1) * sizeof *set->slots);
        (void)pthread_mutex_unlock(&known->shards[i].lock);
    }
    return bytes;
}

uint64_t known_service(struct fg_slice tenant, struct fg_slice service)
{
    return fg_mix64(fg_hash64(tenant)) ^ fg_hash64(service);
}

static struct shard *shard_of(struct known *known, uint64_t key)
{
    return &known->shards[key % KNOWN_SHARDS];
}

static struct set *find_set(const struct shard *shard, uint64_t key)
{
    struct set *set = shard->sets;

    while (set != NULL && set->key != key)
        set = set->next;
    return set;
}

/* 0 marks an empty slot, so the one id in 2^64 that is 0 goes by another number. */
static uint64_t half(struct fg_id id)
{
    return id.lo == 0 ? 1 : id.lo;
}

static bool set_has(const struct set *set, uint64_t value)
{
    if (set->slots == NULL)
        return false;
    for (size_t i = value & set->mask; set->slots[i] != 0; i = (i + 1) & set->mask)
        if (set->slots[i] == value)
            return true;
    return false;
}

static void set_put(struct set *set, uint64_t value)
{
    size_t i = value & set->mask;

    while (set->slots[i] != 0)
        i = (i + 1) & set->mask;
    set->slots[i] = value;
}

static void set_add(struct set *set, uint64_t value)
{
    if (set->slots == NULL || set->count + 1 > (set->mask + 1) / 4 * 3) {
        uint64_t *old = set->slots;
        size_t old_slots = old == NULL ? 0 : set->mask + 1;
        size_t slots = FG_MAX(SET_MIN_SLOTS, old_slots * 2);

        set->slots = fg_calloc(slots, sizeof *set->slots);
        set->mask = slots - 1;
        for (size_t i = 0; i < old_slots; i++)
            if (old[i] != 0)
                set_put(set, old[i]);
        free(old);
    }
    set_put(set, value);
    set->count++;
}

void known_look_up(struct known *known, uint64_t key, const struct fg_batch *batch, bool *define)
{
    struct shard *shard = shard_of(known, key);
    const struct set *set;

    (void)pthread_mutex_lock(&shard->lock);
    set = find_set(shard, key);
    for (uint32_t i = 0; i < batch->n_stacks; i++) {
        if (i + AHEAD < batch->n_stacks && set != NULL && set->slots != NULL)
            __builtin_prefetch(&set->slots[half(batch->stacks[i + AHEAD].id) & set->mask]);
        if (set == NULL || !set_has(set, half(batch->stacks[i].id)))
            define[i] = true;
    }
    (void)pthread_mutex_unlock(&shard->lock);
}

static void empty_set(struct shard *shard, struct set *set)
{
    shard->stacks -= set->count;
    free(fg_take(set->slots));
    set->count = 0;
}

static struct set *make_set(struct shard *shard, uint64_t key, uint64_t start_id)
{
    struct set *set = find_set(shard, key);

    if (set == NULL) {
        set = fg_new(struct set);
        set->key = key;
        set->next = shard->sets;
        shard->sets = set;
    } else if (set->start_id != start_id) {
        empty_set(shard, set);
    }
    set->start_id = start_id;
    return set;
}

void known_add(struct known *known, uint64_t key, uint64_t start_id, const struct fg_id *ids,
               uint32_t count)
{
    struct shard *shard = shard_of(known, key);
    struct set *set;

    (void)pthread_mutex_lock(&shard->lock);
    if (shard->stacks + count > known->shard_max)
        forget_all(shard);
    set = make_set(shard, key, start_id);
    for (uint32_t i = 0; i < count; i++)
        if (!set_has(set, half(ids[i]))) {
            set_add(set, half(ids[i]));
            shard->stacks++;
        }
    (void)pthread_mutex_unlock(&shard->lock);
}

void known_forget(struct known *known, uint64_t key)
{
    struct shard *shard = shard_of(known, key);
    struct set *set;

    (void)pthread_mutex_lock(&shard->lock);
    set = find_set(shard, key);
    if (set != NULL)
        empty_set(shard, set);
    (void)pthread_mutex_unlock(&shard->lock);
}
