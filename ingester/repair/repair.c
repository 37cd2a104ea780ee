/*
 * The thread of repair and its links to the world (repair_core.h). It makes blocking calls, one at
 * a time: to other owners through the pool of peers, and to this ingester through a server without
 * an address, so that what it fetches takes the way of every push.
 *
 * Every wait of the thread ends with it, so a stop takes as long as
 * the call that is under way.
 */
#include "ingester/repair/repair.h"

#include "common/model/tenant_id.h"
#include "common/runtime/log.h"
#include "common/runtime/thread.h"
#include "ingester/repair/handlers.h"
#include "ingester/repair/repair_core.h"
#include "proto/inner.pb-c.h"

#define CONF(field) FG_CONF_AT(struct ing_repair_settings, field)

/* clang-format off */
const struct fg_conf_field ing_repair_fields[] = {
    {"every", FG_CONF_NS, CONF(every_ns), .def = "1m", .min = "100ms", .max = "1d",
     .doc = "Interval at which an ingester asks the other owners of its shards for missing profiles."},
    {"min_age", FG_CONF_NS, CONF(min_age_ns), .def = "1m", .min = "0s", .max = "1h",
     .doc = "Minimum age of profiles to repair. Younger profiles may still arrive."},
    {"rate_bytes", FG_CONF_BYTES, CONF(rate_bytes), .def = "16MiB", .min = "64KiB", .max = "16GiB",
     .doc = "Maximum repair traffic in bytes per second."},
};

#define REPAIR_METRICS(M)                                                                          \
    M(COUNTER, REPAIR_PASSES, "flamegrid_ingester_repair_passes_total", "Repair passes over all other owners") \
    M(COUNTER, REPAIR_FAILURES, "flamegrid_ingester_repair_failures_total", "Failed comparisons with another owner") \
    M(COUNTER, REPAIR_DIFFERENT, "flamegrid_ingester_repair_groups_total", "Groups that differed between this ingester and another owner") \
    M(COUNTER, REPAIR_GROUPS_FAILED, "flamegrid_ingester_repair_groups_failed_total", "Groups that could not be read or were refused, and are tried again in the next pass") \
    M(COUNTER, REPAIR_PROFILES, "flamegrid_ingester_repair_profiles_total", "Missing profiles fetched from another owner") \
    M(COUNTER, REPAIR_BYTES, "flamegrid_ingester_repair_bytes_total", "Bytes fetched from other owners for repair")
/* clang-format on */
const size_t ing_repair_n_fields = FG_COUNT(ing_repair_fields);
FG_METRICS_ENUM(repair_metric, REPAIR_METRICS)
FG_METRICS_TABLE(repair_metrics, REPAIR_METRICS)

/* A call that takes longer fails the pass with this owner; the next pass begins again. A reply is
 * about a megabyte of records (handlers.c), several times that with definitions. */
static const int64_t CALL_TIMEOUT_NS = 5 * FG_SECOND_NS;
static const int64_t MEMBER_POLL_NS = 100 * FG_MS_NS; /* while this member joins */
/* After a group that failed: an owner that is too busy to answer is not asked at full speed. */
static const int64_t FAILED_PAUSE_NS = 10 * FG_MS_NS;
static const uint64_t REPLY_MAX_BYTES = UINT64_C(64) << 20; /* far above what is said there */

struct ing_repair {
    struct ing_repair_config config;
    struct fg_metrics *metrics;
    struct fg_rpc_server *self_server; /* has no address: for self */
    struct fg_peer *self;
    struct fg_thread thread; /* sleeps between passes, and in them to keep its rate */
};

/* An owner that is asked. */
struct other {
    struct ing_repair *repair;
    const struct fg_ring_view *view;
    struct fg_peer *peer;
    uint8_t store[FG_ID_BYTES], own[FG_ID_BYTES];
    uint64_t n_failed; /* groups */
};

static ProtobufCBinaryData store_of(uint8_t store[FG_ID_BYTES])
{
    return (ProtobufCBinaryData){FG_ID_BYTES, store};
}

/* ---- waiting ---- */

/* Waits. Returns false at the end. */
static bool pause_for(struct ing_repair *repair, int64_t ns)
{
    int64_t until_ns = fg_mono_ns(fg_clock_real()) + ns;
    bool stop;

    fg_thread_lock(&repair->thread);
    while (!repair->thread.stop && fg_thread_sleep(&repair->thread, until_ns))
        ;
    stop = repair->thread.stop;
    fg_thread_unlock(&repair->thread);
    return !stop;
}

