/*
 * Calls to the peers that hold data, all at once, and the merging of what they answer. Each holds a
 * part of its own, so sums add up and sets unite; nothing is cut here.
 */
#include "common/base/str.h"
#include "proto/inner.pb-c.h"
#include "querier/question.h"

#include <pthread.h>

/* --- asking all peers --- */

struct fan {
    pthread_mutex_t lock;
    pthread_cond_t all_done;
    size_t under_way;
};

struct leg {
    struct fg_call call;
    struct fan *fan;
};

/* Takes one peer's reply; its slices are gone afterwards. */
typedef enum fg_code (*on_reply)(struct question *question, const struct fg_call *call, void *arg,
                                 struct fg_err *err);

static void leg_done(struct fg_call *call)
{
    struct fan *fan = fg_container(call, struct leg, call)->fan;

    pthread_mutex_lock(&fan->lock);
    if (--fan->under_way == 0)
        pthread_cond_signal(&fan->all_done);
    pthread_mutex_unlock(&fan->lock);
}

/* A leg for each tenant and peer: all peers of the first tenant, all of the second ... */
static struct fg_peer *peer_of(const struct question *question, size_t leg)
{
    return question->querier->ingesters[leg % question->querier->n_ingesters];
}

static void send_all(struct question *question, struct leg *legs, size_t n)
{
    struct fan *fan = legs[0].fan;

    for (size_t i = 0; i < n; i++)
        fg_peer_send(peer_of(question, i), &legs[i].call);
    pthread_mutex_lock(&fan->lock);
    while (fan->under_way > 0)
        pthread_cond_wait(&fan->all_done, &fan->lock);
    pthread_mutex_unlock(&fan->lock);
}

static enum fg_code take_replies(struct question *question, struct leg *legs, size_t n,
                                 on_reply take, void *arg, struct fg_err *err)
{
    enum fg_code code = FG_OK;

    for (size_t i = 0; i < n; i++) {
        struct fg_call *call = &legs[i].call;

        if (code == FG_OK && call->code != FG_OK) {
            *err = call->err;
            code = call->code;
        }
        if (code == FG_OK)
            code = question_check(question, err);
        if (code == FG_OK)
            code = take(question, call, arg, err);
        fg_call_done(peer_of(question, i), call);
    }
    return code;
}

/* The head in bytes, in the arena. */
static struct fg_slice pack(struct fg_arena *arena, const ProtobufCMessage *head)
{
    uint8_t *bytes = fg_arena_alloc(arena, protobuf_c_message_get_packed_size(head));

    return bytes == NULL ? fg_bytes(NULL, 0)
                         : fg_bytes(bytes, protobuf_c_message_pack(head, bytes));
}

/* tenant: where the head has its tenant, which is filled in here. */
static enum fg_code ask_all(struct question *question, enum fg_rpc_method method,
                            const ProtobufCMessage *head, char **tenant, on_reply take, void *arg,
                            struct fg_err *err)
{
    size_t n_peers = question->querier->n_ingesters, n = n_peers * question->tenants.n;
    struct fan fan = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, n};
    struct leg *legs = fg_arena_new(question->arena, struct leg, n);
    struct fg_slice bytes = {NULL, 0};

    if (legs == NULL)
        return fg_fail(err, FG_E_LIMIT, "%zu peers to ask", n);
    if (question_check(question, err) != FG_OK)
        return err->code;
    if (n == 0)
        return FG_OK;
    for (size_t i = 0; i < n; i++) {
        if (i % n_peers == 0) {
            *tenant = fg_arena_text(question->arena, question->tenants.ids[i / n_peers]);
            if (*tenant != NULL)
                bytes = pack(question->arena, head);
            if (*tenant == NULL || bytes.ptr == NULL)
                return fg_fail(err, FG_E_LIMIT, "the query needs more memory than one may have");
        }
        legs[i] = (struct leg){.fan = &fan,
                               .call = {.method = method,
                                        .head = bytes,
                                        .deadline_mono_ns = question->deadline_mono_ns,
                                        .done = leg_done}};
    }
    send_all(question, legs, n);
    return take_replies(question, legs, n, take, arg, err);
}

