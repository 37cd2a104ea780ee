/* querier.v1.QuerierService: requests into selections, merged answers into messages (query.md, 5).
 */
#include "common/base/str.h"
#include "proto/google_v1.pb-c.h"
#include "proto/querier_v1.pb-c.h"
#include "proto/types_v1.pb-c.h"
#include "querier/question.h"

#include <math.h>

static enum fg_code too_large(struct fg_err *err)
{
    return fg_fail(err, FG_E_LIMIT, "the answer needs more memory than one may have");
}

/*
 * A string of a message. Clients refuse whole answers for one string that is not UTF-8, and C
 * strings end at a NUL, so both kinds of bytes are shown as '?'.
 */
static char *text_of(struct fg_arena *arena, struct fg_slice from)
{
    char *text = fg_arena_text(arena, from);
    bool valid = fg_utf8_valid(from);

    for (size_t i = 0; text != NULL && i < from.len; i++)
        if (text[i] == '\0' || (!valid && (uint8_t)text[i] >= 0x80))
            text[i] = '?';
    return text;
}

/* An array of pointers to n messages of defaults; NULL at the arena's end. */
static void *new_messages(struct fg_arena *arena, const ProtobufCMessageDescriptor *type, size_t n)
{
    char *items = fg_arena_calloc(arena, n, type->sizeof_message);
    ProtobufCMessage **array = fg_arena_new(arena, ProtobufCMessage *, n);

    if (items == NULL || array == NULL)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        array[i] = (ProtobufCMessage *)(void *)(items + i * type->sizeof_message);
        protobuf_c_message_init(type, array[i]);
    }
    return array;
}

/* --- metadata --- */

/* ProfileTypes may leave out the range: the last hour. */
static enum fg_code types_range(struct question *question, struct selection *selection,
                                int64_t start_ms, int64_t end_ms, struct fg_err *err)
{
    if (start_ms == 0 && end_ms == 0) {
        end_ms = fg_wall_ns(question->querier->clock) / FG_MS_NS;
        start_ms = end_ms - FG_HOUR_NS / FG_MS_NS;
    }
    return select_range(selection, start_ms, end_ms, err);
}

static enum fg_code fill_type(struct fg_arena *arena, struct fg_slice id,
                              Types__V1__ProfileType *type, struct fg_err *err)
{
    struct fg_profile_type parts;

    if (fg_profile_type_parse(id, &parts, err) != FG_OK)
        return fg_fail(err, FG_E_CORRUPT, "stored profile type %.*s", FG_S(id));
    type->id = text_of(arena, id);
    type->name = text_of(arena, parts.name);
    type->sample_type = text_of(arena, parts.type);
    type->sample_unit = text_of(arena, parts.unit);
    type->period_type = text_of(arena, parts.period_type);
    type->period_unit = text_of(arena, parts.period_unit);
    if (type->id == NULL || type->name == NULL || type->sample_type == NULL ||
        type->sample_unit == NULL || type->period_type == NULL || type->period_unit == NULL)
        return too_large(err);
    return FG_OK;
}

static enum fg_code reply_types(struct question *question, const struct label_sets *sets,
                                struct fg_err *err)
{
    Querier__V1__ProfileTypesResponse out;

    querier__v1__profile_types_response__init(&out);
    out.profile_types =
        new_messages(question->arena, &types__v1__profile_type__descriptor, sets->n);
    if (out.profile_types == NULL)
        return too_large(err);
    for (size_t i = 0; i < sets->n; i++) {
        struct fg_slice id = fg_labels_get(&sets->items[i], FG_LABEL_PROFILE_TYPE);

        if (id.len == 0)
            continue;
        if (fill_type(question->arena, id, out.profile_types[out.n_profile_types], err) != FG_OK)
            return err->code;
        out.n_profile_types++;
    }
    return question_reply(question, &out.base, err);
}

static enum fg_code profile_types(struct question *question, const ProtobufCMessage *message,
                                  struct fg_err *err)
{
    const Querier__V1__ProfileTypesRequest *in = (const Querier__V1__ProfileTypesRequest *)message;
    static const char *const names[] = {FG_LABEL_PROFILE_TYPE};
    struct selection selection = {0};
    struct label_sets sets;

    if (types_range(question, &selection, in->start, in->end, err) != FG_OK)
        return err->code;
    label_sets_init(&sets);
    enum fg_code code = plan_series(question, &selection, names, FG_COUNT(names), &sets, err);
    if (code == FG_OK)
        code = reply_types(question, &sets, err);
    label_sets_done(&sets);
    return code;
}

/* Selectors of the metadata methods; selection and sets are the caller's to end. */
static enum fg_code find_series(struct question *question, struct selection *selection,
                                char *const *matchers, size_t n_matchers, const char *context,
                                const char *const *names, size_t n_names, struct label_sets *sets,
                                struct fg_err *err)
{
    if (select_matchers(question, selection, matchers, n_matchers, context, err) != FG_OK)
        return err->code;
    return plan_series(question, selection, names, n_names, sets, err);
}

static int cmp_slices(const void *a, const void *b)
{
    return fg_slice_cmp(*(const struct fg_slice *)a, *(const struct fg_slice *)b);
}

