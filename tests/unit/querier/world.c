#include "tests/unit/querier/world.h"

#include "common/cluster/manifest/blocks.h"
#include "common/storage/block/writer.h"
#include "tests/lib/bucket_doubles.h"
#include "tests/lib/l0_make.h"

#include <stdlib.h>

enum { SERVICES = 3, SERIES = 9, NODES = 160, OBJECT_MAX_BYTES = 16 * 1024 * 1024 };

static const char *const services[SERVICES] = {"api", "shop", "web"};

static const struct {
    const char *name;
    struct fg_value_type types[WORLD_TYPES_MAX], period_type;
    uint32_t n_types;
} schemas[] = {
    {"process_cpu",
     {{FG_LIT("samples"), FG_LIT("count")}, {FG_LIT("cpu"), FG_LIT("nanoseconds")}},
     {FG_LIT("cpu"), FG_LIT("nanoseconds")},
     2},
    {"memory",
     {{FG_LIT("alloc_objects"), FG_LIT("count")},
      {FG_LIT("alloc_space"), FG_LIT("bytes")},
      {FG_LIT("inuse_objects"), FG_LIT("count")},
      {FG_LIT("inuse_space"), FG_LIT("bytes")}},
     {FG_LIT("space"), FG_LIT("bytes")},
     4},
    {"process_cpu",
     {{FG_LIT("cpu"), FG_LIT("nanoseconds")}},
     {FG_LIT("cpu"), FG_LIT("nanoseconds")},
     1},
};

uint64_t world_random(struct world *world, uint64_t below)
{
    world->random += 0x9e3779b97f4a7c15u;
    return fg_mix64(world->random) % below;
}

static bool chance(struct world *world, unsigned permille)
{
    return world_random(world, 1000) < permille;
}

/* ---- stacks and series ---- */

static uint32_t make_function(struct world *world, uint32_t number)
{
    struct fg_symbols *symbols = &world->tree.symbols;
    char name[32] = "other"; /* flame graphs treat this function as a remainder */

    if (number != 11)
        (void)snprintf(name, sizeof name, "f%u", number);
    uint32_t text = fg_symbols_string(symbols, fg_cstr(name));
    struct fg_function function = {text, text, fg_symbols_string(symbols, FG_LIT("a.go")), number};

    if (number % 7 == 3)
        function.name = 0; /* the system name is shown */
    return fg_symbols_function(symbols, &function);
}

static uint32_t make_location(struct world *world)
{
    struct fg_symbols *symbols = &world->tree.symbols;
    struct fg_mapping mapping = {.start = 16,
                                 .limit = 48,
                                 .offset = 4096,
                                 .filename = fg_symbols_string(symbols, FG_LIT("/lib/x.so")),
                                 .build_id = fg_symbols_string(symbols, FG_LIT("id"))};
    struct fg_location location = {
        .address = world_random(world, 64),
        .mapping = chance(world, 500) ? FG_NO_MAPPING : fg_symbols_mapping(symbols, &mapping),
        .n_lines = (uint32_t)world_random(world, 4),
    };
    struct fg_line lines[4];

    for (uint32_t i = 0; i < location.n_lines; i++)
        lines[i] = (struct fg_line){make_function(world, (uint32_t)world_random(world, 12)),
                                    (int64_t)world_random(world, 3)};
    return fg_symbols_location(symbols, &location, lines);
}

static void make_tree(struct world *world)
{
    fg_tree_init(&world->tree);
    while (world->tree.n_nodes < NODES) {
        uint32_t parent = (uint32_t)world_random(world, world->tree.n_nodes + 4);

        (void)fg_tree_child(&world->tree, parent >= world->tree.n_nodes ? FG_TREE_ROOT : parent,
                            make_location(world));
    }
}

static void make_series(struct world *world, uint32_t number)
{
    struct world_series *series = &world->series[number];
    struct fg_labels *labels = &series->labels;
    const char *service;

    series->service = number % SERVICES;
    series->schema = number % 4 == 3 ? 2 : number % 2;
    service = services[series->service];
    labels->items = fg_arena_new(world->arena, struct fg_label, 4);
    labels->items[labels->count++] =
        (struct fg_label){FG_LIT(FG_LABEL_NAME), fg_cstr(schemas[series->schema].name)};
    labels->items[labels->count++] = (struct fg_label){FG_LIT(FG_LABEL_SERVICE), fg_cstr(service)};
    labels->items[labels->count++] = (struct fg_label){
        FG_LIT("pod"), fg_cstr(fg_arena_printf(world->arena, "p%u", number / SERVICES))};
    if (number % 2 == 0)
        labels->items[labels->count++] =
            (struct fg_label){FG_LIT("zone"), fg_cstr(number % 4 == 0 ? "a" : "b")};
    fg_labels_sort(labels);
    for (uint32_t t = 0; t < schemas[series->schema].n_types; t++) {
        const struct fg_value_type *type = &schemas[series->schema].types[t];
        const struct fg_value_type *period = &schemas[series->schema].period_type;

        series->by_type[t] = fg_labels_with_type(
            labels,
            &(struct fg_profile_type){fg_cstr(schemas[series->schema].name), type->type, type->unit,
                                      period->type, period->unit},
            world->arena);
    }
}

