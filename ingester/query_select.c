/* SELECT sums values in a dense array for each dictionary, indexed by node, and only the result
 * becomes a tree. That costs about a nanosecond for each sample; nothing is hashed or merged on the
 * way. */
#include "common/model/function_counts.h"
#include "ingester/query.h"

/* Values of a group, taken out of the dense array: they are few of a dictionary's nodes. */
struct select_group {
    struct fg_slice name; /* borrowed from the catalog, as long as the query runs */
    uint32_t n;           /* values */
};
struct select_value {
    uint32_t node; /* 1 + that of the view; 0: the empty stack */
    uint64_t value;
};

struct select_sums {
    struct select_sums *next;
    uint32_t service, generation;
    struct ing_dict *dict;
    struct ing_dict_view view;
    uint64_t *values;                 /* [nodes of the view + 1]; of the empty stack first */
    struct fg_function_counts counts; /* in their place, if profiles are counted */

    /* If profiles are divided by a label: the group that the dense values are of, and all that were
     * before it. A group may stand in the list several times. */
    struct fg_slice group;
    struct select_group *groups;
    struct select_value *group_values; /* of all groups, one after another */
    size_t n_groups, cap_groups, n_values, cap_values;
};

struct head_select {
    struct ing_query *query;
    const Fg__Inner__SelectHead *head;
    struct select_sums *sums; /* the most recently used first */
    struct ing_record_columns columns;
    uint64_t groups_bytes; /* of all lists of groups */
};

static enum fg_code sums_add(struct head_select *select, uint32_t service, uint32_t generation,
                             struct fg_err *err)
{
    struct ing_query *query = select->query;
    struct select_sums *sums = fg_arena_new(query->arena, struct select_sums, 1);

    if (sums == NULL)
        return fg_fail(err, FG_E_LIMIT, "query needs too much memory");
    sums->service = service;
    sums->generation = generation;
    if (ing_dict_ref(query->context->dicts, service, generation, &sums->dict, err) != FG_OK)
        return err->code;
    sums->next = select->sums;
    select->sums = sums; /* from here on sums_done() drops the reference */
    ing_dict_view_begin(sums->dict, &sums->view);
    if (select->head->count_profiles)
        return fg_function_counts_init(&sums->counts, &sums->view.tree, query->arena)
                   ? FG_OK
                   : fg_fail(err, FG_E_LIMIT, "query needs too much memory: %u nodes",
                             sums->view.tree.n_nodes);
    sums->values = fg_arena_new(query->arena, uint64_t, (size_t)sums->view.tree.n_nodes + 1);
    return sums->values == NULL ? fg_fail(err, FG_E_LIMIT, "query needs too much memory: %u nodes",
                                          sums->view.tree.n_nodes)
                                : FG_OK;
}

/* Returns the sums of a dictionary and moves them to the front. */
static enum fg_code sums_find(struct head_select *select, uint32_t service, uint32_t generation,
                              struct fg_err *err)
{
    struct select_sums **link = &select->sums;

    /* A list is enough: profiles come in the order of series, so most look-ups end at the first. */
    while (*link != NULL && ((*link)->service != service || (*link)->generation != generation))
        link = &(*link)->next;
    if (*link == NULL)
        return sums_add(select, service, generation, err);
    if (link != &select->sums) {
        struct select_sums *found = *link;

        *link = found->next;
        found->next = select->sums;
        select->sums = found;
    }
    return FG_OK;
}

/* ---- groups ---- */

static bool is_grouped(const struct head_select *select)
{
    return select->head->group_by[0] != '\0';
}

static void put_value(struct select_sums *sums, uint32_t node)
{
    if (sums->n_values == sums->cap_values) {
        sums->cap_values = FG_MAX(1024, sums->cap_values * 2);
        sums->group_values =
            fg_realloc(sums->group_values, sums->cap_values * sizeof *sums->group_values);
    }
    sums->group_values[sums->n_values++] = (struct select_value){node, sums->values[node]};
    sums->values[node] = 0;
}

