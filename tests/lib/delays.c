#include "tests/lib/delays.h"

#include "common/base/hash.h"

uint64_t delays_draw(uint64_t seed, unsigned nr)
{
    /* The increment is SplitMix64's, whose finaliser fg_mix64() is. */
    return fg_mix64(seed + (uint64_t)nr * UINT64_C(0x9e3779b97f4a7c15));
}

bool delays_strikes(uint64_t seed, unsigned nr, unsigned permille)
{
    return delays_draw(seed, nr) % 1000 < permille;
}

int64_t delays_half(const struct fg_clock *clock, int64_t max_ns, uint64_t seed, unsigned nr)
{
    int64_t half_ns = clock == NULL ? 0 : max_ns / 2;

    return half_ns == 0 ? 0 : (int64_t)(delays_draw(seed, nr) % (uint64_t)half_ns);
}

void delays_init(struct delays *delays)
{
    *delays = (struct delays){0};
    (void)pthread_mutex_init(&delays->lock, NULL);
}

void delays_done(struct delays *delays)
{
    fg_assert(delays->waiting == NULL);
    (void)pthread_mutex_destroy(&delays->lock);
}

void delays_put(struct delays *delays, struct delayed *item, int64_t due_mono_ns)
{
    struct delayed **at = &delays->waiting;

    (void)pthread_mutex_lock(&delays->lock);
    item->due_mono_ns = due_mono_ns;
    while (*at != NULL && (*at)->due_mono_ns <= due_mono_ns)
        at = &(*at)->next;
    item->next = *at;
    *at = item;
    (void)pthread_mutex_unlock(&delays->lock);
}

int64_t delays_next_mono_ns(struct delays *delays)
{
    int64_t next;

    (void)pthread_mutex_lock(&delays->lock);
    next = delays->waiting == NULL ? INT64_MAX : delays->waiting->due_mono_ns;
    (void)pthread_mutex_unlock(&delays->lock);
    return next;
}

struct delayed *delays_take(struct delays *delays, struct fg_clock *clock)
{
    struct delayed *item;

    (void)pthread_mutex_lock(&delays->lock);
    item = delays->waiting;
    if (item != NULL && item->due_mono_ns > fg_mono_ns(clock))
        item = NULL;
    if (item != NULL)
        delays->waiting = item->next;
    (void)pthread_mutex_unlock(&delays->lock);
    return item;
}