static void count_stats(struct question *question, const Fg__Inner__Stats *stats)
{
    if (stats == NULL)
        return;
    question->profiles += stats->profiles;
    question->bytes += stats->bytes;
    question->series += stats->series;
}

/* --- heads --- */

static enum fg_code too_large(struct fg_err *err)
{
    return fg_fail(err, FG_E_LIMIT, "the query needs more memory than one may have");
}

static Fg__Inner__MatchOp match_op(enum fg_match_op op)
{
    switch (op) {
    case FG_MATCH_NE:
        return FG__INNER__MATCH_OP__NE;
    case FG_MATCH_RE:
        return FG__INNER__MATCH_OP__RE;
    case FG_MATCH_NRE:
        return FG__INNER__MATCH_OP__NRE;
    case FG_MATCH_EQ:
        break;
    }
    return FG__INNER__MATCH_OP__EQ;
}

static Fg__Inner__Matcher *make_matcher(struct fg_arena *arena, const struct fg_matcher *from)
{
    Fg__Inner__Matcher *matcher = fg_arena_new(arena, Fg__Inner__Matcher, 1);

    if (matcher == NULL)
        return NULL;
    fg__inner__matcher__init(matcher);
    matcher->op = match_op(from->op);
    matcher->name = fg_arena_text(arena, from->name);
    matcher->value = fg_arena_text(arena, from->value);
    return matcher->name == NULL || matcher->value == NULL ? NULL : matcher;
}

static enum fg_code make_selection(struct question *question, const struct selection *from,
                                   Fg__Inner__Selection *ret_selection, struct fg_err *err)
{
    size_t n = from->selector.n_matchers;

    fg__inner__selection__init(ret_selection);
    ret_selection->start_ns = from->start_ns;
    ret_selection->end_ns = from->end_ns;
    ret_selection->matchers = fg_arena_new(question->arena, Fg__Inner__Matcher *, n);
    if (ret_selection->matchers == NULL)
        return too_large(err);
    for (size_t i = 0; i < n; i++) {
        Fg__Inner__Matcher *matcher = make_matcher(question->arena, &from->selector.matchers[i]);

        if (matcher == NULL)
            return too_large(err);
        ret_selection->matchers[ret_selection->n_matchers++] = matcher;
    }
    return FG_OK;
}

/* protobuf-c's messages want strings that may be written to; packing does not. */
static char **texts(struct question *question, const char *const *from, size_t n)
{
    char **copies = fg_arena_new(question->arena, char *, n);

    for (size_t i = 0; i < n && copies != NULL; i++) {
        copies[i] = fg_arena_text(question->arena, fg_cstr(from[i]));
        if (copies[i] == NULL)
            return NULL;
    }
    return copies;
}

/* --- SELECT --- */

static enum fg_code take_tree(struct question *question, const struct fg_call *call, void *arg,
                              struct fg_err *err)
{
    struct fg_tree *into = arg, part;
    ProtobufCMessage *head;

    if (fg_pb_read(call->reply_head, &fg__inner__select_reply__descriptor, question->arena, &head,
                   err) != FG_OK)
        return fg_wrap(err, "answer of an ingester");
    count_stats(question, ((Fg__Inner__SelectReply *)head)->stats);
    if (call->reply_payload.len == 0)
        return FG_OK;
    fg_tree_init(&part);
    enum fg_code code = fg_tree_decode(&part, call->reply_payload, err);
    if (code == FG_OK && into->n_nodes == 0) {
        struct fg_tree empty = *into; /* the first part becomes the whole as it is */

        *into = part;
        part = empty;
    } else if (code == FG_OK) {
        fg_tree_merge(into, &part);
    }
    fg_tree_done(&part);
    return code;
}

enum fg_code plan_tree(struct question *question, const struct selection *selection,
                       const struct stacks *stacks, bool names_only, struct fg_tree *into,
                       struct fg_err *err)
{
    Fg__Inner__SelectHead head;
    Fg__Inner__Selection inner;

