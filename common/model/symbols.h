/*
 * A symbol table: strings, functions, mappings and locations, each distinct thing once, numbered
 * from 0 in the order of arrival. String 0 is "". It only grows; numbers stay valid.
 *
 * A location is what pprof calls so: an address in a mapping with the source lines it stands for,
 * innermost inlined function first. Equality is equality of content, compared in full.
 *
 * Thread: one at a time; the caller serialises writers and readers. If `outgrown` is set, other
 * threads may read all arrays except the maps through an older copy of the struct while one thread
 * adds symbols (common/base/outgrown.h).
 * Memory: fg_symbols_bytes(); bounded by whoever feeds it.
 */
#ifndef FG_COMMON_MODEL_SYMBOLS_H
#define FG_COMMON_MODEL_SYMBOLS_H

#include "common/base/buf.h"
#include "common/base/cursor.h"
#include "common/base/err.h"
#include "common/base/hash.h"
#include "common/base/map.h"
#include "common/base/outgrown.h"

enum { FG_NO_MAPPING = UINT32_MAX };

/* pprof's has_… of Mapping, fields 7 to 10. */
enum fg_mapping_flag {
    FG_MAPPING_FUNCTIONS = 1,
    FG_MAPPING_FILENAMES = 2,
    FG_MAPPING_LINES = 4,
    FG_MAPPING_INLINE = 8,
};

struct fg_function {
    uint32_t name, system_name, filename; /* strings */
    int64_t start_line;
};

struct fg_mapping {
    uint64_t start, limit, offset; /* addresses and file offset, bytes */
    uint32_t filename, build_id;   /* strings */
    uint32_t flags;
};

struct fg_line {
    uint32_t function;
    int64_t line;
};

struct fg_location {
    uint64_t address;
    uint32_t mapping;    /* or FG_NO_MAPPING */
    uint32_t first_line; /* into lines */
    uint32_t n_lines;    /* 0: an address nobody could name */
    bool folded;         /* pprof's is_folded */
};

struct fg_symbols {
    uint8_t *text; /* all strings one after another */
    size_t text_len, text_cap;
    size_t *string_ends; /* end of string i in text; it begins where i - 1 ends */
    struct fg_function *functions;
    struct fg_mapping *mappings;
    struct fg_location *locations;
    struct fg_line *lines;
    uint32_t n_strings, n_functions, n_mappings, n_locations, n_lines;
    uint32_t cap_strings, cap_functions, cap_mappings, cap_locations, cap_lines;
    struct fg_map string_map, function_map, mapping_map, location_map;
    struct fg_outgrown *outgrown; /* keeps arrays that became too small; NULL: they are freed */
};

void fg_symbols_init(struct fg_symbols *symbols);
void fg_symbols_done(struct fg_symbols *symbols);
size_t fg_symbols_bytes(const struct fg_symbols *symbols);

/* Find or add. Numbers given as arguments have to be valid (asserted). */
uint32_t fg_symbols_string(struct fg_symbols *symbols, struct fg_slice text);
uint32_t fg_symbols_function(struct fg_symbols *symbols, const struct fg_function *function);
uint32_t fg_symbols_mapping(struct fg_symbols *symbols, const struct fg_mapping *mapping);
/* lines: n_lines of them; location->first_line is not looked at. */
uint32_t fg_symbols_location(struct fg_symbols *symbols, const struct fg_location *location,
                             const struct fg_line *lines);

/* A location of nothing but a function's name: what flame graphs are made of. */
uint32_t fg_symbols_name_location(struct fg_symbols *symbols, struct fg_slice name);

/* The text of string `number`. */
static inline struct fg_slice fg_symbols_text(const struct fg_symbols *symbols, uint32_t number)
{
    size_t from = number == 0 ? 0 : symbols->string_ends[number - 1];

    fg_assert(number < symbols->n_strings);
    return fg_bytes(symbols->text + from, symbols->string_ends[number] - from);
}

/*
 * Takes things over from one table into another, each once, by number: the second time a number
 * comes it costs an array look-up. Both tables outlive the import; only `into` may grow meanwhile.
 */
struct fg_symbols_import {
    struct fg_symbols *into;
    const struct fg_symbols *from;
    uint32_t *strings, *functions, *mappings, *locations; /* number in `into`, or FG_MAP_NONE */
    struct fg_line *lines;                                /* of the location on its way */
    uint32_t cap_lines;
};
void fg_symbols_import_init(struct fg_symbols_import *import, struct fg_symbols *into,
                            const struct fg_symbols *from);
void fg_symbols_import_done(struct fg_symbols_import *import);

/* Number in `into` of what has this number in `from`; FG_NO_MAPPING stays what it is. */
uint32_t fg_symbols_import_string(struct fg_symbols_import *import, uint32_t number);
uint32_t fg_symbols_import_function(struct fg_symbols_import *import, uint32_t number);
uint32_t fg_symbols_import_mapping(struct fg_symbols_import *import, uint32_t number);
uint32_t fg_symbols_import_location_slow(struct fg_symbols_import *import, uint32_t number);

static inline uint32_t fg_symbols_import_location(struct fg_symbols_import *import, uint32_t number)
{
    fg_assert(number < import->from->n_locations);
    if (import->locations[number] != FG_MAP_NONE)
        return import->locations[number];
    return fg_symbols_import_location_slow(import, number);
}

/* How far a table had grown: what was added since is a delta. */
struct fg_symbols_mark {
    uint32_t strings, functions, mappings, locations;
};
struct fg_symbols_mark fg_symbols_mark(const struct fg_symbols *symbols);
#define FG_SYMBOLS_START ((struct fg_symbols_mark){1, 0, 0, 0}) /* string 0 is always there */

/*
 * Encodes what was added since the mark (wire and store use the same form):
 *   varint n, strings: varint length + bytes
 *   varint n, functions: varint name, system name, file; zigzag start line
 *   varint n, mappings: varint start, limit, offset, file, build id, flags
 *   varint n, locations: varint mapping + 1 (0: none), address, 2 * lines + folded,
 *                        lines: varint function, zigzag line
 * Numbers inside are numbers in the whole table.
 */
void fg_symbols_encode_since(const struct fg_symbols *symbols, struct fg_symbols_mark since,
                             struct fg_buf *out);

/*
 * Adds an encoded delta to a table that is as long as the encoder's was at its mark, and so gives
 * every entry the number it had there. FG_E_CORRUPT: it does not fit, or entries are there already;
 * some may have been added then, so the table is of no use any more.
 */
enum fg_code fg_symbols_decode(struct fg_symbols *symbols, struct fg_cur *cur,
                               struct fg_err *err) fg_must_check;

#endif
