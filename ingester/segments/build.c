/*
 * The order of the file is that of the block format: tenants by name, services by name, series by
 * labels, profiles by time. The head has them by tenant, shard, window, chunk and series, so the
 * profiles of a series are found by one seek for each chunk of its shard, and sorted.
 *
 * A service is built at once (build_service()): find its profiles, count in how many each stack is,
 * make one tree of all its dictionaries, then read the profiles again and write them. Two passes,
 * since the numbers of stacks are needed before the first profile is written, and keeping the
 * decoded profiles would take many times the memory of their keys.
 *
 * No lock is held. Sealed chunks do not change except that a COMPARE moves profiles out of them,
 * and the iterator shows the head as it was at its creation; the core then throws the segment away
 * (`stale`).
 */
#include "ingester/segments/build.h"

#include "common/storage/block/file.h"
#include "common/storage/rollup/whole.h"
#include "ingester/record.h"

/* A profile of the current series. */
struct build_entry {
    struct ing_head_profile_key key;
    const struct ing_catalog_series *series;
};

/* Stacks of one generation of the service's dictionary, on their way into the part's tree. */
struct generation {
    struct generation *next;
    uint32_t service, number;
    struct ing_dict *dict;
    struct ing_dict_view view;
    uint32_t *uses;   /* [nodes of the view + 1]: in how many profiles; of the empty stack first */
    uint32_t *stacks; /* [nodes of the view + 1]: number in the part */
};

/*
 * A series of the current service, and its entries. The catalog has several such series if their
 * profiles are in several shards, after the tenant's shard factor grew; the file has one for each
 * label set and schema, and there the profiles have the shards.
 */
struct build_member {
    struct fg_block_series header;
    const struct ing_catalog_series *series;
    size_t n_series; /* this one and so many - 1 that follow it in build->members */
    size_t first, count;
};

struct build {
    const struct ing_build_head *head;
    struct fg_block_writer *writer;
    bool salvage;
    uint64_t n_lost;
    struct fg_store_iter *iter; /* over profiles; most reads go forward */
    struct fg_buf key;
    struct fg_err *err;

    /* Of the current tenant. */
    struct fg_slice tenant;
    const struct ing_head_chunk_key *chunks; /* ascending by shard, window, number */
    size_t n_chunks;
    uint64_t *n_found; /* [n_chunks]: profiles */
    struct fg_l0_new_part *part;
    struct ing_build_suspects suspects;

    /* Of the current service, in an arena of its own. */
    struct fg_arena *arena;
    struct build_member *members;
    size_t n_members;
    struct build_entry *entries;
    size_t n_entries, cap_entries;
    struct generation *generations;
    struct fg_tree tree;
    uint32_t *uses;                /* [1 + nodes of the tree] */
    struct fg_rollup_whole *whole; /* NULL: none */

    /* Of the current profile; reused for the next. */
    struct ing_record_columns columns;
    uint64_t *values, *link_values;
    uint32_t *stacks;
    struct fg_block_link *links;
    size_t cap_values, cap_link_values, cap_stacks, cap_links;
};

/* Series and stacks of one service; the dictionary in memory is as large. */
static const size_t service_max_bytes = (size_t)1 << 32;

static enum fg_code no_memory(const struct build *build)
{
    return fg_fail(build->err, FG_E_LIMIT, "a service needs more memory than a segment may take");
}

/* ---- reading the head ---- */

static enum fg_code check_iter(const struct build *build)
{
    if (build->iter->err.code == FG_OK)
        return FG_OK;
    *build->err = build->iter->err;
    return fg_wrap(build->err, "head");
}

/* Moves past what cannot be read behind the last entry. Returns false if that does not help, or is
 * not wanted: only a salvage goes on without. What it passes is missing in n_found. */
static bool pass_damage(struct build *build, bool any)
{
    if (!build->salvage || build->iter->err.code != FG_E_CORRUPT)
        return false;
    if (any) {
        fg_buf_clear(&build->key);
        ing_head_put_profile_key(&build->key, &build->entries[build->n_entries - 1].key);
    }
    return fg_store_iter_pass(build->iter, fg_buf_slice(&build->key)) && build->iter->valid;
}