static enum fg_code is_ending(struct fg_err *err)
{
    return fg_fail(err, FG_E_CANCELED, "the ingester is stopping");
}

/* Waits after a call that brought so many bytes. Returns `code`, which became of it, or
 * FG_E_CANCELED. A failed call counts as well: what is refused here comes again in each pass. */
static enum fg_code keep_rate(struct ing_repair *repair, uint64_t bytes, enum fg_code code,
                              struct fg_err *err)
{
    uint64_t rate = repair->config.settings->rate_bytes;

    fg_metric_add(repair->metrics, REPAIR_BYTES, bytes);
    /* After the transfer, for the time that it should have taken: the average keeps to the rate. */
    return pause_for(repair, (int64_t)((double)bytes / (double)rate * 1e9)) ? code : is_ending(err);
}

/* ---- calls ---- */

/* Makes a call; the reply is in it. Call fg_call_done() in any case. */
static enum fg_code call_peer(struct fg_peer *peer, enum fg_rpc_method method,
                              const ProtobufCMessage *head, struct fg_slice payload,
                              struct fg_call *call)
{
    /* One byte more, since a message of zeros has none. */
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
    return fg_fail(err, FG_E_CORRUPT, "a response cannot be read");
}

/* ---- taking what is lacking ---- */

static enum fg_code check_results(struct ing_repair *repair, const Fg__Inner__PushReply *reply,
                                  struct fg_err *err)
{
    enum fg_code code = FG_OK;

    for (size_t i = 0; i < reply->n_results; i++) {
        const Fg__Inner__PushResult *result = reply->results[i];

        /* The first error is enough: one that fails every push (a full disk, an older ring) comes
         * again with the next group. */
        if (result->code == 0)
            fg_metric_add(repair->metrics, REPAIR_PROFILES, result->stored);
        else if (code == FG_OK)
            code = fg_fail(err, fg_code_from_grpc(result->code), "%s", result->message);
    }
    return code;
}

/* Pushes what was fetched, as a distributor would. */
static enum fg_code push_items(struct other *other, const Fg__Inner__FetchReply *fetched,
                               struct fg_slice batches, struct fg_err *err)
{
    Fg__Inner__PushHead head = FG__INNER__PUSH_HEAD__INIT;
    Fg__Inner__PushReply *reply;
    struct fg_call call;
    enum fg_code code;

    head.items = fetched->items;
    head.n_items = fetched->n_items;
    /* The ring of this pass: if it has changed, the push is refused (stale-ring-reject) and the
     * next pass uses the new one. */
    head.revision = fg_ring_newest(&other->view->ring);
    head.store = store_of(other->own);
    code = call_peer(other->repair->self, FG_RPC_PUSH, &head.base, batches, &call);
    if (code == FG_OK) {
        reply = fg__inner__push_reply__unpack(NULL, call.reply_head.len, call.reply_head.ptr);
        code = reply == NULL ? unreadable(err) : check_results(other->repair, reply, err);
        if (reply != NULL)
            fg__inner__push_reply__free_unpacked(reply, NULL);
    } else {
        *err = call.err;
    }
    fg_call_done(other->repair->self, &call);
    return code;
}

/* Takes the answer to a FETCH. Sets *n to the number of ids for which the answer had no room. */
static enum fg_code take_answer(struct other *other, const struct fg_call *call, struct fg_id *ids,
                                size_t *n, struct ing_repair_place *place, struct fg_err *err)
{
    Fg__Inner__FetchReply *reply =
        fg__inner__fetch_reply__unpack(NULL, call->reply_head.len, call->reply_head.ptr);
    enum fg_code code = FG_OK;
    size_t left;

    if (reply == NULL)
        return unreadable(err);
    left = reply->left.len / FG_ID_BYTES;
    /* Without progress the loop of the core would never end. */
    if (left >= *n)
        code = unreadable(err);
    else if (reply->n_items > 0)
        code = push_items(other, reply, call->reply_payload, err);
    for (size_t i = 0; code == FG_OK && i < left; i++)
        ids[i] = fg_id_get(reply->left.data + i * FG_ID_BYTES);
    if (reply->next.len == sizeof place->bytes) {
        memcpy(place->bytes, reply->next.data, sizeof place->bytes);
        place->len = sizeof place->bytes;
    }
    *n = left;
    fg__inner__fetch_reply__free_unpacked(reply, NULL);
    return code;
}