/* Sorted and each once: as C strings into the list of a response. */
static enum fg_code distinct(struct fg_arena *arena, struct fg_slice *texts, size_t n,
                             char ***ret_texts, size_t *ret_n, struct fg_err *err)
{
    char **out = fg_arena_new(arena, char *, n);
    size_t kept = 0;

    if (out == NULL)
        return too_large(err);
    if (n > 1)
        qsort(texts, n, sizeof *texts, cmp_slices);
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && fg_slice_eq(texts[i], texts[i - 1]))
            continue;
        out[kept] = text_of(arena, texts[i]);
        if (out[kept++] == NULL)
            return too_large(err);
    }
    *ret_texts = out;
    *ret_n = kept;
    return FG_OK;
}

static enum fg_code reply_names(struct question *question, const struct label_sets *sets,
                                bool utf8_names, struct fg_err *err)
{
    Types__V1__LabelNamesResponse out;
    size_t n = 0, kept = 0;

    types__v1__label_names_response__init(&out);
    for (size_t i = 0; i < sets->n; i++)
        n += sets->items[i].count;
    struct fg_slice *names = fg_arena_new(question->arena, struct fg_slice, n);
    if (names == NULL)
        return too_large(err);
    for (size_t i = 0; i < sets->n; i++)
        for (size_t j = 0; j < sets->items[i].count; j++)
            if (utf8_names || is_plain_label_name(sets->items[i].items[j].name))
                names[kept++] = sets->items[i].items[j].name;
    if (distinct(question->arena, names, kept, &out.names, &out.n_names, err) != FG_OK)
        return err->code;
    return question_reply(question, &out.base, err);
}

static enum fg_code label_names(struct question *question, const ProtobufCMessage *message,
                                struct fg_err *err)
{
    const Types__V1__LabelNamesRequest *in = (const Types__V1__LabelNamesRequest *)message;
    struct selection selection = {0};
    struct label_sets sets;
    bool utf8_names;

    if (select_utf8_names(question->accept, &utf8_names, err) != FG_OK ||
        select_range(&selection, in->start, in->end, err) != FG_OK)
        return err->code;
    label_sets_init(&sets);
    enum fg_code code =
        find_series(question, &selection, in->matchers, in->n_matchers,
                    "parsing label selector: failed to parse label selector", NULL, 0, &sets, err);
    if (code == FG_OK)
        code = reply_names(question, &sets, utf8_names, err);
    label_sets_done(&sets);
    selection_done(&selection);
    return code;
}

static enum fg_code reply_values(struct question *question, const struct label_sets *sets,
                                 const char *name, struct fg_err *err)
{
    Types__V1__LabelValuesResponse out;
    struct fg_slice *values = fg_arena_new(question->arena, struct fg_slice, sets->n);
    size_t n = 0;

    types__v1__label_values_response__init(&out);
    if (values == NULL)
        return too_large(err);
    for (size_t i = 0; i < sets->n; i++) {
        struct fg_slice value = fg_labels_get(&sets->items[i], name);

        if (value.len > 0)
            values[n++] = value;
    }
    if (distinct(question->arena, values, n, &out.names, &out.n_names, err) != FG_OK)
        return err->code;
    return question_reply(question, &out.base, err);
}

static enum fg_code label_values(struct question *question, const ProtobufCMessage *message,
                                 struct fg_err *err)
{
    const Types__V1__LabelValuesRequest *in = (const Types__V1__LabelValuesRequest *)message;
    const char *const names[] = {in->name};
    struct selection selection = {0};
    struct label_sets sets;

    if (select_range(&selection, in->start, in->end, err) != FG_OK)
        return err->code;
    if (in->name[0] == '\0')
        return fg_fail(err, FG_E_INVALID, "name is required");
    label_sets_init(&sets);
    enum fg_code code =
        find_series(question, &selection, in->matchers, in->n_matchers,
                    "parsing label selector: failed to parse label selector", names, 1, &sets, err);
    if (code == FG_OK)
        code = reply_values(question, &sets, in->name, err);
    label_sets_done(&sets);
    selection_done(&selection);
    return code;
}

static Types__V1__LabelPair **make_pairs(struct fg_arena *arena, const struct fg_labels *labels)
{
    Types__V1__LabelPair **pairs =
        new_messages(arena, &types__v1__label_pair__descriptor, labels->count);

    for (size_t i = 0; pairs != NULL && i < labels->count; i++) {
        pairs[i]->name = text_of(arena, labels->items[i].name);
        pairs[i]->value = text_of(arena, labels->items[i].value);
        if (pairs[i]->name == NULL || pairs[i]->value == NULL)
            return NULL;
    }
    return pairs;
}

static enum fg_code reply_series(struct question *question, const struct label_sets *sets,
                                 struct fg_err *err)
{
    Querier__V1__SeriesResponse out;

    querier__v1__series_response__init(&out);
    out.labels_set = new_messages(question->arena, &types__v1__labels__descriptor, sets->n);
    if (out.labels_set == NULL)
        return too_large(err);
    out.n_labels_set = sets->n;
    for (size_t i = 0; i < sets->n; i++) {
        out.labels_set[i]->labels = make_pairs(question->arena, &sets->items[i]);
        out.labels_set[i]->n_labels = sets->items[i].count;
        if (out.labels_set[i]->labels == NULL)
            return too_large(err);
    }
    return question_reply(question, &out.base, err);
}

