#include "distributor/delivery/owners.h"

#include "common/runtime/log.h"
#include "distributor/delivery/flush_timer.h"

#include <pthread.h>
#include <time.h>

static const int64_t LOOK_EVERY_NS = FG_SECOND_NS; /* reads of the ring for unreachable members */
static const int64_t LOG_EVERY_NS = 10 * FG_SECOND_NS;
static const int64_t STOP_PAUSE_NS = FG_MS_NS; /* between looks at queues, once, at the stop */

struct dist_owners {
    struct dist_owners_config config;
    struct dist_flush_timer *flush_timer; /* flushes queues whose batches collect */
    _Atomic int64_t looked_mono_ns;       /* 0: never */

    pthread_mutex_t lock;            /* of all below */
    struct fg_ring_view *view;       /* the ring that of_member belongs to; NULL: none yet */
    struct dist_owner **of_member;   /* [view->ring.n_members]; NULL: not created yet */
    struct dist_owner *list, *fixed; /* all of rings; the one that owns everything */
    int64_t quiet_until_mono_ns;     /* no warning about unusable addresses until then */
};

/* ---- one owner ---- */

static void on_collect(void *arg)
{
    struct dist_owners *owners = arg;

    dist_flush_timer_start(owners->flush_timer);
}

static struct dist_peer_queue *queue_make(struct dist_owners *owners, struct fg_peer *peer,
                                          const struct fg_id *store, unsigned messages_max)
{
    const struct dist_owners_config *config = &owners->config;

    return dist_peer_queue_create(&(struct dist_peer_queue_config){
        .peer = peer,
        .clock = config->clock,
        .store = store,
        .queue_max_bytes = config->queue_max_bytes,
        .messages_max = messages_max,
        .on_collect = on_collect,
        .on_collect_arg = owners,
    });
}

static unsigned forwards_max(unsigned messages_max)
{
    return FG_MAX(messages_max / 2, 1);
}

unsigned dist_owner_messages(unsigned messages_max)
{
    return messages_max + forwards_max(messages_max);
}

static struct dist_owner *owner_make(struct dist_owners *owners, struct fg_peer *peer,
                                     const struct fg_id *store)
{
    unsigned messages_max = owners->config.messages_max;
    struct dist_owner *owner = fg_new(struct dist_owner);

    owner->peer = peer;
    if (store != NULL) {
        owner->store = *store;
        owner->key = fg_mix64(store->lo ^ fg_mix64(store->hi));
    }
    owner->queue = queue_make(owners, peer, store, messages_max);
    owner->forwards = queue_make(owners, peer, store, forwards_max(messages_max));
    return owner;
}

static bool is_idle(const struct dist_owner *owner)
{
    return dist_peer_queue_is_idle(owner->queue) && dist_peer_queue_is_idle(owner->forwards);
}

static void owner_stop(struct dist_owner *owner)
{
    dist_peer_queue_stop(owner->queue);
    dist_peer_queue_stop(owner->forwards);
}

static void owner_free(struct dist_owner *owner)
{
    dist_peer_queue_destroy(owner->queue);
    dist_peer_queue_destroy(owner->forwards);
    free(owner->name);
    free(owner->address);
    free(owner);
}

struct dist_owner *dist_owner_ref(struct dist_owner *owner)
{
    (void)atomic_fetch_add(&owner->refs, 1);
    return owner;
}

/* Never frees: the last reference may go on any thread, also under a delivery's lock. drop_gone()
 * frees it later. */
void dist_owner_unref(struct dist_owner *owner)
{
    fg_assert(atomic_fetch_sub(&owner->refs, 1) > 0);
}

void dist_owner_set_done(struct dist_owner_set *set)
{
    for (unsigned i = 0; i < set->n_with_peer; i++)
        dist_owner_unref(set->with_peer[i]);
    set->n_with_peer = 0;
}

/* ---- members (locked) ---- */

static struct dist_owner *find_owner(const struct dist_owners *owners,
                                     const struct fg_ring_member *member)
{
    struct dist_owner *owner = owners->list;

    /* All three: an address may be another process's by now, and a store that has moved has another
     * address. Sends to the wrong one would be refused at best. */
    while (owner != NULL &&
           (!fg_id_eq(owner->store, member->store) || !fg_slice_is(member->name, owner->name) ||
            !fg_slice_is(member->address, owner->address)))
        owner = owner->next;
    return owner;
}

static bool is_there(const struct dist_owners *owners, const struct dist_owner *owner)
{
    for (uint32_t i = 0; i < owners->view->ring.n_members; i++)
        if (owners->of_member[i] == owner)
            return true;
    return false;
}

/* Frees owners that are no members any more and not in use. References are given out under the lock
 * and only to members, so none can appear meanwhile. */
static void drop_gone(struct dist_owners *owners)
{
    struct dist_owner **at = &owners->list;

    while (*at != NULL) {
        struct dist_owner *owner = *at;

        if (!is_there(owners, owner) && atomic_load(&owner->refs) == 0 && is_idle(owner)) {
            *at = owner->next;
            fg_peers_put(owners->config.peers, owner->peer);
            owner_free(owner);
        } else {
            at = &owner->next;
        }
    }
}

