#include "common/net/rpc/peers.h"

#include "common/base/time.h"
#include "common/runtime/ticker.h"

#include <pthread.h>

struct peers_entry {
    struct peers_entry *next;
    struct fg_peer *peer;
    unsigned in_hand;
    int64_t used_mono_ns; /* when it was last put back, or seen with a call under way */
    char url[];
};

struct fg_peers {
    struct fg_peers_config config;
    /* Held while a socket is opened or closed; taken before the other one. */
    pthread_mutex_t opening;
    pthread_mutex_t lock;        /* of all below; never held while anything waits */
    struct peers_entry *entries; /* a list that is walked: there are tens */
    unsigned n;
    struct fg_ticker *ticker; /* closes idle peers; NULL: nobody does */
};

/* ---- closing ---- */

static bool is_idle(struct peers_entry *entry, int64_t now_mono_ns)
{
    struct fg_peer_health health;

    if (entry->in_hand > 0)
        return false;
    fg_peer_health(entry->peer, &health);
    if (health.calls > 0)
        entry->used_mono_ns = now_mono_ns;
    return health.calls == 0;
}

/* Locked. Takes the longest idle peer out of the list; NULL: none has been idle for so long. */
static struct peers_entry *take_idle(struct fg_peers *peers, int64_t idle_ns)
{
    int64_t now_ns = fg_mono_ns(fg_clock_real());
    struct peers_entry **oldest = NULL, *taken;

    for (struct peers_entry **at = &peers->entries; *at != NULL; at = &(*at)->next)
        if (is_idle(*at, now_ns) && now_ns - (*at)->used_mono_ns >= idle_ns &&
            (oldest == NULL || (*at)->used_mono_ns < (*oldest)->used_mono_ns))
            oldest = at;
    if (oldest == NULL)
        return NULL;
    taken = *oldest;
    *oldest = taken->next;
    peers->n--;
    return taken;
}

/* With `opening` held. Returns false if there was none to close. */
static bool close_idle(struct fg_peers *peers, int64_t idle_ns)
{
    struct peers_entry *entry;

    (void)pthread_mutex_lock(&peers->lock);
    entry = take_idle(peers, idle_ns);
    (void)pthread_mutex_unlock(&peers->lock);
    if (entry == NULL)
        return false;
    fg_peer_destroy(entry->peer);
    free(entry);
    return true;
}

static void sweep(struct fg_peers *peers, int64_t idle_ns)
{
    (void)pthread_mutex_lock(&peers->opening);
    while (close_idle(peers, idle_ns))
        continue;
    (void)pthread_mutex_unlock(&peers->opening);
}

void fg_peers_sweep(struct fg_peers *peers)
{
    sweep(peers, 0);
}

static void tick(void *arg)
{
    struct fg_peers *peers = arg;

    sweep(peers, peers->config.idle_ns);
}

/* ---- in hand ---- */

/* Returns the peer at the address with a reference; NULL: there is none. */
static struct fg_peer *find(struct fg_peers *peers, const char *url)
{
    struct fg_peer *found = NULL;

    (void)pthread_mutex_lock(&peers->lock);
    for (struct peers_entry *entry = peers->entries; entry != NULL && found == NULL;
         entry = entry->next)
        if (strcmp(entry->url, url) == 0) {
            entry->in_hand++;
            found = entry->peer;
        }
    (void)pthread_mutex_unlock(&peers->lock);
    return found;
}

static void keep(struct fg_peers *peers, const char *url, struct fg_peer *peer)
{
    size_t len = strlen(url) + 1;
    struct peers_entry *entry = fg_calloc(1, sizeof *entry + len);

    memcpy(entry->url, url, len);
    entry->peer = peer;
    entry->in_hand = 1;
    (void)pthread_mutex_lock(&peers->lock);
    entry->next = peers->entries;
    peers->entries = entry;
    peers->n++;
    (void)pthread_mutex_unlock(&peers->lock);
}

/* With `opening` held, so that no other thread creates the same peer. */
static enum fg_code create_peer(struct fg_peers *peers, const char *url, struct fg_peer **ret_peer,
                                struct fg_err *err)
{
    *ret_peer = find(peers, url); /* somebody was quicker */
    if (*ret_peer != NULL)
        return FG_OK;
    if (fg_peers_count(peers) >= peers->config.peers_max && !close_idle(peers, 0))
        return fg_fail(err, FG_E_LIMIT, "peer %s: %u other peers are in use, which is the limit",
                       url, peers->config.peers_max);
    if (fg_peer_dial(peers->config.rpc, url, peers->config.calls_max, ret_peer, err) != FG_OK)
        return err->code;
    keep(peers, url, *ret_peer);
    return FG_OK;
}

enum fg_code fg_peers_get(struct fg_peers *peers, const char *url, struct fg_peer **ret_peer,
                          struct fg_err *err)
{
    struct fg_peer *peer = find(peers, url);
    enum fg_code code = FG_OK;

    if (peer == NULL) {
        (void)pthread_mutex_lock(&peers->opening);
        code = create_peer(peers, url, &peer, err);
        (void)pthread_mutex_unlock(&peers->opening);
    }
    if (code == FG_OK)
        *ret_peer = peer;
    return code;
}

void fg_peers_put(struct fg_peers *peers, struct fg_peer *peer)
{
    (void)pthread_mutex_lock(&peers->lock);
    struct peers_entry *entry = peers->entries;
    while (entry != NULL && entry->peer != peer)
        entry = entry->next;
    fg_assert(entry != NULL && entry->in_hand > 0);
    entry->in_hand--;
    entry->used_mono_ns = fg_mono_ns(fg_clock_real());
    (void)pthread_mutex_unlock(&peers->lock);
}

unsigned fg_peers_count(struct fg_peers *peers)
{
    unsigned n;

    (void)pthread_mutex_lock(&peers->lock);
    n = peers->n;
    (void)pthread_mutex_unlock(&peers->lock);
    return n;
}

/* ---- beginning and end ---- */

struct fg_peers *fg_peers_create(const struct fg_peers_config *config)
{
    struct fg_peers *peers = fg_new(struct fg_peers);
    const struct fg_ticker_config ticker = {.name = "rpc-peers",
                                            .period_ns = FG_MAX(config->idle_ns / 4, FG_MS_NS),
                                            .tick = tick,
                                            .arg = peers};
    struct fg_err err;

    fg_assert(config->calls_max > 0 && config->peers_max > 0);
    peers->config = *config;
    (void)pthread_mutex_init(&peers->opening, NULL);
    (void)pthread_mutex_init(&peers->lock, NULL);
    if (config->idle_ns > 0)
        fg_assert(fg_ticker_create(&ticker, &peers->ticker, &err) == FG_OK);
    return peers;
}

void fg_peers_destroy(struct fg_peers *peers)
{
    if (peers == NULL)
        return;
    fg_ticker_destroy(peers->ticker);
    sweep(peers, 0);
    fg_assert(peers->entries == NULL);
    (void)pthread_mutex_destroy(&peers->lock);
    (void)pthread_mutex_destroy(&peers->opening);
    free(peers);
}
