#include "ingester/repair/repair.h"

#include "common/run/log.h"
#include "ingester/repair/answer.h"
#include "ingester/repair/group.h"
#include "proto/inner.pb-c.h"

#include <pthread.h>

#define CONF(field) FG_CONF_AT(struct repair_settings, field)

/* clang-format off */
const struct fg_conf_field repair_fields[] = {
    {"every", FG_CONF_NS, CONF(every_ns), .def = "1m", .min = "100ms", .max = "1d",
     .doc = "How often an ingester asks the other owners of its shards for profiles that it lacks."},
    {"young", FG_CONF_NS, CONF(young_ns), .def = "1m", .min = "0s", .max = "1h",
     .doc = "Profiles that are younger are not asked for: they may be on their way."},
    {"rate_bytes", FG_CONF_BYTES, CONF(rate_bytes), .def = "16MiB", .min = "64KiB", .max = "16GiB",
     .doc = "Bytes of such profiles that are fetched in a second, at most."},
};

#define REPAIR_METRICS(M)                                                                          \
    M(COUNTER, REPAIR_PASSES, "flamegrid_ingester_repair_passes_total", "Times that all other owners were asked for what is lacking here") \
    M(COUNTER, REPAIR_FAILURES, "flamegrid_ingester_repair_failures_total", "Times that one of them could not be asked to the end") \
    M(COUNTER, REPAIR_DIFFERENT, "flamegrid_ingester_repair_groups_total", "Groups of which another owner had something else than this one") \
    M(COUNTER, REPAIR_PROFILES, "flamegrid_ingester_repair_profiles_total", "Profiles that were lacking here and were taken from another owner") \
    M(COUNTER, REPAIR_BYTES, "flamegrid_ingester_repair_bytes_total", "Bytes that were fetched for it")
/* clang-format on */
const size_t repair_n_fields = FG_COUNT(repair_fields);
FG_METRICS_ENUM(repair_metric, REPAIR_METRICS)
static const struct fg_metric_def repair_metrics[] = FG_METRICS_DEFS(REPAIR_METRICS);

enum { IDS_AT_A_TIME = 256 };

static const int64_t CALL_TIMEOUT_NS = 5 * FG_SECOND_NS;
static const int64_t SEAT_POLL_NS = 100 * FG_MS_NS;
static const uint64_t REPLY_MAX_BYTES = UINT64_C(64) << 20;

struct repair {
    struct repair_config config;
    struct fg_metrics *metrics;
    struct fg_rpc_server *self_server; /* has no address: for self */
    struct fg_peer *self;
    pthread_t thread;
    bool started;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool stop;
};

/* One that is asked. */
struct other {
    struct repair *repair;
    const struct fg_ring_view *view;
    const struct fg_ring_member *member;
    struct fg_peer *peer;
    uint8_t store[FG_ID_BYTES], own[FG_ID_BYTES];
    struct fg_err *err;
};

static ProtobufCBinaryData store_of(uint8_t store[FG_ID_BYTES])
{
    return (ProtobufCBinaryData){FG_ID_BYTES, store};
}

/* ---- waiting ---- */

/* false: it is time to end. */
static bool pause_for(struct repair *repair, int64_t ns)
{
    int64_t until_ns = fg_mono_ns(fg_clock_real()) + ns;
    const struct timespec until = {until_ns / FG_SECOND_NS, until_ns % FG_SECOND_NS};
    bool stop;

    (void)pthread_mutex_lock(&repair->lock);
    while (!repair->stop && pthread_cond_timedwait(&repair->wake, &repair->lock, &until) == 0)
        ;
    stop = repair->stop;
    (void)pthread_mutex_unlock(&repair->lock);
    return !stop;
}

static enum fg_code keep_rate(struct repair *repair, uint64_t bytes, struct fg_err *err)
{
    uint64_t rate = repair->config.settings->rate_bytes;

    fg_metric_add(repair->metrics, REPAIR_BYTES, bytes);
    return pause_for(repair, (int64_t)((double)bytes / (double)rate * 1e9))
               ? FG_OK
               : fg_fail(err, FG_E_CANCELED, "the ingester is ending");
}

