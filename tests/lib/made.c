#include "tests/lib/made.h"

#include "common/storage/block/reader.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { NODES = 40, NAMES = 12 };

const char *made_tenant(uint32_t tenant)
{
    static const char *const names[MADE_TENANTS] = {"acme", "zoo"};

    return names[tenant];
}

const char *made_service(uint32_t service)
{
    static const char *const names[MADE_SERVICES] = {"checkout", "search", "shop"};

    return names[service];
}

static const struct fg_value_type cpu_types[] = {{FG_LIT("samples"), FG_LIT("count")},
                                                 {FG_LIT("cpu"), FG_LIT("nanoseconds")}};
static const struct fg_value_type heap_types[] = {{FG_LIT("alloc_objects"), FG_LIT("count")},
                                                  {FG_LIT("alloc_space"), FG_LIT("bytes")},
                                                  {FG_LIT("inuse_objects"), FG_LIT("count")},
                                                  {FG_LIT("inuse_space"), FG_LIT("bytes")}};

static uint32_t n_types_of(const struct made_profile *profile)
{
    return profile->schema == 0 ? 2 : 4;
}

/* ---- drawing ---- */

static uint64_t draw(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15u;
    return fg_mix64(*state);
}

static bool has_stack(const struct made_profile *profile, uint32_t stack)
{
    for (uint32_t i = 0; i < profile->n_samples; i++)
        if (profile->stacks[i] == stack)
            return true;
    return false;
}

static void draw_sample(struct made_profile *profile, uint64_t *state)
{
    uint32_t stack = (uint32_t)(draw(state) % (NODES + 1)), i = profile->n_samples;

    if (has_stack(profile, stack))
        return;
    profile->stacks[i] = stack;
    for (uint32_t t = 0; t < 4; t++)
        profile->values[t][i] = draw(state) % 5 == 0 ? 0 : draw(state) % 1000;
    if (profile->schema == 0)
        profile->values[1][i] = profile->values[0][i] * 10000000;
    profile->n_samples++;
}

struct made_profile made_draw(uint64_t seed, uint64_t k, int64_t time_ns)
{
    uint64_t state = fg_mix64(seed) + k, samples;
    struct made_profile profile = {.time_ns = time_ns, .duration_ns = 10000000000};

    profile.id.lo = draw(&state);
    profile.id.hi = draw(&state);
    profile.tenant = (uint32_t)(draw(&state) % 4 == 0);
    profile.service = (uint32_t)(draw(&state) % MADE_SERVICES);
    profile.instance = (uint32_t)(draw(&state) % MADE_INSTANCES);
    profile.schema = (uint32_t)(draw(&state) % 2);
    profile.shard = (uint16_t)(profile.service << 14 | profile.instance << 4);
    samples = draw(&state) % MADE_SAMPLES_MAX;
    for (uint64_t i = 0; i < samples; i++)
        draw_sample(&profile, &state);
    if (profile.n_samples > 0 && draw(&state) % 8 == 0)
        profile.n_links = 1 + (uint32_t)(draw(&state) % profile.n_samples);
    for (uint32_t i = 0; i < profile.n_links; i++)
        profile.spans[i] = 1 + draw(&state) % 99;
    return profile;
}

/* ---- the trees: node i of a service hangs below an earlier one ---- */

static uint32_t parent_of(uint32_t service, uint32_t node) /* FG_TREE_ROOT, or a node */
{
    uint64_t hash = fg_mix64(service * 1000 + node);

    return hash % (node + 1) == node ? FG_TREE_ROOT : (uint32_t)(hash % (node + 1));
}

/* Every seventh node has no name, but an address in a file. */
static uint32_t address_of(struct fg_tree *tree, uint32_t node)
{
    struct fg_symbols *symbols = &tree->symbols;
    struct fg_mapping mapping = {.start = 4096,
                                 .limit = 8192,
                                 .offset = 64,
                                 .filename = fg_symbols_string(symbols, FG_LIT("/lib/libc.so.6")),
                                 .build_id = fg_symbols_string(symbols, FG_LIT("abcd"))};
    struct fg_location location = {.address = 4096 + node,
                                   .mapping = fg_symbols_mapping(symbols, &mapping)};

    return fg_symbols_location(symbols, &location, NULL);
}