static uint32_t n_types_of(const struct world *world, const struct world_profile *profile)
{
    return schemas[world->series[profile->series].schema].n_types;
}

void world_init(struct world *world, uint64_t seed)
{
    *world = (struct world){.random = seed};
    world->arena = fg_arena_create(SIZE_MAX);
    world->bucket = fg_bucket_memory();
    l0_make(world->bucket);
    world->peer.ops = &world_peer_ops;
    world->start_ns = INT64_C(1700000000) * FG_SECOND_NS;
    world->end_ns = world->start_ns + FG_HOUR_NS;
    world->tenants[0] = FG_LIT("anonymous");
    world->tenants[1] = FG_LIT("team-a");
    world->tenants[2] = FG_LIT("team-b");
    make_tree(world);
    world->n_series = SERIES;
    world->series = fg_arena_new(world->arena, struct world_series, SERIES);
    for (uint32_t i = 0; i < SERIES; i++)
        make_series(world, i);
}

void world_done(struct world *world)
{
    fg_bucket_close(world->bucket);
    for (uint32_t t = 0; t < WORLD_TENANTS; t++)
        fg_deletions_done(&world->deletions[t]);
    fg_tree_done(&world->tree);
    free(world->profiles);
    fg_arena_destroy(world->arena);
}

/* ---- profiles ---- */

static void make_sample(struct world *world, uint32_t n_types, struct world_sample *sample)
{
    sample->stack = (uint32_t)world_random(world, NODES + 1);
    for (uint32_t t = 0; t < n_types; t++)
        if (!chance(world, 200))
            sample->values[t] = 1 + world_random(world, chance(world, 50) ? UINT64_C(1) << 40 : 50);
    sample->values[n_types - 1] += sample->values[0] == 0; /* at least one value is not 0 */
    while (sample->n_links < WORLD_LINKS_MAX && chance(world, 150)) {
        struct world_link *link = &sample->links[sample->n_links++];

        link->span_id = world_random(world, 20);
        link->trace_id[0] = (uint8_t)(world_random(world, 5) + (link->span_id == 0));
    }
}

/* Draws one of few moments, so that ranges often begin or end on a profile; some types have no
 * value. */
static void make_profile(struct world *world, struct world_profile *profile)
{
    uint32_t n_types, n;

    *profile = (struct world_profile){
        .tenant = (uint32_t)world_random(world, WORLD_TENANTS),
        .series = (uint32_t)world_random(world, SERIES),
        .id = {world_random(world, UINT64_MAX), world_random(world, UINT64_MAX)},
        .time_ns = world->start_ns + (int64_t)world_random(world, 361) * 10 * FG_SECOND_NS,
        .duration_ns = 10 * FG_SECOND_NS,
        .generation = UINT64_MAX,
        .block = WORLD_NO_BLOCK,
    };
    n_types = n_types_of(world, profile);
    n = (uint32_t)world_random(world, 12);
    profile->samples = fg_arena_new(world->arena, struct world_sample, n);
    profile->n_samples = n;
    for (uint32_t i = 0; i < n; i++) {
        make_sample(world, n_types, &profile->samples[i]);
        if (profile->series % 5 == 1 && n_types > 1) /* this series never had one of the types */
            profile->samples[i].values[0] = 0;
    }
}

void world_push(struct world *world, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (world->n_profiles == world->cap_profiles) {
            world->cap_profiles = FG_MAX(256, world->cap_profiles * 2);
            world->profiles =
                fg_realloc(world->profiles, world->cap_profiles * sizeof *world->profiles);
        }
        make_profile(world, &world->profiles[world->n_profiles++]);
    }
}

/* ---- objects ---- */

static enum fg_code append(void *arg, struct fg_slice bytes, struct fg_err *err)
{
    (void)err;
    fg_buf_put(arg, bytes);
    return FG_OK;
}

static const struct world *sorted_world; /* qsort has no argument */

static struct fg_block_series block_series(const struct world *world, uint32_t number)
{
    const struct world_series *series = &world->series[number];

    return (struct fg_block_series){series->labels, schemas[series->schema].types,
                                    schemas[series->schema].n_types,
                                    schemas[series->schema].period_type};
}

