/*
 * What a question needs is in two places: with the peers, what they have not committed yet, and in
 * blocks, what they have. Both are asked about one snapshot, so that each profile counts once, and
 * their answers meet here. Each holds a part of its own: sums add up and sets unite; nothing is
 * cut.
 *
 * Where the snapshot turns out to be too old (a peer has forgotten what was committed after it, or
 * an object of it is gone) it is taken anew and all of the errand begins again.
 */
#include "common/base/str.h"
#include "querier/blocks/blocks.h"
#include "querier/peers.h"

enum {
    SNAPSHOTS_MAX = 4
}; /* of an errand: a second one is rare, a fourth means that all is not well */

static enum fg_code too_large(struct fg_err *err)
{
    return fg_fail(err, FG_E_LIMIT, "the query needs more memory than one may have");
}

static enum fg_code make_selection(struct question *question, const struct selection *from,
                                   Fg__Inner__Selection *ret_selection, struct fg_err *err)
{
    fg__inner__selection__init(ret_selection);
    ret_selection->start_ns = from->start_ns;
    ret_selection->end_ns = from->end_ns;
    return peers_matchers(question->arena, &from->selector, &ret_selection->n_matchers,
                          &ret_selection->matchers, err);
}

/* A head with such a selection; what is read of it begins at start_ns. */
static struct peers_head head_of(const ProtobufCMessage *message, Fg__Inner__Selection *selection,
                                 int64_t start_ns)
{
    return (struct peers_head){.message = message,
                               .tenant = &selection->tenant,
                               .n_deletions = &selection->n_deletions,
                               .deletions = &selection->deletions,
                               .start_ns = start_ns,
                               .end_ns = selection->end_ns};
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

static void count_stats(struct question *question, const Fg__Inner__Stats *stats)
{
    if (stats == NULL)
        return;
    question->profiles += stats->profiles;
    question->bytes += stats->bytes;
    question->series += stats->series;
}

/* --- errands --- */

/* One thing that a question wants to know; first in the struct of its kind. */
struct errand {
    enum fg_rpc_method method;
    struct peers_head head;
    uint64_t *generation; /* where the head has it */
    peers_reply take;     /* adds a peer's reply to `into` */
    enum fg_code (*read)(struct question *question, struct errand *errand, struct fg_err *err);
    void (*restart)(struct errand *errand); /* empties `into` */
    void *into;
};

/* Peers answer while blocks are read. */
static enum fg_code try_errand(struct question *question, struct errand *errand, struct fg_err *err)
{
    struct asked *asked;

    *errand->generation = blocks_generation(question);
    if (peers_ask(question, errand->method, &errand->head, &asked, err) != FG_OK)
        return err->code;
    if (errand->read(question, errand, err) != FG_OK) {
        peers_drop(question, asked);
        return err->code;
    }
    return peers_take(question, asked, errand->take, errand->into, err);
}

static bool is_too_old(const struct question *question, enum fg_code code)
{
    return question->querier->blocks != NULL &&
           (code == FG_E_PRECONDITION || code == FG_E_NOT_FOUND);
}

/* Fresh snapshots did not help: that is no fault of the client's. */
static enum fg_code give_up(const struct question *question, struct fg_err *err)
{
    if (question->querier->blocks == NULL && err->code == FG_E_PRECONDITION)
        err->code = FG_E_UNAVAILABLE;
    if (!is_too_old(question, err->code))
        return err->code;
    err->code = err->code == FG_E_NOT_FOUND ? FG_E_CORRUPT : FG_E_UNAVAILABLE;
    return fg_wrap(err, "with %d snapshots", SNAPSHOTS_MAX);
}

/* A snapshot, and what is deleted in it. */
static enum fg_code begin(struct question *question, bool fresh, struct fg_err *err)
{
    if (blocks_begin(question, fresh, err) != FG_OK)
        return err->code;
    return question->deletions != NULL && !fresh ? FG_OK : deletions_take(question, err);
}

static enum fg_code run_errand(struct question *question, struct errand *errand, struct fg_err *err)
{
    uint64_t profiles = question->profiles, series = question->series;

    if (begin(question, false, err) != FG_OK)
        return err->code;
    for (unsigned i = 1; try_errand(question, errand, err) != FG_OK; i++) {
        if (i == SNAPSHOTS_MAX || !is_too_old(question, err->code))
            return give_up(question, err);
        if (begin(question, true, err) != FG_OK)
            return err->code;
        question->profiles = profiles;
        question->series = series;
        errand->restart(errand);
    }
    return FG_OK;
}

/* --- SELECT --- */

struct tree_errand {
    struct errand base;
    const struct selection *selection;
    const struct stacks *stacks;
    bool names_only;
};

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

        fg_tree_add(&part, FG_TREE_ROOT, empty.root_self);
        *into = part;
        part = empty;
    } else if (code == FG_OK) {
        fg_tree_merge(into, &part);
    }
    fg_tree_done(&part);
    return code;
}