/* Equal names under one parent would be one node: so the node's number is part of the line. */
static uint32_t location_of(struct fg_tree *tree, uint32_t service, uint32_t node)
{
    char name[32];
    struct fg_function function = {.start_line = 7};
    struct fg_line line = {.line = (int64_t)node + 1};
    struct fg_location location = {.mapping = FG_NO_MAPPING, .n_lines = 1};

    if (node % 7 == 3)
        return address_of(tree, node);
    (void)snprintf(name, sizeof name, "%s.f%u", made_service(service), node % NAMES);
    function.name = function.system_name = fg_symbols_string(&tree->symbols, fg_cstr(name));
    function.filename = fg_symbols_string(&tree->symbols, FG_LIT("main.go"));
    line.function = fg_symbols_function(&tree->symbols, &function);
    return fg_symbols_location(&tree->symbols, &location, &line);
}

static uint32_t add_node(struct fg_tree *tree, uint32_t service, uint32_t node, uint32_t *numbers)
{
    uint32_t parent = parent_of(service, node);

    if (numbers[node] == FG_MAP_NONE)
        numbers[node] = fg_tree_child(
            tree, parent == FG_TREE_ROOT ? FG_TREE_ROOT : add_node(tree, service, parent, numbers),
            location_of(tree, service, node));
    return numbers[node];
}

/* numbers[NODES]: of our nodes in the tree, which has them in some order. */
static void make_tree(struct fg_tree *tree, uint32_t service, uint64_t numbering, uint32_t *numbers)
{
    fg_tree_init(tree);
    for (uint32_t i = 0; i < NODES; i++)
        numbers[i] = FG_MAP_NONE;
    for (uint32_t i = 0; i < 3 * NODES; i++)
        (void)add_node(tree, service, (uint32_t)(draw(&numbering) % NODES), numbers);
    for (uint32_t i = 0; i < NODES; i++)
        (void)add_node(tree, service, i, numbers);
}

/* ---- what a profile is ---- */

static uint64_t mix_text(uint64_t seed, struct fg_slice text)
{
    return fg_hash128_seed(text, seed).lo;
}

static uint64_t mix(uint64_t seed, uint64_t value)
{
    return fg_mix64(seed * 31 + fg_mix64(value));
}

static uint64_t address_hash(const struct fg_tree *tree, const struct fg_location *location,
                             uint64_t hash)
{
    const struct fg_mapping *mapping = &tree->symbols.mappings[location->mapping];

    hash = mix_text(hash, fg_symbols_text(&tree->symbols, mapping->filename));
    hash = mix_text(hash, fg_symbols_text(&tree->symbols, mapping->build_id));
    hash = mix(mix(mix(hash, mapping->start), mapping->limit), mapping->offset);
    return mix(hash, location->address);
}

/* Names and lines from the leaf to the root; of what has none all that is known of its address. */
static uint64_t path_hash(const struct fg_tree *tree, uint32_t stack)
{
    uint64_t hash = 1;

    for (uint32_t node = stack - 1; stack > 0 && node != FG_TREE_ROOT; node = tree->parents[node]) {
        const struct fg_location *location = &tree->symbols.locations[tree->locations[node]];
        const struct fg_line *line = &tree->symbols.lines[location->first_line];
        const struct fg_function *function;

        if (location->n_lines == 0) {
            hash = address_hash(tree, location, hash);
            continue;
        }
        function = &tree->symbols.functions[line->function];
        hash = mix_text(hash, fg_symbols_text(&tree->symbols, function->name));
        hash = mix_text(hash, fg_symbols_text(&tree->symbols, function->filename));
        hash = mix(hash, (uint64_t)line->line);
    }
    return hash;
}

static uint64_t head_hash(const struct fg_block_profile *profile,
                          const struct fg_block_series *series)
{
    uint64_t hash = fg_labels_hash(&series->labels).lo;

    for (uint32_t t = 0; t < series->n_types; t++)
        hash = mix_text(mix_text(hash, series->types[t].type), series->types[t].unit);
    hash = mix_text(mix_text(hash, series->period_type.type), series->period_type.unit);
    hash = mix(mix(hash, (uint64_t)profile->time_ns), (uint64_t)profile->duration_ns);
    return mix(mix(mix(hash, (uint64_t)profile->period), profile->shard), profile->window);
}