/* Finds the profiles that the series has in a chunk. */
static enum fg_code find_in_chunk(struct build *build, size_t place,
                                  const struct ing_catalog_series *series)
{
    const struct ing_head_chunk_key *chunk = &build->chunks[place];
    const size_t before = build->n_entries;
    struct ing_head_profile_key key;

    fg_buf_clear(&build->key);
    ing_head_put_series_seek(&build->key, chunk, series->number, INT64_MIN);
    fg_store_iter_seek(build->iter, fg_buf_slice(&build->key));
    for (; build->iter->valid || pass_damage(build, build->n_entries > before);
         fg_store_iter_next(build->iter)) {
        if (!ing_head_get_profile_key(build->iter->key, &key))
            return fg_fail(build->err, FG_E_CORRUPT, "head: key of %zu bytes",
                           build->iter->key.len);
        if (key.series != series->number || !ing_head_same_chunk(&key.chunk, chunk))
            break;
        if (build->n_entries == build->cap_entries) {
            build->cap_entries = FG_MAX(1024, build->cap_entries * 2);
            build->entries =
                fg_realloc(build->entries, build->cap_entries * sizeof *build->entries);
        }
        build->entries[build->n_entries++] = (struct build_entry){key, series};
        /* Counted for check_found(), also if the profile is dropped as a repetition below. */
        build->n_found[place]++;
    }
    return check_iter(build);
}

static int cmp_entries(const void *left, const void *right)
{
    const struct ing_head_profile_key *a = &((const struct build_entry *)left)->key;
    const struct ing_head_profile_key *b = &((const struct build_entry *)right)->key;

    if (a->time_ns != b->time_ns)
        return a->time_ns < b->time_ns ? -1 : 1;
    return fg_id_cmp(a->id, b->id);
}

static enum fg_code find_of_member(struct build *build, struct build_member *member)
{
    struct build_entry *entries;
    size_t kept = 1;

    member->first = build->n_entries;
    for (size_t s = 0; s < member->n_series; s++) {
        const struct ing_catalog_series *series = member[s].series;

        for (size_t i = 0; i < build->n_chunks; i++)
            if (build->chunks[i].group.shard == series->shard &&
                find_in_chunk(build, i, series) != FG_OK)
                return build->err->code;
    }
    member->count = build->n_entries - member->first;
    if (member->count < 2)
        return FG_OK;
    entries = build->entries + member->first;
    /* Windows go by the ends of profiles, and late ones come in later chunks: nearly in order. */
    qsort(entries, member->count, sizeof *entries, cmp_entries);
    /* A profile that was sent again while the shard factor changed may be in two shards
     * (common/cluster/ring/README.md has when): the file takes it once. */
    for (size_t i = 1; i < member->count; i++)
        if (cmp_entries(&entries[i], &entries[kept - 1]) != 0)
            entries[kept++] = entries[i];
    build->n_entries -= member->count - kept;
    member->count = kept;
    return FG_OK;
}

static enum fg_code read_entry(struct build *build, const struct build_entry *entry,
                               struct ing_record *ret_record)
{
    fg_buf_clear(&build->key);
    ing_head_put_profile_key(&build->key, &entry->key);
    if (build->iter->valid)
        fg_store_iter_next(build->iter); /* most often it is the next one */
    if (!build->iter->valid || !fg_slice_eq(build->iter->key, fg_buf_slice(&build->key)))
        fg_store_iter_seek(build->iter, fg_buf_slice(&build->key));
    if (check_iter(build) != FG_OK)
        return build->err->code;
    if (!build->iter->valid || !fg_slice_eq(build->iter->key, fg_buf_slice(&build->key)))
        return fg_fail(build->err, FG_E_CORRUPT, "head: a profile of a sealed chunk is missing");
    return ing_record_open(build->iter->value, ret_record, build->err);
}

static void reserve(void *array_ptr, size_t *cap, size_t count, size_t size)
{
    void **array = array_ptr;

    if (count <= *cap)
        return;
    *cap = FG_MAX(count, *cap * 2);
    *array = fg_realloc(*array, *cap * size);
}

/* Reads all columns of the record, and for each link the values of its sample. */
static enum fg_code read_columns(struct build *build, const struct ing_record *record)
{
    struct ing_record_columns *columns = &build->columns;
    uint32_t n = record->n_samples;

