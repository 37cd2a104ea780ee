/*
 * Answers other owners. Both calls are jobs of the QUERY lane with its limits of time and memory,
 * so a peer that asks for much slows itself down, and no push.
 */
#include "ingester/repair/handlers.h"

#include "ingester/export.h"
#include "ingester/repair/group.h"

enum {
    GROUPS_PAGE = 4096,              /* keeps an answer small; the rest comes with the next page */
    RECORDS_MAX_BYTES = 1024 * 1024, /* of one answer to FETCH; they are several times that there */
};

static bool is_store(ProtobufCBinaryData from, struct fg_id *ret_store)
{
    if (from.len == FG_ID_BYTES)
        *ret_store = fg_id_get(from.data);
    return from.len == FG_ID_BYTES;
}

static enum fg_code check_store(const struct ing_query *query, ProtobufCBinaryData meant,
                                struct fg_err *err)
{
    struct fg_id store;

    /* Unlike a query: repair exists in a ring only, so every call names a store. */
    if (is_store(meant, &store) && fg_id_eq(store, query->context->store_id))
        return FG_OK;
    return fg_fail(err, FG_E_PRECONDITION, "the request is for another store: read the ring again");
}

bool ing_repair_owns(const struct fg_ring_view *view, struct fg_id store, uint16_t shard)
{
    const struct fg_ring_member *owners[FG_RING_REPLICAS_MAX];
    unsigned n = fg_ring_view_owners(view, shard, owners);

    for (unsigned i = 0; i < n; i++)
        if (fg_id_eq(owners[i]->store, store))
            return true;
    return false;
}

/* ---- GROUPS ---- */

struct answer_listing {
    struct ing_query *query;
    const struct fg_ring_view *view;
    struct fg_id asker;
    Fg__Inner__TenantGroup **items;
    size_t n;
    struct fg_err *err;
};

static bool is_after(const struct ing_head_group_key *key, const struct ing_head_group_key *place)
{
    /* By number, as the chunks are sorted here. The asker knows tenants by name only. */
    if (key->tenant != place->tenant)
        return key->tenant > place->tenant;
    return key->shard != place->shard ? key->shard > place->shard : key->window > place->window;
}

/* Finds the group behind which a page begins. Returns false if the page is the first. */
static bool find_place(const struct ing_query *query, const Fg__Inner__GroupsHead *head,
                       struct ing_head_group_key *ret_place)
{
    struct ing_catalog_tenant *tenant =
        ing_catalog_find_tenant(query->context->catalog, fg_cstr(head->after_tenant));

    /* A tenant that is unknown here begins again: the asker compares some groups twice, and misses
     * none. */
    if (tenant == NULL || head->after == NULL)
        return false;
    *ret_place = (struct ing_head_group_key){ing_catalog_tenant_number(tenant),
                                             (uint16_t)head->after->shard, head->after->window};
    return true;
}

static enum fg_code put_group(struct answer_listing *listing, const struct ing_head_group_key *key,
                              const struct ing_group_sum *sum)
{
    struct ing_query *query = listing->query;
    Fg__Inner__TenantGroup *item = fg_arena_new(query->arena, Fg__Inner__TenantGroup, 1);
    Fg__Inner__GroupSum *out = fg_arena_new(query->arena, Fg__Inner__GroupSum, 1);
    uint8_t *digest = fg_arena_new(query->arena, uint8_t, FG_ID_BYTES);

    if (item == NULL || out == NULL || digest == NULL)
        return fg_fail(listing->err, FG_E_LIMIT, "too many groups");
    fg__inner__tenant_group__init(item);
    fg__inner__group_sum__init(out);
    fg_id_put(digest, sum->digest);
    out->shard = key->shard;
    out->window = key->window;
    out->count = sum->count;
    out->digest = (ProtobufCBinaryData){FG_ID_BYTES, digest};
    item->tenant = fg_arena_text(query->arena, ing_catalog_tenant_name(ing_catalog_tenant_at(
                                                   query->context->catalog, key->tenant)));
    if (item->tenant == NULL)
        return fg_fail(listing->err, FG_E_LIMIT, "too many groups");
    item->sum = out;
    listing->items[listing->n++] = item;
    return FG_OK;
}