static enum fg_code read_tree(struct question *question, struct errand *base, struct fg_err *err)
{
    const struct tree_errand *errand = fg_container(base, struct tree_errand, base);

    return blocks_tree(question, errand->selection, errand->stacks, errand->names_only, base->into,
                       err);
}

static void restart_tree(struct errand *base)
{
    fg_tree_done(base->into);
    fg_tree_init(base->into);
}

enum fg_code plan_tree(struct question *question, const struct selection *selection,
                       const struct stacks *stacks, bool names_only, struct fg_tree *into,
                       struct fg_err *err)
{
    Fg__Inner__SelectHead head;
    Fg__Inner__Selection inner;
    struct tree_errand errand = {
        .base = {.method = FG_RPC_SELECT,
                 .generation = &inner.generation,
                 .take = take_tree,
                 .read = read_tree,
                 .restart = restart_tree,
                 .into = into},
        .selection = selection,
        .stacks = stacks,
        .names_only = names_only,
    };

    fg__inner__select_head__init(&head);
    if (make_selection(question, selection, &inner, err) != FG_OK)
        return err->code;
    errand.base.head = head_of(&head.base, &inner, inner.start_ns);
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
    return run_errand(question, &errand.base, err);
}

/* --- SERIES --- */

struct series_errand {
    struct errand base;
    const struct selection *selection;
    const char *const *names;
    size_t n_names;
};

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

static enum fg_code read_series(struct question *question, struct errand *base, struct fg_err *err)
{
    const struct series_errand *errand = fg_container(base, struct series_errand, base);

    return blocks_series(question, errand->selection, errand->names, errand->n_names, base->into,
                         err);
}

static void restart_series(struct errand *base)
{
    label_sets_done(base->into);
    label_sets_init(base->into);
}

enum fg_code plan_series(struct question *question, const struct selection *selection,
                         const char *const *names, size_t n_names, struct label_sets *into,
                         struct fg_err *err)
{
    Fg__Inner__SeriesHead head;
    Fg__Inner__Selection inner;
    struct series_errand errand = {
        .base = {.method = FG_RPC_SERIES,
                 .generation = &inner.generation,
                 .take = take_series,
                 .read = read_series,
                 .restart = restart_series,
                 .into = into},
        .selection = selection,
        .names = names,
        .n_names = n_names,
    };

    fg__inner__series_head__init(&head);
    if (make_selection(question, selection, &inner, err) != FG_OK)
        return err->code;
    errand.base.head = head_of(&head.base, &inner, inner.start_ns);
    head.selection = &inner;
    head.label_names = texts(question, names, n_names);
    head.n_label_names = n_names;
    if (head.label_names == NULL)
        return too_large(err);
    if (run_errand(question, &errand.base, err) != FG_OK)
        return err->code;
    label_sets_sort(into);
    return FG_OK;
}

/* --- POINTS --- */

struct points_errand {
    struct errand base;
    const struct selection *selection;
    int64_t step_ns;
    const char *const *group_by;
    size_t n_group_by;
};

