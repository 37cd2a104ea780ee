#include "proto/builder/impl.h"

struct fg_decode_limits fg_decode_limits_of(const struct fg_limit_settings *limits)
{
    return (struct fg_decode_limits){
        .samples_max = (uint32_t)limits->max_profile_stacktrace_samples,
        .sample_labels_max = (uint32_t)limits->max_profile_stacktrace_sample_labels,
        .stack_depth_max = (uint32_t)limits->max_profile_stacktrace_depth,
        .symbol_max_bytes = (uint32_t)limits->max_profile_symbol_value_length,
        .label_names_max = (uint32_t)limits->max_label_names_per_series,
        .label_name_max_bytes = (uint32_t)limits->max_label_name_length,
        .label_value_max_bytes = (uint32_t)limits->max_label_value_length,
    };
}

/* ---- ids of locations and stacks ---- */

/*
 * Strings, functions and locations are hashed to 64 bits on the way, stacks to 128 at the end: what
 * has to be told apart by the short ones is within one service, where a million locations meet by
 * chance once in thirty million services; and it is half the work.
 */

/* True if both are the same bytes of the upload, not just equal ones. */
static bool same_slice(struct fg_slice a, struct fg_slice b)
{
    return a.ptr == b.ptr && a.len == b.len;
}

/*
 * The content of a function: hashes of its strings and the line it starts at. System names are
 * mostly the name again, and functions of one file follow each other: such a string is the same
 * slice of the upload and need not be hashed again. before: the function before this one, or NULL.
 */
struct function_content {
    uint64_t name, system_name, filename;
    int64_t start_line;
};

static uint64_t function_hash(const struct fg_batch_function *function,
                              const struct fg_batch_function *before,
                              struct function_content *content)
{
    if (before == NULL || !same_slice(function->filename, before->filename))
        content->filename = fg_hash64(function->filename);
    content->name = fg_hash64(function->name);
    content->system_name = same_slice(function->system_name, function->name)
                               ? content->name
                               : fg_hash64(function->system_name);
    content->start_line = function->start_line;
    return fg_hash64(fg_bytes(content, sizeof *content));
}

static uint64_t mapping_hash(const struct fg_batch_mapping *mapping)
{
    /* All that tells mappings apart. Numbers of the upload (ids) are not part of it: they differ
     * between senders. */
    const uint64_t content[] = {
        fg_hash64(mapping->filename),
        fg_hash64(mapping->build_id),
        mapping->start,
        mapping->limit,
        mapping->offset,
        mapping->flags,
    };

    return fg_hash64(fg_bytes(content, sizeof content));
}

/* Inlined chains are short; hashing line onto line needs no buffer of unknown size. */
static uint64_t line_hash(uint64_t before, uint64_t function, int64_t line)
{
    const uint64_t content[] = {before, function, (uint64_t)line};

    return fg_hash64(fg_bytes(content, sizeof content));
}

static uint64_t location_hash(const struct fg_batch_location *location, uint64_t mapping,
                              uint64_t lines)
{
    const uint64_t content[] = {mapping, lines, location->address, location->folded};

    return fg_hash64(fg_bytes(content, sizeof content));
}

/* functions and mappings: hashes of the batch's, by number. */
static uint64_t table_location_hash(const struct fg_batch *batch, uint32_t number,
                                    const uint64_t *functions, const uint64_t *mappings)
{
    const struct fg_batch_location *location = &batch->locations[number];
    uint64_t mapping = location->mapping == FG_NO_MAPPING ? 0 : mappings[location->mapping];
    uint64_t lines = 0;

    for (uint32_t i = 0; i < location->n_lines; i++) {
        const struct fg_line *line = &batch->lines[location->first_line + i];

        lines = line_hash(lines, functions[line->function], line->line);
    }
    return location_hash(location, mapping, lines);
}

struct fg_builder *fg_builder_create(struct fg_arena *arena, const struct fg_decode_limits *limits,
                                     struct fg_batch *batch, struct fg_decode_counts *counts)
{
    struct fg_builder *builder = fg_arena_new(arena, struct fg_builder, 1);

