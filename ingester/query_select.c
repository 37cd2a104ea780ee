/* SELECT sums values in a dense array for each dictionary, indexed by node, and only the result
 * becomes a tree. That costs about a nanosecond for each sample; nothing is hashed or merged on the
 * way. Queries for function names alone do not open the dictionaries (dict_functions.h).
 *
 * If the arrays of all services do not fit into memory together, they are summed in passes: each
 * takes the services that fit, adds their sums to the result and frees them; the next one reads the
 * records of services that are left. So each record is read once, in whatever order services come
 * from the shards. */
#include "common/base/time.h"
#include "common/model/function_counts.h"
#include "common/storage/rollup/crown_sum.h"
#include "ingester/query.h"

/* Values of a group, taken out of the dense array: they are few of a dictionary's nodes. */
struct select_group {
    struct fg_slice name; /* borrowed from the catalog, as long as the query runs */
    size_t first;         /* of its values */
    uint32_t n;
};
struct select_value {
    uint32_t node; /* 1 + that of the dictionary; 0: the empty stack */
    uint64_t value;
};

struct select_sums {
    struct select_sums *next;
    uint32_t service, generation;
    struct fg_cache_entry *functions; /* names are asked for; else NULL, and the dictionary: */
    struct ing_dict *dict;
    struct ing_dict_view view;
    uint32_t n_nodes;                 /* of either */
    uint64_t *values;                 /* [n_nodes + 1]; of the empty stack first */
    struct fg_function_counts counts; /* in their place, if profiles are counted */

    /* If profiles are divided by a label: the group that the dense values are of, and all that were
     * before it. A group may stand in the list several times. */
    struct fg_slice group;
    uint32_t *touched; /* nodes whose dense value is not zero, or was not */
    size_t n_touched, cap_touched;
    struct select_group *groups;
    struct select_value *group_values; /* of all groups, one after another */
    size_t n_groups, cap_groups, n_values, cap_values;
};

/* Groups on their way into the reply. */
struct writing {
    const struct fg_function_tree *functions; /* of the dictionary at hand */
    uint32_t *placed;                         /* of its nodes: node of the reply's tree */
    int64_t *folded;                          /* [its nodes]: sums of the group at hand, else 0 */
    bool *listed;                             /* [its nodes]: whether they are in nodes */
    uint32_t *nodes;                          /* [its nodes]: those of the group */
    uint32_t n;
    uint64_t n_groups;
    struct fg_buf lists;
};

/* A service whose records a pass has begun to read. */
struct select_service {
    uint32_t number, pass;
};

struct head_select {
    struct ing_query *query;
    const Fg__Inner__SelectHead *head;
    struct ing_record_columns columns;

    struct fg_map by_service; /* places in services, by the hash of their numbers */
    struct select_service *services;
    size_t n_services, cap_services;
    uint32_t pass; /* 1, 2, ... */

    /* Of this pass. */
    struct fg_arena *arena;
    struct select_sums *sums; /* the most recently used first */
    uint64_t groups_bytes;    /* of all lists of groups */
    bool is_left;             /* there are services for another pass */

    /* Results of all passes so far: the sum of functions, or a tree; and groups. */
    struct fg_crown_sum all;
    struct fg_tree tree;
    struct writing writing;
};

static bool is_grouped(const struct head_select *select)
{
    return select->head->group_by[0] != '\0';
}

/* Call sites are compared with locations, and profiles are counted by them. */
static bool is_of_functions(const struct head_select *select)
{
    return select->head->names_only && select->head->n_call_site == 0 &&
           !select->head->count_profiles;
}

static enum fg_code too_large(const struct select_sums *sums, struct fg_err *err)
{
    return fg_fail(err, FG_E_LIMIT, "query needs too much memory: %u nodes", sums->n_nodes);
}