    reserve(&build->values, &build->cap_values, (size_t)n * record->n_types + 1,
            sizeof *build->values);
    for (uint32_t t = record->n_types; t-- > 0;) {
        if (ing_record_read(record, t, true, columns, build->err) != FG_OK)
            return build->err->code;
        memcpy(build->values + (size_t)t * n, columns->values, n * sizeof *build->values);
    }
    reserve(&build->link_values, &build->cap_link_values,
            (size_t)columns->n_links * record->n_types + 1, sizeof *build->link_values);
    for (uint32_t t = 0; t < record->n_types; t++)
        for (uint32_t i = 0; i < columns->n_links; i++)
            build->link_values[(size_t)t * columns->n_links + i] =
                build->values[(size_t)t * n + columns->links[i].sample];
    return FG_OK;
}

/* ---- which stacks, and how often ---- */

static enum fg_code add_generation(struct build *build, uint32_t service, uint32_t number)
{
    struct generation *generation = fg_arena_new(build->arena, struct generation, 1);

    if (generation == NULL)
        return no_memory(build);
    generation->service = service;
    generation->number = number;
    if (ing_dict_ref(build->head->dicts, service, number, &generation->dict, build->err) != FG_OK)
        return build->err->code;
    generation->next = build->generations;
    build->generations = generation; /* from here on the end lets go of the dictionary */
    ing_dict_view_begin(generation->dict, &generation->view);
    generation->uses =
        fg_arena_new(build->arena, uint32_t, (size_t)generation->view.tree.n_nodes + 1);
    return generation->uses == NULL ? no_memory(build) : FG_OK;
}

static struct generation *find_generation(const struct build *build, uint32_t service,
                                          uint32_t number)
{
    struct generation *generation = build->generations;

    while (generation != NULL && (generation->number != number || generation->service != service))
        generation = generation->next;
    return generation;
}

static enum fg_code count_uses(struct build *build, const struct build_entry *entry)
{
    uint32_t service = entry->series->service->number;
    const struct ing_record_columns *columns = &build->columns;
    struct generation *generation;
    struct ing_record record = {0};

    if (read_entry(build, entry, &record) != FG_OK ||
        ing_record_read(&record, 0, false, &build->columns, build->err) != FG_OK)
        return build->err->code;
    if (find_generation(build, service, record.generation) == NULL &&
        add_generation(build, service, record.generation) != FG_OK)
        return build->err->code;
    generation = find_generation(build, service, record.generation);
    /* Nodes ascend, so the last is the largest, and equal ones are neighbours. */
    if (record.n_samples > 0 &&
        columns->nodes[record.n_samples - 1] > generation->view.tree.n_nodes)
        return fg_fail(build->err, FG_E_CORRUPT, "head: profile names node %u of %u",
                       columns->nodes[record.n_samples - 1], generation->view.tree.n_nodes);
    /* Once for each profile, although a stack may have several samples in it: the number says how
     * often the stack is needed. */
    for (uint32_t i = 0; i < record.n_samples; i++)
        generation->uses[columns->nodes[i]] += i == 0 || columns->nodes[i] != columns->nodes[i - 1];
    return FG_OK;
}

/* Leaves out profiles that cannot be read. */
static enum fg_code keep_readable(struct build *build, struct build_member *member)
{
    struct build_entry *entries = build->entries + member->first;
    size_t kept = 0;

    for (size_t i = 0; i < member->count; i++) {
        struct ing_record record = {0};
        enum fg_code code = read_entry(build, &entries[i], &record);

        if (code == FG_OK)
            code = read_columns(build, &record);
        if (code == FG_OK)
            code = count_uses(build, &entries[i]);
        /* Only damage is given up; a disk that fails or memory that is short must fail the salvage.
         */
        if (code != FG_OK && code != FG_E_CORRUPT)
            return code;
        if (code == FG_OK)
            entries[kept++] = entries[i];
    }
    build->n_lost += member->count - kept;
    member->count = kept;
    return FG_OK;
}

static enum fg_code count_member(struct build *build, struct build_member *member)
{
    if (build->salvage)
        return keep_readable(build, member);
    for (size_t i = 0; i < member->count; i++)
        if (count_uses(build, &build->entries[member->first + i]) != FG_OK)
            return build->err->code;
    return FG_OK;
}

/* ---- the part's tree ---- */

static enum fg_code import_generation(struct build *build, struct generation *generation)
{
    const struct fg_tree *tree = &generation->view.tree;
    struct fg_symbols_import import;

