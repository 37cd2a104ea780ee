#include "common/storage/seal/key_ring.h"

#include "common/base/hash.h"
#include "common/base/map.h"
#include "common/runtime/rwlock.h"
#include "common/storage/seal/locked.h"

enum { SLAB_KEYS = 128 }; /* 4 KiB, the usual page */

struct slab {
    struct slab *next;
    struct fg_seal_key *keys; /* [SLAB_KEYS], locked */
};

/* A key, or a place for one. */
struct ring_entry {
    char *tenant; /* NULL: the place is free */
    uint32_t number;
    struct fg_seal_key *key; /* in a slab */
};

struct fg_key_ring {
    struct fg_rwlock lock; /* of all fields; pages take it for reading */
    struct slab *slabs;
    struct ring_entry *entries; /* each has a key of a slab, for ever */
    uint32_t n_entries;
    struct fg_map map; /* by tenant and number; also of places that were freed */
    bool locked;
};

static uint64_t hash_of(struct fg_slice tenant, uint32_t number)
{
    return fg_hash64_table(tenant) ^ fg_mix64(number);
}

struct fg_key_ring *fg_key_ring_create(void)
{
    struct fg_key_ring *ring = fg_new(struct fg_key_ring);

    fg_rwlock_init(&ring->lock);
    fg_map_init(&ring->map);
    ring->locked = true;
    return ring;
}

void fg_key_ring_destroy(struct fg_key_ring *ring)
{
    struct slab *slab, *next;

    if (ring == NULL)
        return;
    for (slab = ring->slabs; slab != NULL; slab = next) {
        next = slab->next;
        fg_locked_free(slab->keys, SLAB_KEYS * sizeof *slab->keys);
        free(slab);
    }
    for (uint32_t i = 0; i < ring->n_entries; i++)
        free(ring->entries[i].tenant);
    free(ring->entries);
    fg_map_done(&ring->map);
    fg_rwlock_done(&ring->lock);
    free(ring);
}

/* Returns the entry, NULL if there is none. */
static struct ring_entry *find(const struct fg_key_ring *ring, struct fg_slice tenant,
                               uint32_t number)
{
    struct fg_map_walk walk;

    for (uint32_t i = fg_map_first(&ring->map, hash_of(tenant, number), &walk); i != FG_MAP_NONE;
         i = fg_map_next(&ring->map, &walk)) {
        struct ring_entry *entry = &ring->entries[i];

        if (entry->tenant != NULL && entry->number == number && fg_slice_is(tenant, entry->tenant))
            return entry;
    }
    return NULL;
}

/* Adds a slab and an entry for each of its keys. */
static void grow(struct fg_key_ring *ring)
{
    struct slab *slab = fg_new(struct slab);
    bool locked;

    slab->keys = fg_locked_alloc(SLAB_KEYS * sizeof *slab->keys, &locked);
    slab->next = ring->slabs;
    ring->slabs = slab;
    ring->locked = ring->locked && locked;
    ring->entries =
        fg_realloc(ring->entries, ((size_t)ring->n_entries + SLAB_KEYS) * sizeof *ring->entries);
    for (uint32_t i = 0; i < SLAB_KEYS; i++)
        ring->entries[ring->n_entries++] = (struct ring_entry){.key = &slab->keys[i]};
}

void fg_key_ring_add(struct fg_key_ring *ring, struct fg_slice tenant, uint32_t number,
                     const struct fg_seal_key *key)
{
    fg_rwlock_write(&ring->lock);
    if (find(ring, tenant, number) == NULL) {
        /* The first free entry. Keys are few, and added once. */
        uint32_t i = 0;

        while (i < ring->n_entries && ring->entries[i].tenant != NULL)
            i++;
        if (i == ring->n_entries)
            grow(ring);

        struct ring_entry *entry = &ring->entries[i];

        entry->tenant = fg_malloc(tenant.len + 1);
        memcpy(entry->tenant, tenant.ptr, tenant.len);
        entry->tenant[tenant.len] = '\0';
        entry->number = number;
        *entry->key = *key;
        fg_map_add(&ring->map, hash_of(tenant, number), i);
    }
    fg_rwlock_unlock(&ring->lock);
}

bool fg_key_ring_find(struct fg_key_ring *ring, struct fg_slice tenant, uint32_t number,
                      struct fg_seal_key *ret_key)
{
    const struct ring_entry *entry;

    fg_rwlock_read(&ring->lock);
    entry = find(ring, tenant, number);
    if (entry != NULL)
        *ret_key = *entry->key;
    fg_rwlock_unlock(&ring->lock);
    return entry != NULL;
}

void fg_key_ring_drop(struct fg_key_ring *ring, struct fg_slice tenant, uint32_t number)
{
    struct ring_entry *entry;

    fg_rwlock_write(&ring->lock);
    entry = find(ring, tenant, number);
    if (entry != NULL) {
        fg_seal_wipe(entry->key);
        free(entry->tenant);
        entry->tenant = NULL;
        /* The map keeps hashes for ever; this makes it again of the entries that are in use. */
        fg_map_clear(&ring->map);
        for (uint32_t i = 0; i < ring->n_entries; i++)
            if (ring->entries[i].tenant != NULL)
                fg_map_add(&ring->map,
                           hash_of(fg_cstr(ring->entries[i].tenant), ring->entries[i].number), i);
    }
    fg_rwlock_unlock(&ring->lock);
}

bool fg_key_ring_is_locked(struct fg_key_ring *ring)
{
    bool locked;

    fg_rwlock_read(&ring->lock);
    locked = ring->locked;
    fg_rwlock_unlock(&ring->lock);
    return locked;
}

/* ---- the seam ---- */

enum fg_code fg_keys_find(const struct fg_keys *keys, struct fg_slice tenant, uint32_t number,
                          struct fg_seal_key *ret_key, struct fg_err *err)
{
    if (keys != NULL)
        return keys->find(keys->arg, tenant, number, ret_key, err);
    return fg_fail(err, FG_E_UNIMPLEMENTED,
                   "encrypted with key %u, and this program has no keys (setting encryption.mode)",
                   number);
}

enum fg_code fg_keys_check(const struct fg_keys *keys, struct fg_slice tenant, uint32_t number,
                           struct fg_err *err)
{
    struct fg_seal_key key;

    if (fg_keys_find(keys, tenant, number, &key, err) != FG_OK)
        return err->code;
    fg_seal_wipe(&key);
    return FG_OK;
}

enum fg_code fg_keys_newest(const struct fg_keys *keys, struct fg_slice tenant,
                            uint32_t *ret_number, struct fg_seal_key *ret_key, struct fg_err *err)
{
    if (keys != NULL)
        return keys->newest(keys->arg, tenant, ret_number, ret_key, err);
    *ret_number = 0;
    return FG_OK;
}