/* ---- FETCH ---- */

/* Sends a FETCH. Call fg_call_done() in any case. */
static enum fg_code fetch(struct other *other, const struct ing_repair_group *from,
                          ProtobufCBinaryData ids, ProtobufCBinaryData place, struct fg_call *call,
                          struct fg_err *err)
{
    const struct ing_repair_config *config = &other->repair->config;
    Fg__Inner__Group group = FG__INNER__GROUP__INIT;
    Fg__Inner__FetchHead head;
    char tenant[FG_TENANT_MAX_BYTES + 1];
    enum fg_code code;

    fg__inner__fetch_head__init(&head);
    (void)snprintf(tenant, sizeof tenant, "%.*s", FG_S(from->tenant));
    /* The other owner answers for this store only (same-store), and leaves out profiles that may
     * still be on their way here. */
    group.shard = from->shard;
    group.window = from->window;
    head.store = store_of(other->store);
    head.tenant = tenant;
    head.group = &group;
    head.before_ns = fg_wall_ns(config->clock) - config->settings->min_age_ns;
    head.ids = ids;
    head.place = place;
    code = call_peer(other->peer, FG_RPC_FETCH, &head.base, FG_LIT(""), call);
    if (code != FG_OK)
        *err = call->err;
    return code;
}

static enum fg_code link_take(void *arg, const struct ing_repair_group *group, struct fg_id *ids,
                              size_t *n, struct ing_repair_place *place, struct fg_err *err)
{
    struct other *other = arg;
    const ProtobufCBinaryData from = {place->len, place->bytes};
    uint8_t bytes[REPAIR_IDS_MAX * FG_ID_BYTES];
    struct fg_call call;
    enum fg_code code;
    uint64_t fetched;

    for (size_t i = 0; i < *n; i++)
        fg_id_put(bytes + i * FG_ID_BYTES, ids[i]);
    code = fetch(other, group, (ProtobufCBinaryData){*n * FG_ID_BYTES, bytes}, from, &call, err);
    if (code == FG_OK)
        code = take_answer(other, &call, ids, n, place, err);
    fetched = call.reply_payload.len;
    fg_call_done(other->peer, &call);
    return keep_rate(other->repair, fetched, code, err);
}

static enum fg_code link_ids(void *arg, const struct ing_repair_group *group,
                             struct ing_group_ids *out, struct fg_err *err)
{
    struct other *other = arg;
    struct fg_call call;
    enum fg_code code =
        fetch(other, group, (ProtobufCBinaryData){0}, (ProtobufCBinaryData){0}, &call, err);
    struct fg_slice ids = call.reply_payload;

    /* Once for each group: ids are asked for only if sums differ. */
    fg_metric_add(other->repair->metrics, REPAIR_DIFFERENT, 1);
    for (size_t at = 0; code == FG_OK && at + FG_ID_BYTES <= ids.len; at += FG_ID_BYTES)
        ing_group_ids_add(out, fg_id_get(ids.ptr + at));
    fg_call_done(other->peer, &call);
    return keep_rate(other->repair, ids.len, code, err);
}

/* ---- GROUPS ---- */

static enum fg_code read_group(const Fg__Inner__TenantGroup *from, struct fg_arena *arena,
                               struct ing_repair_group *ret_group, struct fg_err *err)
{
    const Fg__Inner__GroupSum *sum = from->sum;

    if (sum == NULL || sum->shard > UINT16_MAX || sum->digest.len != FG_ID_BYTES)
        return unreadable(err);
    *ret_group = (struct ing_repair_group){
        .tenant = fg_arena_copy(arena, fg_cstr(from->tenant)),
        .shard = (uint16_t)sum->shard,
        .window = sum->window,
        .sum = {sum->count, fg_id_get(sum->digest.data)},
    };
    if (ret_group->tenant.ptr == NULL || ret_group->tenant.len > FG_TENANT_MAX_BYTES)
        return unreadable(err);
    return FG_OK;
}

