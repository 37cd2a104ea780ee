/* SELECT sums values in a dense array for each dictionary, indexed by node, and only the result
 * becomes a tree. That costs about a nanosecond for each sample; nothing is hashed or merged on the
 * way. */
#include "ingester/query.h"

struct select_sums {
    struct select_sums *next;
    uint32_t service, generation;
    struct ing_dict *dict;
    struct ing_dict_view view;
    uint64_t *values;      /* [nodes of the view + 1]; of the empty stack first */
    struct fg_slice group; /* that the values are of, if the query divides by a label */
};

struct head_select {
    struct ing_query *query;
    const Fg__Inner__SelectHead *head;
    struct select_sums *sums; /* the most recently used first */
    struct ing_record_columns columns;
    struct fg_tree tree; /* of the reply */
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

/* ---- from sums to a tree ---- */

/* Adds a tree of function names below the frame of a group. */
static void add_group(const struct fg_tree *names, struct fg_slice group, struct fg_tree *into)
{
    uint32_t *placed, top;
    struct fg_buf frame;

    if (names->n_nodes == 0) /* the sums were not used yet */
        return;
    placed = fg_malloc(names->n_nodes * sizeof *placed);
    fg_buf_init(&frame, SIZE_MAX);
    fg_buf_puts(&frame, FG_FRAME_GROUP);
    fg_buf_append(&frame, group.ptr, group.len);
    top = fg_tree_child(into, FG_TREE_ROOT,
                        fg_symbols_name_location(&into->symbols, fg_buf_slice(&frame)));
    fg_buf_done(&frame);
    for (uint32_t i = 0; i < names->n_nodes; i++) {
        uint32_t parent = names->parents[i] == FG_TREE_ROOT ? top : placed[names->parents[i]];

        placed[i] = fg_tree_child(into, parent,
                                  fg_symbols_name_location(&into->symbols, fg_tree_name(names, i)));
        fg_tree_add(into, placed[i], names->self[i]);
    }
    free(placed);
}

static void add_tree(struct head_select *select, struct select_sums *sums)
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
        if (head->group_by[0] != '\0')
            add_group(&names, sums->group, &select->tree);
        else
            fg_tree_merge(&select->tree, &names);
        fg_tree_done(&names);
    } else {
        fg_tree_merge_used(&select->tree, &view);
    }
}

/* Makes the sums those of a profile's group. Profiles come by series, so groups seldom change, and
 * one array serves them all. */
static enum fg_code sums_regroup(struct head_select *select, const struct ing_catalog_match *match,
                                 struct fg_err *err)
{
    struct select_sums *sums = select->sums;
    struct fg_slice group = fg_labels_get(&match->series->labels, select->head->group_by);

    if (fg_slice_eq(sums->group, group))
        return FG_OK;
    add_tree(select, sums);
    memset(sums->values, 0, ((size_t)sums->view.tree.n_nodes + 1) * sizeof *sums->values);
    sums->group = group; /* borrowed from the catalog, as long as the query runs */
    if (fg_tree_bytes(&select->tree) > select->query->context->memory_max_bytes)
        return fg_fail(err, FG_E_LIMIT, "query needs too much memory: %u nodes",
                       select->tree.n_nodes);
    return FG_OK;
}

/* ---- records ---- */

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
        (head->group_by[0] != '\0' && sums_regroup(select, match, err) != FG_OK))
        return err->code;
    return linked ? add_linked(&select->columns, record->n_samples, head, select->sums, err)
                  : add_all(&select->columns, record->n_samples, select->sums, err);
}

static void sums_done(struct head_select *select)
{
    for (struct select_sums *sums = select->sums; sums != NULL; sums = sums->next) {
        /* The tree was merged into memory of its own, so the dictionary may go. */
        ing_dict_view_end(sums->dict, &sums->view);
        ing_dict_unref(select->query->context->dicts, sums->dict);
    }
    ing_record_columns_done(&select->columns);
    fg_tree_done(&select->tree);
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
    reply.grouped = select->head->group_by[0] != '\0';
    ing_query_put_reply(query, &reply.base);
}

/* The tree that the query has summed up. */
static void write_tree(struct head_select *select)
{
    for (struct select_sums *sums = select->sums; sums != NULL; sums = sums->next)
        add_tree(select, sums);
    fg_tree_encode(&select->tree, &select->query->payload);
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
    if (select->head->group_by[0] != '\0' && !select->head->names_only)
        return fg_fail(err, FG_E_INVALID, "groups have function names only");
    if (ing_query_scope(query, selection, select->head->profile_type, selection->start_ns,
                        selection->end_ns, &scope, err) != FG_OK)
        return err->code;
    ing_query_sums_init(&sums, &scope.shards, query->arena, query->context->memory_max_bytes / 2);
    code = ing_query_scan(query, &scope, visit, select, &sums, err);
    ing_query_scope_done(&scope);
    if (code == FG_OK) {
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
    fg_tree_init(&select.tree);
    code = answer(&select, err);
    sums_done(&select);
    fg__inner__select_head__free_unpacked(head, NULL);
    return code;
}
