#include "common/storage/cache/cache.h"

#include "common/runtime/thread.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

enum {
    CACHE_MIN_BUCKETS = 1024,
    ENTRY_OVERHEAD_BYTES = 64, /* of malloc, in addition to the entry and its value */
};

/* A link of a ring. */
struct ring {
    struct ring *before, *after;
};

struct fg_cache_entry {
    struct ring unused;     /* in the ring of the cache while it has no reference */
    struct ring owned;      /* in that of its owner, likewise */
    int64_t unused_mono_ns; /* since when it has no reference */
    struct fg_cache *cache;
    uint32_t owner;
    struct fg_cache_key key;
    uint64_t hash;
    struct fg_cache_entry *chain; /* next of the same bucket */
    enum fg_cache_state state;
    bool found;  /* in a bucket */
    bool spared; /* in the other ring of its owner */
    uint32_t refs;
    void *value;
    size_t bytes;
    void (*destroy)(void *value);
};

struct fg_cache {
    struct fg_clock *clock;
    pthread_mutex_t lock;   /* of all below; not held while a value is loaded or destroyed */
    pthread_cond_t changed; /* some entry is not LOADING any more */
    struct fg_cache_entry **buckets;
    size_t n_buckets;   /* a power of two */
    struct ring unused; /* the longest unused first */
    uint64_t bytes, entries, max_bytes;
    struct ring owned[FG_CACHE_OWNERS];    /* the unused entries of each owner, in the same order */
    struct ring spared[FG_CACHE_OWNERS];   /* likewise, those that are spared */
    uint64_t owner_bytes[FG_CACHE_OWNERS]; /* referenced or not */
    uint64_t spared_bytes[FG_CACHE_OWNERS]; /* of these */
    /* A binary tree over the owners, its root at 1: which one below a node has the most bytes. The
     * leaves, from FG_CACHE_OWNERS on, are the owners themselves. */
    uint32_t largest[2 * FG_CACHE_OWNERS];
};

/* ---- rings ---- */

static void ring_init(struct ring *ring)
{
    ring->before = ring->after = ring;
}

static void ring_remove(struct ring *link)
{
    link->before->after = link->after;
    link->after->before = link->before;
    ring_init(link);
}

static void ring_add_last(struct ring *ring, struct ring *link)
{
    link->before = ring->before;
    link->after = ring;
    ring->before->after = link;
    ring->before = link;
}

static bool ring_is_empty(const struct ring *ring)
{
    return ring->after == ring;
}

/* ---- owners; all locked ---- */

static uint32_t larger_below(const struct fg_cache *cache, size_t node)
{
    uint32_t left = cache->largest[2 * node], right = cache->largest[2 * node + 1];

    return cache->owner_bytes[right] > cache->owner_bytes[left] ? right : left;
}

/* Sets the bytes of an owner. Looks at the nodes above it, up to one that another owner keeps. */
static void owner_set(struct fg_cache *cache, uint32_t owner, uint64_t bytes)
{
    cache->owner_bytes[owner] = bytes;
    for (size_t node = (FG_CACHE_OWNERS + (size_t)owner) / 2; node > 0; node /= 2) {
        uint32_t was = cache->largest[node];

        cache->largest[node] = larger_below(cache, node);
        if (cache->largest[node] == was && was != owner)
            return;
    }
}

/* ---- finding; all locked ---- */

static uint64_t key_hash(const struct fg_cache_key *key)
{
    return fg_mix64(fg_id_table(key->object) ^ ((uint64_t)key->what << 56) ^
                    fg_mix64((uint64_t)key->part << 32 | key->number));
}

static struct fg_cache_entry **bucket_of(struct fg_cache *cache, uint64_t hash)
{
    return &cache->buckets[hash & (cache->n_buckets - 1)];
}

static struct fg_cache_entry *find(struct fg_cache *cache, const struct fg_cache_key *key,
                                   uint64_t hash)
{
    struct fg_cache_entry *at = *bucket_of(cache, hash);

    while (at != NULL && (!fg_id_eq(at->key.object, key->object) || at->key.what != key->what ||
                          at->key.part != key->part || at->key.number != key->number))
        at = at->chain;
    return at;
}

/* Doubles the table. All callers wait meanwhile, but each doubling comes only after as many new
 * entries. */
