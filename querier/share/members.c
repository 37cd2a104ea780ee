#include "querier/share/members.h"

#include "common/base/str.h"
#include "common/base/time.h"
#include "common/runtime/log.h"
#include "common/runtime/ticker.h"

#include <netdb.h>
#include <pthread.h>

enum {
    ADDRESSES_MAX = 64, /* in the settings */
    MEMBERS_MAX = 1024,
    HOST_MAX_BYTES = 256,
    URL_MAX_BYTES = HOST_MAX_BYTES + 32,
};

/* One address of the settings. */
struct queriers_address {
    char scheme[16], host[HOST_MAX_BYTES], port[8];
};

struct qry_members {
    struct fg_peers *peers;
    struct queriers_address addresses[ADDRESSES_MAX];
    size_t n_addresses;

    struct fg_ticker *ticker; /* resolves the names again */
    pthread_mutex_t lock;
    struct qry_member_set *set;
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

/* scheme "://" host ":" port; a host of numbers with colons stands in brackets. */
static bool parse(struct fg_slice text, struct queriers_address *ret_address)
{
    size_t scheme = fg_slice_search(text, "://");
    struct fg_slice rest = fg_slice_sub(text, scheme == SIZE_MAX ? 0 : scheme + 3, text.len), host;
    size_t colon = rest.len;
    uint64_t port;

    if (scheme == SIZE_MAX || rest.ptr == NULL)
        return false;
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

static enum fg_code parse_all(struct qry_members *queriers, const char *addresses,
                              struct fg_err *err)
{
    struct fg_slice rest = fg_cstr(addresses);
    bool more = rest.len > 0;

    while (more) {
        size_t comma = fg_slice_find(rest, ',');
        struct fg_slice one = fg_trim(fg_slice_sub(rest, 0, comma));

        more = comma != SIZE_MAX;
        rest = more ? fg_slice_sub(rest, comma + 1, rest.len) : rest;
        if (queriers->n_addresses == ADDRESSES_MAX)
            return fg_fail(err, FG_E_INVALID, "more than %d addresses of queriers", ADDRESSES_MAX);
        if (!parse(one, &queriers->addresses[queriers->n_addresses++]))
            return fg_fail(err, FG_E_INVALID,
                           "address %zu of queriers, \"%.*s\", is not tcp://HOST:PORT or "
                           "tls+tcp://HOST:PORT",
                           queriers->n_addresses, FG_S(fg_slice_sub(one, 0, HOST_MAX_BYTES)));
    }
    return FG_OK;
}

/* ---- sets ---- */

void qry_member_set_unref(struct qry_member_set *set)
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

struct qry_member_set *qry_members_get(struct qry_members *queriers)
{
    struct qry_member_set *set;

    (void)pthread_mutex_lock(&queriers->lock);
    set = queriers->set;
    (void)atomic_fetch_add(&set->refs, 1);
    (void)pthread_mutex_unlock(&queriers->lock);
    return set;
}

struct qry_member *qry_member_set_owner(const struct qry_member_set *set, struct fg_id object,
                                        int64_t now_mono_ns)
{
    struct qry_member *owner = NULL;
    uint64_t highest = 0;

    for (uint32_t i = 0; i < set->n; i++) {
        struct qry_member *member = &set->members[i];
        uint64_t weight = fg_mix64(member->hash ^ fg_mix64(object.lo));

        if ((owner == NULL || weight > highest) &&
            (atomic_load(&member->self) || !fg_peer_is_bad(member->peer, now_mono_ns))) {
            owner = member;
            highest = weight;
        }
    }
    return owner;
}

static const struct qry_member *find_member(const struct qry_member_set *set, const char *url)
{
    for (uint32_t i = 0; set != NULL && i < set->n; i++)
        if (strcmp(set->members[i].url, url) == 0)
            return &set->members[i];
    return NULL;
}

/* Adds a member, unless it is there or its address is unusable. */
static void add_member(struct qry_member_set *set, const struct qry_member_set *before,
                       const char *url)
{
    const struct qry_member *known = find_member(before, url);
    struct qry_member *member = &set->members[set->n];
    struct fg_err err;

    if (set->n == MEMBERS_MAX || find_member(set, url) != NULL)
        return;
    if (fg_peers_get(set->peers, url, &member->peer, &err) != FG_OK) {
        fg_log_warn("address of a querier is unusable", fg_ls("address", url),
                    fg_ls("err", err.msg));
        return;
    }
    member->url = fg_malloc(strlen(url) + 1);
    memcpy(member->url, url, strlen(url) + 1);
    member->hash = fg_hash64(fg_cstr(url));
    atomic_store(&member->self, known != NULL && atomic_load(&known->self));
    set->n++;
}

/* Adds the addresses of one name. Returns false if it does not resolve. */
static bool look_up(const struct queriers_address *address, struct qry_member_set *set,
                    const struct qry_member_set *before)
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
        add_member(set, before, url);
    }
    freeaddrinfo(found);
    return true;
}

/* Resolves all names. A name that does not resolve now keeps its last addresses. */
static void look_up_all(struct qry_members *queriers)
{
    struct qry_member_set *set = fg_new(struct qry_member_set), *before = queriers->set;

    atomic_store(&set->refs, 1);
    set->peers = queriers->peers;
    set->members = fg_calloc(MEMBERS_MAX, sizeof *set->members);
    for (size_t i = 0; i < queriers->n_addresses; i++) {
        if (look_up(&queriers->addresses[i], set, before))
            continue;
        fg_log_warn("host name of a querier does not resolve",
                    fg_ls("host", queriers->addresses[i].host));
        for (uint32_t k = 0; before != NULL && k < before->n; k++)
            add_member(set, before, before->members[k].url);
    }
    (void)pthread_mutex_lock(&queriers->lock);
    queriers->set = set;
    (void)pthread_mutex_unlock(&queriers->lock);
    qry_member_set_unref(before);
}

static void tick(void *arg)
{
    look_up_all(arg);
}

enum fg_code qry_members_create(const struct qry_members_config *config,
                                struct qry_members **ret_queriers, struct fg_err *err)
{
    struct qry_members *queriers = fg_new(struct qry_members);
    const struct fg_ticker_config ticker = {
        .name = "queriers", .period_ns = config->every_ns, .tick = tick, .arg = queriers};

    queriers->peers = config->peers;
    if (parse_all(queriers, config->addresses, err) != FG_OK) {
        free(queriers);
        return err->code;
    }
    (void)pthread_mutex_init(&queriers->lock, NULL);
    look_up_all(queriers);
    if (fg_ticker_create(&ticker, &queriers->ticker, err) != FG_OK) {
        qry_members_destroy(queriers);
        return err->code;
    }
    *ret_queriers = queriers;
    return FG_OK;
}

void qry_members_destroy(struct qry_members *queriers)
{
    if (queriers == NULL)
        return;
    fg_ticker_destroy(queriers->ticker);
    qry_member_set_unref(queriers->set);
    (void)pthread_mutex_destroy(&queriers->lock);
    free(queriers);
}
