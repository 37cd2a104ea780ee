/* The methods that merge profiles: flame graphs, trees, pprof, and comparisons. */
#include "common/base/str.h"
#include "common/model/dot.h"
#include "common/model/flame.h"
#include "querier/api.h"
#include "querier/collect.h"
#include "querier/flamegraph.h"
#include "querier/pprof.h"
#include "querier/reply.h"

/* What the methods that return stacks have in common. */
struct stack_request {
    const char *type_id, *label_selector;
    int64_t start_ms, end_ms, max_nodes;
    const Types__V1__StackTraceSelector *selector;
    char **span_selector, **trace_selector, **profile_selector;
    size_t n_spans, n_traces, n_profiles;
};

/* Sixteen hex digits; stored as the eight bytes read little-endian
 * (distributor/API.md#sample-labels). */
static enum fg_code read_spans(struct fg_arena *arena, const struct stack_request *in,
                               struct qry_stack_filter *stacks, struct fg_err *err)
{
    uint8_t bytes[8];

    stacks->spans = fg_arena_new(arena, uint64_t, in->n_spans);
    if (stacks->spans == NULL)
        return qry_api_too_large(err);
    for (size_t i = 0; i < in->n_spans; i++) {
        const char *text = in->span_selector[i];
        struct fg_cur cur;

        if (strlen(text) != 2 * sizeof bytes)
            return fg_fail(err, FG_E_UNKNOWN, "invalid span id length: \"%.64s\"", text);
        if (!fg_parse_hex(fg_cstr(text), bytes, sizeof bytes))
            return fg_fail(err, FG_E_UNKNOWN, "invalid span id: \"%s\"", text);
        cur = fg_cur(fg_bytes(bytes, sizeof bytes));
        stacks->spans[stacks->n_spans++] = fg_cur_le64(&cur);
    }
    return FG_OK;
}

static enum fg_code read_ids(struct fg_arena *arena, char **texts, size_t n, const char *what,
                             ProtobufCBinaryData **ret_ids, size_t *ret_n, struct fg_err *err)
{
    ProtobufCBinaryData *ids = fg_arena_new(arena, ProtobufCBinaryData, n);

    if (ids == NULL)
        return qry_api_too_large(err);
    for (size_t i = 0; i < n; i++) {
        uint8_t *bytes = fg_arena_alloc(arena, FG_ID_BYTES);

        if (bytes == NULL)
            return qry_api_too_large(err);
        if (strlen(texts[i]) != 2 * (size_t)FG_ID_BYTES ||
            !fg_parse_hex(fg_cstr(texts[i]), bytes, FG_ID_BYTES))
            return fg_fail(err, FG_E_UNKNOWN, "invalid %s: \"%.64s\"", what, texts[i]);
        ids[i] = (ProtobufCBinaryData){FG_ID_BYTES, bytes};
    }
    *ret_ids = ids;
    *ret_n = n;
    return FG_OK;
}

/* Removes the dashes of UUIDs (8-4-4-4-12 digits). A text of another form stays as it is and fails
 * in read_ids(). */
static enum fg_code without_dashes(struct fg_arena *arena, char **uuids, size_t n,
                                   char ***ret_texts, struct fg_err *err)
{
    char **texts = fg_arena_new(arena, char *, n);

    for (size_t i = 0; texts != NULL && i < n; i++) {
        const char *uuid = uuids[i];
        /* The length first: the dashes are at fixed places. */
        bool dashed = strlen(uuid) == 36 && uuid[8] == '-' && uuid[13] == '-' && uuid[18] == '-' &&
                      uuid[23] == '-';

        texts[i] = dashed ? fg_arena_printf(arena, "%.8s%.4s%.4s%.4s%s", uuid, uuid + 9, uuid + 14,
                                            uuid + 19, uuid + 24)
                          : fg_arena_text(arena, fg_cstr(uuid));
        if (texts[i] == NULL)
            return qry_api_too_large(err);
    }
    if (texts == NULL)
        return qry_api_too_large(err);
    *ret_texts = texts;
    return FG_OK;
}

static enum fg_code read_stacks(struct fg_arena *arena, const struct stack_request *in,
                                struct qry_stack_filter *stacks, struct fg_err *err)
{
    const Types__V1__StackTraceSelector *selector = in->selector;
    char **uuids = NULL;