static void grow(struct fg_cache *cache)
{
    struct fg_cache_entry **old = cache->buckets;
    size_t n_old = cache->n_buckets;

    cache->n_buckets *= 2;
    cache->buckets = fg_calloc(cache->n_buckets, sizeof(struct fg_cache_entry *));
    for (size_t i = 0; i < n_old; i++) {
        for (struct fg_cache_entry *at = old[i], *next; at != NULL; at = next) {
            struct fg_cache_entry **bucket = bucket_of(cache, at->hash);

            next = at->chain;
            at->chain = *bucket;
            *bucket = at;
        }
    }
    free(old);
}

/* Adds to the size of an entry. */
static void charge(struct fg_cache_entry *entry, size_t bytes)
{
    entry->bytes += bytes;
    entry->cache->bytes += bytes;
    owner_set(entry->cache, entry->owner, entry->cache->owner_bytes[entry->owner] + bytes);
}

static struct fg_cache_entry *add_entry(struct fg_cache *cache, const struct fg_cache_key *key,
                                        uint64_t owner, uint64_t hash)
{
    struct fg_cache_entry *entry = fg_new(struct fg_cache_entry);
    struct fg_cache_entry **bucket;

    /* `entries` includes hidden entries, so the table is at worst a little larger than needed. */
    if (cache->entries >= cache->n_buckets)
        grow(cache);
    bucket = bucket_of(cache, hash);
    *entry = (struct fg_cache_entry){.cache = cache,
                                     .key = *key,
                                     .hash = hash,
                                     .chain = *bucket,
                                     .state = FG_CACHE_LOADING,
                                     .found = true,
                                     .owner = (uint32_t)(fg_mix64(owner) % FG_CACHE_OWNERS),
                                     .refs = 1};
    ring_init(&entry->unused);
    ring_init(&entry->owned);
    *bucket = entry;
    cache->entries++;
    charge(entry, sizeof *entry + ENTRY_OVERHEAD_BYTES);
    return entry;
}

/* Removes an entry from the table: it is not found any more. Holders of a reference may go on
 * reading it. */
static void hide(struct fg_cache_entry *entry)
{
    struct fg_cache_entry **link = bucket_of(entry->cache, entry->hash);

    while (*link != entry)
        link = &(*link)->chain;
    *link = entry->chain;
    entry->chain = NULL;
    entry->found = false;
}

/* ---- what goes ---- */

/* Moves an unreferenced entry out of the cache, onto a list that the caller frees without the
 * lock. */
static void take_out(struct fg_cache_entry *entry, struct fg_cache_entry **gone)
{
    fg_assert(entry->refs == 0 && entry->state != FG_CACHE_LOADING);
    fg_assert(entry->cache->entries > 0 && entry->cache->bytes >= entry->bytes &&
              entry->cache->owner_bytes[entry->owner] >= entry->bytes);
    if (entry->found)
        hide(entry);
    ring_remove(&entry->unused);
    ring_remove(&entry->owned);
    entry->cache->bytes -= entry->bytes;
    if (entry->spared)
        entry->cache->spared_bytes[entry->owner] -= entry->bytes;
    owner_set(entry->cache, entry->owner, entry->cache->owner_bytes[entry->owner] - entry->bytes);
    entry->cache->entries--;
    entry->chain = *gone;
    *gone = entry;
}

/* Chooses what to evict; there is an unused entry. */
static struct fg_cache_entry *choose(struct fg_cache *cache)
{
    struct fg_cache_entry *oldest =
        fg_container(cache->unused.after, struct fg_cache_entry, unused);
    uint32_t owner = cache->largest[1];
    struct ring *owned = &cache->owned[owner], *spared = &cache->spared[owner];

    if (fg_mono_ns(cache->clock) - oldest->unused_mono_ns > FG_CACHE_STALE_NS)
        return oldest;
    if (ring_is_empty(owned) ||
        (!ring_is_empty(spared) && cache->spared_bytes[owner] > cache->owner_bytes[owner] / 2))
        owned = spared;
    /* If queries use all that the owner has, another one's entry has to go. */
    return ring_is_empty(owned) ? oldest : fg_container(owned->after, struct fg_cache_entry, owned);
}