    if (builder == NULL)
        return NULL;
    builder->arena = arena;
    builder->limits = *limits;
    builder->batch = batch;
    builder->counts = counts;
    /* Keeps tables of lines from being flooded. It goes into no id, which are equal on every
     * machine. */
    builder->seed = fg_hash_seed();
    if (batch->n_mappings > 0)
        builder->mapping_hash = mapping_hash(&batch->mappings[0]);
    builder->cap_functions = batch->n_functions;
    builder->cap_locations = batch->n_locations;
    builder->cap_lines = batch->n_lines;
    return builder;
}

enum fg_code fg_builder_reserve(struct fg_builder *builder, uint32_t n_samples, struct fg_err *err)
{
    enum { RESERVE_MAX = 16384 }; /* beyond it, growing costs little compared with the rest */
    struct fg_batch *batch = builder->batch;
    /* The count is the sender's claim, so it may only reserve a bounded amount. */
    uint32_t n = FG_MIN(n_samples, RESERVE_MAX);
    uint32_t cap_values = builder->cap_rows, cap_first = builder->cap_stacks;

    if (!fg_arena_grow(builder->arena, &builder->values, 0, n, &cap_values,
                       batch->n_types * sizeof *builder->values) ||
        !fg_arena_grow(builder->arena, &builder->rows, 0, n, &builder->cap_rows,
                       sizeof *builder->rows) ||
        !fg_arena_grow(builder->arena, &builder->first_rows, 0, n, &cap_first,
                       sizeof *builder->first_rows) ||
        !fg_arena_grow(builder->arena, &batch->stacks, 0, n, &builder->cap_stacks,
                       sizeof *batch->stacks) ||
        !fg_map_reserve_in(&builder->stacks, builder->arena, n))
        return fg_builder_too_large(err);
    return FG_OK;
}

enum fg_code fg_builder_hash_locations(struct fg_builder *builder, struct fg_err *err)
{
    struct fg_batch *batch = builder->batch;
    uint64_t *functions = fg_arena_alloc(builder->arena, batch->n_functions * sizeof *functions);
    uint64_t *mappings = fg_arena_alloc(builder->arena, batch->n_mappings * sizeof *mappings);
    struct function_content content;

    builder->location_hashes =
        fg_arena_alloc(builder->arena, batch->n_locations * sizeof *builder->location_hashes);
    builder->cap_location_hashes = batch->n_locations;
    if (functions == NULL || mappings == NULL || builder->location_hashes == NULL)
        return fg_builder_too_large(err);
    for (uint32_t i = 0; i < batch->n_functions; i++)
        functions[i] =
            function_hash(&batch->functions[i], i == 0 ? NULL : &batch->functions[i - 1], &content);
    for (uint32_t i = 0; i < batch->n_mappings; i++)
        mappings[i] = mapping_hash(&batch->mappings[i]);
    for (uint32_t i = 0; i < batch->n_locations; i++)
        builder->location_hashes[i] = table_location_hash(batch, i, functions, mappings);
    return FG_OK;
}

struct fg_slice fg_symbol_cut(struct fg_slice text, const struct fg_decode_limits *limits,
                              struct fg_decode_counts *counts)
{
    uint32_t max = limits->symbol_max_bytes;

    if (max == 0 || text.len <= max)
        return text;
    fg_assert(text.ptr != NULL);
    counts->symbols_cut++;
    /* Keeps the end, where a qualified name has its own part, and does not begin inside of a
     * UTF-8 sequence. */
    text = fg_slice_sub(text, text.len - max, max);
    while (text.len > 0 && (text.ptr[0] & 0xc0) == 0x80)
        text = fg_slice_sub(text, 1, text.len);
    return text;
}

/* Returns the number of the function of that name, or NO_FUNCTION. */
static uint32_t function_find(const struct fg_builder *builder, struct fg_slice name, uint64_t hash)
{
    struct fg_map_walk walk;
    uint32_t i;

    for (i = fg_map_first(&builder->names, hash, &walk); i != FG_MAP_NONE;
         i = fg_map_next(&builder->names, &walk))
        if (fg_slice_eq(builder->batch->functions[i].name, name))
            break;
    return i;
}