static enum fg_code read_page(struct fg_slice bytes, struct fg_arena *arena,
                              struct ing_repair_page *ret_page, struct fg_err *err)
{
    Fg__Inner__GroupsReply *reply = fg__inner__groups_reply__unpack(NULL, bytes.len, bytes.ptr);
    struct ing_repair_page page;
    enum fg_code code = FG_OK;

    if (reply == NULL)
        return unreadable(err);
    page = (struct ing_repair_page){.n = reply->n_groups, .more = reply->more};
    page.groups = fg_arena_new(arena, struct ing_repair_group, page.n);
    if (page.groups == NULL)
        code = fg_fail(err, FG_E_LIMIT, "a page of %zu groups", page.n);
    for (size_t i = 0; i < page.n && code == FG_OK; i++)
        code = read_group(reply->groups[i], arena, &page.groups[i], err);
    fg__inner__groups_reply__free_unpacked(reply, NULL);
    if (code == FG_OK)
        *ret_page = page;
    return code;
}

static enum fg_code link_groups(void *arg, const struct ing_repair_group *after,
                                struct fg_arena *arena, struct ing_repair_page *ret_page,
                                struct fg_err *err)
{
    struct other *other = arg;
    Fg__Inner__GroupsHead head;
    Fg__Inner__Group place = FG__INNER__GROUP__INIT;
    char tenant[FG_TENANT_MAX_BYTES + 1];
    struct fg_call call;
    enum fg_code code;

    /* A pass over groups that agree never sleeps, so look for a stop at each page. */
    if (!pause_for(other->repair, 0))
        return is_ending(err);
    fg__inner__groups_head__init(&head);
    head.store = store_of(other->store);
    head.asker = store_of(other->own);
    if (after != NULL) {
        (void)snprintf(tenant, sizeof tenant, "%.*s", FG_S(after->tenant));
        place.shard = after->shard;
        place.window = after->window;
        head.after_tenant = tenant;
        head.after = &place;
    }
    code = call_peer(other->peer, FG_RPC_GROUPS, &head.base, FG_LIT(""), &call);
    if (code == FG_OK)
        code = read_page(call.reply_head, arena, ret_page, err);
    else
        *err = call.err;
    fg_call_done(other->peer, &call);
    return code;
}

/* ---- what is here ---- */

static bool link_owns(void *arg, uint16_t shard)
{
    struct other *other = arg;

    return ing_repair_owns(other->view, other->repair->config.member->store, shard);
}

/* Finds the key of a group here. Returns false if the tenant is unknown. */
static bool find_group(const struct other *other, const struct ing_repair_group *group,
                       struct ing_head_group_key *ret_key)
{
    struct ing_catalog_tenant *tenant =
        ing_catalog_find_tenant(other->repair->config.catalog, group->tenant);

    if (tenant != NULL)
        *ret_key = (struct ing_head_group_key){ing_catalog_tenant_number(tenant), group->shard,
                                               group->window};
    return tenant != NULL;
}

static struct ing_group_sum link_own_sum(void *arg, const struct ing_repair_group *group)
{
    struct other *other = arg;
    const struct ing_repair_config *config = &other->repair->config;
    const struct ing_group_head head = {config->store, config->chunks};
    struct ing_head_group_key key;

    return find_group(other, group, &key) ? ing_group_sum(&head, &key) : (struct ing_group_sum){0};
}

static bool add_own(void *arg, const struct ing_head_profile_key *key, struct fg_slice value)
{
    (void)value;
    ing_group_ids_add(arg, key->id);
    return true;
}

static enum fg_code link_own_ids(void *arg, const struct ing_repair_group *group,
                                 struct ing_group_ids *out, struct fg_err *err)
{
    struct other *other = arg;
    const struct ing_repair_config *config = &other->repair->config;
    const struct ing_group_head head = {config->store, config->chunks};
    struct ing_head_group_key key;

    return find_group(other, group, &key)
               ? ing_group_each(&head, &key, NULL, true, add_own, out, err)
               : FG_OK;
}

/* ---- groups that fail ---- */

static void link_group_failed(void *arg, const struct ing_repair_group *group)
{
    struct other *other = arg;

    (void)group;
    other->n_failed++;
    fg_metric_add(other->repair->metrics, REPAIR_GROUPS_FAILED, 1);
    (void)pause_for(other->repair, FAILED_PAUSE_NS); /* at a stop the next call says so */
}

/* ---- one of the others ---- */

