/*
 * Each kind has a table, and a map from the hash of a thing to its number. What a
 * thing refers to is interned before it, so its content is its numbers: hashing and comparing touch
 * a few words and never text, except for the strings themselves.
 */
#include "common/model/symbols.h"

enum {
    TABLE_MIN_ENTRIES = 16,
    TEXT_MIN_BYTES = 256,
    /* The least an encoded entry can take; what a count is checked against. */
    STRING_MIN_BYTES = 1,
    FUNCTION_MIN_BYTES = 4,
    MAPPING_MIN_BYTES = 6,
    LOCATION_MIN_BYTES = 3,
    LINE_MIN_BYTES = 2,
};

/* Room for count entries in all; doubles, so that adding one by one stays linear. */
#define RESERVE(array, cap, count)                                                                 \
    do {                                                                                           \
        if ((count) > (cap)) {                                                                     \
            (cap) = grown_cap(cap, count);                                                         \
            (array) = fg_realloc(array, (size_t)(cap) * sizeof *(array));                          \
        }                                                                                          \
    } while (0)

/* The same for an array of the table, which others may read: `used` of its entries are filled. */
#define RESERVE_OF(symbols, array, cap, used, count)                                               \
    do {                                                                                           \
        if ((count) > (cap)) {                                                                     \
            (cap) = grown_cap(cap, count);                                                         \
            (array) = fg_outgrow((symbols)->outgrown, array, (size_t)(used) * sizeof *(array),     \
                                 (size_t)(cap) * sizeof *(array));                                 \
        }                                                                                          \
    } while (0)

static uint32_t grown_cap(uint32_t cap, uint32_t count)
{
    /* Doubling must not overflow. Inputs are bounded far below this. */
    fg_assert(count < UINT32_MAX / 2);
    return FG_MAX(FG_MAX(cap * 2, count), (uint32_t)TABLE_MIN_ENTRIES);
}

void fg_symbols_init(struct fg_symbols *symbols)
{
    *symbols = (struct fg_symbols){0};
    fg_map_init(&symbols->string_map);
    fg_map_init(&symbols->function_map);
    fg_map_init(&symbols->mapping_map);
    fg_map_init(&symbols->location_map);
    /* Never NULL, for they are added to: NULL + 0 is undefined in C. */
    symbols->text_cap = TEXT_MIN_BYTES;
    symbols->text = fg_malloc(symbols->text_cap);
    RESERVE_OF(symbols, symbols->lines, symbols->cap_lines, symbols->n_lines, 1);
    (void)fg_symbols_string(symbols, fg_bytes(NULL, 0));
}

void fg_symbols_done(struct fg_symbols *symbols)
{
    /* Arrays in `outgrown` belong to the owner of that list. */
    free(symbols->text);
    free(symbols->string_ends);
    free(symbols->functions);
    free(symbols->mappings);
    free(symbols->locations);
    free(symbols->lines);
    fg_map_done(&symbols->string_map);
    fg_map_done(&symbols->function_map);
    fg_map_done(&symbols->mapping_map);
    fg_map_done(&symbols->location_map);
    *symbols = (struct fg_symbols){0};
}

size_t fg_symbols_bytes(const struct fg_symbols *symbols)
{
    return symbols->text_cap + symbols->cap_strings * sizeof *symbols->string_ends +
           symbols->cap_functions * sizeof *symbols->functions +
           symbols->cap_mappings * sizeof *symbols->mappings +
           symbols->cap_locations * sizeof *symbols->locations +
           symbols->cap_lines * sizeof *symbols->lines + fg_map_bytes(&symbols->string_map) +
           fg_map_bytes(&symbols->function_map) + fg_map_bytes(&symbols->mapping_map) +
           fg_map_bytes(&symbols->location_map);
}

/* ---- strings ---- */