    generation->stacks =
        fg_arena_new(build->arena, uint32_t, (size_t)generation->view.tree.n_nodes + 1);
    if (generation->stacks == NULL)
        return no_memory(build);
    /* Marks the nodes that the part needs: those that are stacks, and their ancestors. Numbers are
     * as in `uses`; 0 is the empty stack. Downwards: children have greater numbers than their
     * parents, so one pass reaches the root. */
    for (uint32_t i = tree->n_nodes; i-- > 0;) {
        uint32_t above = tree->parents[i];

        generation->stacks[i + 1] |= generation->uses[i + 1] > 0;
        if (generation->stacks[i + 1] && above != FG_TREE_ROOT)
            generation->stacks[above + 1] = 1;
    }
    fg_symbols_import_init(&import, &build->tree.symbols, &tree->symbols);
    /* Upwards, for the same reason: a parent has its number in the part before its children ask for
     * it. */
    for (uint32_t i = 0; i < generation->view.tree.n_nodes; i++) {
        uint32_t above = tree->parents[i];
        uint32_t parent = above == FG_TREE_ROOT ? FG_TREE_ROOT : generation->stacks[above + 1] - 1;

        if (generation->stacks[i + 1])
            generation->stacks[i + 1] =
                1 + fg_tree_child(&build->tree, parent,
                                  fg_symbols_import_location(&import, tree->locations[i]));
    }
    fg_symbols_import_done(&import);
    return FG_OK;
}

static enum fg_code make_tree(struct build *build)
{
    for (struct generation *g = build->generations; g != NULL; g = g->next)
        if (import_generation(build, g) != FG_OK)
            return build->err->code;
    build->uses = fg_arena_new(build->arena, uint32_t, (size_t)build->tree.n_nodes + 1);
    if (build->uses == NULL)
        return no_memory(build);
    for (struct generation *g = build->generations; g != NULL; g = g->next)
        for (uint32_t i = 0; i <= g->view.tree.n_nodes; i++)
            build->uses[g->stacks[i]] += g->uses[i];
    return FG_OK;
}

/* ---- writing ---- */

/* Translates numbers of the dictionary to those of the part. */
static void number_stacks(struct build *build, const struct build_entry *entry,
                          const struct ing_record *record)
{
    const struct ing_record_columns *columns = &build->columns;
    const struct generation *generation =
        find_generation(build, entry->series->service->number, record->generation);

    reserve(&build->stacks, &build->cap_stacks, (size_t)record->n_samples + 1,
            sizeof *build->stacks);
    reserve(&build->links, &build->cap_links, (size_t)columns->n_links + 1, sizeof *build->links);
    for (uint32_t i = 0; i < record->n_samples; i++)
        build->stacks[i] = generation->stacks[columns->nodes[i]];
    for (uint32_t i = 0; i < columns->n_links; i++) {
        const struct fg_link *link = &columns->links[i];

        build->links[i] =
            (struct fg_block_link){.stack = build->stacks[link->sample], .span_id = link->span_id};
        memcpy(build->links[i].trace_id, link->trace_id, sizeof link->trace_id);
    }
}

/* series: its number in the part. */
static enum fg_code write_profile(struct build *build, uint32_t series,
                                  const struct build_entry *entry)
{
    struct fg_block_profile profile;
    struct ing_record record = {0};

    if (read_entry(build, entry, &record) != FG_OK || read_columns(build, &record) != FG_OK)
        return build->err->code;
    number_stacks(build, entry, &record);
    build->part->profiles++;
    build->part->t_min_ns = FG_MIN(build->part->t_min_ns, entry->key.time_ns);
    build->part->t_max_ns = FG_MAX(build->part->t_max_ns, entry->key.time_ns);
    profile = (struct fg_block_profile){
        .id = entry->key.id,
        .time_ns = entry->key.time_ns,
        .duration_ns = record.duration_ns,
        .period = record.period,
        .shard = entry->key.chunk.group.shard,
        .window = entry->key.chunk.group.window,
        .n_samples = record.n_samples,
        .n_links = build->columns.n_links,
        .stacks = build->stacks,
        .values = build->values,
        .size = build->columns.size,
        .links = build->links,
        .link_values = build->link_values,
    };
    if (fg_block_profile_add(build->writer, &profile, build->err) != FG_OK)
        return build->err->code;
    fg_rollup_whole_add(build->whole, series, &profile);
    return FG_OK;
}

