#include "proto/builder.h"

#include "common/base/str.h"

/* A sample as it came, before it is known how many its profile has. */
struct row {
    uint32_t group; /* NO_GROUP: its values are in another row now, or nowhere */
    uint32_t stack;
    uint32_t link; /* into links, or NO_LINK */
};

enum {
    NO_LINK = UINT32_MAX,
    NO_GROUP = UINT32_MAX,
    NO_ROW = FG_MAP_NONE,
    NO_FUNCTION = FG_MAP_NONE,
    NO_LOCATION = FG_MAP_NONE,
};

struct group {
    struct fg_labels labels;
    struct fg_labels joined; /* with the upload's, at the end */
    uint32_t into;           /* the first group with these joined labels; its own number mostly;
                              * NO_GROUP: dropped by a rule */
    uint32_t n_rows, n_links;
};

struct fg_builder {
    struct fg_arena *arena;
    struct fg_decode_limits limits;
    struct fg_batch *batch;
    struct fg_decode_counts *counts;

    uint64_t *location_hashes;
    uint32_t cap_location_hashes;
    uint32_t cap_functions, cap_locations, cap_lines, cap_stacks, cap_stack_locations;

    /* Of functions that the builder made; and their first locations, mostly the only ones. */
    uint64_t *function_hashes;
    uint32_t *first_locations;
    struct fg_map names, more_lines;
    uint64_t mapping_hash; /* of the mapping that their locations are in */
    uint64_t seed;

    /* First row of each stack, or NO_ROW: mostly the only one, so that few need the map of rows. */
    uint32_t *first_rows;
    struct row *rows;
    int64_t *values; /* n_types for each row */
    struct fg_link *links;
    struct group *groups;
    uint32_t n_rows, n_links, n_groups;
    uint32_t cap_rows, cap_links, cap_groups;

    struct fg_map stacks, samples, group_map;
};

static enum fg_code too_large(struct fg_err *err)
{
    return fg_fail(err, FG_E_TOO_LARGE, "profile needs more memory than decoding may use");
}

/* ---- ids of locations and stacks ---- */

/*
 * Strings, functions and locations are hashed to 64 bits on the way, stacks to 128 at the end: what
 * has to be told apart by the short ones is within one service, where a million locations meet by
 * chance once in thirty million services; and it is half the work.
 */

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
    enum { RESERVE_MAX = 16384 }; /* beyond it growing costs little beside the rest */
    struct fg_batch *batch = builder->batch;
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
        return too_large(err);
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
        return too_large(err);
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
    text = fg_slice_sub(text, text.len - max, max);
    while (text.len > 0 && (text.ptr[0] & 0xc0) == 0x80)
        text = fg_slice_sub(text, 1, text.len);
    return text;
}

/* The number of the function of that name, or NO_FUNCTION. */
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
            return too_large(err);
    }
    *ret_function = number;
    return FG_OK;
}

/* Lines are a stranger's choice, so nobody may know where they go in the map. */
static uint64_t line_key(const struct fg_builder *builder, uint32_t function, int64_t line)
{
    return fg_mix64(builder->seed ^ (uint64_t)line ^ (uint64_t)function << 32);
}

/* The number of the location of that line, or NO_LOCATION. */
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
            return too_large(err);
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
        return too_large(err);
    return fg_builder_line(builder, number, 0, ret_location, err);
}

/* Hash of the hashes of the locations, a buffer of them at a time where they are many. */
static struct fg_id stack_id(const struct fg_builder *builder, const uint32_t *locations,
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
    id = stack_id(builder, locations, depth);
    for (uint32_t i = fg_map_first(&builder->stacks, fg_id_table(id), &walk); i != FG_MAP_NONE;
         i = fg_map_next(&builder->stacks, &walk)) {
        if (fg_id_eq(builder->batch->stacks[i].id, id)) {
            *ret_stack = i;
            return FG_OK;
        }
    }
    if (!stack_add(builder, id, locations, depth))
        return too_large(err);
    *ret_stack = builder->batch->n_stacks - 1;
    return FG_OK;
}