/* Groups behind the place; *ret_more: the page was full before their end. */
static enum fg_code list_groups(struct answer_listing *listing,
                                const struct ing_head_group_key *place, bool *ret_more)
{
    struct ing_query_context *context = listing->query->context;
    struct ing_head_chunk *chunks;
    size_t n;

    if (ing_head_chunks_select(context->chunks, &ing_head_chunks_all, listing->query->arena,
                               &chunks, &n, listing->err) != FG_OK)
        return listing->err->code;
    for (size_t i = 0, next; i < n; i = next) {
        const struct ing_head_group_key *key = &chunks[i].key.group;
        struct ing_group_sum sum = {0};

        for (next = i; next < n && ing_head_same_group(&chunks[next].key.group, key); next++)
            if (ing_head_chunk_is_uncommitted(&chunks[next])) {
                sum.count += chunks[next].count;
                sum.digest = fg_id_add(sum.digest, chunks[next].digest);
            }
        if (sum.count == 0 || (place != NULL && !is_after(key, place)) ||
            !ing_repair_owns(listing->view, listing->asker, key->shard))
            continue;
        /* Known only when one more would come, so the last page does not promise another. */
        *ret_more = listing->n == GROUPS_PAGE;
        if (*ret_more)
            return FG_OK;
        if (put_group(listing, key, &sum) != FG_OK)
            return listing->err->code;
    }
    return FG_OK;
}

static enum fg_code answer_groups(struct ing_query *query, const Fg__Inner__GroupsHead *head,
                                  struct fg_err *err)
{
    fg_auto(fg_ring_view) *view =
        query->context->watch == NULL ? NULL : fg_ring_watch_get(query->context->watch);
    Fg__Inner__GroupsReply reply = FG__INNER__GROUPS_REPLY__INIT;
    struct answer_listing listing = {.query = query, .view = view, .err = err};
    struct ing_head_group_key place;
    bool more = false;

    if (check_store(query, head->store, err) != FG_OK)
        return err->code;
    if (view == NULL)
        return fg_fail(err, FG_E_UNAVAILABLE, "the ring has not been read yet");
    if (!is_store(head->asker, &listing.asker))
        return fg_fail(err, FG_E_INVALID, "GROUPS: the message has no member that asks");
    listing.items = fg_arena_new(query->arena, Fg__Inner__TenantGroup *, GROUPS_PAGE);
    if (listing.items == NULL)
        return fg_fail(err, FG_E_LIMIT, "too many groups");
    if (list_groups(&listing, find_place(query, head, &place) ? &place : NULL, &more) != FG_OK)
        return err->code;
    reply.groups = listing.items;
    reply.n_groups = listing.n;
    reply.more = more;
    ing_query_put_reply(query, &reply.base);
    return FG_OK;
}

static enum fg_code groups(struct ing_query *query, struct fg_err *err)
{
    struct fg_slice bytes = fg_rpc_head(query->req);
    Fg__Inner__GroupsHead *head = fg__inner__groups_head__unpack(NULL, bytes.len, bytes.ptr);
    enum fg_code code;

    if (head == NULL)
        return fg_fail(err, FG_E_INVALID, "groups: head cannot be read");
    code = answer_groups(query, head, err);
    fg__inner__groups_head__free_unpacked(head, NULL);
    return code;
}

/* ---- FETCH ---- */

struct fetch {
    struct ing_query *query;
    const Fg__Inner__FetchHead *head;
    struct ing_query_ids wanted;
    struct ing_head_profile_key place;   /* they are there or behind it */
    struct ing_export_profile *profiles; /* [wanted.n] */
    Fg__Inner__PushItem **items;         /* [n]: the batches of the reply */
    size_t n_items;
    bool *found; /* [wanted.n] */
    size_t n;
    uint64_t bytes;
    bool is_full;                     /* there are more */
    struct ing_head_profile_key next; /* the last that was taken, or the first that was not */
    struct fg_err *err;               /* of what is found in between */
};

static bool put_id(void *arg, const struct ing_head_profile_key *key, struct fg_slice value)
{
    struct fetch *fetch = arg;
    uint8_t id[FG_ID_BYTES];

    (void)value;
    /* It may still be on its way to the asker. */
    if (key->time_ns >= fetch->head->before_ns)
        return true;
    fg_id_put(id, key->id);
    fg_buf_append(&fetch->query->payload, id, sizeof id);
    return !fetch->query->payload.full;
}