/* Adds to a failure which series it is about. */
static enum fg_code wrap_series(struct build *build, const struct build_member *member)
{
    struct fg_buf text;

    fg_buf_init(&text, FG_ERR_MSG_MAX_BYTES / 2);
    fg_labels_write(&member->header.labels, &text);
    (void)fg_wrap(build->err, "series %.*s", FG_S(fg_buf_slice(&text)));
    fg_buf_done(&text);
    return build->err->code;
}

/* Lists the series of the part: the members that have profiles. Returns NULL if memory is short. */
static const struct fg_block_series *list_series(struct build *build, uint32_t *ret_count)
{
    struct fg_block_series *series =
        fg_arena_new(build->arena, struct fg_block_series, build->n_members);
    uint32_t count = 0;

    for (size_t m = 0; series != NULL && m < build->n_members; m++)
        if (build->members[m].count > 0)
            series[count++] = build->members[m].header;
    *ret_count = count;
    return series;
}

static enum fg_code write_members(struct build *build)
{
    uint32_t number = 0;

    for (size_t m = 0; m < build->n_members; m++) {
        const struct build_member *member = &build->members[m];

        if (member->count == 0)
            continue;
        if (fg_block_series_begin(build->writer, &member->header, build->err) != FG_OK)
            return wrap_series(build, member);
        for (size_t i = 0; i < member->count; i++)
            if (write_profile(build, number, &build->entries[member->first + i]) != FG_OK)
                return wrap_series(build, member);
        number++;
    }
    return FG_OK;
}

static enum fg_code write_part(struct build *build, struct fg_slice service)
{
    uint32_t n_series;
    const struct fg_block_series *series = list_series(build, &n_series);

    if (series == NULL)
        return no_memory(build);
    if (fg_block_part_begin(build->writer, build->tenant, service, &build->tree, build->uses,
                            build->err) != FG_OK)
        return build->err->code;
    build->whole =
        fg_rollup_whole_create(build->writer, &build->tree, build->uses, series, n_series);
    if (write_members(build) != FG_OK || fg_rollup_whole_write(build->whole, build->err) != FG_OK)
        return build->err->code;
    if (fg_block_part_end(build->writer, build->err) != FG_OK)
        return build->err->code;
    fg_usage_add(&build->part->usage, fg_block_part_usage(build->writer));
    return FG_OK;
}

/* ---- a service ---- */

static bool make_header(struct build_member *member, struct fg_arena *arena)
{
    const struct ing_catalog_series *series = member->series;
    const struct ing_series_kind *kind = series->kind;
    struct fg_value_type *types = fg_arena_new(arena, struct fg_value_type, kind->n_types);

    for (uint32_t t = 0; types != NULL && t < kind->n_types; t++)
        types[t] = (struct fg_value_type){kind->types[t].parts.type, kind->types[t].parts.unit};
    member->header = (struct fg_block_series){
        .labels = series->labels,
        .types = types,
        .n_types = kind->n_types,
        .period_type = {kind->types[0].parts.period_type, kind->types[0].parts.period_unit},
    };
    return types != NULL;
}

static int cmp_members(const void *left, const void *right)
{
    const struct build_member *a = left, *b = right;
    int order = fg_block_series_cmp(&a->header, &b->header);

    return order != 0
               ? order
               : (a->series->shard > b->series->shard) - (a->series->shard < b->series->shard);
}

/* Makes a member for each series of the catalog. Members of one label set and schema are adjacent,
 * and the first of them is the series of the file. */
static enum fg_code make_members(struct build *build, struct ing_catalog_series *const *series,
                                 size_t n)
{
    struct build_member *members = fg_arena_new(build->arena, struct build_member, n);

    if (members == NULL)
        return no_memory(build);
    for (size_t i = 0; i < n; i++) {
        members[i].series = series[i];
        if (!make_header(&members[i], build->arena))
            return no_memory(build);
    }
    qsort(members, n, sizeof *members, cmp_members);
    for (size_t i = 0, next; i < n; i = next) {
        for (next = i + 1;
             next < n && fg_block_series_cmp(&members[next].header, &members[i].header) == 0;)
            next++;
        members[i].n_series = next - i;
    }
    build->members = members;
    build->n_members = n;
    return FG_OK;
}