/* Without names beyond the plain ones; what becomes equal becomes one. */
static enum fg_code plain_names_only(struct question *question, const struct label_sets *from,
                                     struct label_sets *into, struct fg_err *err)
{
    for (size_t i = 0; i < from->n; i++) {
        struct fg_labels labels = from->items[i];
        size_t kept = 0;

        for (size_t j = 0; j < labels.count; j++)
            if (is_plain_label_name(labels.items[j].name))
                labels.items[kept++] = labels.items[j];
        labels.count = kept;
        if (label_sets_add(into, &labels, question->arena, err) != FG_OK)
            return err->code;
    }
    label_sets_sort(into);
    return FG_OK;
}

static enum fg_code series_answer(struct question *question, const Querier__V1__SeriesRequest *in,
                                  struct selection *selection, bool utf8_names,
                                  struct label_sets sets[2], struct fg_err *err)
{
    struct label_sets *shown = &sets[0];

    if (find_series(question, selection, in->matchers, in->n_matchers,
                    "failed to parse label selector", (const char *const *)in->label_names,
                    in->n_label_names, &sets[0], err) != FG_OK)
        return err->code;
    if (!utf8_names) {
        shown = &sets[1];
        if (plain_names_only(question, &sets[0], shown, err) != FG_OK)
            return err->code;
    }
    return reply_series(question, shown, err);
}

static enum fg_code series(struct question *question, const ProtobufCMessage *message,
                           struct fg_err *err)
{
    const Querier__V1__SeriesRequest *in = (const Querier__V1__SeriesRequest *)message;
    struct selection selection = {0};
    struct label_sets sets[2]; /* as they came, and with plain names only */
    bool utf8_names;

    if (select_utf8_names(question->accept, &utf8_names, err) != FG_OK ||
        select_range(&selection, in->start, in->end, err) != FG_OK)
        return err->code;
    label_sets_init(&sets[0]);
    label_sets_init(&sets[1]);
    enum fg_code code = series_answer(question, in, &selection, utf8_names, sets, err);
    label_sets_done(&sets[0]);
    label_sets_done(&sets[1]);
    selection_done(&selection);
    return code;
}

static enum fg_code profile_stats(struct question *question, const ProtobufCMessage *message,
                                  struct fg_err *err)
{
    Types__V1__GetProfileStatsResponse out;
    struct tenant_stats stats;

    (void)message;
    if (plan_stats(question, &stats, err) != FG_OK)
        return err->code;
    types__v1__get_profile_stats_response__init(&out);
    if (stats.profiles > 0) {
        out.data_ingested = true;
        out.oldest_profile_time = stats.oldest_ns / FG_MS_NS;
        out.newest_profile_time = stats.newest_ns / FG_MS_NS;
    }
    return question_reply(question, &out.base, err);
}

static enum fg_code analyze_query(struct question *question, const ProtobufCMessage *message,
                                  struct fg_err *err)
{
    Querier__V1__AnalyzeQueryResponse out;

    (void)message;
    querier__v1__analyze_query_response__init(&out);
    return question_reply(question, &out.base, err);
}

/* --- stacks --- */

/* What the methods that return stacks have in common. */
struct stack_request {
    const char *type_id, *label_selector;
    int64_t start_ms, end_ms, max_nodes;
    const Types__V1__StackTraceSelector *selector;
    char **span_selector, **trace_selector, **profile_selector;
    size_t n_spans, n_traces, n_profiles;
};

static uint64_t le64(const uint8_t bytes[8])
{
    struct fg_cur cur = fg_cur(fg_bytes(bytes, 8));

    return fg_cur_le64(&cur);
}

/* Sixteen hex digits; stored as the eight bytes read little-endian (ingest.md, 3.4). */
static enum fg_code read_spans(struct fg_arena *arena, const struct stack_request *in,
                               struct stacks *stacks, struct fg_err *err)
{
    uint8_t bytes[8];

    stacks->spans = fg_arena_new(arena, uint64_t, in->n_spans);
    if (stacks->spans == NULL)
        return too_large(err);
    for (size_t i = 0; i < in->n_spans; i++) {
        const char *text = in->span_selector[i];

        if (strlen(text) != 2 * sizeof bytes)
            return fg_fail(err, FG_E_UNKNOWN, "invalid span id length: \"%.64s\"", text);
        if (!fg_parse_hex(fg_cstr(text), bytes, sizeof bytes))
            return fg_fail(err, FG_E_UNKNOWN, "invalid span id: \"%s\"", text);
        stacks->spans[stacks->n_spans++] = le64(bytes);
    }
    return FG_OK;
}