/* Sorts by tenant, service, series, time and id, the order that a writer requires. */
static int profile_order(const void *left, const void *right)
{
    const struct world_profile *a = *(const struct world_profile *const *)left;
    const struct world_profile *b = *(const struct world_profile *const *)right;
    const struct world *world = sorted_world;
    struct fg_block_series of_a = block_series(world, a->series);
    struct fg_block_series of_b = block_series(world, b->series);
    uint32_t service_a = world->series[a->series].service;
    uint32_t service_b = world->series[b->series].service;

    if (a->tenant != b->tenant)
        return a->tenant < b->tenant ? -1 : 1;
    if (service_a != service_b)
        return service_a < service_b ? -1 : 1;
    if (a->series != b->series)
        return fg_block_series_cmp(&of_a, &of_b);
    if (a->time_ns != b->time_ns)
        return a->time_ns < b->time_ns ? -1 : 1;
    return fg_id_cmp(a->id, b->id);
}

static struct fg_id block_id(uint32_t number)
{
    return (struct fg_id){number, 7};
}

static bool same_part(const struct world *world, const struct world_profile *a,
                      const struct world_profile *b)
{
    return a->tenant == b->tenant &&
           world->series[a->series].service == world->series[b->series].service;
}

static void write_profile(const struct world_profile *from, uint32_t n_types,
                          struct fg_block_writer *writer)
{
    struct fg_arena *arena = fg_arena_create(SIZE_MAX);
    uint32_t n = from->n_samples, max_links = n * WORLD_LINKS_MAX;
    uint32_t *stacks = fg_arena_new(arena, uint32_t, n);
    uint64_t *values = fg_arena_new(arena, uint64_t, (size_t)n * n_types);
    uint64_t *link_values = fg_arena_new(arena, uint64_t, (size_t)max_links * n_types);
    struct fg_block_link *links = fg_arena_new(arena, struct fg_block_link, max_links);
    struct fg_block_profile profile = {
        .id = from->id,
        .time_ns = from->time_ns,
        .duration_ns = from->duration_ns,
        .window = (uint32_t)((from->time_ns + from->duration_ns) / (600 * FG_SECOND_NS)),
        .shard = (uint16_t)from->series,
        .n_samples = n,
        .stacks = stacks,
        .values = values,
        .links = links,
        .link_values = link_values,
    };
    struct fg_err err;

    for (uint32_t i = 0; i < n; i++)
        profile.n_links += from->samples[i].n_links;
    for (uint32_t i = 0, at = 0; i < n; i++) {
        const struct world_sample *sample = &from->samples[i];

        stacks[i] = sample->stack;
        for (uint32_t t = 0; t < n_types; t++)
            values[(size_t)t * n + i] = sample->values[t];
        for (uint32_t k = 0; k < sample->n_links; k++, at++) {
            links[at].stack = sample->stack;
            links[at].span_id = sample->links[k].span_id;
            memcpy(links[at].trace_id, sample->links[k].trace_id, FG_ID_BYTES);
            for (uint32_t t = 0; t < n_types; t++)
                link_values[(size_t)t * profile.n_links + at] = sample->values[t];
        }
    }
    if (fg_block_profile_add(writer, &profile, &err) != FG_OK)
        fg_assert_failed(err.msg, __FILE__, __LINE__);
    fg_arena_destroy(arena);
}

/* Collects the profiles with a time in [from, until], by series. */
static void write_stripe(struct world *world, struct world_profile **profiles, uint32_t n,
                         int64_t from_ns, int64_t until_ns, struct fg_block_writer *writer)
{
    uint32_t last = UINT32_MAX;
    struct fg_err err;

    fg_assert(fg_block_stripe_begin(writer, &err) == FG_OK);
    for (uint32_t i = 0; i < n; i++) {
        struct fg_block_series series = block_series(world, profiles[i]->series);

        if (profiles[i]->time_ns < from_ns || profiles[i]->time_ns > until_ns)
            continue;
        if (profiles[i]->series != last)
            fg_assert(fg_block_series_begin(writer, &series, &err) == FG_OK);
        last = profiles[i]->series;
        write_profile(profiles[i], series.n_types, writer);
    }
}

/* One, or several of ten minutes. */
static void write_stripes(struct world *world, struct world_profile **profiles, uint32_t n,
                          struct fg_block_writer *writer)
{
    int64_t from_ns = INT64_MIN, until_ns = world->start_ns;

    for (; chance(world, world->stripes_permille) && until_ns < world->start_ns + FG_HOUR_NS;
         until_ns += 10 * FG_MINUTE_NS) {
        write_stripe(world, profiles, n, from_ns, until_ns, writer);
        from_ns = until_ns + 1;
    }
    write_stripe(world, profiles, n, from_ns, INT64_MAX, writer);
}