/* Referenced entries are in no ring, so the cache may exceed its bound by what queries use at the
 * moment; these have limits of their own. */
static void make_room(struct fg_cache *cache, struct fg_cache_entry **gone)
{
    while (cache->bytes > cache->max_bytes && !ring_is_empty(&cache->unused))
        take_out(choose(cache), gone);
}

/* Without the lock: destroy() of a value may release other entries of this cache, which takes
 * the lock, and freeing a large tree would hold up all queries. */
static void free_gone(struct fg_cache_entry *gone)
{
    while (gone != NULL) {
        /* take_out() puts none on the list twice, which the analyzer cannot see. */
        struct fg_cache_entry *next = gone->chain; /* NOLINT(clang-analyzer-unix.Malloc) */

        if (gone->value != NULL)
            gone->destroy(gone->value);
        free(gone);
        gone = next;
    }
}

/* ---- outside ---- */

struct fg_cache *fg_cache_create(uint64_t max_bytes, struct fg_clock *clock)
{
    struct fg_cache *cache = fg_new(struct fg_cache);

    (void)pthread_mutex_init(&cache->lock, NULL);
    fg_cond_init(&cache->changed);
    cache->n_buckets = CACHE_MIN_BUCKETS;
    cache->buckets = fg_calloc(cache->n_buckets, sizeof(struct fg_cache_entry *));
    ring_init(&cache->unused);
    for (uint32_t i = 0; i < FG_CACHE_OWNERS; i++) {
        ring_init(&cache->owned[i]);
        ring_init(&cache->spared[i]);
        cache->largest[FG_CACHE_OWNERS + i] = i;
    }
    for (size_t node = FG_CACHE_OWNERS - 1; node > 0; node--)
        cache->largest[node] = larger_below(cache, node);
    cache->clock = clock;
    cache->max_bytes = max_bytes;
    return cache;
}

void fg_cache_destroy(struct fg_cache *cache)
{
    if (cache == NULL)
        return;
    /* Freeing one may let go of another, which is unused then. */
    cache->max_bytes = 0;
    while (!ring_is_empty(&cache->unused)) {
        struct fg_cache_entry *gone = NULL;

        make_room(cache, &gone);
        free_gone(gone);
    }
    fg_assert(cache->entries == 0);
    free(cache->buckets);
    (void)pthread_cond_destroy(&cache->changed);
    (void)pthread_mutex_destroy(&cache->lock);
    free(cache);
}

struct fg_cache_entry *fg_cache_open(struct fg_cache *cache, const struct fg_cache_key *key,
                                     uint64_t owner, enum fg_cache_state *ret_state, bool *ret_mine)
{
    uint64_t hash = key_hash(key);
    struct fg_cache_entry *entry;

    (void)pthread_mutex_lock(&cache->lock);
    entry = find(cache, key, hash);
    *ret_mine = entry == NULL;
    if (entry == NULL) {
        entry = add_entry(cache, key, owner, hash);
    } else {
        fg_assert(entry->state != FG_CACHE_FAILED); /* a failed entry is not found */
        entry->refs++;
        /* A referenced entry is in no ring; ring_remove() of one that is not linked does
         * nothing. */
        ring_remove(&entry->unused);
        ring_remove(&entry->owned);
    }
    *ret_state = entry->state;
    (void)pthread_mutex_unlock(&cache->lock);
    return entry;
}

void fg_cache_fill(struct fg_cache_entry *entry, void *value, size_t bytes,
                   void (*destroy)(void *value))
{
    struct fg_cache *cache = entry->cache;
    struct fg_cache_entry *gone = NULL;

    (void)pthread_mutex_lock(&cache->lock);
    fg_assert(entry->state == FG_CACHE_LOADING && entry->refs > 0 && value != NULL);
    entry->state = FG_CACHE_READY;
    entry->value = value;
    entry->destroy = destroy;
    /* Charged now and not when the entry was opened: its size was not known then. */
    charge(entry, bytes);
    make_room(cache, &gone);
    /* One condition for all entries: waits are rare, and a condition in each of a million
     * entries would cost more than the spurious wake-ups. */
    (void)pthread_cond_broadcast(&cache->changed);
    (void)pthread_mutex_unlock(&cache->lock);
    free_gone(gone);
}