/* ---- groups and samples ---- */

/* As Pyroscope says it: "profile with labels '{…}' has label name too long: 'x'". */
static enum fg_code label_error(const struct fg_labels *labels, const char *what,
                                struct fg_slice which, struct fg_err *err)
{
    struct fg_buf set;

    fg_buf_init(&set, FG_ERR_MSG_MAX_BYTES / 2); /* leaves room for what is wrong */
    fg_labels_write(labels, &set);
    (void)fg_fail(err, FG_E_INVALID, "profile with labels '%.*s' has %s: '%.*s'",
                  FG_S(fg_buf_slice(&set)), what, FG_S(fg_slice_sub(which, 0, 100)));
    fg_buf_done(&set);
    return err->code;
}

/* "invalid labels '{…}' with error: invalid label name 'x'"; which.ptr NULL: without the last. */
static enum fg_code invalid_labels(const struct fg_labels *labels, const char *what,
                                   struct fg_slice which, struct fg_err *err)
{
    struct fg_buf set, name;

    fg_buf_init(&set, FG_ERR_MSG_MAX_BYTES / 2);
    fg_buf_init(&name, 128);
    fg_labels_write(labels, &set);
    if (which.ptr != NULL)
        fg_buf_printf(&name, " '%.*s'", FG_S(fg_slice_sub(which, 0, 100)));
    (void)fg_fail(err, FG_E_INVALID, "invalid labels '%.*s' with error: invalid %s%.*s",
                  FG_S(fg_buf_slice(&set)), what, FG_S(fg_buf_slice(&name)));
    fg_buf_done(&name);
    fg_buf_done(&set);
    return err->code;
}

static bool over(size_t len, uint32_t max)
{
    return max != 0 && len > max;
}

static enum fg_code check_lengths(const struct fg_labels *labels,
                                  const struct fg_decode_limits *limits, struct fg_err *err)
{
    for (size_t i = 0; i < labels->count; i++) {
        const struct fg_label *label = &labels->items[i];

        if (over(label->name.len, limits->label_name_max_bytes))
            return label_error(labels, "label name too long", label->name, err);
        if (over(label->value.len, limits->label_value_max_bytes))
            return label_error(labels, "label value too long", label->value, err);
    }
    return FG_OK;
}

static bool group_add(struct fg_builder *builder, const struct fg_labels *labels, uint64_t hash)
{
    struct fg_labels copy = {fg_arena_new(builder->arena, struct fg_label, labels->count),
                             labels->count};

    if (copy.items == NULL ||
        !fg_arena_grow(builder->arena, &builder->groups, builder->n_groups, 1, &builder->cap_groups,
                       sizeof *builder->groups) ||
        !fg_map_add_in(&builder->group_map, builder->arena, hash, builder->n_groups))
        return false;
    if (copy.count > 0)
        memcpy(copy.items, labels->items, copy.count * sizeof *copy.items);
    builder->groups[builder->n_groups++] = (struct group){.labels = copy};
    return true;
}

enum fg_code fg_builder_group(struct fg_builder *builder, const struct fg_labels *labels,
                              uint32_t *ret_group, struct fg_err *err)
{
    struct fg_map_walk walk;
    uint64_t hash;

    /* Before hashing: a long text of the upload may be in the labels of very many samples. */
    if (check_lengths(labels, &builder->limits, err) != FG_OK)
        return err->code;
    hash = fg_id_table(fg_labels_hash(labels));
    for (uint32_t i = fg_map_first(&builder->group_map, hash, &walk); i != FG_MAP_NONE;
         i = fg_map_next(&builder->group_map, &walk)) {
        if (fg_labels_cmp(&builder->groups[i].labels, labels) == 0) {
            *ret_group = i;
            return FG_OK;
        }
    }
    if (!group_add(builder, labels, hash))
        return too_large(err);
    *ret_group = builder->n_groups - 1;
    return FG_OK;
}