static void write_part(struct world *world, struct world_profile **profiles, uint32_t n,
                       struct fg_block_writer *writer)
{
    struct fg_arena *arena = fg_arena_create(SIZE_MAX);
    struct fg_rollup_writer *nodes = NULL;
    uint32_t *uses = fg_calloc((size_t)world->tree.n_nodes + 1, sizeof *uses);
    uint32_t *last = fg_calloc((size_t)world->tree.n_nodes + 1, sizeof *last);
    struct fg_err err;

    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < profiles[i]->n_samples; k++) {
            uint32_t stack = profiles[i]->samples[k].stack;

            uses[stack] += last[stack] != i + 1;
            last[stack] = i + 1;
        }
    fg_assert(fg_block_part_begin(writer, world->tenants[profiles[0]->tenant],
                                  fg_cstr(services[world->series[profiles[0]->series].service]),
                                  &world->tree, uses, &err) == FG_OK);
    write_stripes(world, profiles, n, writer);
    if (chance(world, world->rollups_permille))
        nodes = world_rollups(world, profiles, n, writer, NULL, 0, arena).all;
    if (fg_block_part_end(writer, &err) != FG_OK)
        fg_assert_failed(err.msg, __FILE__, __LINE__);
    fg_rollup_writer_destroy(nodes);
    fg_arena_destroy(arena);
    free(uses);
    free(last);
}

static void put(struct world *world, const char *name, struct fg_slice content)
{
    struct fg_bucket_request request = {.verb = FG_BUCKET_PUT, .name = name, .content = content};

    fg_assert(fg_bucket_call(world->bucket, &request) == FG_OK);
    fg_bucket_clear(&request);
}

/* Makes a part with rollups only: profiles of its service that are in no block are not in it. */
static void write_made(struct world *world, struct world_profile **profiles, uint32_t n,
                       struct fg_block_writer *writer)
{
    struct fg_arena *arena = fg_arena_create(SIZE_MAX);
    struct fg_id *derived_from = fg_arena_new(arena, struct fg_id, n);
    struct fg_block_derived made = {.n_profiles = n, .t_min_ns = INT64_MAX, .t_max_ns = INT64_MIN};
    uint32_t n_derived_from = 0;
    struct fg_err err;

    for (uint32_t b = 0; b < world->n_blocks; b++)
        for (uint32_t i = 0; i < n; i++)
            if (profiles[i]->block == b) {
                derived_from[n_derived_from++] = block_id(b);
                break;
            }
    for (uint32_t i = 0; i < n; i++) {
        made.digest = fg_id_add(made.digest, profiles[i]->id);
        made.t_min_ns = FG_MIN(made.t_min_ns, profiles[i]->time_ns);
        made.t_max_ns = FG_MAX(made.t_max_ns, profiles[i]->time_ns);
    }
    fg_assert(
        fg_block_part_begin_derived(writer, world->tenants[profiles[0]->tenant],
                                    fg_cstr(services[world->series[profiles[0]->series].service]),
                                    &made, &err) == FG_OK);
    struct world_rollup_writers nodes =
        world_rollups(world, profiles, n, writer, derived_from, n_derived_from, arena);
    fg_assert(fg_block_part_end(writer, &err) == FG_OK);
    fg_rollup_writer_destroy(nodes.all);
    fg_rollup_writer_destroy(nodes.single);
    fg_arena_destroy(arena);
}

static struct fg_block_summary write_object(struct world *world, const char *name, uint32_t level,
                                            struct world_profile **profiles, uint32_t n, bool made)
{
    struct fg_buf out;
    struct fg_block_sink sink = {append, &out};
    struct fg_block_writer *writer = fg_block_writer_create(&sink, level);
    struct fg_block_summary summary;
    struct fg_err err;

    fg_buf_init(&out, OBJECT_MAX_BYTES);
    sorted_world = world;
    qsort(profiles, n, sizeof(struct world_profile *), profile_order);
    for (uint32_t i = 0, next; i < n; i = next) {
        for (next = i + 1; next < n && same_part(world, profiles[i], profiles[next]);)
            next++;
        if (made)
            write_made(world, profiles + i, next - i, writer);
        else
            write_part(world, profiles + i, next - i, writer);
    }
    fg_assert(fg_block_writer_finish(writer, &summary, &err) == FG_OK);
    fg_block_writer_destroy(writer);
    put(world, name, fg_buf_slice(&out));
    fg_buf_done(&out);
    return summary;
}

/* ---- manifests ---- */

static struct fg_slice get(struct world *world, const char *name, struct fg_arena *arena)
{
    struct fg_bucket_request request = {
        .verb = FG_BUCKET_GET, .name = name, .content_max_bytes = OBJECT_MAX_BYTES};
    struct fg_slice content = {NULL, 0};

    if (fg_bucket_call(world->bucket, &request) == FG_OK)
        content = fg_arena_copy(arena, fg_buf_slice(&request.body));
    fg_bucket_clear(&request);
    return content;
}