    *stacks = (struct qry_stack_filter){0};
    if (selector != NULL && selector->n_call_site > 0) {
        stacks->call_site = fg_arena_new(arena, const char *, selector->n_call_site);
        if (stacks->call_site == NULL)
            return qry_api_too_large(err);
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

/* Refuses a malformed id, but only if the rest of the selection has data: clients were built
 * against that. */
static enum fg_code bad_ids(struct qry_query *query, const struct qry_selection *selection,
                            const struct fg_err *why, struct fg_err *err)
{
    struct qry_stack_filter all = {0};
    struct fg_tree tree;

    fg_tree_init(&tree);
    enum fg_code code = qry_collect_tree(query, selection, &all, true, &tree, err);
    if (code == FG_OK && tree.n_nodes > 0) {
        *err = *why;
        code = why->code;
    }
    fg_tree_done(&tree);
    return code;
}

/* Reads what a request selects, into the query's arena. *ret_stacks NULL: nothing can match. */
static enum fg_code find_stacks(struct qry_query *query, const struct stack_request *in,
                                struct qry_selection *selection,
                                const struct qry_stack_filter **ret_stacks, struct fg_err *err)
{
    struct qry_stack_filter *stacks = fg_arena_new(query->arena, struct qry_stack_filter, 1);
    struct fg_err why;

    if (stacks == NULL)
        return qry_api_too_large(err);
    if (qry_selection_profiles(query, selection, in->type_id, in->label_selector, err) != FG_OK)
        return err->code;
    if (in->n_spans > 0 && in->n_traces > 0)
        return fg_fail(err, FG_E_INVALID, "span_selector and trace_id_selector cannot be combined");
    *ret_stacks = NULL;
    if (read_stacks(query->arena, in, stacks, &why) != FG_OK)
        return bad_ids(query, selection, &why, err);
    *ret_stacks = stacks;
    return FG_OK;
}

static Querier__V1__Level **make_levels(struct fg_arena *arena, int64_t *values,
                                        const size_t *level_ends, size_t n_levels)
{
    Querier__V1__Level **levels =
        qry_api_messages(arena, &querier__v1__level__descriptor, n_levels);

    for (size_t i = 0; levels != NULL && i < n_levels; i++) {
        size_t from = i == 0 ? 0 : level_ends[i - 1];

        /* Borrowed and not copied: a graph may have a million bars of four numbers. */
        levels[i]->values = values + from;
        levels[i]->n_values = level_ends[i] - from;
    }
    return levels;
}

static char **make_names(struct fg_arena *arena, const struct fg_slice *names, size_t n)
{
    char **texts = fg_arena_new(arena, char *, n);

    for (size_t i = 0; texts != NULL && i < n; i++) {
        texts[i] = qry_api_text(arena, names[i]);
        if (texts[i] == NULL)
            return NULL;
    }
    return texts;
}

/* A flame graph of a response. */
struct drawing {
    Querier__V1__FlameGraph graph; /* borrows from flame */
    struct fg_flame flame;
};

static enum fg_code draw(struct qry_query *query, const struct fg_tree *tree, size_t max_nodes,
                         struct drawing *drawing, struct fg_err *err)
{
    /* First, so that the caller can free it after each of the failures below. */
    fg_flame_make(tree, max_nodes, &drawing->flame);

    struct fg_flame *flame = &drawing->flame;
    Querier__V1__FlameGraph *graph = &drawing->graph;

    querier__v1__flame_graph__init(graph);
    graph->total = flame->total;
    graph->max_self = flame->max_self;
    graph->names = make_names(query->arena, flame->names, flame->n_names);
    graph->n_names = flame->n_names;
    graph->levels = make_levels(query->arena, flame->values, flame->level_ends, flame->n_levels);
    graph->n_levels = flame->n_levels;
    if (graph->names == NULL || graph->levels == NULL)
        return qry_api_too_large(err);
    return FG_OK;
}

static enum fg_code reply_flamegraph(struct qry_query *query, const struct fg_tree *tree,
                                     size_t max_nodes, struct fg_err *err)
{
    Querier__V1__SelectMergeStacktracesResponse out;
    struct drawing drawing;

    querier__v1__select_merge_stacktraces_response__init(&out);
    enum fg_code code = draw(query, tree, max_nodes, &drawing, err);
    out.flamegraph = &drawing.graph;
    if (code == FG_OK)
        code = qry_reply_message(query, &out.base, err);
    fg_flame_done(&drawing.flame);
    return code;
}

static enum fg_code reply_tree(struct qry_query *query, const struct fg_tree *tree,
                               size_t max_nodes, struct fg_err *err)
{
    Querier__V1__SelectMergeStacktracesResponse out;
    struct fg_buf bytes;

    querier__v1__select_merge_stacktraces_response__init(&out);
    fg_buf_init(&bytes, query->querier->answer_max_bytes);
    fg_flame_write_tree(tree, max_nodes, &bytes);
    out.tree = (ProtobufCBinaryData){bytes.len, bytes.ptr};
    enum fg_code code =
        bytes.full ? qry_api_too_large(err) : qry_reply_message(query, &out.base, err);
    fg_buf_done(&bytes);
    return code;
}

/* Without data the text is empty. */
static enum fg_code reply_dot(struct qry_query *query, const struct fg_tree *tree,
                              const struct qry_selection *selection, size_t max_nodes,
                              struct fg_err *err)
{
    Querier__V1__SelectMergeStacktracesResponse out;
    struct fg_buf text;
    enum fg_code code;

    querier__v1__select_merge_stacktraces_response__init(&out);
    fg_buf_init(&text, query->querier->answer_max_bytes);
    fg_dot_write(tree, &selection->type, selection->end_ns, max_nodes, &text);
    out.dot = qry_api_text(query->arena, fg_buf_slice(&text));
    code = text.full || out.dot == NULL ? qry_api_too_large(err)
                                        : qry_reply_message(query, &out.base, err);
    fg_buf_done(&text);
    return code;
}

/* pprof bytes. max_nodes 0: all of it. */
static enum fg_code write_pprof(const struct fg_tree *tree, const struct qry_selection *selection,
                                const struct stack_request *in, size_t max_nodes,
                                struct fg_buf *out, struct fg_err *err)
{
    const Types__V1__GoPGO *asked = in->selector == NULL ? NULL : in->selector->go_pgo;
    struct qry_go_pgo pgo = {0};

    if (asked != NULL)
        pgo = (struct qry_go_pgo){asked->keep_locations, asked->aggregate_callees};
    qry_pprof_write(tree, selection, asked != NULL ? &pgo : NULL, max_nodes, out);
    return out->full ? qry_api_too_large(err) : FG_OK;
}

static enum fg_code reply_pprof(struct qry_query *query, const struct fg_buf *pprof,
                                struct fg_err *err)
{
    Querier__V1__SelectMergeStacktracesResponse out;
    Querier__V1__PprofProfile wrapped;
    ProtobufCMessage *profile;

    /* The response has the profile as a message, and there is one writer of pprof: its bytes are
     * parsed again. */
    if (fg_pb_read(fg_buf_slice(pprof), &google__v1__profile__descriptor, query->arena, &profile,
                   err) != FG_OK)
        return qry_api_too_large(err);
    querier__v1__select_merge_stacktraces_response__init(&out);
    querier__v1__pprof_profile__init(&wrapped);
    wrapped.profile = (Google__V1__Profile *)profile;
    out.pprof = &wrapped;
    return qry_reply_message(query, &out.base, err);
}

static enum fg_code answer_pprof(struct qry_query *query, const struct fg_tree *tree,
                                 const struct qry_selection *selection,
                                 const struct stack_request *in, size_t max_nodes,
                                 struct fg_err *err)
{
    struct fg_buf pprof;

    fg_buf_init(&pprof, query->querier->answer_max_bytes);
    /* For the audit: if the answer succeeds, it is an export. */
    query->exported = true;
    enum fg_code code = write_pprof(tree, selection, in, max_nodes, &pprof, err);
    if (code == FG_OK)
        code = reply_pprof(query, &pprof, err);
    fg_buf_done(&pprof);
    return code;
}

/* Answers in any form except pprof. tree: empty before. asked_nodes: 0 if the client named no
 * number. */
static enum fg_code answer_flamegraph(struct qry_query *query,
                                      const struct qry_stack_filter *stacks,
                                      const struct qry_selection *selection, int64_t asked_nodes,
                                      Querier__V1__ProfileFormat format, struct fg_tree *tree,
                                      struct fg_err *err)
{
    bool tree_bytes = format == QUERIER__V1__PROFILE_FORMAT__PROFILE_FORMAT_TREE;
    bool dot = format == QUERIER__V1__PROFILE_FORMAT__PROFILE_FORMAT_DOT;
    size_t max_nodes = 0;

    if (qry_selection_max_nodes(asked_nodes, &max_nodes, err) != FG_OK)
        return err->code;
    /* The limit of a drawing is one of functions: it is chosen from all of them. */
    if (stacks != NULL &&
        qry_flamegraph_make(query, selection, stacks, dot ? FG_FLAME_NODES_MAX : max_nodes,
                            !tree_bytes && !dot, tree, err) != FG_OK)
        return err->code;
    /* Writing a large response takes long as well. */
    if (qry_query_check(query, err) != FG_OK)
        return err->code;
    if (tree_bytes)
        return reply_tree(query, tree, max_nodes, err);
    if (dot)
        return reply_dot(query, tree, selection, (size_t)asked_nodes, err);
    return reply_flamegraph(query, tree, max_nodes, err);
}

/* Collects what a pprof is made of. *ret_max_nodes 0: all nodes. */
static enum fg_code find_pprof(struct qry_query *query, const struct stack_request *in,
                               struct qry_selection *selection, struct fg_tree *tree,
                               size_t *ret_max_nodes, struct fg_err *err)
{
    const struct qry_stack_filter *stacks = NULL;

    /* With whole locations and not only names: a pprof has lines and addresses. */
    if (qry_selection_range(query, selection, in->start_ms, in->end_ms, err) != FG_OK ||
        qry_pprof_max_nodes(in->max_nodes, ret_max_nodes, err) != FG_OK ||
        find_stacks(query, in, selection, &stacks, err) != FG_OK ||
        (stacks != NULL && qry_collect_tree(query, selection, stacks, false, tree, err) != FG_OK))
        return err->code;
    return qry_query_check(query, err);
}

static enum fg_code answer_stacks(struct qry_query *query, const struct stack_request *in,
                                  Querier__V1__ProfileFormat format,
                                  struct qry_selection *selection, struct fg_tree *tree,
                                  struct fg_err *err)
{
    const struct qry_stack_filter *stacks = NULL;
    size_t max_nodes = 0;

    if (format == QUERIER__V1__PROFILE_FORMAT__PROFILE_FORMAT_PPROF) {
        if (find_pprof(query, in, selection, tree, &max_nodes, err) != FG_OK)
            return err->code;
        return answer_pprof(query, tree, selection, in, max_nodes, err);
    }
    if (qry_selection_range(query, selection, in->start_ms, in->end_ms, err) != FG_OK ||
        qry_selection_max_nodes(in->max_nodes, &max_nodes, err) != FG_OK ||
        find_stacks(query, in, selection, &stacks, err) != FG_OK)
        return err->code;
    return answer_flamegraph(query, stacks, selection, in->max_nodes, format, tree, err);
}

static enum fg_code with_stacks(struct qry_query *query, const struct stack_request *in,
                                Querier__V1__ProfileFormat format, struct fg_err *err)
{
    struct qry_selection selection = {0};
    struct fg_tree tree;

    fg_tree_init(&tree);
    enum fg_code code = answer_stacks(query, in, format, &selection, &tree, err);
    fg_tree_done(&tree);
    qry_selection_done(&selection);
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

enum fg_code qry_api_select_merge_stacktraces(struct qry_query *query,
                                              const ProtobufCMessage *message, struct fg_err *err)
{
    const Querier__V1__SelectMergeStacktracesRequest *in =
        (const Querier__V1__SelectMergeStacktracesRequest *)message;
    struct stack_request request = stacktraces_request(in);

    return with_stacks(query, &request, in->format, err);
}

/* Answers with the other method's response, whose first fields are the same by number and name. */
enum fg_code qry_api_select_merge_span_profile(struct qry_query *query,
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

    return with_stacks(query, &request,
                       in->format == QUERIER__V1__PROFILE_FORMAT__PROFILE_FORMAT_TREE
                           ? QUERIER__V1__PROFILE_FORMAT__PROFILE_FORMAT_TREE
                           : QUERIER__V1__PROFILE_FORMAT__PROFILE_FORMAT_FLAMEGRAPH,
                       err);
}

static enum fg_code bare_pprof(struct qry_query *query, const struct stack_request *in,
                               struct qry_selection *selection, struct fg_tree *tree,
                               struct fg_err *err)
{
    ProtobufCMessage *profile;
    size_t max_nodes = 0;
    struct fg_buf pprof;

    if (find_pprof(query, in, selection, tree, &max_nodes, err) != FG_OK)
        return err->code;
    query->exported = true;
    if (!query->call.json) { /* the message is the answer as it is */
        size_t start = fg_connect_begin(&query->call, &query->body);

        if (write_pprof(tree, selection, in, max_nodes, &query->body, err) != FG_OK)
            return err->code;
        return qry_reply_end_bytes(query, start, err);
    }

    fg_buf_init(&pprof, query->querier->answer_max_bytes);
    enum fg_code code = write_pprof(tree, selection, in, max_nodes, &pprof, err);
    if (code == FG_OK)
        code = fg_pb_read(fg_buf_slice(&pprof), &google__v1__profile__descriptor, query->arena,
                          &profile, err);
    if (code == FG_OK)
        code = qry_reply_message(query, profile, err);
    fg_buf_done(&pprof);
    return code;
}

enum fg_code qry_api_select_merge_profile(struct qry_query *query, const ProtobufCMessage *message,
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
    struct qry_selection selection = {0};
    struct fg_tree tree;

    fg_tree_init(&tree);
    enum fg_code code = bare_pprof(query, &request, &selection, &tree, err);
    fg_tree_done(&tree);
    qry_selection_done(&selection);
    return code;
}

/* --- Diff --- */

static enum fg_code read_side(struct qry_query *query,
                              const Querier__V1__SelectMergeStacktracesRequest *in,
                              struct qry_side *side, struct fg_err *err)
{
    struct stack_request request = {.type_id = "", .label_selector = ""};

    if (in != NULL)
        request = stacktraces_request(in);
    if (qry_selection_range(query, &side->selection, request.start_ms, request.end_ms, err) !=
        FG_OK)
        return err->code;
    return find_stacks(query, &request, &side->selection, &side->stacks, err);
}

static enum fg_code reply_diff(struct qry_query *query, const struct qry_diff *diff,
                               struct fg_err *err)
{
    Querier__V1__DiffResponse out;
    Querier__V1__FlameGraphDiff graph;

    querier__v1__diff_response__init(&out);
    querier__v1__flame_graph_diff__init(&graph);
    graph.names = make_names(query->arena, diff->names, diff->n_names);
    graph.n_names = diff->n_names;
    graph.levels = make_levels(query->arena, diff->values, diff->level_ends, diff->n_levels);
    graph.n_levels = diff->n_levels;
    /* As Pyroscope: the total of a comparison is that of both sides. */
    graph.total = fg_value_add(diff->left_ticks, diff->right_ticks);
    graph.max_self = diff->max_self;
    graph.leftticks = diff->left_ticks;
    graph.rightticks = diff->right_ticks;
    if (graph.names == NULL || graph.levels == NULL)
        return qry_api_too_large(err);
    out.flamegraph = &graph;
    return qry_reply_message(query, &out.base, err);
}

static int64_t max_nodes_of(const Querier__V1__SelectMergeStacktracesRequest *in)
{
    return in == NULL ? 0 : stacktraces_request(in).max_nodes;
}

static enum fg_code diff_sides(struct qry_query *query, const Querier__V1__DiffRequest *in,
                               struct qry_side sides[2], struct fg_err *err)
{
    int64_t asked = FG_MAX(max_nodes_of(in->left), max_nodes_of(in->right));
    struct qry_diff diff;
    size_t max_nodes;

    if (qry_selection_max_nodes(asked, &max_nodes, err) != FG_OK ||
        read_side(query, in->left, &sides[0], err) != FG_OK ||
        read_side(query, in->right, &sides[1], err) != FG_OK)
        return err->code;
    enum fg_code code = qry_flamegraph_diff(query, &sides[0], &sides[1], max_nodes, &diff, err);
    if (code == FG_OK)
        code = qry_query_check(query, err);
    if (code == FG_OK)
        code = reply_diff(query, &diff, err);
    qry_diff_done(&diff);
    return code;
}

enum fg_code qry_api_diff_method(struct qry_query *query, const ProtobufCMessage *message,
                                 struct fg_err *err)
{
    struct qry_side sides[2] = {0};
    enum fg_code code = diff_sides(query, (const Querier__V1__DiffRequest *)message, sides, err);

    qry_selection_done(&sides[0].selection);
    qry_selection_done(&sides[1].selection);
    if (code == FG_E_UNKNOWN) /* malformed ids: here they are 400 */
        code = err->code = FG_E_INVALID;
    return code;
}