/* Appends an entry; as all functions of this kind, without telling the map. */
static uint32_t string_append(struct fg_symbols *symbols, struct fg_slice text)
{
    if (text.len > symbols->text_cap - symbols->text_len) {
        symbols->text_cap = FG_MAX(symbols->text_cap * 2, symbols->text_len + text.len);
        symbols->text =
            fg_outgrow(symbols->outgrown, symbols->text, symbols->text_len, symbols->text_cap);
    }
    if (text.len > 0)
        memcpy(symbols->text + symbols->text_len, text.ptr, text.len);
    symbols->text_len += text.len;
    RESERVE_OF(symbols, symbols->string_ends, symbols->cap_strings, symbols->n_strings,
               symbols->n_strings + 1);
    /* Texts stand one behind the other, so an end is enough: a string begins where the one before
     * ends. */
    symbols->string_ends[symbols->n_strings] = symbols->text_len;
    return symbols->n_strings++;
}

uint32_t fg_symbols_string(struct fg_symbols *symbols, struct fg_slice text)
{
    fg_assert(!symbols->is_unindexed);

    /* Seeded per process: strings come from outside. */
    uint64_t hash = fg_hash64_table(text);
    struct fg_map_walk walk;
    uint32_t i = fg_map_first(&symbols->string_map, hash, &walk);

    for (; i != FG_MAP_NONE; i = fg_map_next(&symbols->string_map, &walk))
        if (fg_slice_eq(fg_symbols_text(symbols, i), text))
            return i;
    fg_map_add(&symbols->string_map, hash, symbols->n_strings);
    return string_append(symbols, text);
}

/* ---- functions ---- */

/* Every step is a bijection of the state for a fixed input, so nothing is lost on the way. The
 * first state is the seed: addresses and lines come from outside, and who knows the states before
 * one could choose it so that all entries have one hash. */
static inline uint64_t mix(uint64_t state, uint64_t value)
{
    return fg_mix64(state ^ value) + UINT64_C(0x9e3779b97f4a7c15);
}

static uint64_t function_hash(const struct fg_function *function)
{
    uint64_t hash = mix(fg_hash_seed(), (uint64_t)function->name << 32 | function->system_name);

    return mix(mix(hash, function->filename), (uint64_t)function->start_line);
}

static bool function_eq(const struct fg_function *a, const struct fg_function *b)
{
    return a->name == b->name && a->system_name == b->system_name && a->filename == b->filename &&
           a->start_line == b->start_line;
}

static uint32_t function_append(struct fg_symbols *symbols, const struct fg_function *function)
{
    fg_assert(function->name < symbols->n_strings && function->system_name < symbols->n_strings &&
              function->filename < symbols->n_strings);
    RESERVE_OF(symbols, symbols->functions, symbols->cap_functions, symbols->n_functions,
               symbols->n_functions + 1);
    symbols->functions[symbols->n_functions] = *function;
    return symbols->n_functions++;
}

uint32_t fg_symbols_function(struct fg_symbols *symbols, const struct fg_function *function)
{
    uint64_t hash = function_hash(function);
    struct fg_map_walk walk;
    uint32_t i = fg_map_first(&symbols->function_map, hash, &walk);

    for (; i != FG_MAP_NONE; i = fg_map_next(&symbols->function_map, &walk))
        if (function_eq(&symbols->functions[i], function))
            return i;
    fg_map_add(&symbols->function_map, hash, symbols->n_functions);
    return function_append(symbols, function);
}

/* ---- mappings ---- */

static uint64_t mapping_hash(const struct fg_mapping *mapping)
{
    uint64_t hash = mix(mix(fg_hash_seed(), mapping->start), mapping->limit);

    hash = mix(hash, mapping->offset);
    hash = mix(hash, (uint64_t)mapping->filename << 32 | mapping->build_id);
    return mix(hash, mapping->flags);
}

static bool mapping_eq(const struct fg_mapping *a, const struct fg_mapping *b)
{
    return a->start == b->start && a->limit == b->limit && a->offset == b->offset &&
           a->filename == b->filename && a->build_id == b->build_id && a->flags == b->flags;
}

