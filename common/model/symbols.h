/*
 * A symbol table holds strings, functions, mappings and locations. Each distinct entry is stored
 * once and numbered from 0 in the order of arrival. String 0 is "". The table only grows, so
 * numbers stay valid.
 *
 * A location is that of pprof: an address in a mapping with its source lines, innermost inlined
 * function first. Entries are equal if their whole content is equal.
 *
 * Thread: one at a time; the caller serialises writers and readers. If `outgrown` is set, other
 * threads may read all arrays except the maps through an older copy of the struct while one thread
 * adds symbols (common/base/outgrown.h).
 * Memory: fg_symbols_bytes(); the caller limits what it adds.
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
    uint32_t n_lines;    /* 0: an address without symbols */
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
    bool is_unindexed;            /* nothing can be looked up or added before fg_symbols_index() */
    struct fg_outgrown *outgrown; /* keeps arrays that became too small; NULL: they are freed */
};

/* Makes a table with string 0 only. */
void fg_symbols_init(struct fg_symbols *symbols);
/* Frees the table. */
void fg_symbols_done(struct fg_symbols *symbols);
/* Returns the memory of the table in bytes. */
size_t fg_symbols_bytes(const struct fg_symbols *symbols);

/* Find an entry or add it, and return its number. Numbers in the arguments have to be valid, which
 * is asserted. */
uint32_t fg_symbols_string(struct fg_symbols *symbols, struct fg_slice text);
uint32_t fg_symbols_function(struct fg_symbols *symbols, const struct fg_function *function);
uint32_t fg_symbols_mapping(struct fg_symbols *symbols, const struct fg_mapping *mapping);
/* lines has location->n_lines elements; location->first_line is ignored. */
uint32_t fg_symbols_location(struct fg_symbols *symbols, const struct fg_location *location,
                             const struct fg_line *lines);

/* Finds or adds a location that has only the name of a function, as in function trees. */
uint32_t fg_symbols_name_location(struct fg_symbols *symbols, struct fg_slice name);

/* Returns the text of a string. */
static inline struct fg_slice fg_symbols_text(const struct fg_symbols *symbols, uint32_t number)
{
    size_t from = number == 0 ? 0 : symbols->string_ends[number - 1];

    fg_assert(number < symbols->n_strings);
    return fg_bytes(symbols->text + from, symbols->string_ends[number] - from);
}

/*
 * Copies entries from one table into another by number. A number that was imported before costs
 * only an array look-up. Both tables outlive the import; only `into` may grow meanwhile.
 */
struct fg_symbols_import {
    struct fg_symbols *into;
    const struct fg_symbols *from;
    uint32_t *strings, *functions, *mappings, *locations; /* number in `into`, or FG_MAP_NONE */
    struct fg_line *lines;                                /* of the location that is being copied */
    uint32_t cap_lines;
    bool fresh; /* see fg_symbols_import_init_new() */
};
/* Begin and end an import. */
void fg_symbols_import_init(struct fg_symbols_import *import, struct fg_symbols *into,
                            const struct fg_symbols *from);
void fg_symbols_import_done(struct fg_symbols_import *import);

/* Begins an import into an empty table that is only read and encoded afterwards, two to three times
 * as fast: distinct entries stay distinct, so none is looked up, and no look-up finds them. */
void fg_symbols_import_init_new(struct fg_symbols_import *import, struct fg_symbols *into,
                                const struct fg_symbols *from);

/* Returns the number of the location that has only this name, which is not "": that of `from` if
 * there is one, else a new one. Once for an import that began so. */
uint32_t fg_symbols_import_name_location(struct fg_symbols_import *import, struct fg_slice name);

/* Return the number in `into` of the entry with this number in `from`. FG_NO_MAPPING stays
 * unchanged. */
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

/* The size of a table at some time. The entries that were added since are a delta. */
struct fg_symbols_mark {
    uint32_t strings, functions, mappings, locations;
};
/* Returns the current size. */
struct fg_symbols_mark fg_symbols_mark(const struct fg_symbols *symbols);
#define FG_SYMBOLS_START ((struct fg_symbols_mark){1, 0, 0, 0}) /* string 0 is always there */

/*
 * Encodes the entries that were added since the mark (wire and store use the same form):
 *   varint n, strings: varint length + bytes
 *   varint n, functions: varint name, system name, file; zigzag start line
 *   varint n, mappings: varint start, limit, offset, file, build id, flags
 *   varint n, locations: varint mapping + 1 (0: none), address, 2 * lines + folded,
 *                        lines: varint function, zigzag line
 * Numbers inside are numbers in the whole table.
 */
void fg_symbols_encode_since(const struct fg_symbols *symbols, struct fg_symbols_mark since,
                             struct fg_buf *out);

/* Makes an empty table one that only decodes, twice as fast and without the memory of the maps, for
 * what is mostly only read. It does not notice entries that are there already. */
void fg_symbols_unindex(struct fg_symbols *symbols);

/* Makes entries found again. */
void fg_symbols_index(struct fg_symbols *symbols);

/*
 * Adds an encoded delta to a table that has the size of the encoder's table at its mark, so that
 * every entry gets the same number. FG_E_CORRUPT: the delta does not fit, or has entries that the
 * table has already. Some may have been added then, so discard the table.
 */
enum fg_code fg_symbols_decode(struct fg_symbols *symbols, struct fg_cur *cur,
                               struct fg_err *err) fg_must_check;

#endif
