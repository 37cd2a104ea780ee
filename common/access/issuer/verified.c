#include "common/access/issuer/verified.h"

#include <pthread.h>
#include <stdatomic.h>

enum { SETS = 512, WAYS = 8, LOCKS = 64 };

struct slot {
    uint8_t hash[FG_VERIFIED_HASH_BYTES];
    struct fg_identity *identity; /* NULL: empty */
    int64_t until_s;
};

struct fg_verified {
    pthread_mutex_t locks[LOCKS]; /* of the sets with that number modulo LOCKS */
    struct slot sets[SETS][WAYS];
};

/* ---- identities ---- */

/* Appends to the block of an identity. */
static struct fg_slice pack(uint8_t **at, struct fg_slice bytes)
{
    struct fg_slice copy = fg_bytes(*at, bytes.len);

    if (bytes.len > 0)
        memcpy(*at, bytes.ptr, bytes.len);
    *at += bytes.len;
    return copy;
}

struct fg_identity *fg_identity_create(const struct fg_identity *of)
{
    size_t size = sizeof *of + of->n_roles * sizeof *of->roles + of->issuer.len + of->subject.len +
                  of->json.len;
    struct fg_identity *identity;
    struct fg_access_role *roles;
    uint8_t *at;

    for (uint32_t i = 0; i < of->n_roles; i++)
        size += of->roles[i].tenants.len;
    identity = fg_malloc(size);
    roles = (struct fg_access_role *)(identity + 1);
    at = (uint8_t *)(roles + of->n_roles);
    *identity = (struct fg_identity){.issuer = pack(&at, of->issuer),
                                     .subject = pack(&at, of->subject),
                                     .json = pack(&at, of->json),
                                     .roles = roles,
                                     .n_roles = of->n_roles,
                                     .expires_s = of->expires_s,
                                     .generation = of->generation,
                                     .keys = of->keys,
                                     .refs = 1};
    for (uint32_t i = 0; i < of->n_roles; i++)
        roles[i] = (struct fg_access_role){pack(&at, of->roles[i].tenants), of->roles[i].scopes};
    return identity;
}

struct fg_identity *fg_identity_ref(struct fg_identity *identity)
{
    (void)atomic_fetch_add_explicit(&identity->refs, 1, memory_order_relaxed);
    return identity;
}

void fg_identity_unref(struct fg_identity *identity)
{
    if (identity != NULL &&
        atomic_fetch_sub_explicit(&identity->refs, 1, memory_order_acq_rel) == 1)
        free(identity);
}

/* ---- the table ---- */

struct fg_verified *fg_verified_create(void)
{
    struct fg_verified *verified = fg_new(struct fg_verified);

    for (size_t i = 0; i < LOCKS; i++)
        fg_assert(pthread_mutex_init(&verified->locks[i], NULL) == 0);
    return verified;
}

void fg_verified_destroy(struct fg_verified *verified)
{
    if (verified == NULL)
        return;
    for (size_t i = 0; i < SETS; i++)
        for (size_t k = 0; k < WAYS; k++)
            fg_identity_unref(verified->sets[i][k].identity);
    for (size_t i = 0; i < LOCKS; i++)
        (void)pthread_mutex_destroy(&verified->locks[i]);
    free(verified);
}

static size_t set_of(const uint8_t *hash)
{
    return ((size_t)hash[0] | (size_t)hash[1] << 8) % SETS;
}

static struct slot *find(struct slot *set, const uint8_t *hash)
{
    for (size_t i = 0; i < WAYS; i++)
        if (set[i].identity != NULL && memcmp(set[i].hash, hash, FG_VERIFIED_HASH_BYTES) == 0)
            return &set[i];
    return NULL;
}

/* An empty one, else the one that ends first. */
static struct slot *choose(struct slot *set)
{
    struct slot *first = set;

    for (size_t i = 0; i < WAYS; i++) {
        if (set[i].identity == NULL)
            return &set[i];
        if (set[i].until_s < first->until_s)
            first = &set[i];
    }
    return first;
}

struct fg_identity *fg_verified_get(struct fg_verified *verified,
                                    const uint8_t hash[FG_VERIFIED_HASH_BYTES], int64_t now_s)
{
    size_t set = set_of(hash);
    struct fg_identity *identity = NULL;
    struct slot *slot;

    (void)pthread_mutex_lock(&verified->locks[set % LOCKS]);
    slot = find(verified->sets[set], hash);
    if (slot != NULL && now_s < slot->until_s)
        identity = fg_identity_ref(slot->identity);
    (void)pthread_mutex_unlock(&verified->locks[set % LOCKS]);
    return identity;
}

void fg_verified_put(struct fg_verified *verified, const uint8_t hash[FG_VERIFIED_HASH_BYTES],
                     struct fg_identity *identity, int64_t now_s)
{
    size_t set = set_of(hash);
    struct fg_identity *old;
    struct slot *slot;

    (void)pthread_mutex_lock(&verified->locks[set % LOCKS]);
    slot = find(verified->sets[set], hash);
    if (slot == NULL || slot->until_s <= now_s) {
        if (slot == NULL)
            slot = choose(verified->sets[set]);
        slot->until_s = FG_MIN(identity->expires_s, now_s + FG_VERIFIED_MAX_S);
        memcpy(slot->hash, hash, FG_VERIFIED_HASH_BYTES);
    }
    old = slot->identity;
    slot->identity = fg_identity_ref(identity);
    (void)pthread_mutex_unlock(&verified->locks[set % LOCKS]);
    fg_identity_unref(old);
}
