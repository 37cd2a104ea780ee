#include "tests/lib/head_run.h"

#include "common/cluster/ring/shard.h"
#include "common/model/flame.h"
#include "proto/builder/builder.h"
#include "proto/inner.pb-c.h"
#include "tests/lib/bucket_doubles.h"
#include "tests/lib/tenants.h"

#include <stdlib.h>
#include <unistd.h>

enum { ANSWER_MAX_S = 60 };

struct head_bounds head_bounds = {
    .catalog_max_bytes = 64 << 20,
    .series_max = HEAD_SERIES_MAX,
    .tenant_catalog_share = 1,
    .queue_max = 1024,
    .late_queue_max = 128,
};
uint64_t head_query_pass_bytes;
size_t head_compare_piece_bytes;

static const int64_t NEVER_NS = 1000 * FG_HOUR_NS;

/* ---- the ingester ---- */

static void bound_tenants(struct fg_limit_settings *limits)
{
    limits->max_series_per_tenant = head_bounds.series_max;
    limits->tenant_catalog_share = head_bounds.tenant_catalog_share;
}

static void make_scratch(char path[HEAD_SCRATCH_MAX_BYTES])
{
    (void)snprintf(path, HEAD_SCRATCH_MAX_BYTES, "/tmp/flamegrid-test.XXXXXX");
    fg_assert(mkdtemp(path) != NULL);
}

struct opening {
    struct fg_store *store;
    struct fg_bucket *bucket;
    bool owns_bucket;
    int64_t evict_after_ns;           /* of one without a ring */
    const struct head_member *member; /* NULL: there is no ring */
    const struct ing_forward *forward;
};

static void must(enum fg_code code, const struct fg_err *err)
{
    if (code != FG_OK)
        fg_assert_failed(err->msg, __FILE__, __LINE__);
}

static void on_drain(void *arg, uint64_t revision)
{
    struct head *head = arg;

    ing_drain(head->ingester, revision);
}

static void make_watch(struct head *head, const struct opening *opening)
{
    const struct head_member *member = opening->member;
    const struct fg_ring_watch_member self = {
        .name = member->name,
        .zone = "",
        .address = head->url,
        .http = "",
        .store = head->store_id,
        .replicas = member->replicas,
        .on_drain = on_drain,
        .arg = head,
    };
    struct fg_err err;

    must(fg_ring_watch_create(&(struct fg_ring_watch_config){.bucket = opening->bucket,
                                                             .clock = fg_clock_real(),
                                                             .registry = head->registry,
                                                             .poll_ns = member->poll_ns,
                                                             .member = &self},
                              &head->watch, &err),
         &err);
}

static void make_member(struct head *head, const struct opening *opening)
{
    const struct head_member *member = opening->member;

    if (member->url != NULL)
        (void)snprintf(head->url, sizeof head->url, "%s", member->url);
    else
        (void)snprintf(head->url, sizeof head->url, "inproc://%s", member->name);
    make_watch(head, opening);
    if (member->repair_every_ns == 0)
        return;
    head->peers = fg_peers_create(&(struct fg_peers_config){.calls_max = 2, .peers_max = 8});
    head->repair = (struct ing_repair_settings){
        .every_ns = member->repair_every_ns, .min_age_ns = FG_MINUTE_NS, .rate_bytes = 1 << 30};
}