bool fg_link_take(struct fg_labels *labels, struct fg_link *ret_link)
{
    static const uint8_t no_trace[FG_ID_BYTES];
    size_t kept = 0;

    *ret_link = (struct fg_link){0};
    for (size_t i = 0; i < labels->count; i++) {
        const struct fg_label *label = &labels->items[i];
        uint8_t bytes[FG_ID_BYTES] = {0}; /* of a number cut short nothing is to be seen */

        if (fg_slice_is(label->name, "profile_id") || fg_slice_is(label->name, "span_id")) {
            if (fg_parse_hex(label->value, bytes, 8))
                ret_link->span_id = fg_id_get(bytes).lo;
        } else if (fg_slice_is(label->name, "trace_id")) {
            if (fg_parse_hex(label->value, bytes, sizeof bytes))
                memcpy(ret_link->trace_id, bytes, sizeof bytes);
        } else if (label->value.len > 0) {
            labels->items[kept++] = *label;
        }
    }
    labels->count = kept;
    return ret_link->span_id != 0 || memcmp(ret_link->trace_id, no_trace, sizeof no_trace) != 0;
}

static uint64_t sample_hash(const struct fg_builder *builder, uint32_t group, uint32_t stack,
                            const struct fg_link *link)
{
    uint64_t hash = builder->batch->stacks[stack].id.hi ^ (uint64_t)group * 0x9e3779b97f4a7c15u;

    if (link != NULL)
        hash ^=
            fg_mix64(link->span_id + 1) ^ fg_hash64_table(fg_bytes(link->trace_id, FG_ID_BYTES));
    return fg_mix64(hash);
}

static bool same_link(const struct fg_builder *builder, uint32_t index, const struct fg_link *link)
{
    if (index == NO_LINK || link == NULL)
        return index == NO_LINK && link == NULL;
    return builder->links[index].span_id == link->span_id &&
           memcmp(builder->links[index].trace_id, link->trace_id, FG_ID_BYTES) == 0;
}

/* So that row_find() finds it where it is now. */
static bool row_index(struct fg_builder *builder, uint32_t row)
{
    const struct row *at = &builder->rows[row];
    const struct fg_link *link = at->link == NO_LINK ? NULL : &builder->links[at->link];

    if (builder->first_rows[at->stack] == NO_ROW)
        builder->first_rows[at->stack] = row;
    if (builder->first_rows[at->stack] == row)
        return true;
    return fg_map_add_in(&builder->samples, builder->arena,
                         sample_hash(builder, at->group, at->stack, link), row);
}

static bool row_add(struct fg_builder *builder, uint32_t group, uint32_t stack,
                    const struct fg_link *link)
{
    uint32_t n_types = builder->batch->n_types;
    uint32_t cap_values = builder->cap_rows;

    if (!fg_arena_grow(builder->arena, &builder->values, builder->n_rows, 1, &cap_values,
                       n_types * sizeof *builder->values) ||
        !fg_arena_grow(builder->arena, &builder->rows, builder->n_rows, 1, &builder->cap_rows,
                       sizeof *builder->rows) ||
        !fg_arena_grow(builder->arena, &builder->links, builder->n_links, 1, &builder->cap_links,
                       sizeof *builder->links))
        return false;
    builder->rows[builder->n_rows] = (struct row){group, stack, NO_LINK};
    if (link != NULL) {
        builder->links[builder->n_links] = *link;
        builder->rows[builder->n_rows].link = builder->n_links++;
        builder->groups[group].n_links++;
    }
    builder->groups[group].n_rows++;
    memset(builder->values + (size_t)builder->n_rows * n_types, 0,
           n_types * sizeof *builder->values);
    return row_index(builder, builder->n_rows++);
}

/* Whether there is something to keep; counts what is not. */
static bool has_value(struct fg_builder *builder, const int64_t *values)
{
    bool any = false;

    for (uint32_t t = 0; t < builder->batch->n_types; t++) {
        any |= values[t] != 0;
        if (values[t] < 0) {
            any = false;
            break;
        }
    }
    builder->counts->samples_dropped += !any;
    return any;
}