    fg__inner__select_head__init(&head);
    if (make_selection(question, selection, &inner, err) != FG_OK)
        return err->code;
    head.selection = &inner;
    head.profile_type = fg_arena_text(question->arena, fg_cstr(selection->type_text));
    head.names_only = names_only;
    head.call_site = texts(question, stacks->call_site, stacks->n_call_site);
    if (head.profile_type == NULL || head.call_site == NULL)
        return too_large(err);
    head.n_call_site = stacks->n_call_site;
    head.spans = stacks->spans;
    head.n_spans = stacks->n_spans;
    head.traces = stacks->traces;
    head.n_traces = stacks->n_traces;
    head.profile_ids = stacks->profile_ids;
    head.n_profile_ids = stacks->n_profile_ids;
    return ask_all(question, FG_RPC_SELECT, &head.base, &inner.tenant, take_tree, into, err);
}

/* --- SERIES --- */

void label_sets_init(struct label_sets *sets)
{
    *sets = (struct label_sets){0};
    fg_map_init(&sets->map);
}

void label_sets_done(struct label_sets *sets)
{
    fg_map_done(&sets->map);
}

static bool label_sets_has(const struct label_sets *sets, const struct fg_labels *labels,
                           uint64_t hash)
{
    struct fg_map_walk walk;

    for (uint32_t i = fg_map_first(&sets->map, hash, &walk); i != FG_MAP_NONE;
         i = fg_map_next(&sets->map, &walk))
        if (fg_labels_cmp(&sets->items[i], labels) == 0)
            return true;
    return false;
}

enum fg_code label_sets_add(struct label_sets *sets, const struct fg_labels *labels,
                            struct fg_arena *arena, struct fg_err *err)
{
    uint64_t hash = fg_id_table(fg_labels_hash(labels));

    if (label_sets_has(sets, labels, hash))
        return FG_OK;
    if (sets->n == sets->cap) {
        size_t cap = sets->cap == 0 ? 64 : sets->cap * 2;
        struct fg_labels *items = fg_arena_new(arena, struct fg_labels, cap);

        if (items == NULL || cap >= FG_MAP_NONE)
            return too_large(err);
        if (sets->n > 0)
            memcpy(items, sets->items, sets->n * sizeof *items);
        sets->items = items;
        sets->cap = cap;
    }
    fg_map_add(&sets->map, hash, (uint32_t)sets->n);
    sets->items[sets->n++] = *labels;
    return FG_OK;
}

static int cmp_labels(const void *a, const void *b)
{
    return fg_labels_cmp(a, b);
}

/* The map is of no use afterwards. */
void label_sets_sort(struct label_sets *sets)
{
    if (sets->n > 1)
        qsort(sets->items, sets->n, sizeof *sets->items, cmp_labels);
    fg_map_clear(&sets->map);
}

static enum fg_code read_sets(struct question *question, struct fg_cur *cur,
                              struct label_sets *into, struct fg_err *err)
{
    uint64_t n = fg_cur_count(cur, 1);

    for (uint64_t i = 0; i < n; i++) {
        struct fg_slice encoded = fg_cur_lenbytes(cur);
        struct fg_labels labels;

        if (cur->bad)
            break;
        if (fg_labels_decode(encoded, question->arena, &labels, err) != FG_OK ||
            label_sets_add(into, &labels, question->arena, err) != FG_OK)
            return err->code;
    }
    if (!fg_cur_end(cur))
        return fg_fail(err, FG_E_CORRUPT, "label sets cut short");
    return FG_OK;
}

static enum fg_code take_series(struct question *question, const struct fg_call *call, void *arg,
                                struct fg_err *err)
{
    struct fg_slice payload = fg_arena_copy(question->arena, call->reply_payload);
    ProtobufCMessage *head;

    if (fg_pb_read(call->reply_head, &fg__inner__series_reply__descriptor, question->arena, &head,
                   err) != FG_OK)
        return fg_wrap(err, "answer of an ingester");
    count_stats(question, ((Fg__Inner__SeriesReply *)head)->stats);
    if (payload.ptr == NULL && call->reply_payload.len > 0)
        return too_large(err);
    if (payload.len == 0)
        return FG_OK;
    struct fg_cur cur = fg_cur(payload);
    if (read_sets(question, &cur, arg, err) != FG_OK)
        return fg_wrap(err, "answer of an ingester");
    return FG_OK;
}

