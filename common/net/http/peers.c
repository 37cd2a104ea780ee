/*
 * The connections of a loop by the address they come from, and which of them are idle.
 *
 * An idle connection is in two lists, the longest idle first: that of the loop, from which room is
 * made when the loop has connections_max, and that of its address, for connections_per_address_max.
 * So a client that opens connections and leaves them idle cannot keep others out, from one address
 * or from many. IPv6 addresses count by /64, which is what a provider assigns to one customer.
 */
#include "common/base/hash.h"
#include "common/net/http/impl.h"

#include <arpa/inet.h>
#include <sys/random.h>

enum { BUCKETS = 1024 }; /* a loop has some thousand connections, from fewer addresses */

struct idle_list {
    struct fg_http_conn *first, *last;
};

struct fg_http_peer {
    struct fg_http_peer *next; /* in its bucket */
    uint64_t key;              /* of the address; 0: unknown */
    unsigned n_conns;
    struct idle_list idle;
};

struct fg_http_peers {
    uint64_t seed; /* random, so that nobody can choose addresses that share a bucket */
    struct idle_list idle;
    struct fg_http_peer *buckets[BUCKETS];
};

struct fg_http_peers *fg_http_peers_create(void)
{
    struct fg_http_peers *peers = fg_new(struct fg_http_peers);

    /* The table works without random numbers, too. */
    if (getrandom(&peers->seed, sizeof peers->seed, GRND_NONBLOCK) < 0)
        peers->seed = (uint64_t)fg_mono_ns(fg_clock_real());
    return peers;
}

void fg_http_peers_destroy(struct fg_http_peers *peers)
{
    for (size_t i = 0; i < BUCKETS; i++)
        fg_assert(peers->buckets[i] == NULL);
    free(peers);
}

/* --- addresses --- */

static uint64_t key_of(const char *text)
{
    struct in6_addr six;
    struct in_addr four;
    uint64_t key = 0;

    if (inet_pton(AF_INET, text, &four) == 1)
        return UINT64_C(1) << 32 | four.s_addr;
    if (inet_pton(AF_INET6, text, &six) == 1)
        memcpy(&key, &six, sizeof key);
    return key;
}

static struct fg_http_peer **bucket_of(struct fg_http_peers *peers, uint64_t key)
{
    return &peers->buckets[fg_mix64(key ^ peers->seed) % BUCKETS];
}

void fg_http_peers_enter(struct fg_http_loop *owner, struct fg_http_conn *conn)
{
    uint64_t key = key_of(conn->peer);
    struct fg_http_peer **bucket = bucket_of(owner->peers, key), *peer = *bucket;

    while (peer != NULL && peer->key != key)
        peer = peer->next;
    if (peer == NULL) {
        peer = fg_new(struct fg_http_peer);
        peer->key = key;
        peer->next = *bucket;
        *bucket = peer;
    }
    peer->n_conns++;
    conn->peer_of = peer;
}

void fg_http_peers_leave(struct fg_http_loop *owner, struct fg_http_conn *conn)
{
    struct fg_http_peer *peer = conn->peer_of, **link;

    if (peer == NULL)
        return;
    fg_http_conn_idle(conn, false);
    conn->peer_of = NULL;
    if (--peer->n_conns > 0)
        return;
    for (link = bucket_of(owner->peers, peer->key); *link != peer; link = &(*link)->next)
        continue;
    *link = peer->next;
    free(peer);
}

unsigned fg_http_peers_count(const struct fg_http_conn *conn)
{
    return conn->peer_of->n_conns;
}

/* --- idle ones --- */

static void add_idle(struct fg_http_conn *conn)
{
    struct idle_list *all = &conn->owner->peers->idle, *siblings = &conn->peer_of->idle;

    conn->idle_prev = all->last;
    conn->idle_next = NULL;
    *(all->last == NULL ? &all->first : &all->last->idle_next) = conn;
    all->last = conn;
    conn->sibling_prev = siblings->last;
    conn->sibling_next = NULL;
    *(siblings->last == NULL ? &siblings->first : &siblings->last->sibling_next) = conn;
    siblings->last = conn;
}

static void remove_idle(struct fg_http_conn *conn)
{
    struct idle_list *all = &conn->owner->peers->idle, *siblings = &conn->peer_of->idle;

    *(conn->idle_prev == NULL ? &all->first : &conn->idle_prev->idle_next) = conn->idle_next;
    *(conn->idle_next == NULL ? &all->last : &conn->idle_next->idle_prev) = conn->idle_prev;
    *(conn->sibling_prev == NULL ? &siblings->first : &conn->sibling_prev->sibling_next) =
        conn->sibling_next;
    *(conn->sibling_next == NULL ? &siblings->last : &conn->sibling_next->sibling_prev) =
        conn->sibling_prev;
}

void fg_http_conn_idle(struct fg_http_conn *conn, bool idle)
{
    if (conn->peer_of == NULL || conn->idle == idle)
        return;
    conn->idle = idle;
    if (idle)
        add_idle(conn);
    else
        remove_idle(conn);
}

bool fg_http_peers_make_room(struct fg_http_loop *owner, const struct fg_http_conn *conn,
                             bool of_address)
{
    struct fg_http_conn *oldest = of_address ? conn->peer_of->idle.first : owner->peers->idle.first;

    if (oldest == NULL)
        return false;
    fg_http_stats_event(owner->stats, HTTP_CLOSED_FOR_ROOM);
    fg_http_conn_cut(oldest);
    return true;
}