/* Number of the row of these, or NO_ROW. */
static uint32_t row_find(const struct fg_builder *builder, uint32_t group, uint32_t stack,
                         const struct fg_link *link)
{
    uint32_t i = builder->first_rows[stack];
    struct fg_map_walk walk;
    uint64_t hash;

    if (i == NO_ROW ||
        (builder->rows[i].group == group && same_link(builder, builder->rows[i].link, link)))
        return i;
    hash = sample_hash(builder, group, stack, link);
    for (i = fg_map_first(&builder->samples, hash, &walk); i != FG_MAP_NONE;
         i = fg_map_next(&builder->samples, &walk))
        if (builder->rows[i].group == group && builder->rows[i].stack == stack &&
            same_link(builder, builder->rows[i].link, link))
            break;
    return i;
}

static enum fg_code row_sum(struct fg_builder *builder, uint32_t row, const int64_t *values,
                            struct fg_err *err)
{
    uint32_t n_types = builder->batch->n_types;
    int64_t *sums = builder->values + (size_t)row * n_types;

    for (uint32_t t = 0; t < n_types; t++)
        if (__builtin_add_overflow(sums[t], values[t], &sums[t]))
            return fg_fail(err, FG_E_INVALID, "sum of a stack's values exceeds 64 bits");
    return FG_OK;
}

enum fg_code fg_builder_sample(struct fg_builder *builder, uint32_t group, uint32_t stack,
                               const struct fg_link *link, const int64_t *values,
                               struct fg_err *err)
{
    uint32_t row;

    if (!has_value(builder, values))
        return FG_OK;
    row = row_find(builder, group, stack, link);
    if (row == NO_ROW) {
        if (!row_add(builder, group, stack, link))
            return too_large(err);
        row = builder->n_rows - 1;
    }
    return row_sum(builder, row, values, err);
}

/* ---- label sets ---- */

enum fg_code fg_labels_check(const struct fg_labels *labels, const struct fg_decode_limits *limits,
                             struct fg_err *err)
{
    struct fg_slice name = fg_labels_get(labels, FG_LABEL_NAME);

    if (labels->count == 0)
        return fg_fail(err, FG_E_INVALID, "error at least one label pair is required per profile");
    if (over(labels->count, limits->label_names_max))
        return fg_fail(err, FG_E_INVALID,
                       "profile series has %zu label names; limit %u (max_label_names_per_series)",
                       labels->count, limits->label_names_max);
    if (name.len == 0 || !fg_utf8_valid(name))
        return invalid_labels(labels, "metric name", fg_bytes(NULL, 0), err);
    if (fg_labels_get(labels, FG_LABEL_SERVICE).len == 0)
        return fg_fail(err, FG_E_INVALID, "service name is not provided");
    if (check_lengths(labels, limits, err) != FG_OK)
        return err->code;
    for (size_t i = 0; i < labels->count; i++) {
        const struct fg_label *label = &labels->items[i];

        if (label->name.len == 0 || !fg_utf8_valid(label->name))
            return invalid_labels(labels, "label name", label->name, err);
        if (!fg_utf8_valid(label->value))
            return invalid_labels(labels, "label value", label->value, err);
    }
    return FG_OK;
}

/* rules NULL: none. */
static enum fg_code relabel(struct fg_builder *builder, const struct fg_upload *upload,
                            const struct fg_relabel *rules, struct fg_labels *labels,
                            bool *ret_kept, struct fg_err *err)
{
    *ret_kept = true;
    return rules == NULL ? FG_OK
                         : fg_relabel_apply(rules, builder->arena, &upload->rules->work, labels,
                                            ret_kept, err);
}

static void row_drop(struct fg_builder *builder, uint32_t number)
{
    struct row *row = &builder->rows[number];
    struct group *group = &builder->groups[row->group];

    group->n_rows--;
    group->n_links -= row->link != NO_LINK;
    row->group = NO_GROUP;
}

/* ---- the end: sample types ---- */