enum fg_code plan_series(struct question *question, const struct selection *selection,
                         const char *const *names, size_t n_names, struct label_sets *into,
                         struct fg_err *err)
{
    Fg__Inner__SeriesHead head;
    Fg__Inner__Selection inner;

    fg__inner__series_head__init(&head);
    if (make_selection(question, selection, &inner, err) != FG_OK)
        return err->code;
    head.selection = &inner;
    head.label_names = texts(question, names, n_names);
    head.n_label_names = n_names;
    if (head.label_names == NULL)
        return too_large(err);
    if (ask_all(question, FG_RPC_SERIES, &head.base, &inner.tenant, take_series, into, err) !=
        FG_OK)
        return err->code;
    label_sets_sort(into);
    return FG_OK;
}

/* --- POINTS --- */

struct series_list {
    struct points *items;
    size_t n, cap;
};

static int64_t add_clamped(int64_t a, int64_t b)
{
    int64_t sum;

    if (__builtin_add_overflow(a, b, &sum))
        return a < 0 ? INT64_MIN : INT64_MAX;
    return sum;
}

/* Two ascending runs into one. */
static enum fg_code merge_points(struct points *into, const struct points *from,
                                 struct fg_arena *arena, struct fg_err *err)
{
    struct point *merged = fg_arena_new(arena, struct point, into->n + from->n);
    size_t a = 0, b = 0, n = 0;

    if (merged == NULL)
        return too_large(err);
    while (a < into->n || b < from->n) {
        if (b == from->n || (a < into->n && into->items[a].k < from->items[b].k)) {
            merged[n++] = into->items[a++];
        } else if (a == into->n || from->items[b].k < into->items[a].k) {
            merged[n++] = from->items[b++];
        } else {
            merged[n] = into->items[a++];
            merged[n].sum = add_clamped(merged[n].sum, from->items[b].sum);
            merged[n++].count += from->items[b++].count;
        }
    }
    into->items = merged;
    into->n = n;
    return FG_OK;
}

/* Groups are few, so a look at each is enough. */
static struct points *find_series(struct series_list *list, const struct fg_labels *labels,
                                  size_t known)
{
    for (size_t i = 0; i < known; i++)
        if (fg_labels_cmp(&list->items[i].labels, labels) == 0)
            return &list->items[i];
    return NULL;
}

static enum fg_code add_series(struct series_list *list, const struct points *series, size_t known,
                               struct fg_arena *arena, struct fg_err *err)
{
    struct points *there = find_series(list, &series->labels, known);

    if (there != NULL)
        return merge_points(there, series, arena, err);
    if (list->n == list->cap) {
        size_t cap = list->cap == 0 ? 16 : list->cap * 2;
        struct points *items = fg_arena_new(arena, struct points, cap);

        if (items == NULL)
            return too_large(err);
        if (list->items != NULL)
            memcpy(items, list->items, list->n * sizeof *items);
        list->items = items;
        list->cap = cap;
    }
    fg_assert(list->items != NULL);
    list->items[list->n++] = *series;
    return FG_OK;
}

static enum fg_code read_points(struct fg_cur *cur, struct fg_arena *arena, struct points *series,
                                struct fg_err *err)
{
    uint64_t n = fg_cur_count(cur, 3), k = 0;

    series->items = fg_arena_new(arena, struct point, n);
    if (series->items == NULL)
        return too_large(err);
    for (uint64_t i = 0; i < n && !cur->bad; i++) {
        uint64_t step = fg_cur_varint(cur);

        if (step > INT64_MAX - k)
            fg_cur_fail(cur);
        k += step;
        series->items[i].k = (int64_t)k;
        series->items[i].sum = fg_cur_zigzag(cur);
        series->items[i].count = fg_cur_varint(cur);
    }
    series->n = n;
    return FG_OK;
}