static void repair_from(struct ing_repair *repair, const struct fg_ring_view *view,
                        const struct fg_ring_member *member)
{
    struct fg_err err;
    struct other other = {.repair = repair, .view = view};
    const struct ing_repair_links links = {
        .arg = &other,
        .groups = link_groups,
        .ids = link_ids,
        .take = link_take,
        .owns = link_owns,
        .own_sum = link_own_sum,
        .own_ids = link_own_ids,
        .group_failed = link_group_failed,
    };
    enum fg_code code;
    char url[FG_RING_ADDRESS_MAX_BYTES + 1];

    (void)snprintf(url, sizeof url, "%.*s", FG_S(member->address));
    fg_id_put(other.store, member->store);
    fg_id_put(other.own, repair->config.member->store);
    code = fg_peers_get(repair->config.peers, url, &other.peer, &err);
    if (code == FG_OK) {
        code = ing_repair_core_pass(&links, &err);
        fg_peers_put(repair->config.peers, other.peer);
    }
    if (code == FG_OK || code == FG_E_CANCELED)
        return;
    fg_metric_add(repair->metrics, REPAIR_FAILURES, 1);
    if (other.n_failed > 0)
        fg_log_warn("profiles of another owner cannot be fetched, will retry",
                    fg_lb("member", member->name), fg_lu("groups", other.n_failed),
                    fg_ls("err", err.msg));
    else
        fg_log_debug("repair with another owner failed, will retry", fg_lb("member", member->name),
                     fg_ls("err", err.msg));
}

/* Runs a pass over every member that may have profiles. Each member finds out itself which shards
 * it shares with this one. */
static void pass(struct ing_repair *repair)
{
    /* One view for the whole pass, so shards and members fit together. */
    fg_auto(fg_ring_view) *view = fg_ring_watch_get(repair->config.member->watch);

    for (uint32_t i = 0; view != NULL && i < view->ring.n_members && pause_for(repair, 0); i++) {
        const struct fg_ring_member *member = &view->ring.members[i];

        /* Members that are leaving are asked as well: they may have profiles that no other member
         * has. */
        if (!fg_id_eq(member->store, repair->config.member->store) &&
            fg_ring_state(&view->ring, i) != FG_RING_GONE)
            repair_from(repair, view, member);
    }
    fg_metric_add(repair->metrics, REPAIR_PASSES, 1);
}

/* ---- the thread ---- */

/*
 * The thread is no ticker (common/runtime/ticker.h): a pass sleeps to keep its rate, and a stop
 * must end that sleep, too; and it waits for the ring in shorter steps than between two passes.
 */
static void repair_until_stopped(void *arg)
{
    struct ing_repair *repair = arg;
    bool goes_on = true;

    while (goes_on) {
        if (fg_ring_watch_member_state(repair->config.member->watch) == FG_RING_MEMBER_ACTIVE) {
            pass(repair);
            goes_on = pause_for(repair, repair->config.settings->every_ns);
        } else {
            goes_on = pause_for(repair, MEMBER_POLL_NS);
        }
    }
}

enum fg_code ing_repair_create(const struct ing_repair_config *config,
                               struct ing_repair **ret_repair, struct fg_err *err)
{
    struct ing_repair *repair = fg_new(struct ing_repair);

    repair->config = *config;
    repair->metrics =
        fg_metrics_register(config->registry, repair_metrics, FG_COUNT(repair_metrics));
    repair->self_server = fg_rpc_server_create(NULL, 1);
    fg_rpc_server_handle(repair->self_server, FG_RPC_PUSH, ing_push_handle, config->push);
    repair->self = fg_peer_direct(repair->self_server);
    fg_thread_init(&repair->thread);
    /* Last, since the thread uses all of the above. */
    if (fg_thread_start(&repair->thread, "repair", repair_until_stopped, repair, err) != FG_OK) {
        ing_repair_destroy(repair);
        return err->code;
    }
    *ret_repair = repair;
    return FG_OK;
}

void ing_repair_destroy(struct ing_repair *repair)
{
    if (repair == NULL)
        return;
    fg_thread_stop(&repair->thread);
    /* The connection before the server that it calls. */
    fg_peer_destroy(repair->self);
    fg_rpc_server_destroy(repair->self_server);
    fg_thread_done(&repair->thread);
    free(repair);
}