static struct fg_l0 read_l0(struct world *world, struct fg_arena *arena)
{
    struct fg_slice bytes = get(world, FG_NAME_L0, arena);
    struct fg_l0 l0 = fg_l0_none();
    struct fg_err err;

    fg_assert(bytes.len == 0 || fg_l0_decode(bytes, arena, &l0, &err) == FG_OK);
    return l0;
}

static void write_l0(struct world *world, const struct fg_l0 *l0)
{
    struct fg_buf out;
    struct fg_err err;

    fg_buf_init(&out, OBJECT_MAX_BYTES);
    fg_assert(fg_l0_encode(l0, &out, &err) == FG_OK);
    put(world, FG_NAME_L0, fg_buf_slice(&out));
    fg_buf_done(&out);
}

static struct fg_blocks read_blocks(struct world *world, uint32_t tenant, struct fg_arena *arena)
{
    struct fg_blocks blocks = fg_blocks_none(world->tenants[tenant]);
    char name[FG_NAME_MAX_BYTES];
    struct fg_err err;

    fg_assert(fg_name_blocks(name, world->tenants[tenant], &err) == FG_OK);
    struct fg_slice bytes = get(world, name, arena);
    fg_assert(bytes.len == 0 ||
              fg_blocks_decode(bytes, world->tenants[tenant], arena, &blocks, &err) == FG_OK);
    return blocks;
}

static void write_blocks(struct world *world, const struct fg_blocks *blocks)
{
    char name[FG_NAME_MAX_BYTES];
    struct fg_buf out;
    struct fg_err err;

    fg_buf_init(&out, OBJECT_MAX_BYTES);
    fg_assert(fg_name_blocks(name, blocks->tenant, &err) == FG_OK &&
              fg_blocks_encode(blocks, &out, &err) == FG_OK);
    put(world, name, fg_buf_slice(&out));
    fg_buf_done(&out);
}

/* ---- what happens ---- */

static uint32_t parts_of(const struct world *world, struct world_profile *const *profiles,
                         uint32_t n, struct fg_l0_new_part *parts)
{
    uint32_t n_parts = 0;

    for (uint32_t t = 0; t < WORLD_TENANTS; t++) {
        struct fg_l0_new_part part = {world->tenants[t], INT64_MAX, INT64_MIN, 0, {0}};

        for (uint32_t i = 0; i < n; i++) {
            if (profiles[i]->tenant != t)
                continue;
            part.profiles++;
            part.t_min_ns = FG_MIN(part.t_min_ns, profiles[i]->time_ns);
            part.t_max_ns = FG_MAX(part.t_max_ns, profiles[i]->time_ns);
        }
        if (part.profiles > 0)
            parts[n_parts++] = part;
    }
    return n_parts;
}

static void commit(struct world *world, struct world_profile **profiles, uint32_t n)
{
    struct fg_arena *arena = fg_arena_create(SIZE_MAX);
    struct fg_l0 before = read_l0(world, arena), after;
    struct fg_l0_new_part parts[WORLD_TENANTS];
    struct fg_l0_new segment = {
        .id = {{1, 2}, ++world->cuts, world_random(world, UINT64_MAX)},
        .profiles = n,
        .parts = parts,
        .n_parts = parts_of(world, profiles, n, parts),
        .groups = fg_late_filter_none(),
    };
    char name[FG_NAME_MAX_BYTES];
    struct fg_err err;

    fg_name_segment(name, &segment.id);
    struct fg_block_summary summary = write_object(world, name, 0, profiles, n, false);
    segment.bytes = summary.file_bytes;
    segment.directory_offset = summary.directory_offset;
    segment.directory_bytes = summary.file_bytes - summary.directory_offset;
    segment.digest = summary.digest;
    segment.t_min_ns = summary.t_min_ns;
    segment.t_max_ns = summary.t_max_ns;
    if (fg_l0_commit(&before, &segment, world->end_ns, 0, arena, &after, &err) != FG_OK)
        fg_assert_failed(err.msg, __FILE__, __LINE__);
    write_l0(world, &after);
    world->generation = after.generation;
    for (uint32_t i = 0; i < n; i++)
        profiles[i]->generation = after.generation;
    fg_arena_destroy(arena);
}

void world_commit(struct world *world, unsigned permille)
{
    struct fg_arena *arena = fg_arena_create(SIZE_MAX);
    struct world_profile **chosen = fg_arena_new(arena, struct world_profile *, world->n_profiles);
    uint32_t n = 0;

    for (uint32_t i = 0; i < world->n_profiles; i++)
        if (world->profiles[i].generation == UINT64_MAX && chance(world, permille))
            chosen[n++] = &world->profiles[i];
    if (n > 0)
        commit(world, chosen, n);
    fg_arena_destroy(arena);
}