static enum fg_code read_ids(struct fg_arena *arena, char **texts, size_t n, const char *what,
                             ProtobufCBinaryData **ret_ids, size_t *ret_n, struct fg_err *err)
{
    ProtobufCBinaryData *ids = fg_arena_new(arena, ProtobufCBinaryData, n);

    if (ids == NULL)
        return too_large(err);
    for (size_t i = 0; i < n; i++) {
        uint8_t *bytes = fg_arena_alloc(arena, FG_ID_BYTES);

        if (bytes == NULL)
            return too_large(err);
        if (strlen(texts[i]) != 2 * (size_t)FG_ID_BYTES ||
            !fg_parse_hex(fg_cstr(texts[i]), bytes, FG_ID_BYTES))
            return fg_fail(err, FG_E_UNKNOWN, "invalid %s: \"%.64s\"", what, texts[i]);
        ids[i] = (ProtobufCBinaryData){FG_ID_BYTES, bytes};
    }
    *ret_ids = ids;
    *ret_n = n;
    return FG_OK;
}

/* 8-4-4-4-12 to 32 digits; what is not of that form stays as it is and fails as digits. */
static enum fg_code without_dashes(struct fg_arena *arena, char **uuids, size_t n,
                                   char ***ret_texts, struct fg_err *err)
{
    char **texts = fg_arena_new(arena, char *, n);

    for (size_t i = 0; texts != NULL && i < n; i++) {
        const char *uuid = uuids[i];
        bool dashed = strlen(uuid) == 36 && uuid[8] == '-' && uuid[13] == '-' && uuid[18] == '-' &&
                      uuid[23] == '-';

        texts[i] = dashed ? fg_arena_printf(arena, "%.8s%.4s%.4s%.4s%s", uuid, uuid + 9, uuid + 14,
                                            uuid + 19, uuid + 24)
                          : fg_arena_text(arena, fg_cstr(uuid));
        if (texts[i] == NULL)
            return too_large(err);
    }
    if (texts == NULL)
        return too_large(err);
    *ret_texts = texts;
    return FG_OK;
}

static enum fg_code read_stacks(struct fg_arena *arena, const struct stack_request *in,
                                struct stacks *stacks, struct fg_err *err)
{
    const Types__V1__StackTraceSelector *selector = in->selector;
    char **uuids = NULL;

    *stacks = (struct stacks){0};
    if (selector != NULL && selector->n_call_site > 0) {
        stacks->call_site = fg_arena_new(arena, const char *, selector->n_call_site);
        if (stacks->call_site == NULL)
            return too_large(err);
        for (size_t i = 0; i < selector->n_call_site; i++)
            stacks->call_site[stacks->n_call_site++] = selector->call_site[i]->name;
    }
    if (read_spans(arena, in, stacks, err) != FG_OK ||
        read_ids(arena, in->trace_selector, in->n_traces, "trace id", &stacks->traces,
                 &stacks->n_traces, err) != FG_OK ||
        without_dashes(arena, in->profile_selector, in->n_profiles, &uuids, err) != FG_OK)
        return err->code;
    return read_ids(arena, uuids, in->n_profiles, "UUID", &stacks->profile_ids,
                    &stacks->n_profile_ids, err);
}

/*
 * An id that cannot be one is an error only where there is data that it could have been of: clients
 * were built against that.
 */
static enum fg_code bad_ids(struct question *question, const struct selection *selection,
                            const struct fg_err *why, struct fg_err *err)
{
    struct stacks all = {0};
    struct fg_tree tree;

    fg_tree_init(&tree);
    enum fg_code code = plan_tree(question, selection, &all, true, &tree, err);
    if (code == FG_OK && tree.n_nodes > 0) {
        *err = *why;
        code = why->code;
    }
    fg_tree_done(&tree);
    return code;
}

/* The merged tree of a request; an empty one when nothing was found. */
static enum fg_code find_stacks(struct question *question, const struct stack_request *in,
                                struct selection *selection, bool names_only, struct fg_tree *into,
                                struct fg_err *err)
{
    struct stacks stacks;
    struct fg_err why;

    if (select_profiles(question, selection, in->type_id, in->label_selector, err) != FG_OK)
        return err->code;
    if (in->n_spans > 0 && in->n_traces > 0)
        return fg_fail(err, FG_E_INVALID, "span_selector and trace_id_selector cannot be combined");
    if (read_stacks(question->arena, in, &stacks, &why) != FG_OK)
        return bad_ids(question, selection, &why, err);
    return plan_tree(question, selection, &stacks, names_only, into, err);
}

static Querier__V1__Level **make_levels(struct fg_arena *arena, int64_t *values,
                                        const size_t *level_ends, size_t n_levels)
{
    Querier__V1__Level **levels = new_messages(arena, &querier__v1__level__descriptor, n_levels);

    for (size_t i = 0; levels != NULL && i < n_levels; i++) {
        size_t from = i == 0 ? 0 : level_ends[i - 1];

        levels[i]->values = values + from;
        levels[i]->n_values = level_ends[i] - from;
    }
    return levels;
}

static char **make_names(struct fg_arena *arena, const struct fg_slice *names, size_t n)
{
    char **texts = fg_arena_new(arena, char *, n);

    for (size_t i = 0; texts != NULL && i < n; i++) {
        texts[i] = text_of(arena, names[i]);
        if (texts[i] == NULL)
            return NULL;
    }
    return texts;
}

/* What a method makes of the tree: one of these is set in its response. */
struct drawing {
    Querier__V1__FlameGraph graph;
    struct fg_flame flame; /* what graph borrows from */
    struct cut cut;        /* what flame borrows from */
};