static enum fg_code type_keep(struct fg_builder *builder, const struct fg_upload *upload,
                              const struct fg_value_type *type, bool *ret_kept, struct fg_err *err)
{
    size_t count = upload->labels.count;
    struct fg_labels labels = {fg_arena_new(builder->arena, struct fg_label, count + 2), count + 2};

    if (labels.items == NULL)
        return too_large(err);
    if (count > 0)
        memcpy(labels.items, upload->labels.items, count * sizeof *labels.items);
    labels.items[count] = (struct fg_label){FG_LIT(FG_LABEL_TYPE), type->type};
    labels.items[count + 1] = (struct fg_label){FG_LIT(FG_LABEL_UNIT), type->unit};
    fg_labels_sort(&labels);
    return relabel(builder, upload, upload->rules->types, &labels, ret_kept, err);
}

/* Moves the values that stay together; a row that has nothing but zeros left goes. */
static void rows_keep_types(struct fg_builder *builder, const bool *kept)
{
    uint32_t n_types = builder->batch->n_types;
    int64_t *to = builder->values;

    for (uint32_t r = 0; r < builder->n_rows; r++) {
        const int64_t *from = builder->values + (size_t)r * n_types;
        bool any = false;

        for (uint32_t t = 0; t < n_types; t++) {
            if (!kept[t])
                continue;
            any |= from[t] != 0;
            *to++ = from[t];
        }
        if (!any)
            row_drop(builder, r);
    }
}

static enum fg_code drop_types(struct fg_builder *builder, const bool *kept, uint32_t n_kept,
                               struct fg_err *err)
{
    struct fg_batch *batch = builder->batch;
    struct fg_value_type *types = fg_arena_new(builder->arena, struct fg_value_type, n_kept);
    uint32_t n = 0;

    if (types == NULL)
        return too_large(err);
    rows_keep_types(builder, kept);
    for (uint32_t t = 0; t < batch->n_types; t++)
        if (kept[t])
            types[n++] = batch->types[t];
    builder->counts->types_dropped += batch->n_types - n;
    /* A batch has a type, also where no sample is left to have a value of it. */
    if (n > 0) {
        batch->types = types;
        batch->n_types = n;
    }
    return FG_OK;
}

static enum fg_code choose_types(struct fg_builder *builder, const struct fg_upload *upload,
                                 struct fg_err *err)
{
    const struct fg_batch *batch = builder->batch;
    bool kept[FG_BATCH_TYPES_MAX] = {false};
    uint32_t n_kept = 0;

    fg_assert(batch->n_types <= FG_BATCH_TYPES_MAX);
    for (uint32_t t = 0; t < batch->n_types; t++) {
        if (type_keep(builder, upload, &batch->types[t], &kept[t], err) != FG_OK)
            return err->code;
        n_kept += kept[t];
    }
    return n_kept == batch->n_types ? FG_OK : drop_types(builder, kept, n_kept, err);
}

/* ---- the end: labels ---- */

/* The upload's labels and the group's: of equal names the upload's wins, which comes last. */
static enum fg_code join_labels(struct fg_builder *builder, const struct fg_upload *upload,
                                struct group *group, struct fg_err *err)
{
    size_t count = upload->labels.count + group->labels.count;
    struct fg_labels joined = {fg_arena_new(builder->arena, struct fg_label, count), count};

    if (joined.items == NULL)
        return too_large(err);
    if (group->labels.count > 0)
        memcpy(joined.items, group->labels.items, group->labels.count * sizeof *joined.items);
    if (upload->labels.count > 0)
        memcpy(joined.items + group->labels.count, upload->labels.items,
               upload->labels.count * sizeof *joined.items);
    fg_labels_sort(&joined);
    group->joined = joined;
    return FG_OK;
}

/* The labels that a group's profile is stored with, or none: false in *ret_kept. */
static enum fg_code settle_labels(struct fg_builder *builder, const struct fg_upload *upload,
                                  struct group *group, bool *ret_kept, struct fg_err *err)
{
    const struct fg_relabel *rules = upload->rules == NULL ? NULL : upload->rules->labels;