static bool take_profile(void *arg, const struct ing_head_profile_key *key, struct fg_slice value)
{
    struct fetch *fetch = arg;
    struct ing_export_profile *profile = &fetch->profiles[fetch->n];
    size_t number = ing_query_ids_find(&fetch->wanted, key->id);
    struct fg_slice copy;

    if (number == SIZE_MAX || fetch->found[number])
        return true;
    fetch->next = *key;
    /* At least one profile, however large, or the asker would ask for it forever. */
    fetch->is_full = fetch->n > 0 && fetch->bytes + value.len > RECORDS_MAX_BYTES;
    if (fetch->is_full)
        return false;
    /* The value is valid during this call only. */
    copy = fg_arena_copy(fetch->query->arena, value);
    if (copy.ptr == NULL) {
        (void)fg_fail(fetch->err, FG_E_LIMIT, "too many profiles");
        return false;
    }
    profile->key = *key;
    fetch->found[number] = true;
    fetch->bytes += value.len;
    fetch->n++;
    return ing_record_open(copy, &profile->record, fetch->err) == FG_OK &&
           fetch->n < fetch->wanted.n; /* so what lies behind them is not read */
}

/* Leaves the ids that were not found: they are behind the place, or gone. */
static enum fg_code put_left(struct fetch *fetch, Fg__Inner__FetchReply *reply)
{
    size_t n = fetch->wanted.n - fetch->n, at = 0;
    uint8_t *left = fg_arena_alloc(fetch->query->arena, n * FG_ID_BYTES);

    if (left == NULL)
        return fg_fail(fetch->err, FG_E_LIMIT, "too many profiles");
    for (size_t i = 0; i < fetch->wanted.n; i++)
        if (!fetch->found[i])
            fg_id_put(left + FG_ID_BYTES * at++, fetch->wanted.items[i]);
    reply->left = (ProtobufCBinaryData){at * FG_ID_BYTES, left};
    return FG_OK;
}

static enum fg_code put_next(struct fetch *fetch, Fg__Inner__FetchReply *reply)
{
    struct fg_slice bytes;
    struct fg_buf next;

    fg_buf_init(&next, HEAD_PROFILE_KEY_BYTES);
    ing_head_put_profile_key(&next, &fetch->next);
    bytes = fg_arena_copy(fetch->query->arena, fg_buf_slice(&next));
    fg_buf_done(&next);
    if (bytes.ptr == NULL)
        return fg_fail(fetch->err, FG_E_LIMIT, "too many profiles");
    reply->next = (ProtobufCBinaryData){bytes.len, (uint8_t *)(uintptr_t)bytes.ptr};
    return FG_OK;
}

/* Encodes a batch with everything: the asker may know none of its stacks. */
static enum fg_code put_batch(void *arg, struct fg_batch *batch,
                              const struct ing_export_profile *profiles,
                              const struct ing_export_stacks *stacks, struct fg_err *err)
{
    struct fetch *fetch = arg;
    struct ing_query *query = fetch->query;
    const struct ing_catalog_series *series = profiles[0].series;
    Fg__Inner__PushItem *item = fg_arena_new(query->arena, Fg__Inner__PushItem, 1);
    uint64_t *sizes = fg_arena_new(query->arena, uint64_t, 2 * (size_t)batch->n_profiles);
    bool *define = fg_arena_new(query->arena, bool, batch->n_stacks);
    size_t before = query->payload.len;

    (void)stacks;
    if (item == NULL || sizes == NULL || define == NULL)
        return fg_fail(err, FG_E_LIMIT, "too many profiles");
    memset(define, true, batch->n_stacks * sizeof *define);
    fg_batch_encode(batch, define, &query->payload);
    fg_batch_put_sizes(batch, sizes);
    fg__inner__push_item__init(item);
    item->tenant = fg_arena_text(query->arena, ing_catalog_tenant_name(series->service->tenant));
    item->service = fg_arena_text(query->arena, series->service->name);
    item->bytes = (uint32_t)(query->payload.len - before);
    item->shard = series->shard;
    item->sizes = sizes;
    item->n_sizes = 2 * (size_t)batch->n_profiles;
    fetch->items[fetch->n_items++] = item;
    return item->tenant == NULL || item->service == NULL
               ? fg_fail(err, FG_E_LIMIT, "too many profiles")
               : FG_OK;
}

static enum fg_code put_batches(struct fetch *fetch, Fg__Inner__FetchReply *reply)
{
    struct ing_query *query = fetch->query;
    const struct ing_export_from from = {.dicts = query->context->dicts, .arena = query->arena};
    struct ing_export_profile *profiles = fetch->profiles;

    fetch->items = fg_arena_new(query->arena, Fg__Inner__PushItem *, fetch->n);
    if (fetch->items == NULL)
        return fg_fail(fetch->err, FG_E_LIMIT, "too many profiles");
    ing_export_sort(query->context->catalog, profiles, fetch->n);
    for (size_t i = 0, end; i < fetch->n; i = end) {
        end = ing_export_end(profiles, fetch->n, i);
        /* An unknown one: its definition is on its way to the disk, so it comes the next time. */
        if (profiles[i].series != NULL &&
            ing_export_batch(&from, profiles + i, end - i, put_batch, fetch, fetch->err) != FG_OK)
            return fetch->err->code;
    }
    reply->items = fetch->items;
    reply->n_items = fetch->n_items;
    return FG_OK;
}