static enum fg_code read_series(struct question *question, struct fg_cur *cur,
                                struct series_list *list, struct fg_err *err)
{
    uint64_t n = fg_cur_count(cur, 2);
    size_t known = list->n; /* one answer names a label set once */

    for (uint64_t i = 0; i < n; i++) {
        struct fg_slice encoded = fg_cur_lenbytes(cur);
        struct points series = {0};

        if (cur->bad)
            break;
        if (fg_labels_decode(encoded, question->arena, &series.labels, err) != FG_OK ||
            read_points(cur, question->arena, &series, err) != FG_OK)
            return err->code;
        if (cur->bad)
            break;
        if (add_series(list, &series, known, question->arena, err) != FG_OK)
            return err->code;
    }
    if (!fg_cur_end(cur))
        return fg_fail(err, FG_E_CORRUPT, "points cut short");
    return FG_OK;
}

static enum fg_code take_points(struct question *question, const struct fg_call *call, void *arg,
                                struct fg_err *err)
{
    struct fg_slice payload = fg_arena_copy(question->arena, call->reply_payload);
    ProtobufCMessage *head;

    if (fg_pb_read(call->reply_head, &fg__inner__points_reply__descriptor, question->arena, &head,
                   err) != FG_OK)
        return fg_wrap(err, "answer of an ingester");
    count_stats(question, ((Fg__Inner__PointsReply *)head)->stats);
    if (payload.ptr == NULL && call->reply_payload.len > 0)
        return too_large(err);
    if (payload.len == 0)
        return FG_OK;
    struct fg_cur cur = fg_cur(payload);
    if (read_series(question, &cur, arg, err) != FG_OK)
        return fg_wrap(err, "answer of an ingester");
    return FG_OK;
}

enum fg_code plan_points(struct question *question, const struct selection *selection,
                         int64_t step_ns, char *const *group_by, size_t n_group_by,
                         struct points **ret_series, size_t *ret_n, struct fg_err *err)
{
    Fg__Inner__PointsHead head;
    Fg__Inner__Selection inner;
    struct series_list list = {0};

    fg__inner__points_head__init(&head);
    if (make_selection(question, selection, &inner, err) != FG_OK)
        return err->code;
    head.selection = &inner;
    head.profile_type = fg_arena_text(question->arena, fg_cstr(selection->type_text));
    head.step_ns = step_ns;
    head.group_by = texts(question, (const char *const *)group_by, n_group_by);
    head.n_group_by = n_group_by;
    if (head.profile_type == NULL || head.group_by == NULL)
        return too_large(err);
    if (ask_all(question, FG_RPC_POINTS, &head.base, &inner.tenant, take_points, &list, err) !=
        FG_OK)
        return err->code;
    *ret_series = list.items;
    *ret_n = list.n;
    return FG_OK;
}

/* --- STATS --- */

static enum fg_code take_stats(struct question *question, const struct fg_call *call, void *arg,
                               struct fg_err *err)
{
    struct tenant_stats *into = arg;
    ProtobufCMessage *message;

    if (fg_pb_read(call->reply_head, &fg__inner__stats_reply__descriptor, question->arena, &message,
                   err) != FG_OK)
        return fg_wrap(err, "answer of an ingester");
    const Fg__Inner__StatsReply *reply = (Fg__Inner__StatsReply *)message;
    if (reply->profiles == 0)
        return FG_OK;
    into->oldest_ns =
        into->profiles == 0 ? reply->oldest_ns : FG_MIN(into->oldest_ns, reply->oldest_ns);
    into->newest_ns =
        into->profiles == 0 ? reply->newest_ns : FG_MAX(into->newest_ns, reply->newest_ns);
    into->profiles += reply->profiles;
    return FG_OK;
}

enum fg_code plan_stats(struct question *question, struct tenant_stats *ret_stats,
                        struct fg_err *err)
{
    Fg__Inner__StatsHead head;
    struct tenant_stats stats = {0};

    fg__inner__stats_head__init(&head);
    if (ask_all(question, FG_RPC_STATS, &head.base, &head.tenant, take_stats, &stats, err) != FG_OK)
        return err->code;
    *ret_stats = stats;
    return FG_OK;
}