static uint32_t mapping_append(struct fg_symbols *symbols, const struct fg_mapping *mapping)
{
    fg_assert(mapping->filename < symbols->n_strings && mapping->build_id < symbols->n_strings);
    RESERVE_OF(symbols, symbols->mappings, symbols->cap_mappings, symbols->n_mappings,
               symbols->n_mappings + 1);
    symbols->mappings[symbols->n_mappings] = *mapping;
    return symbols->n_mappings++;
}

uint32_t fg_symbols_mapping(struct fg_symbols *symbols, const struct fg_mapping *mapping)
{
    uint64_t hash = mapping_hash(mapping);
    struct fg_map_walk walk;
    uint32_t i = fg_map_first(&symbols->mapping_map, hash, &walk);

    for (; i != FG_MAP_NONE; i = fg_map_next(&symbols->mapping_map, &walk))
        if (mapping_eq(&symbols->mappings[i], mapping))
            return i;
    fg_map_add(&symbols->mapping_map, hash, symbols->n_mappings);
    return mapping_append(symbols, mapping);
}

/* ---- locations ---- */

static uint64_t location_hash(const struct fg_location *location, const struct fg_line *lines)
{
    uint64_t hash = mix(fg_hash_seed(), location->address);

    hash = mix(hash, (uint64_t)location->mapping << 1 | location->folded);
    for (uint32_t i = 0; i < location->n_lines; i++)
        hash = mix(mix(hash, lines[i].function), (uint64_t)lines[i].line);
    return hash;
}

static bool lines_eq(const struct fg_line *a, const struct fg_line *b, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) /* not memcmp: there is padding between the fields */
        if (a[i].function != b[i].function || a[i].line != b[i].line)
            return false;
    return true;
}

static bool location_eq(const struct fg_symbols *symbols, const struct fg_location *a,
                        const struct fg_location *b, const struct fg_line *b_lines)
{
    return a->address == b->address && a->mapping == b->mapping && a->n_lines == b->n_lines &&
           a->folded == b->folded && lines_eq(symbols->lines + a->first_line, b_lines, a->n_lines);
}

static bool location_valid(const struct fg_symbols *symbols, const struct fg_location *location,
                           const struct fg_line *lines)
{
    for (uint32_t i = 0; i < location->n_lines; i++)
        if (lines[i].function >= symbols->n_functions)
            return false;
    return location->mapping == FG_NO_MAPPING || location->mapping < symbols->n_mappings;
}

static uint32_t location_append(struct fg_symbols *symbols, const struct fg_location *location,
                                const struct fg_line *lines)
{
    uint32_t number = symbols->n_locations;

    fg_assert(location_valid(symbols, location, lines));
    /* first_line has 32 bits. */
    fg_assert(location->n_lines < UINT32_MAX / 2 - symbols->n_lines);
    RESERVE_OF(symbols, symbols->lines, symbols->cap_lines, symbols->n_lines,
               symbols->n_lines + location->n_lines);
    if (location->n_lines > 0)
        memcpy(symbols->lines + symbols->n_lines, lines, location->n_lines * sizeof *lines);
    RESERVE_OF(symbols, symbols->locations, symbols->cap_locations, symbols->n_locations,
               number + 1);
    symbols->locations[number] = *location;
    symbols->locations[number].first_line = symbols->n_lines;
    symbols->n_lines += location->n_lines;
    symbols->n_locations++;
    return number;
}

uint32_t fg_symbols_location(struct fg_symbols *symbols, const struct fg_location *location,
                             const struct fg_line *lines)
{
    uint64_t hash = location_hash(location, lines);
    struct fg_map_walk walk;
    uint32_t i = fg_map_first(&symbols->location_map, hash, &walk);

    for (; i != FG_MAP_NONE; i = fg_map_next(&symbols->location_map, &walk))
        if (location_eq(symbols, &symbols->locations[i], location, lines))
            return i;
    fg_map_add(&symbols->location_map, hash, symbols->n_locations);
    return location_append(symbols, location, lines);
}

uint32_t fg_symbols_name_location(struct fg_symbols *symbols, struct fg_slice name)
{
    struct fg_function function = {.name = fg_symbols_string(symbols, name)};
    struct fg_line line = {fg_symbols_function(symbols, &function), 0};
    struct fg_location location = {.mapping = FG_NO_MAPPING, .n_lines = 1};

    return fg_symbols_location(symbols, &location, &line);
}