static bool has_entries(const struct build *build)
{
    for (size_t m = 0; m < build->n_members; m++)
        if (build->members[m].count > 0)
            return true;
    return false;
}

static enum fg_code build_part(struct build *build, struct ing_catalog_series *const *series,
                               size_t n)
{
    if (make_members(build, series, n) != FG_OK)
        return build->err->code;
    for (size_t m = 0; m < n; m += build->members[m].n_series)
        if (find_of_member(build, &build->members[m]) != FG_OK)
            return wrap_series(build, &build->members[m]);
    for (size_t m = 0; m < n; m++)
        if (count_member(build, &build->members[m]) != FG_OK)
            return wrap_series(build, &build->members[m]);
    if (!has_entries(build))
        return FG_OK;
    if (make_tree(build) != FG_OK)
        return build->err->code;
    return write_part(build, series[0]->service->name);
}

/* Sets the suspects: the chunks of the tenant in the shards of the current series. */
static void suspect_shards(struct build *build, struct ing_catalog_series *const *series, size_t n,
                           struct fg_arena *arena)
{
    struct ing_build_suspects *suspects = &build->suspects;

    /* If the arena is full, the suspects stay unknown, and the core sets half of the cut aside
     * instead. */
    suspects->chunks = fg_arena_new(arena, struct ing_head_chunk_key, build->n_chunks);
    for (size_t r = 0; suspects->chunks != NULL && r < build->n_chunks; r++) {
        size_t s = 0;

        while (s < n && series[s]->shard != build->chunks[r].group.shard)
            s++;
        if (s < n)
            suspects->chunks[suspects->n++] = build->chunks[r];
    }
}

/* n series, all of services of one name. */
static enum fg_code build_service(struct build *build, struct ing_catalog_series *const *series,
                                  size_t n)
{
    enum fg_code code;

    build->arena = fg_arena_create(service_max_bytes);
    build->n_entries = 0;
    build->generations = NULL;
    build->whole = NULL;
    fg_tree_init(&build->tree);
    code = build_part(build, series, n);
    fg_rollup_whole_destroy(build->whole);
    /* End the view before the reference is dropped: the reference keeps the dictionary alive. */
    for (struct generation *g = build->generations; g != NULL; g = g->next) {
        ing_dict_view_end(g->dict, &g->view);
        ing_dict_unref(build->head->dicts, g->dict);
    }
    fg_tree_done(&build->tree);
    fg_arena_destroy(build->arena);
    return code;
}

/* ---- a tenant ---- */

/* Fails if the chunks have more profiles than were found. Profiles of a series that the catalog
 * lost are not found: their labels are unknown, so a segment cannot hold them, and evicting the
 * chunk would lose them. */
static enum fg_code check_found(struct build *build, struct ing_catalog_tenant *tenant,
                                struct fg_arena *arena)
{
    struct ing_build_suspects *suspects = &build->suspects;
    uint64_t n_lost = 0;

    for (size_t i = 0; i < build->n_chunks; i++) {
        struct ing_head_chunk chunk;

        if (!ing_head_chunks_find(build->head->chunks, &build->chunks[i], &chunk) ||
            build->n_found[i] >= chunk.count)
            continue;
        n_lost += chunk.count - build->n_found[i];
        if (suspects->chunks == NULL)
            suspects->chunks = fg_arena_new(arena, struct ing_head_chunk_key, build->n_chunks);
        if (suspects->chunks != NULL)
            suspects->chunks[suspects->n++] = build->chunks[i];
    }
    if (build->salvage)
        build->n_lost += n_lost;
    if (n_lost == 0 || build->salvage)
        return FG_OK;
    /* Queries of the tenant must say from now on that their answers may be incomplete. */
    ing_catalog_tenant_set_lacks(tenant, false);
    return fg_fail(build->err, FG_E_CORRUPT,
                   "tenant %.*s: %llu profiles are of series that the head does not know",
                   FG_S(build->tenant), (unsigned long long)n_lost);
}

static int cmp_services(const void *left, const void *right)
{
    const struct ing_catalog_series *a = *(struct ing_catalog_series *const *)left;
    const struct ing_catalog_series *b = *(struct ing_catalog_series *const *)right;

    return fg_slice_cmp(a->service->name, b->service->name);
}