static enum fg_code draw(struct question *question, const struct fg_tree *tree, size_t max_nodes,
                         struct drawing *drawing, struct fg_err *err)
{
    fg_flame_make(cut_make(&drawing->cut, tree, max_nodes, true), max_nodes, &drawing->flame);

    struct fg_flame *flame = &drawing->flame;
    Querier__V1__FlameGraph *graph = &drawing->graph;

    querier__v1__flame_graph__init(graph);
    graph->total = flame->total;
    graph->max_self = flame->max_self;
    graph->names = make_names(question->arena, flame->names, flame->n_names);
    graph->n_names = flame->n_names;
    graph->levels = make_levels(question->arena, flame->values, flame->level_ends, flame->n_levels);
    graph->n_levels = flame->n_levels;
    if (graph->names == NULL || graph->levels == NULL)
        return too_large(err);
    return FG_OK;
}

static enum fg_code reply_flamegraph(struct question *question, const struct fg_tree *tree,
                                     size_t max_nodes, struct fg_err *err)
{
    Querier__V1__SelectMergeStacktracesResponse out;
    struct drawing drawing;

    querier__v1__select_merge_stacktraces_response__init(&out);
    enum fg_code code = draw(question, tree, max_nodes, &drawing, err);
    out.flamegraph = &drawing.graph;
    if (code == FG_OK)
        code = question_reply(question, &out.base, err);
    fg_flame_done(&drawing.flame);
    cut_done(&drawing.cut);
    return code;
}

static enum fg_code reply_tree(struct question *question, const struct fg_tree *tree,
                               size_t max_nodes, struct fg_err *err)
{
    Querier__V1__SelectMergeStacktracesResponse out;
    struct fg_buf bytes;
    struct cut cut;

    querier__v1__select_merge_stacktraces_response__init(&out);
    fg_buf_init(&bytes, question->querier->answer_max_bytes);
    fg_flame_write_tree(cut_make(&cut, tree, max_nodes, false), max_nodes, &bytes);
    cut_done(&cut);
    out.tree = (ProtobufCBinaryData){bytes.len, bytes.ptr};
    enum fg_code code = bytes.full ? too_large(err) : question_reply(question, &out.base, err);
    fg_buf_done(&bytes);
    return code;
}

/* pprof bytes. max_nodes 0: all of it. */
static enum fg_code write_pprof(const struct fg_tree *tree, const struct selection *selection,
                                size_t max_nodes, struct fg_buf *out, struct fg_err *err)
{
    struct fg_pprof_head head = {.type = selection->type, .time_ns = selection->end_ns};
    struct fg_tree small;

    fg_tree_init(&small);
    if (max_nodes > 0)
        fg_tree_truncate(tree, max_nodes, &small);
    fg_pprof_write(max_nodes > 0 ? &small : tree, &head, out);
    fg_tree_done(&small);
    return out->full ? too_large(err) : FG_OK;
}

static enum fg_code reply_pprof(struct question *question, const struct fg_buf *pprof,
                                struct fg_err *err)
{
    Querier__V1__SelectMergeStacktracesResponse out;
    Querier__V1__PprofProfile wrapped;
    ProtobufCMessage *profile;

    if (fg_pb_read(fg_buf_slice(pprof), &google__v1__profile__descriptor, question->arena, &profile,
                   err) != FG_OK)
        return too_large(err);
    querier__v1__select_merge_stacktraces_response__init(&out);
    querier__v1__pprof_profile__init(&wrapped);
    wrapped.profile = (Google__V1__Profile *)profile;
    out.pprof = &wrapped;
    return question_reply(question, &out.base, err);
}

static enum fg_code answer_pprof(struct question *question, const struct fg_tree *tree,
                                 const struct selection *selection, size_t max_nodes,
                                 struct fg_err *err)
{
    struct fg_buf pprof;

    fg_buf_init(&pprof, question->querier->answer_max_bytes);
    enum fg_code code = write_pprof(tree, selection, max_nodes, &pprof, err);
    if (code == FG_OK)
        code = reply_pprof(question, &pprof, err);
    fg_buf_done(&pprof);
    return code;
}

static enum fg_code answer_stacks(struct question *question, const struct stack_request *in,
                                  Querier__V1__ProfileFormat format, struct selection *selection,
                                  struct fg_tree *tree, struct fg_err *err)
{
    bool pprof = format == QUERIER__V1__PROFILE_FORMAT__PROFILE_FORMAT_PPROF;
    size_t max_nodes;

    if (select_range(selection, in->start_ms, in->end_ms, err) != FG_OK ||
        select_max_nodes(in->max_nodes, &max_nodes, err) != FG_OK ||
        find_stacks(question, in, selection, !pprof, tree, err) != FG_OK ||
        question_check(question, err) != FG_OK)
        return err->code;
    if (pprof) /* whole, unless the client asked for less */
        return answer_pprof(question, tree, selection, in->max_nodes > 0 ? max_nodes : 0, err);
    if (format == QUERIER__V1__PROFILE_FORMAT__PROFILE_FORMAT_TREE)
        return reply_tree(question, tree, max_nodes, err);
    if (format == QUERIER__V1__PROFILE_FORMAT__PROFILE_FORMAT_DOT && tree->n_nodes > 0)
        return fg_fail(err, FG_E_UNIMPLEMENTED,
                       "format DOT is not supported yet: take PPROF and \"go tool pprof -dot\"");
    if (format == QUERIER__V1__PROFILE_FORMAT__PROFILE_FORMAT_DOT)
        return reply_tree(question, tree, max_nodes, err); /* nothing, in every format */
    return reply_flamegraph(question, tree, max_nodes, err);
}