/* ---- calls ---- */

/* The reply is in the call; fg_call_done() in any case. */
static enum fg_code ask(struct fg_peer *peer, enum fg_rpc_method method,
                        const ProtobufCMessage *head, struct fg_slice payload, struct fg_call *call)
{
    uint8_t *bytes = fg_malloc(protobuf_c_message_get_packed_size(head) + 1);
    enum fg_code code;

    *call = (struct fg_call){
        .method = method,
        .head = fg_bytes(bytes, protobuf_c_message_pack(head, bytes)),
        .payload = payload,
        .deadline_mono_ns = fg_mono_ns(fg_clock_real()) + CALL_TIMEOUT_NS,
        .reply_max_bytes = REPLY_MAX_BYTES,
    };
    code = fg_peer_call(peer, call);
    free(bytes);
    return code;
}

static enum fg_code unreadable(struct fg_err *err)
{
    return fg_fail(err, FG_E_CORRUPT, "an answer cannot be read");
}

/* ---- taking what is lacking ---- */

static enum fg_code check_results(struct repair *repair, const Fg__Inner__PushReply *reply,
                                  struct fg_err *err)
{
    for (size_t i = 0; i < reply->n_results; i++) {
        const Fg__Inner__PushResult *result = reply->results[i];

        if (result->code != 0)
            return fg_fail(err, fg_code_from_grpc(result->code), "%s", result->message);
        fg_metric_add(repair->metrics, REPAIR_PROFILES, result->stored);
    }
    return FG_OK;
}

/* What was fetched, as if a distributor had sent it. */
static enum fg_code push_items(struct other *other, const Fg__Inner__FetchReply *fetched,
                               struct fg_slice batches)
{
    Fg__Inner__PushHead head = FG__INNER__PUSH_HEAD__INIT;
    Fg__Inner__PushReply *reply;
    struct fg_call call;
    enum fg_code code;

    head.items = fetched->items;
    head.n_items = fetched->n_items;
    head.revision = fg_ring_newest(&other->view->ring);
    head.store = store_of(other->own);
    code = ask(other->repair->self, FG_RPC_PUSH, &head.base, batches, &call);
    if (code == FG_OK) {
        reply = fg__inner__push_reply__unpack(NULL, call.reply_head.len, call.reply_head.ptr);
        code = reply == NULL ? unreadable(other->err)
                             : check_results(other->repair, reply, other->err);
        if (reply != NULL)
            fg__inner__push_reply__free_unpacked(reply, NULL);
    } else {
        *other->err = call.err;
    }
    fg_call_done(other->repair->self, &call);
    return code;
}

/* The group's part of a FETCH. */
static Fg__Inner__FetchHead fetch_head(struct other *other, const char *tenant,
                                       Fg__Inner__Group *group)
{
    Fg__Inner__FetchHead head;

    fg__inner__fetch_head__init(&head);
    head.store = store_of(other->store);
    head.tenant = (char *)(uintptr_t)tenant; /* only read */
    head.group = group;
    head.before_ns =
        fg_wall_ns(other->repair->config.clock) - other->repair->config.settings->young_ns;
    return head;
}

/* Ids of a group that are to be fetched, in the order in which they are kept there. */
struct wanted {
    const struct fg_id *ids;
    size_t n;
    uint8_t place[HEAD_PROFILE_KEY_BYTES]; /* where they are at the earliest, as the other says */
    size_t place_len;                      /* 0: it said nothing */
};

/* The answer of a FETCH; *n are left of the ids, which found no room in it. */
static enum fg_code take_answer(struct other *other, const struct fg_call *call,
                                struct wanted *wanted, struct fg_id *ids, size_t *n)
{
    Fg__Inner__FetchReply *reply =
        fg__inner__fetch_reply__unpack(NULL, call->reply_head.len, call->reply_head.ptr);
    enum fg_code code = FG_OK;
    size_t left;