static bool function_add(struct fg_builder *builder, const struct fg_batch_function *function,
                         uint64_t hash)
{
    struct fg_batch *batch = builder->batch;
    uint32_t n = batch->n_functions, cap_hashes = builder->cap_functions;
    uint32_t cap_first = builder->cap_functions;
    struct function_content content;

    if (!fg_arena_grow(builder->arena, &builder->function_hashes, n, 1, &cap_hashes,
                       sizeof *builder->function_hashes) ||
        !fg_arena_grow(builder->arena, &builder->first_locations, n, 1, &cap_first,
                       sizeof *builder->first_locations) ||
        !fg_arena_grow(builder->arena, &batch->functions, n, 1, &builder->cap_functions,
                       sizeof *batch->functions) ||
        !fg_map_add_in(&builder->names, builder->arena, hash, n))
        return false;
    batch->functions[n] = *function;
    builder->function_hashes[n] = function_hash(function, NULL, &content);
    builder->first_locations[n] = NO_LOCATION;
    batch->n_functions++;
    return true;
}

enum fg_code fg_builder_function(struct fg_builder *builder, struct fg_slice name,
                                 uint32_t *ret_function, struct fg_err *err)
{
    struct fg_batch_function function = {
        .name = fg_symbol_cut(name, &builder->limits, builder->counts)};
    uint64_t hash = fg_hash64_table(function.name);
    uint32_t number = function_find(builder, function.name, hash);

    if (number == NO_FUNCTION) {
        number = builder->batch->n_functions;
        function.name = fg_arena_copy(builder->arena, function.name);
        if (function.name.ptr == NULL || !function_add(builder, &function, hash))
            return fg_builder_too_large(err);
    }
    *ret_function = number;
    return FG_OK;
}

/* Seeded: lines are the sender's choice, so it must not know which of them meet in the map. */
static uint64_t line_key(const struct fg_builder *builder, uint32_t function, int64_t line)
{
    return fg_mix64(builder->seed ^ (uint64_t)line ^ (uint64_t)function << 32);
}

/* Returns the number of the location of that line, or NO_LOCATION. Most functions have one line,
 * which needs no map. */
static uint32_t line_find(const struct fg_builder *builder, uint32_t function, int64_t line)
{
    const struct fg_batch *batch = builder->batch;
    uint32_t i = builder->first_locations[function];
    struct fg_map_walk walk;

    if (i == NO_LOCATION || batch->lines[batch->locations[i].first_line].line == line)
        return i;
    for (i = fg_map_first(&builder->more_lines, line_key(builder, function, line), &walk);
         i != FG_MAP_NONE; i = fg_map_next(&builder->more_lines, &walk)) {
        const struct fg_line *at = &batch->lines[batch->locations[i].first_line];

        if (at->function == function && at->line == line)
            break;
    }
    return i;
}

static bool line_add(struct fg_builder *builder, uint32_t function, int64_t line)
{
    struct fg_batch *batch = builder->batch;
    uint32_t n = batch->n_locations;
    bool first = builder->first_locations[function] == NO_LOCATION;

    if (!fg_arena_grow(builder->arena, &batch->lines, batch->n_lines, 1, &builder->cap_lines,
                       sizeof *batch->lines) ||
        !fg_arena_grow(builder->arena, &batch->locations, n, 1, &builder->cap_locations,
                       sizeof *batch->locations) ||
        !fg_arena_grow(builder->arena, &builder->location_hashes, n, 1,
                       &builder->cap_location_hashes, sizeof *builder->location_hashes))
        return false;
    /* All arrays have grown before anything is entered, so a full arena leaves no half of a
     * location. */
    if (first)
        builder->first_locations[function] = n;
    else if (!fg_map_add_in(&builder->more_lines, builder->arena, line_key(builder, function, line),
                            n))
        return false;
    batch->locations[n] = (struct fg_batch_location){
        .mapping = batch->n_mappings > 0 ? 0 : FG_NO_MAPPING,
        .first_line = batch->n_lines,
        .n_lines = 1,
    };
    batch->lines[batch->n_lines++] = (struct fg_line){function, line};
    builder->location_hashes[n] =
        location_hash(&batch->locations[n], builder->mapping_hash,
                      line_hash(0, builder->function_hashes[function], line));
    batch->n_locations++;
    return true;
}

enum fg_code fg_builder_line(struct fg_builder *builder, uint32_t function, int64_t line,
                             uint32_t *ret_location, struct fg_err *err)
{
    uint32_t number = line_find(builder, function, line);

    if (number == NO_LOCATION) {
        number = builder->batch->n_locations;
        if (!line_add(builder, function, line))
            return fg_builder_too_large(err);
    }
    *ret_location = number;
    return FG_OK;
}