static enum fg_code build_tenant(struct build *build, struct ing_catalog_tenant *tenant,
                                 struct fg_arena *arena)
{
    struct ing_catalog_series **series;
    size_t n, next;

    build->tenant = ing_catalog_tenant_name(tenant);
    build->n_found = fg_arena_new(arena, uint64_t, build->n_chunks);
    if (build->n_found == NULL)
        return fg_fail(build->err, FG_E_LIMIT, "too many head chunks for a segment");
    *build->part = (struct fg_l0_new_part){
        .tenant = build->tenant, .t_min_ns = INT64_MAX, .t_max_ns = INT64_MIN};
    if (ing_catalog_list_series(build->head->catalog, tenant, arena, &series, &n, build->err) !=
        FG_OK)
        return build->err->code;
    if (n > 1)
        qsort(series, n, sizeof(struct ing_catalog_series *), cmp_services);
    for (size_t i = 0; i < n; i = next) {
        struct fg_slice service = series[i]->service->name;

        for (next = i + 1; next < n && fg_slice_eq(series[next]->service->name, service);)
            next++;
        /* All series of a service share a tree, so it is unknown which chunk is at fault: suspect
         * all in these shards. */
        if (build_service(build, series + i, next - i) != FG_OK) {
            suspect_shards(build, series + i, next - i, arena);
            return fg_wrap(build->err, "tenant %.*s, service %.*s", FG_S(build->tenant),
                           FG_S(service));
        }
    }
    return check_found(build, tenant, arena);
}

/* ---- all of it ---- */

/* A tenant and its chunks. */
struct build_share {
    struct ing_catalog_tenant *tenant;
    const struct ing_head_chunk_key *chunks;
    size_t n_chunks;
    bool shredded; /* its keys were: what the head still has of it is forgotten like the rest */
};

static int cmp_chunks(const void *left, const void *right)
{
    return ing_head_chunk_cmp(left, right);
}

static int cmp_shares(const void *left, const void *right)
{
    return fg_slice_cmp(ing_catalog_tenant_name(((const struct build_share *)left)->tenant),
                        ing_catalog_tenant_name(((const struct build_share *)right)->tenant));
}

/* Groups the chunks by tenants, in the order of their names. NULL: the arena is full. */
static struct build_share *divide(const struct ing_build_head *head,
                                  const struct ing_head_chunk_key *chunks, size_t n_chunks,
                                  struct fg_arena *arena, size_t *ret_count)
{
    struct ing_head_chunk_key *sorted = fg_arena_alloc(arena, n_chunks * sizeof *sorted);
    struct build_share *shares = fg_arena_new(arena, struct build_share, n_chunks);
    size_t count = 0;

    if (sorted == NULL || shares == NULL)
        return NULL;
    memcpy(sorted, chunks, n_chunks * sizeof *sorted);
    qsort(sorted, n_chunks, sizeof *sorted, cmp_chunks);
    for (size_t i = 0; i < n_chunks; i++) {
        if (i == 0 || sorted[i].group.tenant != sorted[i - 1].group.tenant)
            shares[count++] = (struct build_share){
                .tenant = ing_catalog_tenant_at(head->catalog, sorted[i].group.tenant),
                .chunks = &sorted[i]};
        shares[count - 1].n_chunks++;
    }
    qsort(shares, count, sizeof *shares, cmp_shares);
    *ret_count = count;
    return shares;
}

/* Adds the chunks of a tenant whose key cannot be had to the suspects, which have room. err has the
 * reason, and becomes that of the build if it is the first one. */
static void suspect_share(struct build *build, const struct build_share *share,
                          const struct fg_err *why)
{
    struct ing_build_suspects *suspects = &build->suspects;

    if (!suspects->keyless) {
        *build->err = *why;
        (void)fg_wrap(build->err, "tenant %.*s", FG_S(ing_catalog_tenant_name(share->tenant)));
    }
    suspects->keyless = true;
    for (size_t i = 0; i < share->n_chunks; i++)
        suspects->chunks[suspects->n++] = share->chunks[i];
}

/*
 * Looks for the keys of all tenants before anything is written, so that a tenant whose key cannot
 * be had costs the others nothing but another try. build->err says one of them and why.
 */