    if (reply == NULL)
        return unreadable(other->err);
    left = reply->left.len / FG_ID_BYTES;
    if (left >= *n)
        code = unreadable(other->err);
    else if (reply->n_items > 0)
        code = push_items(other, reply, call->reply_payload);
    for (size_t i = 0; code == FG_OK && i < left; i++)
        ids[i] = fg_id_get(reply->left.data + i * FG_ID_BYTES);
    if (reply->next.len == sizeof wanted->place) {
        memcpy(wanted->place, reply->next.data, sizeof wanted->place);
        wanted->place_len = sizeof wanted->place;
    }
    *n = left;
    fg__inner__fetch_reply__free_unpacked(reply, NULL);
    return code;
}

/* Asks for up to some hundred profiles. */
static enum fg_code take_some(struct other *other, Fg__Inner__FetchHead head, struct wanted *wanted,
                              struct fg_id *ids, size_t *n)
{
    uint8_t bytes[IDS_AT_A_TIME * FG_ID_BYTES];
    struct fg_call call;
    enum fg_code code;
    uint64_t fetched;

    for (size_t i = 0; i < *n; i++)
        fg_id_put(bytes + i * FG_ID_BYTES, ids[i]);
    head.ids = (ProtobufCBinaryData){*n * FG_ID_BYTES, bytes};
    head.place = (ProtobufCBinaryData){wanted->place_len, wanted->place};
    code = ask(other->peer, FG_RPC_FETCH, &head.base, FG_LIT(""), &call);
    if (code == FG_OK)
        code = take_answer(other, &call, wanted, ids, n);
    else
        *other->err = call.err;
    fetched = call.reply_payload.len;
    fg_call_done(other->peer, &call);
    return code == FG_OK ? keep_rate(other->repair, fetched, other->err) : code;
}

/* Some hundred at a time. What was in an answer is behind the place of the next one, so that the
 * other reads each profile once. */
static enum fg_code take(struct other *other, const Fg__Inner__FetchHead *head,
                         struct wanted *wanted)
{
    struct fg_id ids[IDS_AT_A_TIME];

    for (size_t i = 0; i < wanted->n; i += IDS_AT_A_TIME) {
        size_t n = FG_MIN(wanted->n - i, IDS_AT_A_TIME);

        memcpy(ids, wanted->ids + i, n * sizeof *ids);
        while (n > 0)
            if (take_some(other, *head, wanted, ids, &n) != FG_OK)
                return other->err->code;
    }
    return FG_OK;
}

/* ---- what is lacking ---- */

static bool add_own(void *arg, const struct head_profile_key *key, struct fg_slice value)
{
    (void)value;
    group_ids_add(arg, key->id);
    return true;
}

static enum fg_code read_own(struct other *other, const struct head_group_key *key,
                             struct group_ids *own)
{
    const struct repair_config *config = &other->repair->config;
    const struct group_head head = {config->store, config->rounds};
    enum fg_code code = group_each(&head, key, NULL, true, add_own, own, other->err);

    group_ids_sort(own);
    return code;
}

/* Of theirs, what is not among ours. */
static void find_missing(struct fg_slice theirs, const struct group_ids *own,
                         struct group_ids *missing)
{
    for (size_t at = 0; at + FG_ID_BYTES <= theirs.len; at += FG_ID_BYTES) {
        struct fg_id id = fg_id_get(theirs.ptr + at);

        if (!group_ids_have(own, id))
            group_ids_add(missing, id);
    }
}

static enum fg_code ask_ids(struct other *other, const Fg__Inner__FetchHead *head,
                            const struct group_ids *own, struct group_ids *missing)
{
    struct fg_call call;
    enum fg_code code = ask(other->peer, FG_RPC_FETCH, &head->base, FG_LIT(""), &call);
    uint64_t bytes = call.reply_payload.len;

    if (code == FG_OK)
        find_missing(call.reply_payload, own, missing);
    else
        *other->err = call.err;
    fg_call_done(other->peer, &call);
    return code == FG_OK ? keep_rate(other->repair, bytes, other->err) : code;
}