/* ---- without maps ---- */

void fg_symbols_unindex(struct fg_symbols *symbols)
{
    fg_assert(symbols->n_strings == 1 &&
              symbols->n_functions + symbols->n_mappings + symbols->n_locations == 0);
    symbols->is_unindexed = true;
}

void fg_symbols_index(struct fg_symbols *symbols)
{
    if (!symbols->is_unindexed)
        return;
    symbols->is_unindexed = false;
    fg_map_reserve(&symbols->string_map, symbols->n_strings);
    fg_map_reserve(&symbols->function_map, symbols->n_functions);
    fg_map_reserve(&symbols->mapping_map, symbols->n_mappings);
    fg_map_reserve(&symbols->location_map, symbols->n_locations);
    for (uint32_t i = 1; i < symbols->n_strings; i++) /* 0 was there before */
        fg_map_add(&symbols->string_map, fg_hash64_table(fg_symbols_text(symbols, i)), i);
    for (uint32_t i = 0; i < symbols->n_functions; i++)
        fg_map_add(&symbols->function_map, function_hash(&symbols->functions[i]), i);
    for (uint32_t i = 0; i < symbols->n_mappings; i++)
        fg_map_add(&symbols->mapping_map, mapping_hash(&symbols->mappings[i]), i);
    for (uint32_t i = 0; i < symbols->n_locations; i++) {
        const struct fg_location *location = &symbols->locations[i];

        fg_map_add(&symbols->location_map,
                   location_hash(location, symbols->lines + location->first_line), i);
    }
}

/* ---- from table to table ---- */

static uint32_t *none_array(uint32_t count)
{
    uint32_t *array = fg_malloc(FG_MAX((size_t)count, 1) * sizeof *array);

    memset(array, 0xff, count * sizeof *array); /* FG_MAP_NONE in every byte */
    return array;
}

static void import_init(struct fg_symbols_import *import, struct fg_symbols *into,
                        const struct fg_symbols *from, bool fresh)
{
    import->fresh = fresh;
    import->into = into;
    import->from = from;
    import->strings = none_array(from->n_strings);
    import->functions = none_array(from->n_functions);
    import->mappings = none_array(from->n_mappings);
    import->locations = none_array(from->n_locations);
    import->lines = NULL;
    import->cap_lines = 0;
}

void fg_symbols_import_init(struct fg_symbols_import *import, struct fg_symbols *into,
                            const struct fg_symbols *from)
{
    import_init(import, into, from, false);
}

void fg_symbols_import_init_new(struct fg_symbols_import *import, struct fg_symbols *into,
                                const struct fg_symbols *from)
{
    fg_assert(into->n_strings == 1 && into->n_functions == 0 && into->n_mappings == 0 &&
              into->n_locations == 0);
    import_init(import, into, from, true);
    import->strings[0] = 0;
}

void fg_symbols_import_done(struct fg_symbols_import *import)
{
    free(import->strings);
    free(import->functions);
    free(import->mappings);
    free(import->locations);
    free(import->lines);
    *import = (struct fg_symbols_import){0};
}

uint32_t fg_symbols_import_string(struct fg_symbols_import *import, uint32_t number)
{
    fg_assert(number < import->from->n_strings);
    if (import->strings[number] == FG_MAP_NONE) {
        struct fg_slice text = fg_symbols_text(import->from, number);

        import->strings[number] = import->fresh ? string_append(import->into, text)
                                                : fg_symbols_string(import->into, text);
    }
    return import->strings[number];
}

uint32_t fg_symbols_import_function(struct fg_symbols_import *import, uint32_t number)
{
    struct fg_function function;

    fg_assert(number < import->from->n_functions);
    if (import->functions[number] == FG_MAP_NONE) {
        function = import->from->functions[number];
        function.name = fg_symbols_import_string(import, function.name);
        function.system_name = fg_symbols_import_string(import, function.system_name);
        function.filename = fg_symbols_import_string(import, function.filename);
        import->functions[number] = import->fresh ? function_append(import->into, &function)
                                                  : fg_symbols_function(import->into, &function);
    }
    return import->functions[number];
}