static enum fg_code with_stacks(struct question *question, const struct stack_request *in,
                                Querier__V1__ProfileFormat format, struct fg_err *err)
{
    struct selection selection = {0};
    struct fg_tree tree;

    fg_tree_init(&tree);
    enum fg_code code = answer_stacks(question, in, format, &selection, &tree, err);
    fg_tree_done(&tree);
    selection_done(&selection);
    return code;
}

static struct stack_request
stacktraces_request(const Querier__V1__SelectMergeStacktracesRequest *in)
{
    bool has_max = in->opt_max_nodes_case ==
                   QUERIER__V1__SELECT_MERGE_STACKTRACES_REQUEST__OPT_MAX_NODES_MAX_NODES;

    return (struct stack_request){
        .type_id = in->profile_typeid,
        .label_selector = in->label_selector,
        .start_ms = in->start,
        .end_ms = in->end,
        .max_nodes = has_max ? in->max_nodes : 0,
        .selector = in->stack_trace_selector,
        .span_selector = in->span_selector,
        .n_spans = in->n_span_selector,
        .trace_selector = in->trace_id_selector,
        .n_traces = in->n_trace_id_selector,
        .profile_selector = in->profile_id_selector,
        .n_profiles = in->n_profile_id_selector,
    };
}

static enum fg_code select_merge_stacktraces(struct question *question,
                                             const ProtobufCMessage *message, struct fg_err *err)
{
    const Querier__V1__SelectMergeStacktracesRequest *in =
        (const Querier__V1__SelectMergeStacktracesRequest *)message;
    struct stack_request request = stacktraces_request(in);

    return with_stacks(question, &request, in->format, err);
}

/* Its response is the beginning of the other's: the same fields by number and name. */
static enum fg_code select_merge_span_profile(struct question *question,
                                              const ProtobufCMessage *message, struct fg_err *err)
{
    const Querier__V1__SelectMergeSpanProfileRequest *in =
        (const Querier__V1__SelectMergeSpanProfileRequest *)message;
    bool has_max = in->opt_max_nodes_case ==
                   QUERIER__V1__SELECT_MERGE_SPAN_PROFILE_REQUEST__OPT_MAX_NODES_MAX_NODES;
    struct stack_request request = {
        .type_id = in->profile_typeid,
        .label_selector = in->label_selector,
        .start_ms = in->start,
        .end_ms = in->end,
        .max_nodes = has_max ? in->max_nodes : 0,
        .span_selector = in->span_selector,
        .n_spans = in->n_span_selector,
    };

    return with_stacks(question, &request,
                       in->format == QUERIER__V1__PROFILE_FORMAT__PROFILE_FORMAT_TREE
                           ? QUERIER__V1__PROFILE_FORMAT__PROFILE_FORMAT_TREE
                           : QUERIER__V1__PROFILE_FORMAT__PROFILE_FORMAT_FLAMEGRAPH,
                       err);
}

static enum fg_code bare_pprof(struct question *question, const struct stack_request *in,
                               struct selection *selection, struct fg_tree *tree,
                               struct fg_err *err)
{
    ProtobufCMessage *profile;
    size_t max_nodes;
    struct fg_buf pprof;

    if (select_range(selection, in->start_ms, in->end_ms, err) != FG_OK ||
        select_max_nodes(in->max_nodes, &max_nodes, err) != FG_OK ||
        find_stacks(question, in, selection, false, tree, err) != FG_OK ||
        question_check(question, err) != FG_OK)
        return err->code;
    max_nodes = in->max_nodes > 0 ? max_nodes : 0;
    if (!question->call.json) /* the message is the answer as it is */
        return write_pprof(tree, selection, max_nodes, &question->body, err);

    fg_buf_init(&pprof, question->querier->answer_max_bytes);
    enum fg_code code = write_pprof(tree, selection, max_nodes, &pprof, err);
    if (code == FG_OK)
        code = fg_pb_read(fg_buf_slice(&pprof), &google__v1__profile__descriptor, question->arena,
                          &profile, err);
    if (code == FG_OK)
        code = question_reply(question, profile, err);
    fg_buf_done(&pprof);
    return code;
}

static enum fg_code select_merge_profile(struct question *question, const ProtobufCMessage *message,
                                         struct fg_err *err)
{
    const Querier__V1__SelectMergeProfileRequest *in =
        (const Querier__V1__SelectMergeProfileRequest *)message;
    bool has_max = in->opt_max_nodes_case ==
                   QUERIER__V1__SELECT_MERGE_PROFILE_REQUEST__OPT_MAX_NODES_MAX_NODES;
    struct stack_request request = {
        .type_id = in->profile_typeid,
        .label_selector = in->label_selector,
        .start_ms = in->start,
        .end_ms = in->end,
        .max_nodes = has_max ? in->max_nodes : 0,
        .selector = in->stack_trace_selector,
        .trace_selector = in->trace_id_selector,
        .n_traces = in->n_trace_id_selector,
        .profile_selector = in->profile_id_selector,
        .n_profiles = in->n_profile_id_selector,
    };
    struct selection selection = {0};
    struct fg_tree tree;