static enum fg_code repair_group(struct other *other, const char *tenant,
                                 const struct head_group_key *key)
{
    Fg__Inner__Group group = FG__INNER__GROUP__INIT;
    Fg__Inner__FetchHead head = fetch_head(other, tenant, &group);
    struct group_ids own = {0}, missing = {0};
    enum fg_code code = FG_OK;

    group.shard = key->shard;
    group.window = key->window;
    fg_metric_add(other->repair->metrics, REPAIR_DIFFERENT, 1);
    if (key->tenant != UINT32_MAX)
        code = read_own(other, key, &own);
    if (code == FG_OK)
        code = ask_ids(other, &head, &own, &missing);
    if (code == FG_OK)
        code = take(other, &head, &(struct wanted){.ids = missing.ids, .n = missing.n});
    group_ids_done(&own);
    group_ids_done(&missing);
    return code;
}

static bool is_same(const struct group_sum *own, const Fg__Inner__GroupSum *theirs)
{
    return own->count == theirs->count && theirs->digest.len == FG_ID_BYTES &&
           fg_id_eq(own->digest, fg_id_get(theirs->digest.data));
}

static enum fg_code compare_group(struct other *other, const Fg__Inner__TenantGroup *theirs)
{
    const struct repair_config *config = &other->repair->config;
    const struct group_head head = {config->store, config->rounds};
    struct catalog_tenant *tenant = catalog_find_tenant(config->catalog, fg_cstr(theirs->tenant));
    struct head_group_key key = {.tenant = UINT32_MAX}; /* nothing is known of it */
    struct group_sum own = {0};

    if (theirs->sum == NULL || theirs->sum->shard > UINT16_MAX)
        return unreadable(other->err);
    key.shard = (uint16_t)theirs->sum->shard;
    key.window = theirs->sum->window;
    if (!repair_owns(other->view, config->member->store, key.shard))
        return FG_OK;
    if (tenant != NULL) {
        key.tenant = catalog_tenant_number(tenant);
        own = group_sum(&head, &key);
    }
    return is_same(&own, theirs->sum) ? FG_OK : repair_group(other, theirs->tenant, &key);
}

/* ---- one of the others ---- */

static enum fg_code compare_page(struct other *other, const Fg__Inner__GroupsReply *page)
{
    for (size_t i = 0; i < page->n_groups; i++)
        if (compare_group(other, page->groups[i]) != FG_OK)
            return other->err->code;
    return FG_OK;
}

/* The page that begins behind this group (NULL: from the start); freed by the caller. */
static enum fg_code ask_page(struct other *other, const Fg__Inner__TenantGroup *after,
                             Fg__Inner__GroupsReply **ret_page)
{
    Fg__Inner__GroupsHead head;
    Fg__Inner__Group place = FG__INNER__GROUP__INIT;
    struct fg_call call;
    enum fg_code code;

    fg__inner__groups_head__init(&head);
    head.store = store_of(other->store);
    head.asker = store_of(other->own);
    if (after != NULL && after->sum != NULL) {
        place.shard = after->sum->shard;
        place.window = after->sum->window;
        head.after_tenant = after->tenant;
        head.after = &place;
    }
    code = ask(other->peer, FG_RPC_GROUPS, &head.base, FG_LIT(""), &call);
    if (code == FG_OK) {
        *ret_page = fg__inner__groups_reply__unpack(NULL, call.reply_head.len, call.reply_head.ptr);
        code = *ret_page == NULL ? unreadable(other->err) : FG_OK;
    } else {
        *other->err = call.err;
    }
    fg_call_done(other->peer, &call);
    return code;
}

static enum fg_code compare_all(struct other *other)
{
    Fg__Inner__GroupsReply *page = NULL, *next;
    const Fg__Inner__TenantGroup *last = NULL;
    bool more = true;

    while (more && pause_for(other->repair, 0)) {
        if (ask_page(other, last, &next) != FG_OK)
            break;
        if (page != NULL)
            fg__inner__groups_reply__free_unpacked(page, NULL);
        page = next;
        more = page->more && page->n_groups > 0;
        last = more ? page->groups[page->n_groups - 1] : NULL;
        if (compare_page(other, page) != FG_OK)
            break;
    }
    if (page != NULL)
        fg__inner__groups_reply__free_unpacked(page, NULL);
    return other->err->code;
}