static void open_on(struct head *head, const struct opening *opening)
{
    const struct head_member *member = opening->member;
    const struct ing_segments_settings segments = {
        .cut_bytes = 64 << 20,
        .grace_ns = FG_MINUTE_NS,
        .linger_ns = 10 * FG_MINUTE_NS,
        .open_max_ns = 2 * FG_HOUR_NS,
        .evict_after_ns = member == NULL ? opening->evict_after_ns : member->evict_after_ns,
        .unchecked_max_bytes = 1 << 30,
        .poll_ns = 15 * FG_SECOND_NS,
        .failover_after_ns = 5 * FG_MINUTE_NS,
    };
    const struct ing_settings settings = {
        .dictionary_max_bytes = 64 << 20,
        .function_trees_max_bytes = 4 << 20,
        .catalog_max_bytes = head_bounds.catalog_max_bytes,
        .commit_queue_max_bytes = 64 << 20,
        .workers = 2,
        .query_workers = 1,
        .queue_max = head_bounds.queue_max,
        .query_queue_max = 128,
        .query_max_bytes = 64 << 20,
        .late_queue_max = head_bounds.late_queue_max,
        .late_cache_max_bytes = 1 << 20,
    };
    struct ing_config config = {.settings = &settings,
                                .segments = &segments,
                                .store = opening->store,
                                .bucket = opening->bucket,
                                .scratch = head->scratch,
                                .query_pass_bytes = head_query_pass_bytes,
                                .compare_piece_bytes = head_compare_piece_bytes,
                                .clock = fg_clock_real()};
    struct fg_err err;

    *head = (struct head){.bucket = opening->bucket,
                          .owns_bucket = opening->owns_bucket,
                          .registry = fg_registry_create(),
                          .server = fg_rpc_server_create(NULL, 8)};
    make_scratch(head->scratch);
    config.registry = head->registry;
    head->conditions = config.conditions = fg_conditions_create(head->registry);
    head->tenants = tenants_make(&head->limits, bound_tenants, head_bounds.tenant_catalog_share < 1,
                                 head->registry);
    config.tenants = head->tenants;
    must(ing_member_find_store(opening->store, &head->store_id, &err), &err);
    if (member != NULL)
        make_member(head, opening);
    config.watch = head->watch;
    config.peers = head->peers;
    config.repair = &head->repair;
    config.forward = opening->forward;
    must(ing_create(&config, &head->ingester, &err), &err);
    ing_serve(head->ingester, head->server);
    if (member != NULL && member->url == NULL)
        must(fg_rpc_server_start(head->server, head->url, &err), &err);
    head->peer = fg_peer_direct(head->server);
}

void head_open(struct head *head, struct fg_store *store)
{
    open_on(head, &(struct opening){store, fg_bucket_memory(), true, 5 * FG_MINUTE_NS, NULL, NULL});
}

void head_open_on(struct head *head, struct fg_store *store, struct fg_bucket *bucket)
{
    open_on(head, &(struct opening){store, bucket, false, 5 * FG_MINUTE_NS, NULL, NULL});
}

void head_open_evicting(struct head *head, struct fg_store *store, struct fg_bucket *bucket,
                        int64_t evict_after_ns)
{
    open_on(head, &(struct opening){store, bucket, false, evict_after_ns, NULL, NULL});
}

void head_open_forwarding(struct head *head, struct fg_store *store, struct fg_bucket *bucket,
                          int64_t evict_after_ns, const struct ing_forward *forward)
{
    open_on(head, &(struct opening){store, bucket, false, evict_after_ns, NULL, forward});
}

void head_open_member(struct head *head, struct fg_store *store, struct fg_bucket *bucket,
                      const struct head_member *member)
{
    open_on(head, &(struct opening){store, bucket, false, 0, member, NULL});
}

void head_open_seated(struct head *head, struct fg_store *store, struct fg_bucket *bucket,
                      const char *name, unsigned replicas)
{
    head_open_member(
        head, store, bucket,
        &(struct head_member){.name = name, .replicas = replicas, .poll_ns = NEVER_NS});
}

void head_open_repairing(struct head *head, struct fg_store *store, struct fg_bucket *bucket,
                         const char *name, unsigned replicas)
{
    head_open_member(
        head, store, bucket,
        &(struct head_member){
            .name = name, .replicas = replicas, .poll_ns = NEVER_NS, .repair_every_ns = NEVER_NS});
}

void head_close(struct head *head)
{
    fg_ring_watch_stop(head->watch);
    fg_peer_destroy(head->peer);
    fg_rpc_server_stop(head->server);
    ing_destroy(head->ingester);
    fg_peers_destroy(head->peers);
    fg_ring_watch_destroy(head->watch);
    fg_rpc_server_destroy(head->server);
    tenants_free(head->tenants, &head->limits);
    fg_conditions_destroy(head->conditions);
    fg_registry_destroy(head->registry);
    if (head->owns_bucket)
        fg_bucket_close(head->bucket);
    (void)rmdir(head->scratch);
}

/* ---- pushes ---- */