/* Takes the values of the current group out of the dense array, which is all zeros then. */
static void take_group(struct select_sums *sums)
{
    size_t before = sums->n_values;

    for (uint32_t i = 0; i <= sums->view.tree.n_nodes; i++)
        if (sums->values[i] != 0)
            put_value(sums, i);
    if (sums->n_values == before)
        return;
    if (sums->n_groups == sums->cap_groups) {
        sums->cap_groups = FG_MAX(64, sums->cap_groups * 2);
        sums->groups = fg_realloc(sums->groups, sums->cap_groups * sizeof *sums->groups);
    }
    sums->groups[sums->n_groups++] =
        (struct select_group){sums->group, (uint32_t)(sums->n_values - before)};
}

/* Makes the first sums those of a profile's group. Profiles come by series, so groups seldom
 * change, and one dense array serves them all. */
static enum fg_code sums_regroup(struct head_select *select, const struct ing_catalog_match *match,
                                 struct fg_err *err)
{
    struct select_sums *sums = select->sums;
    struct fg_slice group = fg_labels_get(&match->series->labels, select->head->group_by);
    size_t before = sums->n_values;

    if (fg_slice_eq(sums->group, group))
        return FG_OK;
    take_group(sums);
    sums->group = group;
    select->groups_bytes +=
        (sums->n_values - before) * sizeof *sums->group_values + sizeof *sums->groups;
    if (select->groups_bytes > select->query->context->memory_max_bytes)
        return fg_fail(err, FG_E_LIMIT, "query needs too much memory: %zu values of groups",
                       sums->n_values);
    return FG_OK;
}

static bool wanted_id(const Fg__Inner__SelectHead *head, struct fg_id id)
{
    uint8_t bytes[FG_ID_BYTES];

    if (head->n_profile_ids == 0)
        return true;
    fg_id_put(bytes, id);
    for (size_t i = 0; i < head->n_profile_ids; i++)
        if (head->profile_ids[i].len == FG_ID_BYTES &&
            memcmp(head->profile_ids[i].data, bytes, FG_ID_BYTES) == 0)
            return true;
    return false;
}

static bool wanted_link(const Fg__Inner__SelectHead *head, const struct fg_link *link)
{
    for (size_t i = 0; i < head->n_spans; i++)
        if (head->spans[i] == link->span_id)
            return true;
    for (size_t i = 0; i < head->n_traces; i++)
        if (head->traces[i].len == FG_ID_BYTES &&
            memcmp(head->traces[i].data, link->trace_id, FG_ID_BYTES) == 0)
            return true;
    return false;
}

static enum fg_code add_all(const struct ing_record_columns *columns, uint32_t n,
                            struct select_sums *sums, struct fg_err *err)
{
    /* Nodes ascend, so the last is the largest. */
    if (n > 0 && columns->nodes[n - 1] > sums->view.tree.n_nodes)
        return fg_fail(err, FG_E_CORRUPT, "stored profile: node %u of %u", columns->nodes[n - 1],
                       sums->view.tree.n_nodes);
    for (uint32_t i = 0; i < n; i++)
        fg_value_sum(&sums->values[columns->nodes[i]], columns->values[i]);
    return FG_OK;
}

static enum fg_code add_linked(const struct ing_record_columns *columns, uint32_t n,
                               const Fg__Inner__SelectHead *head, struct select_sums *sums,
                               struct fg_err *err)
{
    /* As in add_all(). */
    if (n > 0 && columns->nodes[n - 1] > sums->view.tree.n_nodes)
        return fg_fail(err, FG_E_CORRUPT, "stored profile: node %u of %u", columns->nodes[n - 1],
                       sums->view.tree.n_nodes);
    for (uint32_t i = 0; i < columns->n_links; i++) {
        uint32_t sample = columns->links[i].sample;

        if (wanted_link(head, &columns->links[i]))
            fg_value_sum(&sums->values[columns->nodes[sample]], columns->values[sample]);
    }
    return FG_OK;
}

/* Counts the functions of one profile. */
static enum fg_code count_functions(const struct ing_record_columns *columns, uint32_t n,
                                    struct select_sums *sums, struct fg_err *err)
{
    /* As in add_all(). */
    if (n > 0 && columns->nodes[n - 1] > sums->view.tree.n_nodes)
        return fg_fail(err, FG_E_CORRUPT, "stored profile: node %u of %u", columns->nodes[n - 1],
                       sums->view.tree.n_nodes);
    fg_function_counts_profile(&sums->counts);
    for (uint32_t i = 0; i < n; i++)
        if (columns->values[i] != 0 &&
            !fg_function_counts_stack(
                &sums->counts, columns->nodes[i] == 0 ? FG_TREE_ROOT : columns->nodes[i] - 1))
            return fg_fail(err, FG_E_LIMIT, "query needs too much memory: %u functions",
                           sums->counts.n_functions);
    return FG_OK;
}