/* Opens the functions with at least so many nodes. The values that are there stay. */
static enum fg_code open_functions(struct head_select *select, struct select_sums *sums,
                                   uint32_t least_nodes, struct fg_err *err)
{
    struct ing_query *query = select->query;
    int64_t left_ns = fg_rpc_deadline_mono_ns(query->req) - fg_mono_ns(fg_clock_real());
    struct fg_cache_entry *entry;
    uint64_t *values;
    uint32_t n_nodes;

    if (ing_functions_open(query->context->functions, sums->service, sums->generation, least_nodes,
                           FG_MAX(left_ns, 0), &entry, err) != FG_OK)
        return err->code;
    fg_cache_unref(sums->functions);
    sums->functions = entry;
    n_nodes = ing_functions_of(entry)->tree.n_from;
    values = fg_arena_new(select->arena, uint64_t, (size_t)n_nodes + 1);
    if (values == NULL)
        return too_large(sums, err);
    if (sums->values != NULL)
        memcpy(values, sums->values, ((size_t)sums->n_nodes + 1) * sizeof *values);
    sums->values = values;
    sums->n_nodes = n_nodes;
    return FG_OK;
}

static enum fg_code open_dict(struct head_select *select, struct select_sums *sums,
                              struct fg_err *err)
{
    struct ing_query *query = select->query;

    if (ing_dict_ref(query->context->dicts, sums->service, sums->generation, &sums->dict, err) !=
        FG_OK)
        return err->code;
    ing_dict_view_begin(sums->dict, &sums->view);
    sums->n_nodes = sums->view.tree.n_nodes;
    if (select->head->count_profiles)
        return fg_function_counts_init(&sums->counts, &sums->view.tree, select->arena)
                   ? FG_OK
                   : too_large(sums, err);
    sums->values = fg_arena_new(select->arena, uint64_t, (size_t)sums->n_nodes + 1);
    return sums->values == NULL ? too_large(sums, err) : FG_OK;
}

static void sums_close(const struct head_select *select, struct select_sums *sums)
{
    fg_cache_unref(sums->functions);
    if (sums->dict != NULL)
        ing_dict_view_end(sums->dict, &sums->view);
    ing_dict_unref(select->query->context->dicts, sums->dict);
}

static enum fg_code sums_add(struct head_select *select, uint32_t service, uint32_t generation,
                             struct fg_err *err)
{
    struct select_sums *sums = fg_arena_new(select->arena, struct select_sums, 1);