uint32_t fg_symbols_import_mapping(struct fg_symbols_import *import, uint32_t number)
{
    struct fg_mapping mapping;

    if (number == FG_NO_MAPPING)
        return FG_NO_MAPPING;
    fg_assert(number < import->from->n_mappings);
    if (import->mappings[number] == FG_MAP_NONE) {
        mapping = import->from->mappings[number];
        mapping.filename = fg_symbols_import_string(import, mapping.filename);
        mapping.build_id = fg_symbols_import_string(import, mapping.build_id);
        import->mappings[number] = import->fresh ? mapping_append(import->into, &mapping)
                                                 : fg_symbols_mapping(import->into, &mapping);
    }
    return import->mappings[number];
}

uint32_t fg_symbols_import_location_slow(struct fg_symbols_import *import, uint32_t number)
{
    struct fg_location location = import->from->locations[number];
    const struct fg_line *lines = import->from->lines + location.first_line;

    location.mapping = fg_symbols_import_mapping(import, location.mapping);
    /* Scratch of the import, reused by all locations. */
    RESERVE(import->lines, import->cap_lines, location.n_lines);
    for (uint32_t i = 0; i < location.n_lines; i++) {
        import->lines[i].function = fg_symbols_import_function(import, lines[i].function);
        import->lines[i].line = lines[i].line;
    }
    import->locations[number] = import->fresh
                                    ? location_append(import->into, &location, import->lines)
                                    : fg_symbols_location(import->into, &location, import->lines);
    return import->locations[number];
}

static bool is_name_location(const struct fg_symbols *symbols, uint32_t number, uint32_t name)
{
    const struct fg_location *location = &symbols->locations[number];
    const struct fg_line *line = &symbols->lines[location->first_line];
    struct fg_function only = {.name = name};

    return location->n_lines == 1 && location->mapping == FG_NO_MAPPING && location->address == 0 &&
           !location->folded && line->line == 0 &&
           function_eq(&symbols->functions[line->function], &only);
}

uint32_t fg_symbols_import_name_location(struct fg_symbols_import *import, struct fg_slice name)
{
    const struct fg_symbols *from = import->from;
    struct fg_location location = {.mapping = FG_NO_MAPPING, .n_lines = 1};
    struct fg_function function = {0};
    struct fg_line line = {0};
    uint32_t text = 1;

    fg_assert(import->fresh && name.len > 0);
    /* Walks: the table may be the result of such an import, and has no maps then. */
    while (text < from->n_strings && !fg_slice_eq(fg_symbols_text(from, text), name))
        text++;
    if (text == from->n_strings) {
        function.name = string_append(import->into, name);
        line.function = function_append(import->into, &function);
        return location_append(import->into, &location, &line);
    }
    for (uint32_t i = 0; i < from->n_locations; i++)
        if (is_name_location(from, i, text))
            return fg_symbols_import_location(import, i);
    function.name = text;
    for (uint32_t i = 0; i < from->n_functions; i++)
        if (function_eq(&from->functions[i], &function)) {
            line.function = fg_symbols_import_function(import, i);
            return location_append(import->into, &location, &line);
        }
    function.name = fg_symbols_import_string(import, text);
    line.function = function_append(import->into, &function);
    return location_append(import->into, &location, &line);
}

/* ---- encoding ---- */

struct fg_symbols_mark fg_symbols_mark(const struct fg_symbols *symbols)
{
    return (struct fg_symbols_mark){symbols->n_strings, symbols->n_functions, symbols->n_mappings,
                                    symbols->n_locations};
}

static void encode_location(const struct fg_symbols *symbols, const struct fg_location *location,
                            struct fg_buf *out)
{
    const struct fg_line *lines = symbols->lines + location->first_line;