static uint64_t profile_hash(const struct fg_block_profile *profile,
                             const struct fg_block_series *series, const struct fg_tree *tree)
{
    uint64_t hash = head_hash(profile, series);

    hash = mix(mix(hash, profile->size.wire_bytes), profile->size.raw_bytes + profile->size.known);
    for (uint32_t i = 0; i < profile->n_samples; i++) {
        uint64_t sample = path_hash(tree, profile->stacks[i]);

        for (uint32_t t = 0; t < series->n_types; t++)
            sample = mix(sample, profile->values[(size_t)t * profile->n_samples + i]);
        hash += sample;
    }
    for (uint32_t i = 0; i < profile->n_links; i++) {
        uint64_t link = mix(path_hash(tree, profile->links[i].stack), profile->links[i].span_id);

        for (uint32_t t = 0; t < series->n_types; t++)
            link = mix(link, profile->link_values[(size_t)t * profile->n_links + i]);
        hash += 3 * link;
    }
    return hash;
}

struct fg_profile_size made_size(const struct made_profile *profile)
{
    if (profile->id.lo % 4 == 0)
        return (struct fg_profile_size){0};
    return (struct fg_profile_size){true, (uint32_t)(profile->id.lo >> 44),
                                    (uint32_t)(profile->id.hi >> 42)};
}

/* A profile in the writer's form. */
struct form {
    struct fg_block_profile profile;
    struct fg_block_series series;
    struct fg_label labels[4];
    char pod[16];
    uint32_t stacks[MADE_SAMPLES_MAX];
    uint64_t values[4 * MADE_SAMPLES_MAX], link_values[4 * MADE_SAMPLES_MAX];
    struct fg_block_link links[MADE_SAMPLES_MAX];
};

static void form_labels(struct form *form, const struct made_profile *made)
{
    (void)snprintf(form->pod, sizeof form->pod, "pod-%u", made->instance);
    form->labels[0] = (struct fg_label){
        FG_LIT("__name__"), made->schema == 0 ? FG_LIT("process_cpu") : FG_LIT("memory")};
    form->labels[1] = (struct fg_label){FG_LIT("pod"), fg_cstr(form->pod)};
    form->labels[2] =
        (struct fg_label){FG_LIT("region"), made->instance < 2 ? FG_LIT("eu") : FG_LIT("us")};
    form->labels[3] =
        (struct fg_label){FG_LIT("service_name"), fg_cstr(made_service(made->service))};
    form->series = (struct fg_block_series){
        .labels = {form->labels, 4},
        .types = made->schema == 0 ? cpu_types : heap_types,
        .n_types = n_types_of(made),
        .period_type = made->schema == 0
                           ? (struct fg_value_type){FG_LIT("cpu"), FG_LIT("nanoseconds")}
                           : (struct fg_value_type){FG_LIT("space"), FG_LIT("bytes")}};
}

static void form_make(struct form *form, const struct made_profile *made, const uint32_t *numbers)
{
    uint32_t n = made->n_samples, n_links = made->n_links;

    form_labels(form, made);
    for (uint32_t i = 0; i < n; i++) {
        form->stacks[i] = made->stacks[i] == 0 ? 0 : numbers[made->stacks[i] - 1] + 1;
        for (uint32_t t = 0; t < n_types_of(made); t++)
            form->values[(size_t)t * n + i] = made->values[t][i];
    }
    for (uint32_t i = 0; i < n_links; i++) {
        form->links[i] =
            (struct fg_block_link){.stack = form->stacks[i], .span_id = made->spans[i]};
        for (uint32_t t = 0; t < n_types_of(made); t++)
            form->link_values[(size_t)t * n_links + i] = made->values[t][i];
    }
    form->profile = (struct fg_block_profile){
        .id = made->id,
        .time_ns = made->time_ns,
        .duration_ns = made->duration_ns,
        .period = made->schema == 0 ? 10000000 : 524288,
        .shard = made->shard,
        .window = (uint32_t)((made->time_ns + made->duration_ns) / 600000000000),
        .size = made_size(made),
        .n_samples = n,
        .n_links = n_links,
        .stacks = form->stacks,
        .values = form->values,
        .links = form->links,
        .link_values = form->link_values};
}