/* "root;leaf" as a stack of the builder. */
static uint32_t add_stack(struct fg_builder *builder, const char *text)
{
    uint32_t locations[64], depth = 0, reversed[64], stack;
    struct fg_slice rest = fg_cstr(text);
    struct fg_err err;

    while (rest.len > 0) {
        size_t end = fg_slice_find(rest, ';');

        fg_assert(fg_builder_name(builder, fg_slice_sub(rest, 0, end), &locations[depth++], &err) ==
                  FG_OK);
        rest = fg_slice_sub(rest, end == SIZE_MAX ? rest.len : end + 1, SIZE_MAX);
    }
    for (uint32_t i = 0; i < depth; i++)
        reversed[i] = locations[depth - 1 - i];
    fg_assert(fg_builder_stack(builder, reversed, depth, &stack, &err) == FG_OK);
    return stack;
}

static void build(const struct head_profile *profile, struct fg_arena *arena,
                  struct fg_batch *batch)
{
    struct fg_label labels[] = {
        {FG_LIT("__name__"), FG_LIT("process_cpu")},
        {FG_LIT("service_name"), fg_cstr(profile->service)},
        {FG_LIT("zone"), fg_cstr(profile->zone == NULL ? "" : profile->zone)},
    };
    struct fg_upload upload = {
        .labels = {labels, profile->zone == NULL ? 2 : 3},
        .time_ns = profile->time_ns,
        .duration_ns = profile->duration_ns,
    };
    struct fg_decode_counts counts = {0};
    const struct fg_labels none = {0};
    struct fg_builder *builder;
    struct fg_err err;
    uint32_t group;

    *batch = (struct fg_batch){.types = fg_arena_new(arena, struct fg_value_type, HEAD_TYPES),
                               .n_types = HEAD_TYPES};
    batch->types[0] = (struct fg_value_type){FG_LIT("samples"), FG_LIT("count")};
    batch->types[1] = (struct fg_value_type){FG_LIT("cpu"), FG_LIT("nanoseconds")};
    builder = fg_builder_create(arena, &upload.limits, batch, &counts);
    fg_assert(fg_builder_group(builder, &none, &group, &err) == FG_OK);
    for (uint32_t i = 0; i < profile->n_samples; i++) {
        const struct head_sample *sample = &profile->samples[i];
        struct fg_link link = {.span_id = sample->span};

        fg_assert(fg_builder_sample(builder, group, add_stack(builder, sample->stack),
                                    sample->span != 0 ? &link : NULL, sample->values,
                                    &err) == FG_OK);
    }
    fg_assert(fg_builder_finish(builder, &upload, 1, &err) == FG_OK);
    fg_batch_identify(batch, fg_cstr(profile->tenant), FG_LIT(""), FG_LIT(""));
}

struct fg_id head_encode(const struct head_profile *profile, bool define, unsigned copies,
                         struct fg_buf *out)
{
    struct fg_arena *arena = fg_arena_create(SIZE_MAX);
    struct fg_profile *profiles;
    struct fg_batch batch;
    struct fg_id id;
    bool *defines;

    build(profile, arena, &batch);
    fg_assert(batch.n_profiles == 1);
    id = batch.profiles[0].id;
    profiles = fg_arena_new(arena, struct fg_profile, copies);
    for (unsigned i = 0; i < copies; i++)
        profiles[i] = batch.profiles[0];
    batch.profiles = profiles;
    batch.n_profiles = copies;
    defines = fg_arena_new(arena, bool, batch.n_stacks);
    for (uint32_t i = 0; i < batch.n_stacks; i++)
        defines[i] = define;
    fg_batch_encode(&batch, defines, out);
    fg_arena_destroy(arena);
    return id;
}

static int64_t deadline(void)
{
    return fg_mono_ns(fg_clock_real()) + ANSWER_MAX_S * FG_SECOND_NS;
}

/* Series of a service are in several shards, as with a spread. */
uint16_t head_shard(const struct head_profile *profile)
{
    struct fg_slice zone = profile->zone == NULL ? FG_LIT("") : fg_cstr(profile->zone);

    return fg_shard_of(fg_cstr(profile->tenant), fg_cstr(profile->service), fg_hash128(zone),
                       profile->narrow ? 0 : HEAD_SPREAD);
}