static enum fg_code visit(void *arg, const struct ing_catalog_match *match,
                          const struct ing_head_profile_key *key, const struct ing_record *record,
                          struct fg_err *err)
{
    struct head_select *select = arg;
    const Fg__Inner__SelectHead *head = select->head;
    bool linked = head->n_spans + head->n_traces > 0;

    if (!wanted_id(head, key->id))
        return FG_OK;
    if (sums_find(select, match->series->service->number, record->generation, err) != FG_OK ||
        ing_record_read(record, match->type, linked, &select->columns, err) != FG_OK ||
        (is_grouped(select) && sums_regroup(select, match, err) != FG_OK))
        return err->code;
    if (head->count_profiles)
        return count_functions(&select->columns, record->n_samples, select->sums, err);
    return linked ? add_linked(&select->columns, record->n_samples, head, select->sums, err)
                  : add_all(&select->columns, record->n_samples, select->sums, err);
}

/* ---- from sums to a tree ---- */

static void add_tree(struct head_select *select, struct select_sums *sums, struct fg_tree *into)
{
    const Fg__Inner__SelectHead *head = select->head;
    struct fg_tree view = sums->view.tree, names;

    /* The dictionary's tree with our values: a view, not a copy. */
    view.self = (int64_t *)(sums->values + 1);
    view.root_self = (int64_t)sums->values[0];
    if (head->n_call_site > 0)
        fg_tree_keep_site(&view, (const char *const *)head->call_site, head->n_call_site);
    if (head->names_only) {
        fg_tree_init(&names);
        fg_tree_names(&view, &names);
        fg_tree_merge(into, &names);
        fg_tree_done(&names);
    } else {
        fg_tree_merge_used(into, &view);
    }
}

/* Names the nodes of a dictionary that have values in any group. Sets nodes[n_nodes + 1]: the node
 * of `into` for each node of the values. */
static void name_groups(const struct select_sums *sums, struct fg_tree *into, uint32_t *nodes)
{
    const struct fg_tree *view = &sums->view.tree;
    bool *live = fg_calloc((size_t)view->n_nodes + 1, sizeof *live), has_empty = false;

    for (size_t i = 0; i < sums->n_values; i++)
        if (sums->group_values[i].node == 0)
            has_empty = true;
        else
            live[sums->group_values[i].node - 1] = true;
    for (uint32_t i = view->n_nodes; i-- > 0;)
        if (live[i] && view->parents[i] != FG_TREE_ROOT)
            live[view->parents[i]] = true;
    fg_tree_name_live(view, live, into, nodes + 1, has_empty ? &nodes[0] : NULL);
    free(live);
}

/* Appends the groups of a dictionary, by nodes of the reply's tree. */
static void put_groups(const struct select_sums *sums, const uint32_t *nodes, struct fg_buf *out)
{
    const struct select_value *value = sums->group_values;

    for (size_t i = 0; i < sums->n_groups; i++) {
        int64_t before = 0;

        fg_buf_lenbytes(out, sums->groups[i].name);
        fg_buf_varint(out, sums->groups[i].n);
        for (uint32_t k = 0; k < sums->groups[i].n; k++, value++) {
            fg_buf_zigzag(out, (int64_t)nodes[value->node] - before);
            fg_buf_zigzag(out, (int64_t)value->value);
            before = nodes[value->node];
        }
    }
}

