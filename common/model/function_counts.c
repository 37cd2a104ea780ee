#include "common/model/function_counts.h"

static bool init(struct fg_function_counts *counts, const uint32_t *parents, const uint32_t *places,
                 uint32_t n_nodes, uint32_t n_places, struct fg_arena *arena)
{
    *counts = (struct fg_function_counts){
        .arena = arena,
        .parents = parents,
        .places = places,
        .n_nodes = n_nodes,
        .n_places = n_places,
        .node_seen = fg_arena_new(arena, uint32_t, n_nodes),
        .place_seen = fg_arena_new(arena, uint32_t, n_places),
    };
    fg_map_init(&counts->by_name);
    fg_buf_init(&counts->scratch, SIZE_MAX);
    return counts->node_seen != NULL && counts->place_seen != NULL;
}

bool fg_function_counts_init(struct fg_function_counts *counts, const struct fg_tree *tree,
                             struct fg_arena *arena)
{
    uint32_t n = tree->symbols.n_locations;

    if (!init(counts, tree->parents, tree->locations, tree->n_nodes, n, arena))
        return false;
    counts->symbols = &tree->symbols;
    counts->first_frame = fg_arena_new(arena, uint32_t, n);
    if (counts->first_frame == NULL)
        return false;
    /* All bits set are FG_MAP_NONE. */
    memset(counts->first_frame, 0xff, n * sizeof *counts->first_frame);
    return true;
}

bool fg_function_counts_init_functions(struct fg_function_counts *counts,
                                       const struct fg_function_tree *tree, struct fg_arena *arena)
{
    if (!init(counts, tree->parents, tree->functions, tree->n_nodes, tree->n_names, arena))
        return false;
    counts->names = tree->names;
    counts->n_functions = tree->n_names;
    counts->counts = fg_arena_new(arena, uint32_t, tree->n_names);
    return counts->counts != NULL;
}

void fg_function_counts_done(struct fg_function_counts *counts)
{
    if (counts->arena == NULL)
        return;
    fg_map_done(&counts->by_name);
    fg_buf_done(&counts->scratch);
}

/* ---- functions of locations ---- */

static bool add_function(struct fg_function_counts *counts, struct fg_slice name)
{
    struct fg_arena *arena = counts->arena;
    struct fg_slice copy = fg_arena_copy(arena, name);
    uint32_t n = counts->n_functions;

    if (copy.ptr == NULL ||
        !fg_arena_grow(arena, &counts->names, n, 1, &counts->cap_names, sizeof *counts->names) ||
        !fg_arena_grow(arena, &counts->function_seen, n, 1, &counts->cap_seen,
                       sizeof *counts->function_seen) ||
        !fg_arena_grow(arena, &counts->counts, n, 1, &counts->cap_counts, sizeof *counts->counts))
        return false;
    counts->names[n] = copy;
    counts->function_seen[n] = counts->counts[n] = 0;
    fg_map_add(&counts->by_name, fg_hash64_table(copy), n);
    counts->n_functions++;
    return true;
}

/* Finds or adds a function. The name may be in scratch memory. */
static bool find_function(struct fg_function_counts *counts, struct fg_slice name, uint32_t *ret)
{
    struct fg_map_walk walk;

    for (uint32_t i = fg_map_first(&counts->by_name, fg_hash64_table(name), &walk);
         i != FG_MAP_NONE; i = fg_map_next(&counts->by_name, &walk))
        if (fg_slice_eq(counts->names[i], name)) {
            *ret = i;
            return true;
        }
    *ret = counts->n_functions;
    return add_function(counts, name);
}

static bool learn_location(struct fg_function_counts *counts, uint32_t location)
{
    uint32_t n = fg_frame_count(&counts->symbols->locations[location]);

    if (!fg_arena_grow(counts->arena, &counts->frames, counts->n_frames, n, &counts->cap_frames,
                       sizeof *counts->frames))
        return false;
    for (uint32_t i = 0; i < n; i++)
        if (!find_function(counts, fg_frame_name(counts->symbols, location, i, &counts->scratch),
                           &counts->frames[counts->n_frames + i]))
            return false;
    counts->first_frame[location] = counts->n_frames;
    counts->n_frames += n;
    return true;
}

static bool count_location(struct fg_function_counts *counts, uint32_t location)
{
    uint32_t n = fg_frame_count(&counts->symbols->locations[location]);

    if (counts->first_frame[location] == FG_MAP_NONE && !learn_location(counts, location))
        return false;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t function = counts->frames[counts->first_frame[location] + i];

        /* Several locations are of one function. */
        if (counts->function_seen[function] != counts->profile) {
            counts->function_seen[function] = counts->profile;
            counts->counts[function]++;
        }
    }
    return true;
}

/* ---- profiles ---- */

void fg_function_counts_profile(struct fg_function_counts *counts)
{
    counts->profile++;
    fg_assert(counts->profile != UINT32_MAX);
}

bool fg_function_counts_stack(struct fg_function_counts *counts, uint32_t node)
{
    /* A new profile has its first stack with a value: the last one that had any was another. */
    if (counts->last != counts->profile) {
        counts->last = counts->profile;
        counts->n_profiles++;
    }
    if (node == FG_TREE_ROOT)
        counts->no_stack++;
    for (; node != FG_TREE_ROOT && counts->node_seen[node] != counts->profile;
         node = counts->parents[node]) {
        uint32_t place = counts->places[node];

        counts->node_seen[node] = counts->profile;
        if (counts->place_seen[place] == counts->profile)
            continue;
        counts->place_seen[place] = counts->profile;
        if (counts->symbols == NULL)
            counts->counts[place]++;
        else if (!count_location(counts, place))
            return false;
    }
    return true;
}

void fg_function_counts_put(struct fg_tree *into, struct fg_slice name, int64_t count)
{
    fg_tree_add(into,
                fg_tree_child(into, FG_TREE_ROOT, fg_symbols_name_location(&into->symbols, name)),
                count);
}

void fg_function_counts_write(const struct fg_function_counts *counts, struct fg_tree *into)
{
    for (uint32_t i = 0; i < counts->n_functions; i++)
        if (counts->counts[i] > 0)
            fg_function_counts_put(into, counts->names[i], counts->counts[i]);
    if (counts->no_stack > 0)
        fg_function_counts_put(into, FG_LIT(FG_FRAME_NO_STACK), counts->no_stack);
    fg_tree_add(into, FG_TREE_ROOT, (int64_t)counts->n_profiles);
}