    if (join_labels(builder, upload, group, err) != FG_OK ||
        relabel(builder, upload, rules, &group->joined, ret_kept, err) != FG_OK)
        return err->code;
    if (!*ret_kept)
        return FG_OK;
    fg_labels_remove(&group->joined, FG_LIT(FG_LABEL_DELTA));
    fg_labels_remove(&group->joined, FG_LIT(FG_LABEL_ORDER));
    return fg_labels_check(&group->joined, &upload->limits, err);
}

/* The first group with the same labels as this one, itself if there is none before it. */
static enum fg_code find_equal(struct fg_builder *builder, struct fg_map *joined, uint32_t number,
                               struct fg_err *err)
{
    struct group *group = &builder->groups[number];
    uint64_t hash = fg_id_table(fg_labels_hash(&group->joined));
    struct fg_map_walk walk;

    group->into = number;
    for (uint32_t i = fg_map_first(joined, hash, &walk); i != FG_MAP_NONE;
         i = fg_map_next(joined, &walk))
        if (fg_labels_cmp(&builder->groups[i].joined, &group->joined) == 0)
            group->into = i;
    if (group->into == number && !fg_map_add_in(joined, builder->arena, hash, number))
        return too_large(err);
    return FG_OK;
}

/* Where the samples of each group go. *ret_move: not all stay where they are. */
static enum fg_code settle_groups(struct fg_builder *builder, const struct fg_upload *upload,
                                  bool *ret_move, struct fg_err *err)
{
    struct fg_map joined = {0};
    bool kept = false;

    for (uint32_t g = 0; g < builder->n_groups; g++) {
        struct group *group = &builder->groups[g];

        if (group->n_rows == 0)
            continue;
        if (settle_labels(builder, upload, group, &kept, err) != FG_OK)
            return err->code;
        if (!kept) {
            group->into = NO_GROUP;
            builder->counts->profiles_dropped++;
        } else if (find_equal(builder, &joined, g, err) != FG_OK) {
            return err->code;
        }
        *ret_move |= group->into != g;
    }
    return FG_OK;
}

/* To the group's new place: into the row that is there already, or as it is. */
static enum fg_code row_move(struct fg_builder *builder, uint32_t number, struct fg_err *err)
{
    struct row *row = &builder->rows[number];
    uint32_t to = builder->groups[row->group].into;
    struct group *into = &builder->groups[to];
    const struct fg_link *link = row->link == NO_LINK ? NULL : &builder->links[row->link];
    uint32_t there = row_find(builder, to, row->stack, link);

    row_drop(builder, number);
    if (there != NO_ROW)
        return row_sum(builder, there, builder->values + (size_t)number * builder->batch->n_types,
                       err);
    into->n_rows++;
    into->n_links += link != NULL;
    row->group = to;
    return row_index(builder, number) ? FG_OK : too_large(err);
}

static enum fg_code move_rows(struct fg_builder *builder, struct fg_err *err)
{
    for (uint32_t r = 0; r < builder->n_rows; r++) {
        uint32_t group = builder->rows[r].group;

        if (group == NO_GROUP || builder->groups[group].into == group)
            continue;
        if (builder->groups[group].into == NO_GROUP)
            row_drop(builder, r);
        else if (row_move(builder, r, err) != FG_OK)
            return err->code;
    }
    return FG_OK;
}

/* ---- the end: profiles ---- */

static enum fg_code profile_start(struct fg_builder *builder, const struct fg_upload *upload,
                                  int64_t period, const struct group *group,
                                  struct fg_profile *profile, struct fg_err *err)
{
    size_t n_values = (size_t)group->n_rows * builder->batch->n_types;

    *profile = (struct fg_profile){
        .labels = group->joined,
        .time_ns = upload->time_ns,
        .duration_ns = upload->duration_ns,
        .period = period,
        .stacks = fg_arena_alloc(builder->arena, group->n_rows * sizeof *profile->stacks),
        .values = fg_arena_alloc(builder->arena, n_values * sizeof *profile->values),
        .links = fg_arena_alloc(builder->arena, group->n_links * sizeof *profile->links),
    };
    if (profile->stacks == NULL || profile->values == NULL || profile->links == NULL)
        return too_large(err);
    return FG_OK;
}