    if (sums == NULL)
        return fg_fail(err, FG_E_LIMIT, "query needs too much memory");
    sums->service = service;
    sums->generation = generation;
    enum fg_code code = is_of_functions(select) ? open_functions(select, sums, 0, err)
                                                : open_dict(select, sums, err);
    if (code != FG_OK) {
        fg_function_counts_done(&sums->counts);
        sums_close(select, sums);
        return code;
    }
    sums->next = select->sums;
    select->sums = sums;
    return FG_OK;
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

/* Takes the values of the current group out of the dense array, which is all zeros then. By node of
 * the dictionary: those of its function tree change when it is opened again. */
static void take_group(struct select_sums *sums)
{
    size_t before = sums->n_values;

    for (size_t i = 0; i < sums->n_touched; i++) {
        uint32_t node = sums->touched[i];

        if (sums->values[node] == 0)
            continue;
        if (sums->n_values == sums->cap_values) {
            sums->cap_values = FG_MAX(1024, sums->cap_values * 2);
            sums->group_values =
                fg_realloc(sums->group_values, sums->cap_values * sizeof *sums->group_values);
        }
        sums->group_values[sums->n_values++] = (struct select_value){node, sums->values[node]};
        sums->values[node] = 0;
    }
    sums->n_touched = 0;
    if (sums->n_values == before)
        return;
    if (sums->n_groups == sums->cap_groups) {
        sums->cap_groups = FG_MAX(64, sums->cap_groups * 2);
        sums->groups = fg_realloc(sums->groups, sums->cap_groups * sizeof *sums->groups);
    }
    sums->groups[sums->n_groups++] =
        (struct select_group){sums->group, before, (uint32_t)(sums->n_values - before)};
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

/* Makes sure that the first sums have all nodes of a record. */
static enum fg_code reach_nodes(struct head_select *select, uint32_t n, struct fg_err *err)
{
    struct select_sums *sums = select->sums;
    /* Nodes ascend, so the last is the largest. */
    uint32_t largest = n == 0 ? 0 : select->columns.nodes[n - 1];

    if (largest <= sums->n_nodes)
        return FG_OK;
    if (sums->functions == NULL)
        return fg_fail(err, FG_E_CORRUPT, "stored profile: node %u of %u", largest, sums->n_nodes);
    return open_functions(select, sums, largest, err);
}

/* Notes the nodes, so that a change of groups need not look at all of them. */
static void add_grouped(const struct ing_record_columns *columns, uint32_t n,
                        struct select_sums *sums)
{
    if (sums->n_touched + n > sums->cap_touched) {
        sums->cap_touched = FG_MAX(sums->n_touched + n, sums->cap_touched * 2);
        sums->touched = fg_realloc(sums->touched, sums->cap_touched * sizeof *sums->touched);
    }
    for (uint32_t i = 0; i < n; i++) {
        uint64_t *value = &sums->values[columns->nodes[i]];

        if (*value == 0)
            sums->touched[sums->n_touched++] = columns->nodes[i];
        fg_value_sum(value, columns->values[i]);
    }
}

static void add_linked(const struct ing_record_columns *columns, const Fg__Inner__SelectHead *head,
                       struct select_sums *sums)
{
    for (uint32_t i = 0; i < columns->n_links; i++) {
        uint32_t sample = columns->links[i].sample;

        if (wanted_link(head, &columns->links[i]))
            fg_value_sum(&sums->values[columns->nodes[sample]], columns->values[sample]);
    }
}

/* Counts the functions of one profile. */
static enum fg_code count_functions(const struct ing_record_columns *columns, uint32_t n,
                                    struct select_sums *sums, struct fg_err *err)
{
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
        reach_nodes(select, record->n_samples, err) != FG_OK ||
        (is_grouped(select) && sums_regroup(select, match, err) != FG_OK))
        return err->code;
    if (head->count_profiles)
        return count_functions(&select->columns, record->n_samples, select->sums, err);
    if (is_grouped(select)) {
        add_grouped(&select->columns, record->n_samples, select->sums);
    } else if (linked) {
        add_linked(&select->columns, head, select->sums);
    } else {
        const struct ing_record_columns *columns = &select->columns;
        uint64_t *values = select->sums->values;

        for (uint32_t i = 0; i < record->n_samples; i++)
            fg_value_sum(&values[columns->nodes[i]], columns->values[i]);
    }
    return FG_OK;
}

/* ---- from sums to a tree ---- */

static void add_view(struct head_select *select, struct select_sums *sums, struct fg_tree *into)
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

static uint32_t node_of(const struct fg_function_tree *functions, uint32_t stack)
{
    return stack == 0 ? functions->no_stack : functions->nodes[stack - 1];
}

/* Adds the nodes of a dictionary that have values in any group, with those above them. Sets
 * placed[]: the node of `into` for each of these. */
static void name_groups(const struct select_sums *sums, struct fg_tree *into, uint32_t *placed)
{
    const struct fg_function_tree *functions = &ing_functions_of(sums->functions)->tree;
    const struct fg_slice *names = fg_crown_names_items(ing_functions_of(sums->functions)->names);
    bool *live = fg_calloc((size_t)functions->n_nodes + 1, sizeof *live);

    for (size_t i = 0; i < sums->n_values; i++)
        live[node_of(functions, sums->group_values[i].node)] = true;
    for (uint32_t i = functions->n_nodes; i-- > 0;)
        if (live[i] && functions->parents[i] != FG_TREE_ROOT)
            live[functions->parents[i]] = true;
    for (uint32_t i = 0; i < functions->n_nodes; i++) {
        uint32_t above = functions->parents[i];

        if (live[i])
            placed[i] = fg_tree_child(
                into, above == FG_TREE_ROOT ? FG_TREE_ROOT : placed[above],
                fg_symbols_name_location(&into->symbols, names[functions->functions[i]]));
    }
    free(live);
}

/* Groups by name: each is written once, though it has values in many chunks of the head. */
static int cmp_groups(const void *left, const void *right)
{
    const struct select_group *a = left, *b = right;

    return fg_slice_cmp(a->name, b->name);
}

/* Appends the group at hand, by nodes of the reply's tree. */
static void put_group(struct writing *writing, struct fg_slice name)
{
    int64_t before = 0;

    fg_buf_lenbytes(&writing->lists, name);
    fg_buf_varint(&writing->lists, writing->n);
    for (uint32_t i = 0; i < writing->n; i++) {
        uint32_t node = writing->nodes[i], place = writing->placed[node];

        fg_buf_zigzag(&writing->lists, (int64_t)place - before);
        fg_buf_zigzag(&writing->lists, writing->folded[node]);
        writing->folded[node] = 0;
        writing->listed[node] = false;
        before = place;
    }
    writing->n = 0;
    writing->n_groups++;
}

static void put_groups(struct writing *writing, struct select_sums *sums)
{
    if (sums->n_groups > 1)
        qsort(sums->groups, sums->n_groups, sizeof *sums->groups, cmp_groups);
    for (size_t i = 0; i < sums->n_groups; i++) {
        const struct select_group *group = &sums->groups[i];

        /* By function: stacks that differ in lines only are one. */
        for (uint32_t v = 0; v < group->n; v++) {
            const struct select_value *value = &sums->group_values[group->first + v];
            uint32_t node = node_of(writing->functions, value->node);

            if (!writing->listed[node])
                writing->nodes[writing->n++] = node;
            writing->listed[node] = true;
            writing->folded[node] = fg_value_add(writing->folded[node], (int64_t)value->value);
        }
        if (i + 1 == sums->n_groups || !fg_slice_eq(group->name, group[1].name))
            put_group(writing, group->name);
    }
}

static void write_dictionary(struct writing *writing, struct select_sums *sums,
                             struct fg_tree *tree)
{
    size_t n_nodes;