static enum fg_code decode_points(struct fg_cur *cur, struct fg_arena *arena, struct points *series,
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

static enum fg_code decode_series(struct question *question, struct fg_cur *cur,
                                  struct points_list *list, struct fg_err *err)
{
    uint64_t n = fg_cur_count(cur, 2);

    for (uint64_t i = 0; i < n; i++) {
        struct fg_slice encoded = fg_cur_lenbytes(cur);
        struct points series = {0};

        if (cur->bad)
            break;
        if (fg_labels_decode(encoded, question->arena, &series.labels, err) != FG_OK ||
            decode_points(cur, question->arena, &series, err) != FG_OK)
            return err->code;
        if (cur->bad)
            break;
        if (points_list_add(list, &series, question->arena, err) != FG_OK)
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
    if (decode_series(question, &cur, arg, err) != FG_OK)
        return fg_wrap(err, "answer of an ingester");
    return FG_OK;
}

static enum fg_code read_points(struct question *question, struct errand *base, struct fg_err *err)
{
    const struct points_errand *errand = fg_container(base, struct points_errand, base);

    return blocks_points(question, errand->selection, errand->step_ns, errand->group_by,
                         errand->n_group_by, base->into, err);
}

static void restart_points(struct errand *base)
{
    points_list_done(base->into);
    points_list_init(base->into);
}

enum fg_code plan_points(struct question *question, const struct selection *selection,
                         int64_t step_ns, char *const *group_by, size_t n_group_by,
                         struct points **ret_series, size_t *ret_n, struct fg_err *err)
{
    Fg__Inner__PointsHead head;
    Fg__Inner__Selection inner;
    struct points_list list;
    struct points_errand errand = {
        .base = {.method = FG_RPC_POINTS,
                 .generation = &inner.generation,
                 .take = take_points,
                 .read = read_points,
                 .restart = restart_points,
                 .into = &list},
        .selection = selection,
        .step_ns = step_ns,
        .group_by = (const char *const *)group_by,
        .n_group_by = n_group_by,
    };

    fg__inner__points_head__init(&head);
    if (make_selection(question, selection, &inner, err) != FG_OK)
        return err->code;
    errand.base.head = head_of(&head.base, &inner, points_from_ns(selection, step_ns));
    head.selection = &inner;
    head.profile_type = fg_arena_text(question->arena, fg_cstr(selection->type_text));
    head.step_ns = step_ns;
    head.group_by = texts(question, errand.group_by, n_group_by);
    head.n_group_by = n_group_by;
    if (head.profile_type == NULL || head.group_by == NULL)
        return too_large(err);
    points_list_init(&list);
    enum fg_code code = run_errand(question, &errand.base, err);
    if (code == FG_OK) {
        *ret_series = list.items;
        *ret_n = list.n;
    }
    points_list_done(&list);
    return code;
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

static enum fg_code read_stats(struct question *question, struct errand *base, struct fg_err *err)
{
    return blocks_stats(question, base->into, err);
}

static void restart_stats(struct errand *base)
{
    *(struct tenant_stats *)base->into = (struct tenant_stats){0};
}

enum fg_code plan_stats(struct question *question, struct tenant_stats *ret_stats,
                        struct fg_err *err)
{
    Fg__Inner__StatsHead head;
    struct tenant_stats stats = {0};
    struct errand errand = {.method = FG_RPC_STATS,
                            .head = {.message = &head.base,
                                     .tenant = &head.tenant,
                                     .n_deletions = &head.n_deletions,
                                     .deletions = &head.deletions,
                                     .start_ns = INT64_MIN,
                                     .end_ns = INT64_MAX},
                            .generation = &head.generation,
                            .take = take_stats,
                            .read = read_stats,
                            .restart = restart_stats,
                            .into = &stats};

    fg__inner__stats_head__init(&head);
    if (run_errand(question, &errand, err) != FG_OK)
        return err->code;
    *ret_stats = stats;
    return FG_OK;
}

/* --- profiles --- */

struct profiles_errand {
    struct errand base;
    const struct selection *selection;
    profile_visit visit;
};

static enum fg_code read_profiles(struct question *question, struct errand *base,
                                  struct fg_err *err)
{
    const struct profiles_errand *errand = fg_container(base, struct profiles_errand, base);

    return blocks_profiles(question, errand->selection, errand->visit, base->into, err);
}

static void restart_profiles(struct errand *base)
{
    (void)base; /* who visits knows that a profile may come twice */
}

enum fg_code plan_profiles(struct question *question, const struct selection *selection,
                           profile_visit visit, void *arg, struct fg_err *err)
{
    uint64_t generation; /* for peers, of which there are none */
    struct profiles_errand errand = {
        .base = {.generation = &generation,
                 .read = read_profiles,
                 .restart = restart_profiles,
                 .into = arg},
        .selection = selection,
        .visit = visit,
    };

    fg_assert(question->querier->n_ingesters == 0);
    return run_errand(question, &errand.base, err);
}