/* ---- writing ---- */

static int by_place(const void *a, const void *b)
{
    const struct made_profile *left = *(const struct made_profile *const *)a;
    const struct made_profile *right = *(const struct made_profile *const *)b;
    uint32_t l[] = {left->tenant, left->service, left->schema == 0, left->instance};
    uint32_t r[] = {right->tenant, right->service, right->schema == 0, right->instance};

    for (size_t i = 0; i < FG_COUNT(l); i++)
        if (l[i] != r[i])
            return l[i] < r[i] ? -1 : 1;
    if (left->time_ns != right->time_ns)
        return left->time_ns < right->time_ns ? -1 : 1;
    return fg_id_cmp(left->id, right->id);
}

static void must(enum fg_code code, const struct fg_err *err)
{
    if (code != FG_OK)
        fail_msg("%s", err->msg);
}

/* All of one tenant and service. */
static void write_part(struct fg_block_writer *writer, const struct made_profile *const *profiles,
                       size_t n, uint64_t numbering)
{
    uint32_t numbers[NODES], uses[NODES + 1] = {0};
    const struct made_profile *before = NULL;
    struct fg_tree tree;
    struct fg_err err;
    struct form form;

    make_tree(&tree, profiles[0]->service, numbering, numbers);
    for (size_t i = 0; i < n; i++) {
        form_make(&form, profiles[i], numbers);
        for (uint32_t s = 0; s < form.profile.n_samples; s++)
            uses[form.stacks[s]]++;
    }
    must(fg_block_part_begin(writer, fg_cstr(made_tenant(profiles[0]->tenant)),
                             fg_cstr(made_service(profiles[0]->service)), &tree, uses, &err),
         &err);
    for (size_t i = 0; i < n; i++) {
        form_make(&form, profiles[i], numbers);
        if (before == NULL || before->schema != profiles[i]->schema ||
            before->instance != profiles[i]->instance)
            must(fg_block_series_begin(writer, &form.series, &err), &err);
        must(fg_block_profile_add(writer, &form.profile, &err), &err);
        before = profiles[i];
    }
    must(fg_block_part_end(writer, &err), &err);
    fg_tree_done(&tree);
}

static enum fg_code append(void *arg, struct fg_slice bytes, struct fg_err *err)
{
    (void)err;
    fg_buf_put(arg, bytes);
    return FG_OK;
}

struct fg_block_summary made_write(const struct made_profile *profiles, size_t n, uint32_t level,
                                   uint64_t numbering, struct fg_buf *out)
{
    const struct made_profile **sorted = fg_calloc(n, sizeof(void *));
    const struct fg_block_sink sink = {append, out};
    struct fg_block_writer *writer = fg_block_writer_create(&sink, level);
    struct fg_block_summary summary;
    struct fg_err err;

    for (size_t i = 0; i < n; i++)
        sorted[i] = &profiles[i];
    qsort(sorted, n, sizeof(void *), by_place);
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i; end < n && sorted[end]->tenant == sorted[i]->tenant &&
                      sorted[end]->service == sorted[i]->service;
             end++)
            ;
        write_part(writer, sorted + i, end - i, numbering + i);
    }
    must(fg_block_writer_finish(writer, &summary, &err), &err);
    fg_block_writer_destroy(writer);
    free(sorted);
    return summary;
}

/* ---- reading ---- */

void made_found_done(struct made_found *found)
{
    free(found->ids);
    free(found->hashes);
}

static void found_add(struct made_found *found, struct fg_id id, uint64_t hash)
{
    if (found->n == found->cap) {
        found->cap = FG_MAX(64, found->cap * 2);
        found->ids = fg_realloc(found->ids, found->cap * sizeof *found->ids);
        found->hashes = fg_realloc(found->hashes, found->cap * sizeof *found->hashes);
    }
    found->ids[found->n] = id;
    found->hashes[found->n++] = hash;
}