void head_call_push(struct head_call *call, const struct head_profile *profile,
                    struct fg_slice batch)
{
    head_call_push_under(call, profile, batch, 0, FG_LIT(""));
}

void head_call_push_under(struct head_call *call, const struct head_profile *profile,
                          struct fg_slice batch, uint64_t revision, struct fg_slice store)
{
    Fg__Inner__PushHead message;
    Fg__Inner__PushItem item, *items[] = {&item};
    char tenant[64], service[64];
    uint8_t store_bytes[FG_ID_BYTES + 1];

    fg__inner__push_head__init(&message);
    fg__inner__push_item__init(&item);
    (void)snprintf(tenant, sizeof tenant, "%s", profile->tenant);
    (void)snprintf(service, sizeof service, "%s", profile->service);
    item.tenant = tenant;
    item.service = service;
    item.bytes = (uint32_t)batch.len;
    item.shard = head_shard(profile);
    item.via = (ProtobufCBinaryData){profile->via.len, (uint8_t *)(uintptr_t)profile->via.ptr};
    message.items = items;
    message.n_items = FG_COUNT(items);
    message.revision = revision;
    fg_assert(store.len <= sizeof store_bytes);
    memcpy(store_bytes, store.ptr, store.len);
    message.store = (ProtobufCBinaryData){store.len, store_bytes};
    fg_assert(fg__inner__push_head__get_packed_size(&message) <= sizeof call->bytes);
    call->call = (struct fg_call){
        .method = FG_RPC_PUSH,
        .head = fg_bytes(call->bytes, fg__inner__push_head__pack(&message, call->bytes)),
        .payload = batch,
        .deadline_mono_ns = deadline(),
    };
}

struct head_pushed head_call_done(struct fg_peer *peer, struct head_call *call)
{
    struct head_pushed pushed = {.code = call->call.code};
    Fg__Inner__PushReply *reply;

    if (pushed.code == FG_OK) {
        reply = fg__inner__push_reply__unpack(NULL, call->call.reply_head.len,
                                              call->call.reply_head.ptr);
        fg_assert(reply != NULL && reply->start_id != 0 && reply->n_results == 1);
        pushed.revision = reply->revision;
        pushed.code = fg_code_from_grpc(reply->results[0]->code);
        pushed.limit_of = fg_limit_of_number(reply->results[0]->limit_of);
        pushed.stored = reply->results[0]->stored;
        pushed.duplicates = reply->results[0]->duplicates;
        pushed.n_undefined = (uint32_t)reply->results[0]->n_undefined;
        fg__inner__push_reply__free_unpacked(reply, NULL);
    }
    fg_call_done(peer, &call->call);
    return pushed;
}

struct head_pushed head_push_bytes(struct head *head, const struct head_profile *profile,
                                   struct fg_slice batch)
{
    uint8_t store[FG_ID_BYTES];
    struct head_call call;

    fg_id_put(store, head->store_id);
    if (head->watch == NULL)
        head_call_push(&call, profile, batch);
    else
        head_call_push_under(&call, profile, batch, fg_ring_watch_revision(head->watch),
                             fg_bytes(store, sizeof store));
    (void)fg_peer_call(head->peer, &call.call);
    return head_call_done(head->peer, &call);
}

struct head_pushed head_push(struct head *head, const struct head_profile *profile, bool define)
{
    struct head_pushed pushed;
    struct fg_buf batch;

    fg_buf_init(&batch, SIZE_MAX);
    (void)head_encode(profile, define, 1, &batch);
    pushed = head_push_bytes(head, profile, fg_buf_slice(&batch));
    fg_buf_done(&batch);
    return pushed;
}

/* ---- queries ---- */

/* A selection with its matchers, in place; deletions are in the arena. */
struct head_selection {
    Fg__Inner__Selection message;
    Fg__Inner__Matcher matchers[2], *pointers[2];
    char texts[5][64], type[128];
    struct fg_arena *arena;
};

