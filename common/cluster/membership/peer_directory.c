#include "common/cluster/membership/peer_directory.h"

#include "common/base/str.h"
#include "common/base/time.h"
#include "common/cluster/membership/rendezvous.h"
#include "common/runtime/log.h"
#include "common/runtime/ticker.h"

#include <netdb.h>
#include <pthread.h>

enum {
    ADDRESSES_MAX = 64, /* in the settings; a bit each */
    PEERS_MAX = 1024,
    HOST_MAX_BYTES = 256,
    URL_MAX_BYTES = HOST_MAX_BYTES + 32,
};

/* One address of the settings. */
struct directory_address {
    char scheme[16], host[HOST_MAX_BYTES], port[8];
};

struct fg_peer_directory {
    struct fg_peers *peers;
    const char *kind;
    struct directory_address addresses[ADDRESSES_MAX];
    size_t n_addresses;

    struct fg_ticker *ticker; /* resolves the names again */
    pthread_mutex_t lock;     /* of `set`; not held while names are resolved */
    struct fg_peer_set *set;
};

/* ---- addresses ---- */

static bool take_text(char *out, size_t size, struct fg_slice text)
{
    if (text.len == 0 || text.len >= size)
        return false;
    memcpy(out, text.ptr, text.len);
    out[text.len] = '\0';
    return true;
}

/* scheme "://" host ":" port; an IPv6 address is in brackets. */
static bool parse(struct fg_slice text, struct directory_address *ret_address)
{
    size_t scheme = fg_slice_search(text, "://");
    struct fg_slice rest = fg_slice_sub(text, scheme == SIZE_MAX ? 0 : scheme + 3, text.len), host;
    size_t colon = rest.len;
    uint64_t port;

    if (scheme == SIZE_MAX || rest.ptr == NULL)
        return false;
    /* The last colon: an IPv6 address has others. */
    while (colon > 0 && rest.ptr[colon - 1] != ':')
        colon--;
    if (colon == 0)
        return false;
    host = fg_slice_sub(rest, 0, colon - 1);
    if (host.len > 2 && host.ptr[0] == '[' && host.ptr[host.len - 1] == ']')
        host = fg_slice_sub(host, 1, host.len - 2);
    rest = fg_slice_sub(rest, colon, rest.len);
    text = fg_slice_sub(text, 0, scheme);
    return (fg_slice_is(text, "tcp") || fg_slice_is(text, "tls+tcp")) &&
           fg_parse_u64(rest, &port) && port > 0 && port <= UINT16_MAX &&
           take_text(ret_address->scheme, sizeof ret_address->scheme, text) &&
           take_text(ret_address->host, sizeof ret_address->host, host) &&
           take_text(ret_address->port, sizeof ret_address->port, rest);
}

static enum fg_code parse_all(struct fg_peer_directory *directory, const char *addresses,
                              struct fg_err *err)
{
    struct fg_slice rest = fg_cstr(addresses);
    bool more = rest.len > 0;

    while (more) {
        size_t comma = fg_slice_find(rest, ',');
        struct fg_slice one = fg_trim(fg_slice_sub(rest, 0, comma));

        more = comma != SIZE_MAX;
        rest = more ? fg_slice_sub(rest, comma + 1, rest.len) : rest;
        if (directory->n_addresses == ADDRESSES_MAX)
            return fg_fail(err, FG_E_INVALID, "more than %d addresses of %ss", ADDRESSES_MAX,
                           directory->kind);
        if (!parse(one, &directory->addresses[directory->n_addresses++]))
            return fg_fail(err, FG_E_INVALID,
                           "address %zu of %ss, \"%.*s\", is not tcp://HOST:PORT or "
                           "tls+tcp://HOST:PORT",
                           directory->n_addresses, directory->kind,
                           FG_S(fg_slice_sub(one, 0, HOST_MAX_BYTES)));
    }
    return FG_OK;
}

/* ---- sets ---- */

void fg_peer_set_unref(struct fg_peer_set *set)
{
    if (set == NULL || atomic_fetch_sub(&set->refs, 1) != 1)
        return;
    for (uint32_t i = 0; i < set->n; i++) {
        fg_peers_put(set->peers, set->members[i].peer);
        free(set->members[i].url);
    }
    free(set->members);
    free(set);
}

struct fg_peer_set *fg_peer_directory_get(struct fg_peer_directory *directory)
{
    struct fg_peer_set *set;

    (void)pthread_mutex_lock(&directory->lock);
    set = directory->set;
    (void)atomic_fetch_add(&set->refs, 1);
    (void)pthread_mutex_unlock(&directory->lock);
    return set;
}

struct fg_peer_set_member *fg_peer_set_owner(const struct fg_peer_set *set, struct fg_id object,
                                             int64_t now_mono_ns)
{
    struct fg_peer_set_member *owner = NULL;
    uint64_t key = fg_rendezvous_key(object.lo), highest = 0;

    for (uint32_t i = 0; i < set->n; i++) {
        struct fg_peer_set_member *member = &set->members[i];
        uint64_t drawn = fg_rendezvous_draw(member->hash, key);

        /* A peer that fails is passed over: its objects go to the next ones until it recovers.
         * Ourselves we can always ask. */
        if ((owner == NULL || drawn > highest) &&
            (atomic_load(&member->self) || !fg_peer_is_bad(member->peer, now_mono_ns))) {
            owner = member;
            highest = drawn;
        }
    }
    return owner;
}