    fg_tree_init(&tree);
    enum fg_code code = bare_pprof(question, &request, &selection, &tree, err);
    fg_tree_done(&tree);
    selection_done(&selection);
    return code;
}

/* --- Diff --- */

static enum fg_code find_side(struct question *question,
                              const Querier__V1__SelectMergeStacktracesRequest *in,
                              struct fg_tree *into, struct fg_err *err)
{
    struct stack_request request = {.type_id = "", .label_selector = ""};
    struct selection selection = {0};

    if (in != NULL)
        request = stacktraces_request(in);
    enum fg_code code = select_range(&selection, request.start_ms, request.end_ms, err);
    if (code == FG_OK)
        code = find_stacks(question, &request, &selection, true, into, err);
    selection_done(&selection);
    return code;
}

static enum fg_code reply_diff(struct question *question, const struct diff *diff,
                               struct fg_err *err)
{
    Querier__V1__DiffResponse out;
    Querier__V1__FlameGraphDiff graph;

    querier__v1__diff_response__init(&out);
    querier__v1__flame_graph_diff__init(&graph);
    graph.names = make_names(question->arena, diff->names, diff->n_names);
    graph.n_names = diff->n_names;
    graph.levels = make_levels(question->arena, diff->values, diff->level_ends, diff->n_levels);
    graph.n_levels = diff->n_levels;
    graph.total = diff->left_ticks + diff->right_ticks;
    graph.max_self = diff->max_self;
    graph.leftticks = diff->left_ticks;
    graph.rightticks = diff->right_ticks;
    if (graph.names == NULL || graph.levels == NULL)
        return too_large(err);
    out.flamegraph = &graph;
    return question_reply(question, &out.base, err);
}

static int64_t max_nodes_of(const Querier__V1__SelectMergeStacktracesRequest *in)
{
    return in == NULL ? 0 : stacktraces_request(in).max_nodes;
}

static enum fg_code diff_sides(struct question *question, const Querier__V1__DiffRequest *in,
                               struct fg_tree sides[2], struct fg_err *err)
{
    int64_t asked = FG_MAX(max_nodes_of(in->left), max_nodes_of(in->right));
    struct diff diff;
    size_t max_nodes;

    if (select_max_nodes(asked, &max_nodes, err) != FG_OK ||
        find_side(question, in->left, &sides[0], err) != FG_OK ||
        find_side(question, in->right, &sides[1], err) != FG_OK ||
        question_check(question, err) != FG_OK)
        return err->code;
    diff_make(&sides[0], &sides[1], max_nodes, &diff);
    enum fg_code code = reply_diff(question, &diff, err);
    diff_done(&diff);
    return code;
}

static enum fg_code diff_method(struct question *question, const ProtobufCMessage *message,
                                struct fg_err *err)
{
    struct fg_tree sides[2];

    fg_tree_init(&sides[0]);
    fg_tree_init(&sides[1]);
    enum fg_code code = diff_sides(question, (const Querier__V1__DiffRequest *)message, sides, err);
    fg_tree_done(&sides[0]);
    fg_tree_done(&sides[1]);
    if (code == FG_E_UNKNOWN) /* ids that are none; here everything wrong is the client's fault */
        code = err->code = FG_E_INVALID;
    return code;
}

/* --- SelectSeries --- */

static void add_up(struct points *series)
{
    series->total = 0;
    for (size_t i = 0; i < series->n; i++)
        series->total += (double)series->items[i].sum;
}

static int cmp_series(const void *a, const void *b)
{
    const struct points *x = a, *y = b;

    if (x->total != y->total)
        return x->total > y->total ? -1 : 1;
    return fg_labels_cmp(&x->labels, &y->labels);
}

void points_order(struct points *all, size_t *n, int64_t limit)
{
    for (size_t i = 0; i < *n; i++)
        add_up(&all[i]);
    if (*n > 1)
        qsort(all, *n, sizeof *all, cmp_series);
    if (limit > 0 && *n > (uint64_t)limit)
        *n = (size_t)limit;
}

/* The labels of a group stand in the order of group_by; what it lacks is left out. */
static Types__V1__LabelPair **group_labels(struct fg_arena *arena, const struct fg_labels *labels,
                                           char *const *group_by, size_t n_group_by, size_t *ret_n)
{
    struct fg_labels ordered = {.items = fg_arena_new(arena, struct fg_label, n_group_by)};

    if (ordered.items == NULL)
        return NULL;
    for (size_t i = 0; i < n_group_by; i++) {
        struct fg_slice value = fg_labels_get(labels, group_by[i]);

        if (value.len > 0)
            ordered.items[ordered.count++] = (struct fg_label){fg_cstr(group_by[i]), value};
    }
    *ret_n = ordered.count;
    return make_pairs(arena, &ordered);
}

struct grid {
    int64_t start_ms, step_ms;
    bool average;
};