/* Switches to the ring of the view, whose reference it takes over. Owners that both rings have keep
 * their queues and peers. */
static void follow_ring(struct dist_owners *owners, struct fg_ring_view *view)
{
    free(owners->of_member);
    owners->of_member = fg_calloc(FG_MAX(view->ring.n_members, 1), sizeof(struct dist_owner *));
    for (uint32_t i = 0; i < view->ring.n_members; i++)
        owners->of_member[i] = find_owner(owners, &view->ring.members[i]);
    fg_ring_view_unref(owners->view);
    owners->view = view;
    /* Only now: is_there() goes by the members of the new ring. */
    drop_gone(owners);
}

static char *text_of(struct fg_slice slice)
{
    char *text = fg_malloc(slice.len + 1);

    memcpy(text, slice.ptr, slice.len);
    text[slice.len] = '\0';
    return text;
}

static enum fg_code make_member(struct dist_owners *owners, const struct fg_ring_member *member,
                                struct dist_owner **ret_owner, struct fg_err *err)
{
    char *address = text_of(member->address);
    struct fg_peer *peer;
    struct dist_owner *owner;

    drop_gone(owners); /* also of earlier rings, whose owners were busy then */
    if (fg_peers_get(owners->config.peers, address, &peer, err) != FG_OK) {
        free(address);
        return fg_wrap(err, "ingester %.*s", FG_S(member->name));
    }
    owner = owner_make(owners, peer, &member->store);
    owner->name = text_of(member->name);
    owner->address = address;
    owner->next = owners->list;
    owners->list = owner;
    *ret_owner = owner;
    return FG_OK;
}

/* ---- all of them ---- */

static enum fg_code by_ring(struct dist_owners *owners, uint16_t shard, struct dist_owner_set *set,
                            struct fg_err *err)
{
    const struct fg_ring_member *members[FG_RING_REPLICAS_MAX];
    int64_t now_ns;

    set->revision = fg_ring_newest(&owners->view->ring);
    set->quorum = fg_ring_view_writes(owners->view);
    set->n_owners = fg_ring_view_owners(owners->view, shard, members);
    if (set->n_owners == 0)
        return fg_fail(err, FG_E_UNAVAILABLE, "the ring has no ingester");
    if (set->n_owners < set->quorum)
        return fg_fail(err, FG_E_UNAVAILABLE, "a profile needs %u ingesters, but the ring has %u",
                       set->quorum, set->n_owners);
    for (unsigned i = 0; i < set->n_owners; i++) {
        struct dist_owner **place = &owners->of_member[members[i] - owners->view->ring.members];

        if (*place != NULL || make_member(owners, members[i], place, &set->err) == FG_OK) {
            set->with_peer[set->n_with_peer++] = dist_owner_ref(*place);
            continue;
        }
        /* Its address does not match our settings. Each push would find it again. */
        now_ns = fg_mono_ns(owners->config.clock);
        if (now_ns < owners->quiet_until_mono_ns)
            continue;
        owners->quiet_until_mono_ns = now_ns + LOG_EVERY_NS;
        fg_log_warn("ingester cannot be called (logged at most every 10 s)",
                    fg_ls("err", set->err.msg));
    }
    return FG_OK;
}

static enum fg_code not_read_yet(struct fg_err *err)
{
    return fg_fail(err, FG_E_UNAVAILABLE, "the ring has not been read yet");
}

enum fg_code dist_owners_of(struct dist_owners *owners, uint16_t shard,
                            struct dist_owner_set *ret_set, struct fg_err *err)
{
    struct dist_owner_set set = {.quorum = 1, .n_owners = 1, .n_with_peer = 1};
    struct fg_ring_view *view;
    enum fg_code code;

    if (owners->fixed != NULL) {
        set.with_peer[0] = dist_owner_ref(owners->fixed);
        *ret_set = set;
        return FG_OK;
    }
    view = fg_ring_watch_get(owners->config.watch);
    if (view == NULL)
        return not_read_yet(err);
    set.n_with_peer = 0;
    /* Held over the creation of a peer, so that two workers do not create two peers of one member.
     */
    (void)pthread_mutex_lock(&owners->lock);
    /* Two workers may come with different rings, and the one with the newer ring may be first:
     * never go back to an older ring, whose revision the ingesters have left. */
    if (owners->view == NULL || view->ring.swaps > owners->view->ring.swaps)
        follow_ring(owners, fg_take(view));
    code = by_ring(owners, shard, &set, err);
    (void)pthread_mutex_unlock(&owners->lock);
    fg_ring_view_unref(view);
    if (code == FG_OK)
        *ret_set = set;
    return code;
}

enum fg_code dist_owners_ring(struct dist_owners *owners, struct fg_slice tenant, unsigned wanted,
                              struct fg_ring_view **ret_view, struct fg_err *err)
{
    struct fg_ring_view *view = NULL;