/* Removes the deleted profiles; returns the number of the others. */
static uint32_t take_out(const struct world *world, uint32_t tenant,
                         struct world_profile **profiles, uint32_t n)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < n; i++) {
        if (world_deleted(world, profiles[i], &world->deletions[tenant])) {
            profiles[i]->gone = true;
            profiles[i]->block = WORLD_NO_BLOCK;
        } else {
            profiles[kept++] = profiles[i];
        }
    }
    return kept;
}

/* Adds a block of these profiles that replaces what the change names, or that comes in addition to
 * the blocks it is made of; derived: its level then. */
static void swap_blocks(struct world *world, uint32_t tenant, const struct fg_blocks *before,
                        const struct fg_l0 *l0, struct fg_blocks_change *change, uint8_t derived,
                        struct world_profile **profiles, uint32_t n, struct fg_arena *arena)
{
    struct fg_blocks_entry entry = {
        .id = block_id(world->n_blocks),
        .level = derived > 0 ? derived : 1,
        .derived = derived > 0,
        .from_blocks = derived > 0 ? change->replace : NULL,
        .n_from_blocks = derived > 0 ? change->n_replace : 0,
        .start_ns = world->start_ns,
        .end_ns = world->end_ns + 1,
        .shard_last = UINT16_MAX,
    };
    struct fg_block_summary summary = {0};
    struct fg_blocks after;
    char name[FG_NAME_MAX_BYTES];
    bool changed;
    struct fg_err err;

    fg_assert(fg_name_block(name, world->tenants[tenant], entry.id, &err) == FG_OK);
    if (!entry.derived)
        n = take_out(world, tenant, profiles, n);
    if (n > 0)
        summary = write_object(world, name, entry.level, profiles, n, entry.derived);
    entry.profiles = n;
    entry.bytes = summary.file_bytes;
    entry.directory_offset = summary.directory_offset;
    entry.directory_bytes = summary.file_bytes - summary.directory_offset;
    entry.rollup_offset = summary.rollup_offset;
    entry.rollup_bytes = summary.directory_offset - summary.rollup_offset;
    entry.digest = summary.digest;
    entry.t_min_ns = summary.t_min_ns;
    entry.t_max_ns = summary.t_max_ns;
    if (entry.derived)
        change->n_replace = 0; /* the sources stay */
    change->add = &entry;
    change->n_add = n > 0;
    if (fg_blocks_apply(before, l0, change, world->end_ns, arena, &after, &changed, &err) != FG_OK)
        fg_assert_failed(err.msg, __FILE__, __LINE__);
    change->add = NULL; /* it belongs to this function */
    write_blocks(world, &after);
    for (uint32_t i = 0; i < n && !entry.derived; i++)
        profiles[i]->block = world->n_blocks;
    world->n_blocks++;
}

void world_compact(struct world *world, uint32_t tenant)
{
    struct fg_arena *arena = fg_arena_create(SIZE_MAX);
    struct fg_l0 l0 = read_l0(world, arena);
    struct fg_blocks before = read_blocks(world, tenant, arena);
    struct world_profile **chosen = fg_arena_new(arena, struct world_profile *, world->n_profiles);
    uint64_t *cover = fg_arena_new(arena, uint64_t, l0.n_segments);
    struct fg_blocks_change change = {.cover = cover};
    uint32_t number = fg_l0_tenant(&l0, world->tenants[tenant]), n = 0;

    for (uint32_t i = 0; number != FG_L0_NO_TENANT && i < l0.n_segments; i++)
        if (fg_l0_part(&l0.segments[i], number) != NULL &&
            !fg_blocks_covers(&before, l0.segments[i].generation) && chance(world, 700))
            cover[change.n_cover++] = l0.segments[i].generation;
    for (uint32_t i = 0; i < world->n_profiles; i++)
        for (uint32_t k = 0; k < change.n_cover; k++)
            if (world->profiles[i].tenant == tenant && world->profiles[i].generation == cover[k])
                chosen[n++] = &world->profiles[i];
    if (change.n_cover > 0)
        swap_blocks(world, tenant, &before, &l0, &change, 0, chosen, n, arena);
    fg_arena_destroy(arena);
}

void world_join(struct world *world, uint32_t tenant)
{
    struct fg_arena *arena = fg_arena_create(SIZE_MAX);
    struct fg_l0 l0 = read_l0(world, arena);
    struct fg_blocks before = read_blocks(world, tenant, arena);
    struct world_profile **chosen = fg_arena_new(arena, struct world_profile *, world->n_profiles);
    struct fg_id *replace = fg_arena_new(arena, struct fg_id, before.n_blocks);
    struct fg_blocks_change change = {.replace = replace};
    uint32_t n = 0;

    for (uint32_t i = 0; i < before.n_blocks; i++)
        if (!before.blocks[i].derived)
            replace[change.n_replace++] = before.blocks[i].id;
    for (uint32_t i = 0; i < world->n_profiles; i++)
        if (world->profiles[i].tenant == tenant && world->profiles[i].block != WORLD_NO_BLOCK)
            chosen[n++] = &world->profiles[i];
    if (change.n_replace > 1 || (n > 0 && world->deletions[tenant].count > 0))
        swap_blocks(world, tenant, &before, &l0, &change, 0, chosen, n, arena);
    fg_arena_destroy(arena);
}