static Types__V1__Point **make_points(struct fg_arena *arena, const struct points *from,
                                      const struct grid *grid)
{
    Types__V1__Point **points = new_messages(arena, &types__v1__point__descriptor, from->n);

    for (size_t i = 0; points != NULL && i < from->n; i++) {
        const struct point *point = &from->items[i];
        double count = grid->average && point->count > 0 ? (double)point->count : 1;

        points[i]->value = (double)point->sum / count;
        points[i]->timestamp = point_ms(point, grid->start_ms, grid->step_ms);
    }
    return points;
}

static enum fg_code reply_points(struct question *question,
                                 const Querier__V1__SelectSeriesRequest *in,
                                 const struct grid *grid, const struct points *from, size_t n,
                                 struct fg_err *err)
{
    Querier__V1__SelectSeriesResponse out;

    querier__v1__select_series_response__init(&out);
    out.series = new_messages(question->arena, &types__v1__series__descriptor, n);
    out.n_series = n;
    if (out.series == NULL)
        return too_large(err);
    for (size_t i = 0; i < n; i++) {
        out.series[i]->labels = group_labels(question->arena, &from[i].labels, in->group_by,
                                             in->n_group_by, &out.series[i]->n_labels);
        out.series[i]->points = make_points(question->arena, &from[i], grid);
        out.series[i]->n_points = from[i].n;
        if (out.series[i]->labels == NULL || out.series[i]->points == NULL)
            return too_large(err);
    }
    return question_reply(question, &out.base, err);
}

enum { STEP_MAX_S = 1000000000 }; /* thirty years: one grid point; keeps sums of times in 64 bits */

static enum fg_code read_grid(const Querier__V1__SelectSeriesRequest *in, struct grid *ret_grid,
                              struct fg_err *err)
{
    if (!(in->step >= 0.001))
        return fg_fail(err, FG_E_INVALID, "step must be >= 1ms");
    ret_grid->start_ms = in->start;
    ret_grid->step_ms = llround(fmin(in->step, STEP_MAX_S) * 1e9) / FG_MS_NS;
    ret_grid->average =
        in->opt_aggregation_case ==
            QUERIER__V1__SELECT_SERIES_REQUEST__OPT_AGGREGATION_AGGREGATION &&
        in->aggregation ==
            TYPES__V1__TIME_SERIES_AGGREGATION_TYPE__TIME_SERIES_AGGREGATION_TYPE_AVERAGE;
    return FG_OK;
}

static enum fg_code answer_points(struct question *question,
                                  const Querier__V1__SelectSeriesRequest *in,
                                  struct selection *selection, struct fg_err *err)
{
    bool has_limit = in->opt_limit_case == QUERIER__V1__SELECT_SERIES_REQUEST__OPT_LIMIT_LIMIT;
    struct points *found = NULL;
    struct grid grid = {0};
    size_t n;

    if (select_range(selection, in->start, in->end, err) != FG_OK ||
        read_grid(in, &grid, err) != FG_OK ||
        select_profiles(question, selection, in->profile_typeid, in->label_selector, err) != FG_OK)
        return err->code;
    if (in->exemplar_type == TYPES__V1__EXEMPLAR_TYPE__EXEMPLAR_TYPE_SPAN)
        return fg_fail(err, FG_E_UNIMPLEMENTED, "span exemplars are not supported");
    if (plan_points(question, selection, grid.step_ms * FG_MS_NS, in->group_by, in->n_group_by,
                    &found, &n, err) != FG_OK)
        return err->code;
    points_order(found, &n, has_limit ? in->limit : 0);
    return reply_points(question, in, &grid, found, n, err);
}

static enum fg_code select_series(struct question *question, const ProtobufCMessage *message,
                                  struct fg_err *err)
{
    struct selection selection = {0};
    enum fg_code code =
        answer_points(question, (const Querier__V1__SelectSeriesRequest *)message, &selection, err);

    selection_done(&selection);
    return code;
}

/* --- what there is --- */

#define METHOD(name) "/querier.v1.QuerierService/" name, name

/* clang-format off */
const struct endpoint api_endpoints[] = {
    {METHOD("ProfileTypes"), &querier__v1__profile_types_request__descriptor, profile_types},
    {METHOD("LabelNames"), &types__v1__label_names_request__descriptor, label_names},
    {METHOD("LabelValues"), &types__v1__label_values_request__descriptor, label_values},
    {METHOD("Series"), &querier__v1__series_request__descriptor, series},
    {METHOD("SelectMergeStacktraces"),
     &querier__v1__select_merge_stacktraces_request__descriptor, select_merge_stacktraces},
    {METHOD("SelectMergeSpanProfile"),
     &querier__v1__select_merge_span_profile_request__descriptor, select_merge_span_profile},
    {METHOD("SelectMergeProfile"),
     &querier__v1__select_merge_profile_request__descriptor, select_merge_profile},
    {METHOD("SelectSeries"), &querier__v1__select_series_request__descriptor, select_series},
    {METHOD("Diff"), &querier__v1__diff_request__descriptor, diff_method},
    {METHOD("GetProfileStats"), &types__v1__get_profile_stats_request__descriptor, profile_stats},
    {METHOD("AnalyzeQuery"), &querier__v1__analyze_query_request__descriptor, analyze_query},
};
/* clang-format on */
const size_t n_api_endpoints = FG_COUNT(api_endpoints);