static Fg__Inner__Matcher *make_matcher(const struct fg_matcher *from, struct fg_arena *arena)
{
    static const Fg__Inner__MatchOp ops[] = {[FG_MATCH_EQ] = FG__INNER__MATCH_OP__EQ,
                                             [FG_MATCH_NE] = FG__INNER__MATCH_OP__NE,
                                             [FG_MATCH_RE] = FG__INNER__MATCH_OP__RE,
                                             [FG_MATCH_NRE] = FG__INNER__MATCH_OP__NRE};
    Fg__Inner__Matcher *matcher = fg_arena_new(arena, Fg__Inner__Matcher, 1);

    fg__inner__matcher__init(matcher);
    matcher->op = ops[from->op];
    matcher->name = fg_arena_text(arena, from->name);
    matcher->value = fg_arena_text(arena, from->value);
    return matcher;
}

static Fg__Inner__Deletion *make_deletion(const struct fg_deletion *from, struct fg_arena *arena)
{
    Fg__Inner__Deletion *deletion = fg_arena_new(arena, Fg__Inner__Deletion, 1);

    fg__inner__deletion__init(deletion);
    deletion->start_ns = from->start_ns;
    deletion->end_ns = from->end_ns;
    deletion->matchers = fg_arena_new(arena, Fg__Inner__Matcher *, from->selector.n_matchers);
    for (size_t i = 0; i < from->selector.n_matchers; i++)
        deletion->matchers[deletion->n_matchers++] =
            make_matcher(&from->selector.matchers[i], arena);
    return deletion;
}

static Fg__Inner__Deletion **make_deletions(const struct fg_deletions *from, struct fg_arena *arena)
{
    Fg__Inner__Deletion **deletions = fg_arena_new(arena, Fg__Inner__Deletion *, from->count);

    for (uint32_t i = 0; i < from->count; i++)
        deletions[i] = make_deletion(&from->items[i], arena);
    return deletions;
}

static char *text(struct head_selection *selection, size_t i, const char *from)
{
    (void)snprintf(selection->texts[i], sizeof selection->texts[i], "%s", from);
    return selection->texts[i];
}

static void select_by(struct head_selection *selection, const struct head_query *query)
{
    fg__inner__selection__init(&selection->message);
    selection->message.tenant = text(selection, 0, query->tenant);
    selection->message.start_ns = query->start_ns;
    selection->message.end_ns = query->end_ns;
    selection->message.generation = query->generation;
    selection->message.lenient = query->lenient;
    selection->message.matchers = selection->pointers;
    for (size_t i = 0; i < 2; i++) {
        const char *value = i == 0 ? query->service : query->zone;
        Fg__Inner__Matcher *matcher = &selection->matchers[selection->message.n_matchers];

        if (value == NULL)
            continue;
        fg__inner__matcher__init(matcher);
        matcher->name = text(selection, 1 + 2 * i, i == 0 ? "service_name" : "zone");
        matcher->value = text(selection, 2 + 2 * i, value);
        selection->pointers[selection->message.n_matchers++] = matcher;
    }
    (void)snprintf(selection->type, sizeof selection->type,
                   "process_cpu:%s::", query->type == NULL ? "" : query->type);
    selection->arena = fg_arena_create(SIZE_MAX);
    if (query->without == NULL)
        return;
    selection->message.deletions = make_deletions(query->without, selection->arena);
    selection->message.n_deletions = query->without->count;
}

/* Sends and waits; the reply is in the call. */
static enum fg_code ask(struct head *head, enum fg_rpc_method method,
                        const ProtobufCMessage *message, struct fg_call *call)
{
    uint8_t *bytes = fg_malloc(protobuf_c_message_get_packed_size(message) + 1);
    enum fg_code code;

    *call = (struct fg_call){
        .method = method,
        .head = fg_bytes(bytes, protobuf_c_message_pack(message, bytes)),
        .deadline_mono_ns = deadline(),
    };
    code = fg_peer_call(head->peer, call);
    free(bytes);
    return code;
}

static void fold(struct fg_slice payload, struct fg_buf *out)
{
    struct fg_tree tree;
    struct fg_err err;

    fg_tree_init(&tree);
    fg_assert(fg_tree_decode(&tree, payload, &err) == FG_OK);
    if (tree.root_self != 0)
        fg_buf_printf(out, " %lld\n", (long long)tree.root_self);
    fg_flame_write_folded(&tree, out);
    fg_tree_done(&tree);
}