    fg_buf_varint(out, location->mapping == FG_NO_MAPPING ? 0 : (uint64_t)location->mapping + 1);
    fg_buf_varint(out, location->address);
    /* One number for both: the flag is its last bit. */
    fg_buf_varint(out, (uint64_t)location->n_lines * 2 + location->folded);
    for (uint32_t i = 0; i < location->n_lines; i++) {
        fg_buf_varint(out, lines[i].function);
        fg_buf_zigzag(out, lines[i].line);
    }
}

/* Strings come first, then functions, mappings and locations: an entry refers only to entries of
 * kinds before it, so that a decoder can check each number at once. */
void fg_symbols_encode_since(const struct fg_symbols *symbols, struct fg_symbols_mark since,
                             struct fg_buf *out)
{
    fg_assert(since.strings <= symbols->n_strings && since.functions <= symbols->n_functions &&
              since.mappings <= symbols->n_mappings && since.locations <= symbols->n_locations);
    fg_buf_varint(out, symbols->n_strings - since.strings);
    for (uint32_t i = since.strings; i < symbols->n_strings; i++)
        fg_buf_lenbytes(out, fg_symbols_text(symbols, i));
    fg_buf_varint(out, symbols->n_functions - since.functions);
    for (uint32_t i = since.functions; i < symbols->n_functions; i++) {
        const struct fg_function *function = &symbols->functions[i];

        fg_buf_varint(out, function->name);
        fg_buf_varint(out, function->system_name);
        fg_buf_varint(out, function->filename);
        fg_buf_zigzag(out, function->start_line);
    }
    fg_buf_varint(out, symbols->n_mappings - since.mappings);
    for (uint32_t i = since.mappings; i < symbols->n_mappings; i++) {
        const struct fg_mapping *mapping = &symbols->mappings[i];

        fg_buf_varint(out, mapping->start);
        fg_buf_varint(out, mapping->limit);
        fg_buf_varint(out, mapping->offset);
        fg_buf_varint(out, mapping->filename);
        fg_buf_varint(out, mapping->build_id);
        fg_buf_varint(out, mapping->flags);
    }
    fg_buf_varint(out, symbols->n_locations - since.locations);
    for (uint32_t i = since.locations; i < symbols->n_locations; i++)
        encode_location(symbols, &symbols->locations[i], out);
}

/*
 * Decoding: each kind in turn. An entry has to get the next number, which it does not when it is
 * there already; so a table cannot grow beyond what the input spells out.
 */

static uint32_t add_string(struct fg_symbols *symbols, struct fg_slice text)
{
    return symbols->is_unindexed ? string_append(symbols, text) : fg_symbols_string(symbols, text);
}

static uint32_t add_function(struct fg_symbols *symbols, const struct fg_function *function)
{
    return symbols->is_unindexed ? function_append(symbols, function)
                                 : fg_symbols_function(symbols, function);
}

static uint32_t add_mapping(struct fg_symbols *symbols, const struct fg_mapping *mapping)
{
    return symbols->is_unindexed ? mapping_append(symbols, mapping)
                                 : fg_symbols_mapping(symbols, mapping);
}

static uint32_t add_location(struct fg_symbols *symbols, const struct fg_location *location,
                             const struct fg_line *lines)
{
    return symbols->is_unindexed ? location_append(symbols, location, lines)
                                 : fg_symbols_location(symbols, location, lines);
}

/* Reads a number below the limit. An error is sticky, like every error of the cursor. */
static uint32_t decode_number(struct fg_cur *cur, uint64_t limit)
{
    uint64_t number = fg_cur_varint(cur);

    if (number >= limit) {
        fg_cur_fail(cur);
        return 0;
    }
    return (uint32_t)number;
}

static bool decode_strings(struct fg_symbols *symbols, struct fg_cur *cur)
{
    uint64_t count = fg_cur_count(cur, STRING_MIN_BYTES);

    for (uint64_t i = 0; i < count; i++) {
        struct fg_slice text = fg_cur_lenbytes(cur);
        /* A string that is there already gets its old number, which is not the next one. */
        uint32_t next = symbols->n_strings;

        if (cur->bad || add_string(symbols, text) != next)
            return false;
    }
    return !cur->bad;
}