/* As a compactor does, skips services that only one of the blocks has. */
static uint32_t drop_lonely(const struct world *world, struct world_profile **profiles, uint32_t n)
{
    uint32_t *blocks = fg_malloc(world->n_series * sizeof *blocks), kept = 0;
    bool *several = fg_calloc(world->n_series, sizeof *several);

    for (uint32_t i = 0; i < world->n_series; i++) /* at least the number of services */
        blocks[i] = WORLD_NO_BLOCK;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t service = world->series[profiles[i]->series].service;

        several[service] = several[service] || (blocks[service] != WORLD_NO_BLOCK &&
                                                blocks[service] != profiles[i]->block);
        blocks[service] = profiles[i]->block;
    }
    for (uint32_t i = 0; i < n; i++)
        if (several[world->series[profiles[i]->series].service])
            profiles[kept++] = profiles[i];
    free(blocks);
    free(several);
    return kept;
}

static bool is_from(const struct fg_blocks_change *change, uint32_t block)
{
    for (uint32_t i = 0; block != WORLD_NO_BLOCK && i < change->n_replace; i++)
        if (fg_id_eq(change->replace[i], block_id(block)))
            return true;
    return false;
}

/* Makes rollups of some blocks, unless there are any of this level or above it. */
static void sum_some(struct world *world, uint32_t tenant, uint8_t level, unsigned permille)
{
    struct fg_arena *arena = fg_arena_create(SIZE_MAX);
    struct fg_l0 l0 = read_l0(world, arena);
    struct fg_blocks before = read_blocks(world, tenant, arena);
    struct world_profile **chosen = fg_arena_new(arena, struct world_profile *, world->n_profiles);
    struct fg_id *from = fg_arena_new(arena, struct fg_id, before.n_blocks);
    struct fg_blocks_change change = {.replace = from};
    bool there = false;
    uint32_t n = 0;

    for (uint32_t i = 0; i < before.n_blocks; i++) {
        there = there || (before.blocks[i].derived && before.blocks[i].level >= level);
        if (!before.blocks[i].derived && chance(world, permille))
            from[change.n_replace++] = before.blocks[i].id;
    }
    for (uint32_t i = 0; i < world->n_profiles; i++)
        if (world->profiles[i].tenant == tenant && is_from(&change, world->profiles[i].block))
            chosen[n++] = &world->profiles[i];
    n = drop_lonely(world, chosen, n);
    if (!there && n > 0)
        swap_blocks(world, tenant, &before, &l0, &change, level, chosen, n, arena);
    fg_arena_destroy(arena);
}

void world_sum(struct world *world, uint32_t tenant)
{
    sum_some(world, tenant, 4, 600);
    sum_some(world, tenant, 5, 1000);
}

static bool all_cover(const struct world *world, const struct fg_l0 *l0,
                      const struct fg_l0_segment *segment, const struct fg_blocks *blocks)
{
    for (uint32_t t = 0; t < WORLD_TENANTS; t++) {
        uint32_t number = fg_l0_tenant(l0, world->tenants[t]);

        if (number != FG_L0_NO_TENANT && fg_l0_part(segment, number) != NULL &&
            !fg_blocks_covers(&blocks[t], segment->generation))
            return false;
    }
    return true;
}

void world_retire(struct world *world)
{
    struct fg_arena *arena = fg_arena_create(SIZE_MAX);
    struct fg_l0 l0 = read_l0(world, arena), after;
    uint64_t *generations = fg_arena_new(arena, uint64_t, l0.n_segments);
    struct fg_blocks blocks[WORLD_TENANTS];
    uint32_t n = 0;
    bool changed = false;
    struct fg_err err;

    for (uint32_t t = 0; t < WORLD_TENANTS; t++)
        blocks[t] = read_blocks(world, t, arena);
    for (uint32_t i = 0; i < l0.n_segments; i++)
        if (all_cover(world, &l0, &l0.segments[i], blocks))
            generations[n++] = l0.segments[i].generation;
    fg_assert(fg_l0_retire(&l0, generations, n, world->end_ns, arena, &after, &changed, &err) ==
              FG_OK);
    if (changed)
        write_l0(world, &after);
    fg_arena_destroy(arena);
}