    if (owners->config.watch != NULL) {
        view = fg_ring_watch_get(owners->config.watch);
        if (view == NULL)
            return not_read_yet(err);
        /* A ring without members has no shard factors. */
        if (fg_ring_newest(&view->ring) > 0 &&
            fg_ring_shard_factor_at(&view->ring, tenant, INT64_MAX) < wanted)
            fg_ring_watch_widen(owners->config.watch, tenant, wanted);
    }
    *ret_view = view;
    return FG_OK;
}

bool dist_owners_are_loaded(struct dist_owners *owners)
{
    struct fg_ring_view *view;
    bool known = true;

    if (owners->config.watch != NULL) {
        view = fg_ring_watch_get(owners->config.watch);
        known = view != NULL;
        fg_ring_view_unref(view);
    }
    return known;
}

void dist_owners_learn_revision(struct dist_owners *owners, uint64_t revision)
{
    if (owners->config.watch != NULL)
        fg_ring_watch_look(owners->config.watch, revision);
}

bool dist_owners_have_revision(struct dist_owners *owners, uint64_t revision)
{
    return owners->config.watch == NULL || fg_ring_watch_revision(owners->config.watch) >= revision;
}

void dist_owners_unreachable(struct dist_owners *owners)
{
    int64_t now_ns = fg_mono_ns(owners->config.clock);
    int64_t looked_ns = atomic_load(&owners->looked_mono_ns);

    /* The exchange lets one of the threads that find the second over start the read. */
    if (owners->config.watch == NULL || (looked_ns != 0 && now_ns - looked_ns < LOOK_EVERY_NS) ||
        !atomic_compare_exchange_strong(&owners->looked_mono_ns, &looked_ns, now_ns))
        return;
    fg_ring_watch_look(owners->config.watch, 0);
}

/* ---- batches that collect ---- */

/* Returns references to all owners in an array to free(). */
static struct dist_owner **list_all(struct dist_owners *owners, size_t *ret_count)
{
    struct dist_owner **all;
    size_t n = 0;

    (void)pthread_mutex_lock(&owners->lock);
    for (struct dist_owner *owner = owners->list; owner != NULL; owner = owner->next)
        n++;
    all = fg_calloc(n + 1, sizeof(struct dist_owner *));
    n = 0;
    for (struct dist_owner *owner = owners->list; owner != NULL; owner = owner->next)
        all[n++] = dist_owner_ref(owner);
    if (owners->fixed != NULL)
        all[n++] = dist_owner_ref(owners->fixed);
    (void)pthread_mutex_unlock(&owners->lock);
    *ret_count = n;
    return all;
}

/* Flushes all queues, on the timer's thread. Without the lock, because an answer may come at once
 * and take it; the references keep the owners meanwhile. */
static bool look_at_all(void *arg)
{
    bool more = false;
    size_t n;
    struct dist_owner **all = list_all(arg, &n);

    for (size_t i = 0; i < n; i++) {
        more |= dist_peer_queue_flush(all[i]->queue);
        more |= dist_peer_queue_flush(all[i]->forwards);
        dist_owner_unref(all[i]);
    }
    free(all);
    return more;
}

/* ---- outside ---- */

struct dist_owners *dist_owners_create(const struct dist_owners_config *config)
{
    struct dist_owners *owners = fg_new(struct dist_owners);

    owners->config = *config;
    (void)pthread_mutex_init(&owners->lock, NULL);
    owners->flush_timer = dist_flush_timer_create(PEER_QUEUE_COLLECT_NS, look_at_all, owners);
    if (config->ingester != NULL)
        owners->fixed = owner_make(owners, config->ingester, NULL);
    return owners;
}

void dist_owners_stop(struct dist_owners *owners)
{
    const struct timespec pause = {.tv_nsec = STOP_PAUSE_NS};

    /* The queues first: what waits fails, and the timer's last flush finds nothing to send. */
    if (owners->fixed != NULL)
        owner_stop(owners->fixed);
    for (struct dist_owner *owner = owners->list; owner != NULL; owner = owner->next)
        owner_stop(owner);
    dist_flush_timer_stop(owners->flush_timer); /* from now on nothing is handed to a peer */
    for (struct dist_owner *owner = owners->list; owner != NULL; owner = owner->next)
        while (!is_idle(owner))
            (void)nanosleep(&pause, NULL);
}

void dist_owners_destroy(struct dist_owners *owners)
{
    if (owners == NULL)
        return;
    dist_flush_timer_destroy(owners->flush_timer);
    while (owners->list != NULL) {
        struct dist_owner *owner = owners->list;

        owners->list = owner->next;
        fg_peers_put(owners->config.peers, owner->peer);
        owner_free(owner);
    }
    /* The program owns the fixed ingester's peer. */
    if (owners->fixed != NULL)
        owner_free(owners->fixed);
    free(owners->of_member);
    fg_ring_view_unref(owners->view);
    (void)pthread_mutex_destroy(&owners->lock);
    free(owners);
}