enum fg_code head_select(struct head *head, const struct head_query *query, struct fg_buf *out)
{
    Fg__Inner__SelectHead message;
    uint8_t id_bytes[FG_COUNT(query->ids)][FG_ID_BYTES];
    ProtobufCBinaryData ids[FG_COUNT(query->ids)];
    uint64_t spans[FG_COUNT(query->spans)];
    char *site[FG_COUNT(query->call_site)], site_texts[FG_COUNT(query->call_site)][64];
    struct head_selection selection = {0};
    struct fg_call call;
    enum fg_code code;

    fg__inner__select_head__init(&message);
    select_by(&selection, query);
    for (size_t i = 0; i < query->n_call_site; i++) {
        (void)snprintf(site_texts[i], sizeof site_texts[i], "%s", query->call_site[i]);
        site[i] = site_texts[i];
    }
    for (size_t i = 0; i < query->n_ids; i++) {
        fg_id_put(id_bytes[i], query->ids[i]);
        ids[i] = (ProtobufCBinaryData){FG_ID_BYTES, id_bytes[i]};
    }
    memcpy(spans, query->spans, sizeof spans);
    message.selection = &selection.message;
    message.profile_type = selection.type;
    message.names_only = query->names_only;
    message.call_site = site;
    message.n_call_site = query->n_call_site;
    message.spans = spans;
    message.n_spans = query->n_spans;
    message.profile_ids = ids;
    message.n_profile_ids = query->n_ids;
    code = ask(head, FG_RPC_SELECT, &message.base, &call);
    fg_buf_clear(out);
    if (code == FG_OK) {
        Fg__Inner__SelectReply *reply =
            fg__inner__select_reply__unpack(NULL, call.reply_head.len, call.reply_head.ptr);

        fold(call.reply_payload, out);
        fg_assert(reply != NULL && reply->stats != NULL);
        head->lacks = reply->stats->lacks[0] != '\0';
        fg__inner__select_reply__free_unpacked(reply, NULL);
    }
    fg_call_done(head->peer, &call);
    fg_arena_destroy(selection.arena);
    return code;
}

static struct fg_slice take_labels(struct fg_cur *cur, struct fg_buf *out)
{
    struct fg_arena *arena = fg_arena_create(1 << 20);
    struct fg_slice bytes = fg_cur_lenbytes(cur);
    struct fg_labels labels;
    struct fg_err err;

    fg_assert(fg_labels_decode(bytes, arena, &labels, &err) == FG_OK);
    fg_buf_clear(out);
    fg_labels_write(&labels, out);
    fg_arena_destroy(arena);
    return fg_buf_slice(out);
}

enum fg_code head_series(struct head *head, const struct head_query *query,
                         const char *const *names, size_t n_names, struct fg_buf *out)
{
    Fg__Inner__SeriesHead message;
    char *pointers[4], texts[4][64];
    struct head_selection selection = {0};
    struct fg_buf labels;
    struct fg_call call;
    enum fg_code code;

    fg__inner__series_head__init(&message);
    fg_assert(n_names <= FG_COUNT(pointers));
    select_by(&selection, query);
    for (size_t i = 0; i < n_names; i++) {
        (void)snprintf(texts[i], sizeof texts[i], "%s", names[i]);
        pointers[i] = texts[i];
    }
    message.selection = &selection.message;
    message.label_names = pointers;
    message.n_label_names = n_names;
    code = ask(head, FG_RPC_SERIES, &message.base, &call);
    fg_buf_clear(out);
    fg_buf_init(&labels, SIZE_MAX);
    if (code == FG_OK) {
        struct fg_cur cur = fg_cur(call.reply_payload);

        for (uint64_t n = fg_cur_varint(&cur); n > 0; n--) {
            fg_buf_put(out, take_labels(&cur, &labels));
            fg_buf_putc(out, '\n');
        }
        fg_assert(fg_cur_end(&cur));
    }
    fg_buf_done(&labels);
    fg_call_done(head->peer, &call);
    fg_arena_destroy(selection.arena);
    head_sort_lines(out);
    return code;
}

enum fg_code head_points(struct head *head, const struct head_query *query, struct fg_buf *out)
{
    Fg__Inner__PointsHead message;
    char zone[] = "zone";
    char *group_by[] = {zone};
    struct head_selection selection = {0};
    struct fg_buf labels;
    struct fg_call call;
    enum fg_code code;