/* The sums by group (proto/inner.proto, SELECT). */
static void write_groups(struct head_select *select)
{
    struct fg_buf *out = &select->query->payload, lists, encoded;
    struct fg_tree tree;
    uint64_t n = 0;

    fg_tree_init(&tree);
    fg_buf_init(&lists, FG_RPC_REPLY_MAX_BYTES);
    fg_buf_init(&encoded, FG_RPC_REPLY_MAX_BYTES);
    for (struct select_sums *sums = select->sums; sums != NULL; sums = sums->next) {
        uint32_t *nodes = fg_malloc(((size_t)sums->view.tree.n_nodes + 1) * sizeof *nodes);

        take_group(sums);
        name_groups(sums, &tree, nodes);
        put_groups(sums, nodes, &lists);
        n += sums->n_groups;
        free(nodes);
    }
    fg_tree_encode(&tree, &encoded);
    fg_buf_lenbytes(out, fg_buf_slice(&encoded));
    fg_buf_varint(out, n);
    fg_buf_put(out, fg_buf_slice(&lists));
    /* What did not fit has to fail, as if it had been written to the reply itself. */
    out->full = out->full || lists.full || encoded.full;
    fg_buf_done(&encoded);
    fg_buf_done(&lists);
    fg_tree_done(&tree);
}

static void sums_done(struct head_select *select)
{
    for (struct select_sums *sums = select->sums; sums != NULL; sums = sums->next) {
        free(sums->groups);
        free(sums->group_values);
        fg_function_counts_done(&sums->counts);
        /* The tree was merged into memory of its own, so the dictionary may go. */
        ing_dict_view_end(sums->dict, &sums->view);
        ing_dict_unref(select->query->context->dicts, sums->dict);
    }
    ing_record_columns_done(&select->columns);
}

static void write_reply(const struct head_select *select, const struct ing_query_sums *sums)
{
    struct ing_query *query = select->query;
    Fg__Inner__SelectReply reply = FG__INNER__SELECT_REPLY__INIT;
    Fg__Inner__Stats stats;

    ing_query_stats_fill(query, &stats);
    reply.stats = &stats;
    reply.sums = sums->items;
    reply.n_sums = sums->n;
    reply.grouped = is_grouped(select);
    reply.counted = select->head->count_profiles;
    ing_query_put_reply(query, &reply.base);
}

/* The tree that the query has summed up. */
static void write_tree(struct head_select *select)
{
    struct fg_tree tree;

    fg_tree_init(&tree);
    for (struct select_sums *sums = select->sums; sums != NULL; sums = sums->next)
        if (select->head->count_profiles)
            fg_function_counts_write(&sums->counts, &tree);
        else
            add_tree(select, sums, &tree);
    fg_tree_encode(&tree, &select->query->payload);
    fg_tree_done(&tree);
}

static enum fg_code answer(struct head_select *select, struct fg_err *err)
{
    struct ing_query *query = select->query;
    const Fg__Inner__Selection *selection = select->head->selection;
    struct ing_query_scope scope;
    struct ing_query_sums sums;
    enum fg_code code;

    if (selection == NULL)
        return fg_fail(err, FG_E_INVALID, "query without a selection");
    if (is_grouped(select) && (!select->head->names_only || select->head->n_call_site > 0))
        return fg_fail(err, FG_E_INVALID, "groups are of function names and all stacks");
    if (select->head->count_profiles &&
        (!select->head->names_only || is_grouped(select) ||
         select->head->n_call_site + select->head->n_spans + select->head->n_traces > 0))
        return fg_fail(err, FG_E_INVALID, "profiles are counted by function names and all stacks");
    if (ing_query_scope(query, selection, select->head->profile_type, selection->start_ns,
                        selection->end_ns, &scope, err) != FG_OK)
        return err->code;
    ing_query_sums_init(&sums, &scope.shards, query->arena, query->context->memory_max_bytes / 2);
    code = ing_query_scan(query, &scope, visit, select, &sums, err);
    ing_query_scope_done(&scope);
    if (code == FG_OK) {
        if (is_grouped(select))
            write_groups(select);
        else
            write_tree(select);
        write_reply(select, &sums);
    }
    ing_query_sums_done(&sums);
    return code;
}

enum fg_code ing_query_select(struct ing_query *query, struct fg_err *err)
{
    struct fg_slice bytes = fg_rpc_head(query->req);
    Fg__Inner__SelectHead *head = fg__inner__select_head__unpack(NULL, bytes.len, bytes.ptr);
    struct head_select select = {.query = query, .head = head};
    enum fg_code code;

    if (head == NULL)
        return fg_fail(err, FG_E_INVALID, "select: head cannot be read");
    code = answer(&select, err);
    sums_done(&select);
    fg__inner__select_head__free_unpacked(head, NULL);
    return code;
}