    writing->functions = &ing_functions_of(sums->functions)->tree;
    n_nodes = (size_t)writing->functions->n_nodes + 1;
    writing->placed = fg_malloc(n_nodes * sizeof *writing->placed);
    writing->folded = fg_calloc(n_nodes, sizeof *writing->folded);
    writing->listed = fg_calloc(n_nodes, sizeof *writing->listed);
    writing->nodes = fg_malloc(n_nodes * sizeof *writing->nodes);
    name_groups(sums, tree, writing->placed);
    put_groups(writing, sums);
    free(writing->placed);
    free(writing->folded);
    free(writing->listed);
    free(writing->nodes);
}

/* Appends the sums by group (proto/inner.proto, SELECT). */
static void write_groups(struct head_select *select)
{
    struct fg_buf *out = &select->query->payload, encoded;

    fg_buf_init(&encoded, FG_RPC_REPLY_MAX_BYTES);
    fg_tree_encode(&select->tree, &encoded);
    fg_buf_lenbytes(out, fg_buf_slice(&encoded));
    fg_buf_varint(out, select->writing.n_groups);
    fg_buf_put(out, fg_buf_slice(&select->writing.lists));
    /* Output that did not fit has to fail, as if it had been written to the reply itself. */
    out->full = out->full || select->writing.lists.full || encoded.full;
    fg_buf_done(&encoded);
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

/* ---- passes ---- */

static uint64_t hash_of(uint32_t service)
{
    return fg_mix64(service);
}

/* Returns a service that this pass or an earlier one reads; NULL: none does. */
static const struct select_service *find_service(const struct head_select *select, uint32_t number)
{
    struct fg_map_walk walk;
    uint32_t place = fg_map_first(&select->by_service, hash_of(number), &walk);

    while (place != FG_MAP_NONE && select->services[place].number != number)
        place = fg_map_next(&select->by_service, &walk);
    return place == FG_MAP_NONE ? NULL : &select->services[place];
}

static void add_service(struct head_select *select, uint32_t number)
{
    if (select->n_services == select->cap_services) {
        select->cap_services = FG_MAX(64, select->cap_services * 2);
        select->services =
            fg_realloc(select->services, select->cap_services * sizeof *select->services);
    }
    fg_map_add(&select->by_service, hash_of(number), (uint32_t)select->n_services);
    select->services[select->n_services++] = (struct select_service){number, select->pass};
}

/* Returns whether the series is of a service of this pass. A service is of the pass that first has
 * room for it, even if none of its records can be read: so no record is read twice, nor left out
 * twice. Memory only grows in a pass, so a service that is left once is left for all of it. */
static bool takes(void *arg, const struct ing_catalog_match *match)
{
    struct head_select *select = arg;
    uint64_t bytes = fg_arena_used_bytes(select->arena) + select->groups_bytes;
    uint32_t number = match->series->service->number;
    const struct select_service *service = find_service(select, number);

    if (service != NULL)
        return service->pass == select->pass;
    if (bytes >= select->query->context->pass_max_bytes) {
        select->is_left = true;
        return false;
    }
    add_service(select, number);
    return true;
}

/* Adds sums to what the query has made. */
static void add_sums(struct head_select *select, struct select_sums *sums)
{
    if (is_grouped(select)) {
        take_group(sums);
        write_dictionary(&select->writing, sums, &select->tree);
    } else if (is_of_functions(select)) {
        const struct ing_dict_functions *functions = ing_functions_of(sums->functions);

        fg_crown_sum_put(&select->all, fg_crown_layer_of_sums(&functions->tree, functions->names,
                                                              sums->values + 1, sums->values[0]));
    } else if (select->head->count_profiles) {
        fg_function_counts_write(&sums->counts, &select->tree);
    } else {
        add_view(select, sums, &select->tree);
    }
}

static void begin_pass(struct head_select *select)
{
    select->arena = fg_arena_create(select->query->context->memory_max_bytes);
    select->groups_bytes = 0;
    select->is_left = false;
    select->pass++;
}

/* add: the sums are complete. */
static void end_pass(struct head_select *select, bool add)
{
    for (struct select_sums *sums = select->sums; sums != NULL; sums = sums->next) {
        if (add)
            add_sums(select, sums);
        free(sums->groups);
        free(sums->group_values);
        free(sums->touched);
        fg_function_counts_done(&sums->counts);
        /* The result has memory of its own, so the dictionary may go. */
        sums_close(select, sums);
    }
    select->sums = NULL;
    fg_arena_destroy(fg_take(select->arena));
}

/* Sums up everything. The first pass counts all profiles in `sums`; later ones take out those that
 * a lenient query leaves out. */
static enum fg_code run_passes(struct head_select *select, const struct ing_query_scope *scope,
                               struct ing_query_sums *sums, struct fg_err *err)
{
    enum fg_code code;

    begin_pass(select);
    code = ing_query_scan(select->query, scope, visit, takes, select, sums, err);
    end_pass(select, code == FG_OK);
    while (code == FG_OK && select->is_left) {
        begin_pass(select);
        code = ing_query_scan_rest(select->query, scope, visit, takes, select, sums, err);
        end_pass(select, code == FG_OK);
    }
    return code;
}

static void write_payload(struct head_select *select)
{
    if (is_grouped(select)) {
        write_groups(select);
    } else if (is_of_functions(select)) {
        fg_crown_sum_finish(&select->all);
        fg_tree_encode(&select->all.tree, &select->query->payload);
    } else {
        fg_tree_encode(&select->tree, &select->query->payload);
    }
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
    if (is_grouped(select) &&
        (!select->head->names_only ||
         select->head->n_call_site + select->head->n_spans + select->head->n_traces > 0))
        return fg_fail(err, FG_E_INVALID, "groups are of function names and all stacks");
    if (select->head->count_profiles &&
        (!select->head->names_only || is_grouped(select) ||
         select->head->n_call_site + select->head->n_spans + select->head->n_traces > 0))
        return fg_fail(err, FG_E_INVALID, "profiles are counted by function names and all stacks");
    if (ing_query_scope(query, selection, select->head->profile_type, selection->start_ns,
                        selection->end_ns, &scope, err) != FG_OK)
        return err->code;
    ing_query_sums_init(&sums, &scope.shards, query->arena, query->context->memory_max_bytes / 2);
    code = run_passes(select, &scope, &sums, err);
    ing_query_scope_done(&scope);
    if (code == FG_OK) {
        write_payload(select);
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
    fg_map_init(&select.by_service);
    fg_crown_sum_init(&select.all);
    fg_tree_init(&select.tree);
    fg_buf_init(&select.writing.lists, FG_RPC_REPLY_MAX_BYTES);
    code = answer(&select, err);
    ing_record_columns_done(&select.columns);
    fg_map_done(&select.by_service);
    free(select.services);
    fg_crown_sum_done(&select.all);
    fg_tree_done(&select.tree);
    fg_buf_done(&select.writing.lists);
    fg__inner__select_head__free_unpacked(head, NULL);
    return code;
}