    fg__inner__points_head__init(&message);
    select_by(&selection, query);
    message.selection = &selection.message;
    message.profile_type = selection.type;
    message.step_ns = query->step_ns;
    message.group_by = group_by;
    message.n_group_by = 1;
    code = ask(head, FG_RPC_POINTS, &message.base, &call);
    fg_buf_clear(out);
    fg_buf_init(&labels, SIZE_MAX);
    if (code == FG_OK) {
        struct fg_cur cur = fg_cur(call.reply_payload);

        for (uint64_t sets = fg_cur_varint(&cur); sets > 0; sets--) {
            struct fg_slice set = take_labels(&cur, &labels);
            uint64_t step = 0;

            for (uint64_t n = fg_cur_varint(&cur); n > 0; n--) {
                int64_t sum;

                step += fg_cur_varint(&cur);
                sum = fg_cur_zigzag(&cur);
                fg_buf_printf(out, "%.*s %llu %lld %llu\n", FG_S(set), (unsigned long long)step,
                              (long long)sum, (unsigned long long)fg_cur_varint(&cur));
            }
        }
        fg_assert(fg_cur_end(&cur));
    }
    fg_buf_done(&labels);
    fg_call_done(head->peer, &call);
    fg_arena_destroy(selection.arena);
    head_sort_lines(out);
    return code;
}

static struct head_stats ask_stats(struct head *head, const char *tenant, uint64_t generation,
                                   const struct fg_deletions *without)
{
    struct fg_arena *arena = fg_arena_create(SIZE_MAX);
    Fg__Inner__StatsHead message;
    Fg__Inner__StatsReply *reply;
    struct head_stats stats;
    struct fg_call call;
    char name[64];

    fg__inner__stats_head__init(&message);
    (void)snprintf(name, sizeof name, "%s", tenant);
    message.tenant = name;
    message.deletions = make_deletions(without, arena);
    message.n_deletions = without->count;
    message.generation = generation;
    fg_assert(ask(head, FG_RPC_STATS, &message.base, &call) == FG_OK);
    reply = fg__inner__stats_reply__unpack(NULL, call.reply_head.len, call.reply_head.ptr);
    fg_assert(reply != NULL);
    stats = (struct head_stats){reply->profiles, reply->series, reply->oldest_ns, reply->newest_ns,
                                reply->lacks[0] != '\0'};
    fg__inner__stats_reply__free_unpacked(reply, NULL);
    fg_call_done(head->peer, &call);
    fg_arena_destroy(arena);
    return stats;
}

struct head_stats head_stats(struct head *head, const char *tenant)
{
    return head_stats_at(head, tenant, 0);
}

struct head_stats head_stats_at(struct head *head, const char *tenant, uint64_t generation)
{
    static const struct fg_deletions none;

    return ask_stats(head, tenant, generation, &none);
}

struct head_stats head_stats_without(struct head *head, const char *tenant,
                                     const struct fg_deletions *without)
{
    return ask_stats(head, tenant, 0, without);
}

/* ---- text ---- */

static int slice_order(const void *left, const void *right)
{
    return fg_slice_cmp(*(const struct fg_slice *)left, *(const struct fg_slice *)right);
}

void head_sort_lines(struct fg_buf *buf)
{
    struct fg_slice rest = fg_buf_slice(buf), *lines = fg_malloc((rest.len + 1) * sizeof *lines);
    struct fg_buf sorted;
    size_t n = 0;

    while (rest.len > 0) {
        size_t end = fg_slice_find(rest, '\n');

        lines[n++] = fg_slice_sub(rest, 0, end);
        rest = fg_slice_sub(rest, end + 1, SIZE_MAX);
    }
    qsort(lines, n, sizeof *lines, slice_order);
    fg_buf_init(&sorted, SIZE_MAX);
    for (size_t i = 0; i < n; i++) {
        fg_buf_put(&sorted, lines[i]);
        fg_buf_putc(&sorted, '\n');
    }
    fg_buf_clear(buf);
    fg_buf_put(buf, fg_buf_slice(&sorted));
    fg_buf_done(&sorted);
    free(lines);
}