struct reading {
    struct fg_slice object;
    struct fg_arena *arena;
    struct fg_block_index index;
    struct fg_block_tree tree;
    struct fg_block_samples *samples;
    struct made_found *found;
};

static struct fg_slice range(const struct reading *reading, struct fg_block_range where)
{
    return fg_slice_sub(reading->object, (size_t)where.offset, (size_t)where.len);
}

static struct fg_slice page(const struct reading *reading, uint32_t kind, uint32_t number)
{
    const struct fg_block_page *said = &reading->index.pages[kind].pages[number];

    return range(reading, (struct fg_block_range){said->offset, said->bytes});
}

static uint32_t page_of(const struct reading *reading, uint32_t kind, uint32_t profile)
{
    uint32_t i = 0;

    while (reading->index.pages[kind].pages[i].first + reading->index.pages[kind].pages[i].items <=
           profile)
        i++;
    return i;
}

static void put_links(struct reading *reading, uint32_t profile, uint32_t n_types,
                      struct fg_block_profile *into)
{
    uint32_t at = page_of(reading, FG_BLOCK_SMP, profile), n = 0;
    struct fg_block_exemplars items;
    struct fg_block_link *links;
    uint64_t *values;
    struct fg_err err;

    if (reading->index.pages[FG_BLOCK_EXM].count == 0)
        return;
    must(fg_block_exemplars_parse(&reading->index, at, page(reading, FG_BLOCK_EXM, at),
                                  reading->arena, &items, &err),
         &err);
    for (uint32_t i = 0; i < items.count; i++)
        into->n_links += items.items[i].profile == profile;
    links = fg_arena_new(reading->arena, struct fg_block_link, into->n_links);
    values = fg_arena_new(reading->arena, uint64_t, (size_t)into->n_links * n_types);
    for (uint32_t i = 0; i < items.count; i++) {
        if (items.items[i].profile != profile)
            continue;
        links[n] = (struct fg_block_link){.stack = reading->tree.nodes[items.items[i].rank],
                                          .span_id = items.items[i].span_id};
        for (uint32_t t = 0; t < n_types; t++)
            values[(size_t)t * into->n_links + n] = items.items[i].values[t];
        n++;
    }
    into->links = links;
    into->link_values = values;
}

static void read_profile(struct reading *reading, const struct fg_block_rows *rows, uint32_t i,
                         struct fg_id id, struct fg_profile_size size)
{
    const struct fg_block_series_row *row = &reading->index.series[rows->series[i]];
    const struct fg_block_series series = {row->labels, row->schema->types, row->schema->n_types,
                                           row->schema->period_type};
    uint32_t profile = rows->first + i, at = page_of(reading, FG_BLOCK_SMP, profile);
    struct fg_block_profile form = {.id = id,
                                    .time_ns = rows->times_ns[i],
                                    .duration_ns = rows->durations_ns[i],
                                    .period = rows->periods[i],
                                    .shard = rows->shards[i],
                                    .window = rows->windows[i],
                                    .size = size};
    struct fg_block_sample_set set;
    uint32_t *stacks;
    struct fg_err err;

    must(fg_block_samples_open(reading->samples, &reading->index, at,
                               page(reading, FG_BLOCK_SMP, at), &err),
         &err);
    must(fg_block_samples_read(reading->samples, profile, &set, &err), &err);
    stacks = fg_arena_new(reading->arena, uint32_t, set.count);
    for (uint32_t s = 0; s < set.count; s++)
        stacks[s] = reading->tree.nodes[set.ranks[s]];
    form.n_samples = set.count;
    form.stacks = stacks;
    form.values = set.values;
    put_links(reading, profile, series.n_types, &form);
    found_add(reading->found, id, profile_hash(&form, &series, &reading->tree.tree));
}