static void repair_from(struct repair *repair, const struct fg_ring_view *view,
                        const struct fg_ring_member *member)
{
    struct fg_err err = {.code = FG_OK};
    struct other other = {.repair = repair, .view = view, .member = member, .err = &err};
    char url[FG_RING_ADDRESS_MAX_BYTES + 1];

    (void)snprintf(url, sizeof url, "%.*s", FG_S(member->address));
    fg_id_put(other.store, member->store);
    fg_id_put(other.own, repair->config.member->store);
    if (fg_peers_get(repair->config.peers, url, &other.peer, &err) == FG_OK) {
        (void)compare_all(&other);
        fg_peers_put(repair->config.peers, other.peer);
    }
    if (err.code == FG_OK || err.code == FG_E_CANCELED)
        return;
    fg_metric_add(repair->metrics, REPAIR_FAILURES, 1);
    fg_log_debug("repair: another owner could not be asked, the next time",
                 fg_lb("member", member->name), fg_ls("err", err.msg));
}

/* Everyone who may have something: that they own a shard with us the other side looks up. */
static void pass(struct repair *repair)
{
    fg_auto(fg_ring_view) *view = fg_ring_watch_get(repair->config.member->watch);

    for (uint32_t i = 0; view != NULL && i < view->ring.n_members && pause_for(repair, 0); i++) {
        const struct fg_ring_member *member = &view->ring.members[i];

        if (!fg_id_eq(member->store, repair->config.member->store) &&
            fg_ring_state(&view->ring, i) != FG_RING_GONE)
            repair_from(repair, view, member);
    }
    fg_metric_add(repair->metrics, REPAIR_PASSES, 1);
}

/* ---- the thread ---- */

static bool is_seated(const struct repair *repair)
{
    return fg_ring_watch_seat_state(repair->config.member->watch) == FG_RING_SEAT_ACTIVE;
}

static void *run(void *arg)
{
    struct repair *repair = arg;
    bool goes_on = true;

    (void)pthread_setname_np(pthread_self(), "repair");
    while (goes_on) {
        if (is_seated(repair)) {
            pass(repair);
            goes_on = pause_for(repair, repair->config.settings->every_ns);
        } else {
            goes_on = pause_for(repair, SEAT_POLL_NS);
        }
    }
    return NULL;
}

enum fg_code repair_create(const struct repair_config *config, struct repair **ret_repair,
                           struct fg_err *err)
{
    struct repair *repair = fg_new(struct repair);
    pthread_condattr_t monotonic;
    int failed;

    repair->config = *config;
    repair->metrics =
        fg_metrics_register(config->registry, repair_metrics, FG_COUNT(repair_metrics));
    repair->self_server = fg_rpc_server_create(NULL, 1);
    fg_rpc_server_handle(repair->self_server, FG_RPC_PUSH, push_handle, config->push);
    repair->self = fg_peer_direct(repair->self_server);
    (void)pthread_mutex_init(&repair->lock, NULL);
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&repair->wake, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    failed = pthread_create(&repair->thread, NULL, run, repair);
    if (failed != 0) {
        repair_destroy(repair);
        return fg_fail_errno(err, failed, "thread of repair");
    }
    repair->started = true;
    *ret_repair = repair;
    return FG_OK;
}

void repair_destroy(struct repair *repair)
{
    if (repair == NULL)
        return;
    if (repair->started) {
        (void)pthread_mutex_lock(&repair->lock);
        repair->stop = true;
        (void)pthread_cond_signal(&repair->wake);
        (void)pthread_mutex_unlock(&repair->lock);
        (void)pthread_join(repair->thread, NULL);
    }
    fg_peer_destroy(repair->self);
    fg_rpc_server_destroy(repair->self_server);
    (void)pthread_cond_destroy(&repair->wake);
    (void)pthread_mutex_destroy(&repair->lock);
    free(repair);
}