void world_erase(struct world *world, const char *name)
{
    struct fg_bucket_request request = {.verb = FG_BUCKET_DELETE, .name = name};

    fg_assert(fg_bucket_call(world->bucket, &request) == FG_OK);
    fg_bucket_clear(&request);
}

void world_sweep(struct world *world)
{
    struct fg_arena *arena = fg_arena_create(SIZE_MAX);
    struct fg_l0 l0 = read_l0(world, arena);
    char name[FG_NAME_MAX_BYTES];
    struct fg_err err;

    for (uint32_t i = 0; i < l0.n_gone; i++) {
        fg_name_segment(name, &l0.gone[i].id);
        world_erase(world, name);
    }
    for (uint32_t t = 0; t < WORLD_TENANTS; t++) {
        struct fg_blocks blocks = read_blocks(world, t, arena);

        for (uint32_t i = 0; i < blocks.n_gone; i++) {
            fg_assert(fg_name_block(name, world->tenants[t], blocks.gone[i].id, &err) == FG_OK);
            world_erase(world, name);
        }
    }
    fg_arena_destroy(arena);
}

void world_forget(struct world *world)
{
    world->forgotten = world->generation;
}

void world_settle(struct world *world)
{
    world_push(world, 300);
    for (unsigned i = 0; i < 6; i++) {
        world_commit(world, 300);
        world_forget(world);
        if (i == 3)
            for (uint32_t t = 0; t < 2; t++)
                world_compact(world, t);
    }
}

/* ---- deletions ---- */

static const char *const deleted[] = {
    "{}",           "{service_name=\"shop\"}",           "{service_name=\"api\",pod=~\"p[01]\"}",
    "{pod=\"p1\"}", "{__name__=\"memory\",zone!=\"a\"}", "{zone=\"\"}",
};

/* Times are on profiles and next to them. */
void world_delete(struct world *world, uint32_t tenant)
{
    struct fg_arena *arena = fg_arena_create(SIZE_MAX);
    struct fg_blocks before = read_blocks(world, tenant, arena), after;
    struct fg_deletions *deletions = &world->deletions[tenant];
    struct fg_blocks_tombstone tombstone = {
        .id = {++world->deletions_ever, 1},
        .selector = fg_cstr(deleted[world_random(world, FG_COUNT(deleted))]),
        .start_ns = world->start_ns + (int64_t)world_random(world, 361) * 10 * FG_SECOND_NS,
    };
    struct fg_deletion deletion = {.start_ns = tombstone.start_ns};
    bool changed;
    struct fg_err err;

    tombstone.end_ns =
        tombstone.start_ns + 1 + (int64_t)world_random(world, 60) * 10 * FG_SECOND_NS;
    if (chance(world, 100))
        tombstone.end_ns = INT64_MAX;
    deletion.end_ns = tombstone.end_ns == INT64_MAX ? INT64_MAX : tombstone.end_ns - 1;
    fg_assert(fg_blocks_bury(&before, &tombstone, arena, &after, &changed, &err) == FG_OK);
    write_blocks(world, &after);
    fg_assert(fg_selector_parse(tombstone.selector, world->arena, &deletion.selector, &err) ==
                  FG_OK &&
              fg_deletions_add(deletions, &deletion, world->arena, &err) == FG_OK);
    world->deletion_ids[tenant][deletions->count - 1] = tombstone.id;
    fg_arena_destroy(arena);
}

static bool is_carried_out(const struct world *world, uint32_t tenant,
                           const struct fg_deletion *deletion)
{
    struct fg_deletion one = *deletion;
    const struct fg_deletions only = {.items = &one, .count = 1};

    for (uint32_t i = 0; i < world->n_profiles; i++)
        if (world->profiles[i].tenant == tenant && !world->profiles[i].gone &&
            world_deleted(world, &world->profiles[i], &only))
            return false;
    return true;
}

void world_undelete(struct world *world, uint32_t tenant)
{
    struct fg_deletions *deletions = &world->deletions[tenant];

    for (uint32_t i = deletions->count; i > 0; i--) {
        struct fg_arena *arena = fg_arena_create(SIZE_MAX);
        struct fg_blocks before = read_blocks(world, tenant, arena), after;
        struct fg_id *id = &world->deletion_ids[tenant][i - 1];
        bool changed;
        struct fg_err err;

        if (is_carried_out(world, tenant, &deletions->items[i - 1])) {
            fg_assert(fg_blocks_unbury(&before, *id, world->end_ns, arena, &after, &changed,
                                       &err) == FG_OK);
            write_blocks(world, &after);
            fg_selector_done(&deletions->items[i - 1].selector);
            deletions->items[i - 1] = deletions->items[--deletions->count];
            *id = world->deletion_ids[tenant][deletions->count];
            deletions->n_regexes = 0; /* not needed for sizes */
            deletions->bytes = 0;
        }
        fg_arena_destroy(arena);
    }
}