static void read_part(struct reading *reading, const struct fg_block_part *part)
{
    struct fg_err err;

    must(fg_block_part_parse(part, range(reading, fg_block_part_range(part, FG_BLOCK_WANT_SERIES)),
                             reading->arena, &reading->index, &err),
         &err);
    must(fg_block_tree_parse(&reading->index,
                             range(reading, fg_block_part_range(part, FG_BLOCK_WANT_TREE)),
                             reading->arena, &reading->tree, &err),
         &err);
    for (uint32_t p = 0; p < reading->index.pages[FG_BLOCK_IDX].count; p++) {
        struct fg_block_rows rows;
        struct fg_profile_size *sizes;
        struct fg_id *ids;

        must(fg_block_rows_parse(&reading->index, p, page(reading, FG_BLOCK_IDX, p), reading->arena,
                                 &rows, &err),
             &err);
        must(fg_block_ids_parse(&reading->index, p, page(reading, FG_BLOCK_PID, p), reading->arena,
                                &ids, &err),
             &err);
        sizes = fg_arena_new(reading->arena, struct fg_profile_size, rows.count);
        if (reading->index.pages[FG_BLOCK_USE].count > 0) /* else all are unknown */
            must(fg_block_sizes_parse(&reading->index, p, page(reading, FG_BLOCK_USE, p),
                                      reading->arena, &sizes, &err),
                 &err);
        for (uint32_t i = 0; i < rows.count; i++)
            read_profile(reading, &rows, i, ids[i], sizes[i]);
    }
}

void made_read(struct fg_slice object, const struct fg_keys *keys, const char *tenant,
               struct made_found *found)
{
    struct reading reading = {.object = object,
                              .arena = fg_arena_create(SIZE_MAX / 2),
                              .samples = fg_block_samples_create(SIZE_MAX),
                              .found = found};
    struct fg_block_directory directory;
    struct fg_err err;
    uint64_t offset;

    must(fg_block_directory_offset(object, object.len, &offset, &err), &err);
    must(fg_block_directory_parse(fg_slice_sub(object, (size_t)offset, SIZE_MAX), object.len, keys,
                                  reading.arena, &directory, &err),
         &err);
    for (uint32_t i = 0; i < directory.n_parts; i++)
        if (fg_slice_is(directory.parts[i].tenant, tenant))
            read_part(&reading, &directory.parts[i]);
    fg_block_samples_destroy(reading.samples);
    fg_arena_destroy(reading.arena);
}

/* ---- comparing ---- */

/* A service's tree, made when the first of its profiles is looked at. */
struct expected_tree {
    struct fg_tree tree;
    uint32_t numbers[NODES];
    bool made;
};

static uint64_t hash_of(const struct made_profile *made, struct expected_tree *of)
{
    struct form form;

    if (!of->made)
        make_tree(&of->tree, made->service, 1, of->numbers);
    of->made = true;
    form_make(&form, made, of->numbers);
    return profile_hash(&form.profile, &form.series, &of->tree);
}

void made_expect(const struct made_found *found, const struct made_profile *profiles, size_t n,
                 uint32_t tenant)
{
    struct expected_tree *trees = fg_calloc(MADE_SERVICES, sizeof *trees);
    struct fg_map map;
    struct fg_map_walk walk;
    size_t expected = 0;

    fg_map_init(&map);
    for (size_t i = 0; i < found->n; i++) {
        if (fg_map_first(&map, found->ids[i].lo, &walk) != FG_MAP_NONE)
            fail_msg("profile %016llx is there twice", (unsigned long long)found->ids[i].lo);
        fg_map_add(&map, found->ids[i].lo, (uint32_t)i);
    }
    for (size_t i = 0; i < n; i++) {
        uint32_t at;

        if (profiles[i].tenant != tenant)
            continue;
        expected++;
        at = fg_map_first(&map, profiles[i].id.lo, &walk);
        if (at == FG_MAP_NONE)
            fail_msg("profile %016llx is missing", (unsigned long long)profiles[i].id.lo);
        assert_int_equal(found->hashes[at], hash_of(&profiles[i], &trees[profiles[i].service]));
    }
    assert_int_equal(found->n, expected);
    fg_map_done(&map);
    for (size_t i = 0; i < MADE_SERVICES; i++)
        if (trees[i].made)
            fg_tree_done(&trees[i].tree);
    free(trees);
}