static enum fg_code fetch_profiles(struct fetch *fetch, const struct ing_group_head *from,
                                   const struct ing_head_group_key *key,
                                   Fg__Inner__FetchReply *reply)
{
    struct ing_query *query = fetch->query;
    const struct ing_head_profile_key *place = fetch->head->place.len == 0 ? NULL : &fetch->place;

    fetch->profiles = fg_arena_new(query->arena, struct ing_export_profile, fetch->wanted.n);
    fetch->found = fg_arena_new(query->arena, bool, fetch->wanted.n);
    if (fetch->profiles == NULL || fetch->found == NULL)
        return fg_fail(fetch->err, FG_E_LIMIT, "too many profiles");
    if (ing_group_each(from, key, place, false, take_profile, fetch, fetch->err) != FG_OK ||
        fetch->err->code != FG_OK || (fetch->is_full && put_left(fetch, reply) != FG_OK) ||
        (fetch->n > 0 && put_next(fetch, reply) != FG_OK))
        return fetch->err->code;
    return put_batches(fetch, reply);
}

static enum fg_code check_fetch(struct fetch *fetch, struct fg_err *err)
{
    const Fg__Inner__FetchHead *head = fetch->head;
    struct fg_slice place = fg_bytes(head->place.data, head->place.len);

    if (check_store(fetch->query, head->store, err) != FG_OK)
        return err->code;
    if (head->group == NULL)
        return fg_fail(err, FG_E_INVALID, "FETCH: the message has no group");
    if (place.len > 0 && !ing_head_get_profile_key(place, &fetch->place))
        return fg_fail(err, FG_E_INVALID, "fetch: the place is no key of a profile");
    return ing_query_ids_read(head->ids, fetch->query->arena, &fetch->wanted, err);
}

static enum fg_code answer_fetch(struct fetch *fetch, struct fg_err *err)
{
    struct ing_query *query = fetch->query;
    const Fg__Inner__FetchHead *head = fetch->head;
    const struct ing_group_head from = {query->context->store, query->context->chunks};
    Fg__Inner__FetchReply reply = FG__INNER__FETCH_REPLY__INIT;
    struct ing_catalog_tenant *tenant =
        ing_catalog_find_tenant(query->context->catalog, fg_cstr(head->tenant));
    struct ing_head_group_key key;
    enum fg_code code = FG_OK;

    if (check_fetch(fetch, err) != FG_OK)
        return err->code;
    if (tenant != NULL) {
        key = (struct ing_head_group_key){ing_catalog_tenant_number(tenant),
                                          (uint16_t)head->group->shard, head->group->window};
        if (head->place.len > 0 && !ing_head_same_group(&fetch->place.chunk.group, &key))
            return fg_fail(err, FG_E_INVALID, "fetch: the place is in another group");
        /* take_profile() reports errors here, since a callback of ing_group_each() has no other
         * way. */
        err->code = FG_OK;
        code = fetch->wanted.items == NULL
                   ? ing_group_each(&from, &key, NULL, false, put_id, fetch, err)
                   : fetch_profiles(fetch, &from, &key, &reply);
    }
    if (code == FG_OK)
        ing_query_put_reply(query, &reply.base);
    return code;
}

static enum fg_code fetch(struct ing_query *query, struct fg_err *err)
{
    struct fg_slice bytes = fg_rpc_head(query->req);
    Fg__Inner__FetchHead *head = fg__inner__fetch_head__unpack(NULL, bytes.len, bytes.ptr);
    struct fetch fetch = {.query = query, .head = head, .err = err};
    enum fg_code code;

    if (head == NULL)
        return fg_fail(err, FG_E_INVALID, "fetch: head cannot be read");
    code = answer_fetch(&fetch, err);
    fg__inner__fetch_head__free_unpacked(head, NULL);
    return code;
}

/* Repair shares the workers with queries like one more tenant; the name of a tenant is not empty.
 */
void ing_repair_handle_groups(struct fg_rpc_request *req, void *context)
{
    ing_query_submit(req, context, (struct fg_slice){0}, groups);
}

void ing_repair_handle_fetch(struct fg_rpc_request *req, void *context)
{
    ing_query_submit(req, context, (struct fg_slice){0}, fetch);
}