static enum fg_code look_for_keys(struct build *build, struct build_share *shares, size_t n,
                                  size_t n_chunks, struct fg_arena *arena)
{
    build->suspects.chunks = fg_arena_new(arena, struct ing_head_chunk_key, n_chunks);
    if (build->suspects.chunks == NULL)
        return fg_fail(build->err, FG_E_LIMIT, "too many head chunks for a segment");
    for (size_t i = 0; i < n; i++) {
        struct fg_seal_key key;
        struct fg_err why;
        uint32_t number = 0;
        enum fg_code code = fg_keys_newest(
            build->head->keys, ing_catalog_tenant_name(shares[i].tenant), &number, &key, &why);

        shares[i].shredded = code == FG_E_NOT_FOUND;
        if (code != FG_OK && !shares[i].shredded)
            suspect_share(build, &shares[i], &why);
        else if (number > 0)
            fg_seal_wipe(&key);
    }
    if (build->suspects.keyless)
        return build->err->code;
    build->suspects.chunks = NULL; /* what fails from here on has suspects of its own */
    return FG_OK;
}

static enum fg_code build_all(struct build *build, const struct build_share *shares, size_t n,
                              struct fg_arena *arena, struct ing_build_summary *summary)
{
    for (size_t i = 0; i < n; i++) {
        if (shares[i].shredded)
            continue;
        build->chunks = shares[i].chunks;
        build->n_chunks = shares[i].n_chunks;
        build->part = &summary->parts[summary->n_parts];
        if (build_tenant(build, shares[i].tenant, arena) != FG_OK)
            return build->err->code;
        /* A tenant without profiles takes no part; the next one uses its place. */
        summary->n_parts += build->part->profiles > 0;
    }
    return fg_block_writer_finish(build->writer, &summary->file, build->err);
}

static void build_done(struct build *build)
{
    fg_store_iter_destroy(build->iter);
    fg_block_writer_destroy(build->writer);
    fg_buf_done(&build->key);
    ing_record_columns_done(&build->columns);
    free(build->entries);
    free(build->values);
    free(build->link_values);
    free(build->stacks);
    free(build->links);
}

enum fg_code ing_build_segment(const struct ing_build_head *head,
                               const struct ing_head_chunk_key *chunks, size_t n_chunks,
                               bool salvage, const char *path, struct fg_arena *arena,
                               struct ing_build_summary *ret_summary,
                               struct ing_build_suspects *ret_suspects, struct fg_err *err)
{
    struct build build = {.head = head, .salvage = salvage, .err = err};
    struct ing_build_summary summary = {0};
    unsigned entered;
    fg_auto(fg_block_file) *file = NULL;
    struct fg_block_sink sink;
    enum fg_code code;
    size_t n_shares = 0;
    struct build_share *shares = divide(head, chunks, n_chunks, arena, &n_shares);

    *ret_suspects = (struct ing_build_suspects){0};
    summary.parts = fg_arena_new(arena, struct fg_l0_new_part, n_shares);
    if (shares == NULL || summary.parts == NULL)
        return fg_fail(err, FG_E_LIMIT, "too many head chunks for a segment");
    if (fg_block_file_create(path, &file, err) != FG_OK)
        return err->code;
    sink = fg_block_file_sink(file);
    build.writer = fg_block_writer_create(&sink, 0);
    fg_block_writer_set_version(build.writer, head->block_version);
    fg_block_writer_set_keys(build.writer, head->keys);
    /* One iterator, so one moment of the head, for both passes. */
    build.iter = fg_store_iter_create(head->store, HEAD_PROFILES, FG_LIT(""), FG_LIT(""));
    fg_buf_init(&build.key, HEAD_PROFILE_KEY_BYTES);
    /* Keeps series and services that are retired meanwhile from being freed. */
    entered = ing_catalog_enter(head->catalog);
    code = look_for_keys(&build, shares, n_shares, n_chunks, arena);
    if (code == FG_OK)
        code = build_all(&build, shares, n_shares, arena, &summary);
    ing_catalog_leave(head->catalog, entered);
    if (code == FG_OK)
        code = fg_block_file_finish(file, err);
    summary.n_lost = build.n_lost;
    if (code == FG_OK)
        *ret_summary = summary;
    /* Also without a failure; the caller looks at them only after one. */
    *ret_suspects = build.suspects;
    build_done(&build);
    return code;
}