enum fg_code fg_builder_name(struct fg_builder *builder, struct fg_slice name,
                             uint32_t *ret_location, struct fg_err *err)
{
    struct fg_slice cut = fg_symbol_cut(name, &builder->limits, builder->counts);
    struct fg_batch_function function = {.name = cut, .system_name = cut};
    uint64_t hash = fg_hash64_table(cut);
    uint32_t number = function_find(builder, cut, hash);

    if (number != NO_FUNCTION) { /* it was made here, with its one location */
        *ret_location = builder->first_locations[number];
        return FG_OK;
    }
    number = builder->batch->n_functions;
    if (!function_add(builder, &function, hash))
        return fg_builder_too_large(err);
    return fg_builder_line(builder, number, 0, ret_location, err);
}

/* Hashes the hashes of the locations, leaf first, a buffer at a time. The id depends on content
 * alone: the same stack gets it on every machine and in every upload. */
struct fg_id fg_builder_stack_id(const struct fg_builder *builder, const uint32_t *locations,
                                 uint32_t depth)
{
    uint64_t hashes[130]; /* the first two are for the hash of those before */
    struct fg_id id = {0, 0};

    do {
        uint32_t n = FG_MIN(depth, (uint32_t)FG_COUNT(hashes) - 2);

        hashes[0] = id.lo;
        hashes[1] = id.hi;
        for (uint32_t i = 0; i < n; i++)
            hashes[2 + i] = builder->location_hashes[locations[i]];
        id = fg_hash128(fg_bytes(hashes, (2 + (size_t)n) * sizeof *hashes));
        if (n > 0) /* a stack without locations may be NULL */
            locations += n;
        depth -= n;
    } while (depth > 0);
    return id;
}

static bool stack_add(struct fg_builder *builder, struct fg_id id, const uint32_t *locations,
                      uint32_t depth)
{
    struct fg_batch *batch = builder->batch;
    uint32_t cap_first = builder->cap_stacks;

    if (!fg_arena_grow(builder->arena, &builder->first_rows, batch->n_stacks, 1, &cap_first,
                       sizeof *builder->first_rows) ||
        !fg_arena_grow(builder->arena, &batch->stacks, batch->n_stacks, 1, &builder->cap_stacks,
                       sizeof *batch->stacks) ||
        !fg_arena_grow(builder->arena, &batch->stack_locations, batch->n_stack_locations, depth,
                       &builder->cap_stack_locations, sizeof *batch->stack_locations) ||
        !fg_map_add_in(&builder->stacks, builder->arena, fg_id_table(id), batch->n_stacks))
        return false;
    builder->first_rows[batch->n_stacks] = NO_ROW;
    batch->stacks[batch->n_stacks++] = (struct fg_stack){id, batch->n_stack_locations, depth};
    if (depth > 0)
        memcpy(batch->stack_locations + batch->n_stack_locations, locations,
               depth * sizeof *locations);
    batch->n_stack_locations += depth;
    return true;
}

enum fg_code fg_builder_stack(struct fg_builder *builder, const uint32_t *locations, uint32_t depth,
                              uint32_t *ret_stack, struct fg_err *err)
{
    uint32_t max = builder->limits.stack_depth_max;
    struct fg_map_walk walk;
    struct fg_id id;

    if (max != 0 && depth > max) { /* the root side says what the program was doing */
        locations += depth - max;
        depth = max;
        builder->counts->stacks_cut++;
    }
    id = fg_builder_stack_id(builder, locations, depth);
    /* The map has 64 bits of the id, the comparison all 128. */
    for (uint32_t i = fg_map_first(&builder->stacks, fg_id_table(id), &walk); i != FG_MAP_NONE;
         i = fg_map_next(&builder->stacks, &walk)) {
        if (fg_id_eq(builder->batch->stacks[i].id, id)) {
            *ret_stack = i;
            return FG_OK;
        }
    }
    if (!stack_add(builder, id, locations, depth))
        return fg_builder_too_large(err);
    *ret_stack = builder->batch->n_stacks - 1;
    return FG_OK;
}