void fg_cache_spare(struct fg_cache_entry *entry)
{
    struct fg_cache *cache = entry->cache;

    (void)pthread_mutex_lock(&cache->lock);
    fg_assert(entry->state == FG_CACHE_READY && entry->refs > 0);
    if (!entry->spared)
        cache->spared_bytes[entry->owner] += entry->bytes;
    entry->spared = true;
    (void)pthread_mutex_unlock(&cache->lock);
}

void fg_cache_fail(struct fg_cache_entry *entry)
{
    struct fg_cache *cache = entry->cache;

    (void)pthread_mutex_lock(&cache->lock);
    fg_assert(entry->state == FG_CACHE_LOADING && entry->refs > 0);
    entry->state = FG_CACHE_FAILED;
    /* Waiters still see FAILED through their references; the next open() finds nothing and makes
     * a new entry, so one failure is not remembered. */
    hide(entry);
    (void)pthread_cond_broadcast(&cache->changed);
    (void)pthread_mutex_unlock(&cache->lock);
}

void fg_cache_drop(struct fg_cache *cache, const struct fg_cache_key *key)
{
    struct fg_cache_entry *gone = NULL, *entry;

    (void)pthread_mutex_lock(&cache->lock);
    entry = find(cache, key, key_hash(key));
    if (entry != NULL && entry->state == FG_CACHE_READY) {
        if (entry->refs == 0)
            take_out(entry, &gone);
        else
            hide(entry); /* the last reference frees it */
    }
    (void)pthread_mutex_unlock(&cache->lock);
    free_gone(gone);
}

/* When a wait on the condition ends, which counts on the same clock as the rest. */
static struct timespec after(int64_t timeout_ns)
{
    int64_t at_ns = fg_time_add(fg_mono_ns(fg_clock_real()), timeout_ns);

    return (struct timespec){.tv_sec = at_ns / FG_SECOND_NS, .tv_nsec = at_ns % FG_SECOND_NS};
}

enum fg_cache_state fg_cache_wait(struct fg_cache_entry *entry, int64_t timeout_ns)
{
    struct fg_cache *cache = entry->cache;
    struct timespec until = after(timeout_ns);
    enum fg_cache_state state;
    int rc = 0;

    (void)pthread_mutex_lock(&cache->lock);
    while (entry->state == FG_CACHE_LOADING && rc == 0)
        rc = pthread_cond_timedwait(&cache->changed, &cache->lock, &until);
    state = entry->state;
    (void)pthread_mutex_unlock(&cache->lock);
    return state;
}

void *fg_cache_value(const struct fg_cache_entry *entry)
{
    fg_assert(entry->state == FG_CACHE_READY);
    return entry->value;
}

struct fg_cache_entry *fg_cache_ref(struct fg_cache_entry *entry)
{
    (void)pthread_mutex_lock(&entry->cache->lock);
    fg_assert(entry->refs > 0);
    entry->refs++;
    (void)pthread_mutex_unlock(&entry->cache->lock);
    return entry;
}

void fg_cache_unref(struct fg_cache_entry *entry)
{
    struct fg_cache_entry *gone = NULL;
    struct fg_cache *cache;

    if (entry == NULL)
        return;
    cache = entry->cache;
    (void)pthread_mutex_lock(&cache->lock);
    fg_assert(entry->refs > 0);
    if (--entry->refs == 0) {
        /* Last in the rings: it was used just now, so it is the last one to be evicted. */
        if (entry->found) {
            entry->unused_mono_ns = fg_mono_ns(cache->clock);
            ring_add_last(&cache->unused, &entry->unused);
            ring_add_last(entry->spared ? &cache->spared[entry->owner]
                                        : &cache->owned[entry->owner],
                          &entry->owned);
        } else {
            take_out(entry, &gone);
        }
        make_room(cache, &gone);
    }
    (void)pthread_mutex_unlock(&cache->lock);
    free_gone(gone);
}

struct fg_cache_stats fg_cache_stats(struct fg_cache *cache)
{
    struct fg_cache_stats stats;

    (void)pthread_mutex_lock(&cache->lock);
    stats = (struct fg_cache_stats){cache->bytes, cache->entries};
    (void)pthread_mutex_unlock(&cache->lock);
    return stats;
}