/* Row by row into the columns of its profile. */
static void fill(struct fg_builder *builder, const uint32_t *profile_of)
{
    struct fg_batch *batch = builder->batch;

    for (uint32_t r = 0; r < builder->n_rows; r++) {
        const struct row *row = &builder->rows[r];
        struct fg_profile *profile;
        uint32_t n;

        if (row->group == NO_GROUP)
            continue;
        profile = &batch->profiles[profile_of[row->group]];
        n = profile->n_samples++;
        profile->stacks[n] = row->stack;
        for (uint32_t t = 0; t < batch->n_types; t++)
            profile->values[(size_t)t * builder->groups[row->group].n_rows + n] =
                builder->values[(size_t)r * batch->n_types + t];
        if (row->link != NO_LINK) {
            profile->links[profile->n_links] = builder->links[row->link];
            profile->links[profile->n_links++].sample = n;
        }
    }
}

/*
 * Leaves out the stacks that no profile has any more: what a rule drops should not reach the
 * ingester's disk by way of the definitions.
 */
static enum fg_code drop_stacks(struct fg_builder *builder, struct fg_err *err)
{
    struct fg_batch *batch = builder->batch;
    uint32_t *numbers = fg_arena_new(builder->arena, uint32_t, batch->n_stacks);
    uint32_t n = 0;

    if (numbers == NULL)
        return too_large(err);
    for (uint32_t p = 0; p < batch->n_profiles; p++)
        for (uint32_t i = 0; i < batch->profiles[p].n_samples; i++)
            numbers[batch->profiles[p].stacks[i]] = 1;
    for (uint32_t s = 0; s < batch->n_stacks; s++) {
        if (numbers[s] == 0)
            continue;
        batch->stacks[n] = batch->stacks[s];
        numbers[s] = n++;
    }
    batch->n_stacks = n;
    for (uint32_t p = 0; p < batch->n_profiles; p++)
        for (uint32_t i = 0; i < batch->profiles[p].n_samples; i++)
            batch->profiles[p].stacks[i] = numbers[batch->profiles[p].stacks[i]];
    return FG_OK;
}

static enum fg_code make_profiles(struct fg_builder *builder, const struct fg_upload *upload,
                                  int64_t period, struct fg_err *err)
{
    struct fg_batch *batch = builder->batch;
    uint32_t *profile_of = fg_arena_new(builder->arena, uint32_t, builder->n_groups);

    batch->profiles = fg_arena_new(builder->arena, struct fg_profile, builder->n_groups);
    if (batch->profiles == NULL || profile_of == NULL)
        return too_large(err);
    for (uint32_t g = 0; g < builder->n_groups; g++) {
        if (builder->groups[g].n_rows == 0)
            continue;
        profile_of[g] = batch->n_profiles;
        if (profile_start(builder, upload, period, &builder->groups[g],
                          &batch->profiles[batch->n_profiles++], err) != FG_OK)
            return err->code;
    }
    fill(builder, profile_of);
    return FG_OK;
}

enum fg_code fg_builder_finish(struct fg_builder *builder, const struct fg_upload *upload,
                               int64_t period, struct fg_err *err)
{
    const struct fg_decode_counts *counts = builder->counts, before = *counts;
    bool move = false;

    if (upload->rules != NULL && upload->rules->types != NULL &&
        choose_types(builder, upload, err) != FG_OK)
        return err->code;
    /* Also two groups that differed only in what the upload overrides are one profile. */
    if (settle_groups(builder, upload, &move, err) != FG_OK ||
        (move && move_rows(builder, err) != FG_OK) ||
        make_profiles(builder, upload, period, err) != FG_OK)
        return err->code;
    if (counts->profiles_dropped == before.profiles_dropped &&
        counts->types_dropped == before.types_dropped)
        return FG_OK;
    return drop_stacks(builder, err);
}