static bool decode_functions(struct fg_symbols *symbols, struct fg_cur *cur)
{
    uint64_t count = fg_cur_count(cur, FUNCTION_MIN_BYTES);

    for (uint64_t i = 0; i < count; i++) {
        struct fg_function function;
        uint32_t next = symbols->n_functions;

        function.name = decode_number(cur, symbols->n_strings);
        function.system_name = decode_number(cur, symbols->n_strings);
        function.filename = decode_number(cur, symbols->n_strings);
        function.start_line = fg_cur_zigzag(cur);
        if (cur->bad || add_function(symbols, &function) != next)
            return false;
    }
    return !cur->bad;
}

static bool decode_mappings(struct fg_symbols *symbols, struct fg_cur *cur)
{
    uint64_t count = fg_cur_count(cur, MAPPING_MIN_BYTES);

    for (uint64_t i = 0; i < count; i++) {
        struct fg_mapping mapping;
        uint32_t next = symbols->n_mappings;

        mapping.start = fg_cur_varint(cur);
        mapping.limit = fg_cur_varint(cur);
        mapping.offset = fg_cur_varint(cur);
        mapping.filename = decode_number(cur, symbols->n_strings);
        mapping.build_id = decode_number(cur, symbols->n_strings);
        mapping.flags = decode_number(cur, (uint64_t)UINT32_MAX + 1);
        if (cur->bad || add_mapping(symbols, &mapping) != next)
            return false;
    }
    return !cur->bad;
}

/* Lines of one location at a time, before they are known to be new. */
struct line_scratch {
    struct fg_line *lines;
    uint32_t cap;
};

static bool decode_location(struct fg_symbols *symbols, struct fg_cur *cur,
                            struct line_scratch *scratch)
{
    uint32_t next = symbols->n_locations;
    uint32_t mapping = decode_number(cur, (uint64_t)symbols->n_mappings + 1);
    struct fg_location location = {.mapping = mapping == 0 ? FG_NO_MAPPING : mapping - 1};
    uint64_t shape;

    location.address = fg_cur_varint(cur);
    shape = fg_cur_varint(cur);
    /* Checked against what is left of the input before the lines get memory. */
    if (cur->bad || shape / 2 > cur->left / LINE_MIN_BYTES || shape / 2 > UINT32_MAX / 4)
        return false;
    location.folded = shape % 2 != 0;
    location.n_lines = (uint32_t)(shape / 2);
    RESERVE(scratch->lines, scratch->cap, location.n_lines);
    for (uint32_t i = 0; i < location.n_lines; i++) {
        scratch->lines[i].function = decode_number(cur, symbols->n_functions);
        scratch->lines[i].line = fg_cur_zigzag(cur);
    }
    return !cur->bad && add_location(symbols, &location, scratch->lines) == next;
}

static bool decode_locations(struct fg_symbols *symbols, struct fg_cur *cur)
{
    uint64_t count = fg_cur_count(cur, LOCATION_MIN_BYTES);
    struct line_scratch scratch = {NULL, 0};
    bool good = true;

    for (uint64_t i = 0; i < count && good; i++)
        good = decode_location(symbols, cur, &scratch);
    free(scratch.lines);
    return good && !cur->bad;
}

enum fg_code fg_symbols_decode(struct fg_symbols *symbols, struct fg_cur *cur, struct fg_err *err)
{
    size_t before = cur->left;

    if (!decode_strings(symbols, cur))
        return fg_fail(err, FG_E_CORRUPT, "symbols: bad string %u", symbols->n_strings);
    if (!decode_functions(symbols, cur))
        return fg_fail(err, FG_E_CORRUPT, "symbols: bad function %u", symbols->n_functions);
    if (!decode_mappings(symbols, cur))
        return fg_fail(err, FG_E_CORRUPT, "symbols: bad mapping %u", symbols->n_mappings);
    if (!decode_locations(symbols, cur))
        return fg_fail(err, FG_E_CORRUPT, "symbols: bad location %u in %zu bytes",
                       symbols->n_locations, before);
    return FG_OK;
}