static struct fg_peer_set_member *find_member(const struct fg_peer_set *set, const char *url)
{
    for (uint32_t i = 0; set != NULL && i < set->n; i++)
        if (strcmp(set->members[i].url, url) == 0)
            return &set->members[i];
    return NULL;
}

/* Adds a member that an address of the settings stands for, unless it cannot be called. */
static void add_member(struct fg_peer_set *set, const struct fg_peer_set *before, const char *url,
                       uint64_t named_by)
{
    const struct fg_peer_set_member *known = find_member(before, url);
    struct fg_peer_set_member *member = find_member(set, url);
    struct fg_err err;

    if (member != NULL) {
        member->named_by |= named_by;
        return;
    }
    if (set->n == PEERS_MAX)
        return;
    member = &set->members[set->n];
    if (fg_peers_get(set->peers, url, &member->peer, &err) != FG_OK) {
        fg_log_warn("address of a peer is unusable", fg_ls("address", url), fg_ls("err", err.msg));
        return;
    }
    member->url = fg_malloc(strlen(url) + 1);
    memcpy(member->url, url, strlen(url) + 1);
    member->hash = fg_hash64(fg_cstr(url));
    member->named_by = named_by;
    /* Which address is our own is learnt by calls, and does not change with a lookup. */
    atomic_store(&member->self, known != NULL && atomic_load(&known->self));
    set->n++;
}

/* Adds the addresses of one host name. Returns false if it does not resolve. */
static bool look_up(const struct directory_address *address, uint64_t bit, struct fg_peer_set *set,
                    const struct fg_peer_set *before)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    char host[HOST_MAX_BYTES], url[URL_MAX_BYTES];

    if (getaddrinfo(address->host, address->port, &hints, &found) != 0)
        return false;
    for (const struct addrinfo *at = found; at != NULL; at = at->ai_next) {
        if (getnameinfo(at->ai_addr, at->ai_addrlen, host, sizeof host, NULL, 0, NI_NUMERICHOST) !=
            0)
            continue;
        (void)snprintf(url, sizeof url, at->ai_family == AF_INET6 ? "%s://[%s]:%s" : "%s://%s:%s",
                       address->scheme, host, address->port);
        add_member(set, before, url, bit);
    }
    freeaddrinfo(found);
    return true;
}

/* Resolves all names and replaces the set. A name that does not resolve keeps the members that it
 * had, since an outage of DNS must not empty the set. It keeps no others: a name that is gone for
 * good would collect all members that other names have had meanwhile. */
static void look_up_all(struct fg_peer_directory *directory)
{
    struct fg_peer_set *set = fg_new(struct fg_peer_set), *before = directory->set;

    atomic_store(&set->refs, 1);
    set->peers = directory->peers;
    set->members = fg_calloc(PEERS_MAX, sizeof *set->members);
    for (size_t i = 0; i < directory->n_addresses; i++) {
        const uint64_t bit = UINT64_C(1) << i;

        if (look_up(&directory->addresses[i], bit, set, before))
            continue;
        fg_log_warn("host name of a peer does not resolve, keeping its last addresses",
                    fg_ls("kind", directory->kind), fg_ls("host", directory->addresses[i].host));
        for (uint32_t k = 0; before != NULL && k < before->n; k++)
            if ((before->members[k].named_by & bit) != 0)
                add_member(set, before, before->members[k].url, bit);
    }
    /* Only around the exchange: getaddrinfo() may take seconds, and queries take the set
     * meanwhile. */
    (void)pthread_mutex_lock(&directory->lock);
    directory->set = set;
    (void)pthread_mutex_unlock(&directory->lock);
    fg_peer_set_unref(before);
}

static void tick(void *arg)
{
    look_up_all(arg);
}

enum fg_code fg_peer_directory_create(const struct fg_peer_directory_config *config,
                                      struct fg_peer_directory **ret_directory, struct fg_err *err)
{
    struct fg_peer_directory *directory = fg_new(struct fg_peer_directory);
    const struct fg_ticker_config ticker = {
        .name = "peer-directory", .period_ns = config->every_ns, .tick = tick, .arg = directory};

    directory->peers = config->peers;
    directory->kind = config->kind;
    if (parse_all(directory, config->addresses, err) != FG_OK) {
        free(directory);
        return err->code;
    }
    (void)pthread_mutex_init(&directory->lock, NULL);
    /* At once, so that callers have a set from the start, if perhaps an empty one. */
    look_up_all(directory);
    if (fg_ticker_create(&ticker, &directory->ticker, err) != FG_OK) {
        fg_peer_directory_destroy(directory);
        return err->code;
    }
    *ret_directory = directory;
    return FG_OK;
}

void fg_peer_directory_destroy(struct fg_peer_directory *directory)
{
    if (directory == NULL)
        return;
    fg_ticker_destroy(directory->ticker);
    fg_peer_set_unref(directory->set);
    (void)pthread_mutex_destroy(&directory->lock);
    free(directory);
}
