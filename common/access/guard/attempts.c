#include "common/access/guard/attempts.h"

#include "common/base/hash.h"
#include "common/base/time.h"

#include <arpa/inet.h>
#include <pthread.h>

enum { SETS = 2048, WAYS = 4 };

struct source {
    uint64_t key; /* 0: free */
    double left;
    int64_t at_mono_ns; /* when `left` was true */
};

struct fg_attempts {
    pthread_mutex_t lock; /* of the buckets; held for one look-up */
    double per_minute;
    uint64_t seed;
    struct source buckets[SETS][WAYS];
};

struct fg_attempts *fg_attempts_create(unsigned per_minute, uint64_t seed)
{
    struct fg_attempts *attempts = fg_new(struct fg_attempts);

    fg_assert(pthread_mutex_init(&attempts->lock, NULL) == 0);
    attempts->per_minute = per_minute;
    attempts->seed = seed;
    return attempts;
}

void fg_attempts_destroy(struct fg_attempts *attempts)
{
    if (attempts == NULL)
        return;
    (void)pthread_mutex_destroy(&attempts->lock);
    free(attempts);
}

static uint64_t key_of(const struct fg_attempts *attempts, struct fg_slice peer)
{
    char text[INET6_ADDRSTRLEN] = "";
    struct in6_addr six;

    memcpy(text, peer.ptr, FG_MIN(peer.len, sizeof text - 1));
    /* A host has a /64 of its own, mostly. An IPv4 address in an IPv6 one is one host. */
    if (inet_pton(AF_INET6, text, &six) == 1 && !IN6_IS_ADDR_V4MAPPED(&six))
        peer = fg_bytes(six.s6_addr, 8);
    return (fg_mix64(fg_hash64(peer) ^ attempts->seed)) | 1;
}

static double left_now(const struct fg_attempts *attempts, const struct source *bucket,
                       int64_t now_mono_ns)
{
    double minutes = (double)(now_mono_ns - bucket->at_mono_ns) / (double)FG_MINUTE_NS;

    return FG_MIN(attempts->per_minute, bucket->left + minutes * attempts->per_minute);
}

/* Finds the bucket of a key, or the one that makes room for it. */
static struct source *find(struct fg_attempts *attempts, uint64_t key, int64_t now_mono_ns)
{
    struct source *set = attempts->buckets[(key >> 1) % SETS], *fullest = &set[0];

    for (size_t i = 0; i < WAYS; i++) {
        if (set[i].key == key)
            return &set[i];
        if (set[i].key == 0 || (fullest->key != 0 && left_now(attempts, &set[i], now_mono_ns) >
                                                         left_now(attempts, fullest, now_mono_ns)))
            fullest = &set[i];
    }
    return fullest;
}

bool fg_attempts_are_left(struct fg_attempts *attempts, struct fg_slice peer, int64_t now_mono_ns)
{
    uint64_t key = key_of(attempts, peer);
    const struct source *bucket;
    bool left;

    (void)pthread_mutex_lock(&attempts->lock);
    bucket = find(attempts, key, now_mono_ns);
    left = bucket->key != key || left_now(attempts, bucket, now_mono_ns) >= 1;
    (void)pthread_mutex_unlock(&attempts->lock);
    return left;
}

bool fg_attempts_take(struct fg_attempts *attempts, struct fg_slice peer, int64_t now_mono_ns)
{
    uint64_t key = key_of(attempts, peer);
    struct source *bucket;
    bool left;

    (void)pthread_mutex_lock(&attempts->lock);
    bucket = find(attempts, key, now_mono_ns);
    if (bucket->key != key)
        *bucket = (struct source){key, attempts->per_minute, now_mono_ns};
    bucket->left = left_now(attempts, bucket, now_mono_ns);
    bucket->at_mono_ns = now_mono_ns;
    left = bucket->left >= 1;
    if (left)
        bucket->left -= 1;
    (void)pthread_mutex_unlock(&attempts->lock);
    return left;
}
